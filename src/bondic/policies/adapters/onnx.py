"""ONNX models (extra `onnx`): one input (rows, dimensions), one output (rows, actions)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, MissingExtra, PolicyError, one_line, shown
from bondic.policies.adapters.outputs import Output, ask_for_output, to_actions, to_probabilities

FloatArray = npt.NDArray[np.float64]

_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}


@dataclass(frozen=True, eq=False)
class OnnxPolicy:
    """pi(a | s) from the model's output, probabilities or logits."""

    session: Any
    input_name: str
    input_type: Any
    batch: int | None  # rows per run, where the model fixes them
    dimension: int | None
    output_name: str
    output: Output

    def action_probs(self, observations: FloatArray) -> FloatArray:
        return to_probabilities(self._run(observations), len(observations), self.output, "The ONNX model")

    def _run(self, observations: FloatArray) -> FloatArray:
        x = np.asarray(observations, dtype=self.input_type)
        if self.dimension is not None and (x.ndim != 2 or x.shape[1] != self.dimension):
            raise PolicyError(
                f"The ONNX model expects {self.dimension} observation dimensions, the log has {x.shape[1:]}."
            )
        rows = self.batch or max(len(x), 1)
        parts = []
        for top in range(0, len(x), rows):
            piece = x[top : top + rows]
            padded = np.concatenate([piece, np.repeat(piece[-1:], rows - len(piece), axis=0)])
            try:
                parts.append(
                    np.asarray(self.session.run([self.output_name], {self.input_name: padded})[0])[: len(piece)]
                )
            except Exception as problem:  # the runtime raises its own kinds
                raise PolicyError(
                    f"The ONNX model failed ({type(problem).__name__}): {one_line(problem, 300)}"
                ) from problem
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class OnnxActions(OnnxPolicy):
    """a = f(s), a deterministic policy with continuous actions."""

    deterministic: ClassVar[bool] = True

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        return to_actions(self._run(observations), len(observations), "The ONNX model")


def load_onnx(path: Path, output: Output | None) -> OnnxPolicy:
    """Check inputs and outputs of the model before it is asked."""
    try:
        import onnxruntime
    except ImportError as problem:
        raise MissingExtra("onnxruntime", "onnx", "Reading ONNX models") from problem
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as problem:  # the runtime raises its own kinds
        raise InvalidInput(
            f"{one_line(path.name)} cannot be read as an ONNX model ({type(problem).__name__}: {one_line(problem, 200)})."
        ) from problem
    label = one_line(path.name)
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _TYPES or len(inputs[0].shape) != 2:
        described = shown(f"{entry.name}: {entry.type} {entry.shape}" for entry in inputs)
        raise InvalidInput(f"{label} has inputs {described}. One input of floats, (rows, dimensions), is needed.")
    chosen = _choose(session.get_outputs(), label)
    kind = output or _told_by(chosen.name)
    if kind is None:
        raise ask_for_output(f"The output {one_line(chosen.name)} of {label}")
    rows, dimension = inputs[0].shape
    make = OnnxActions if kind == "actions" else OnnxPolicy
    return make(session, inputs[0].name, _TYPES[inputs[0].type], _fixed(rows), _fixed(dimension), chosen.name, kind)


def _fixed(size: Any) -> int | None:
    return size if isinstance(size, int) and size > 0 else None


def _choose(outputs: Any, label: str) -> Any:
    """The output that can be a distribution over actions: floats of rank 2 (classifiers also return labels)."""
    usable = [entry for entry in outputs if entry.type in _TYPES and len(entry.shape) == 2]
    named = [entry for entry in usable if _told_by(entry.name)]
    if len(usable) == 1 or len(named) == 1:
        return (named or usable)[0]
    described = shown(f"{entry.name}: {entry.type} {entry.shape}" for entry in outputs)
    raise InvalidInput(
        f"{label} has outputs {described}. One output of floats, (rows, actions), is needed; name it `probabilities` or "
        "`logits` if there are several. Classifiers must be exported without ZipMap."
    )


def _told_by(name: str) -> Output | None:
    lower = name.lower()
    if "prob" in lower:
        return "probabilities"
    return "logits" if "logit" in lower else None
