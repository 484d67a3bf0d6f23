"""ONNX models (extra `onnx`): one input (rows, dimensions), one output (rows, actions)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data._arrays import FloatArray
from bondic.errors import MissingExtra, PolicyError, shown
from bondic.policies.protocol import CallablePolicy, float32_normalized
from bondic.policies.standard import DeterministicPolicy, SoftmaxPolicy

OUTPUTS = ("probabilities", "logits", "actions")
_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """The model's output as a function of the observations."""

    session: Any
    input_name: str
    input_type: Any
    batch: int | None  # rows per run, where the model fixes them
    dimension: int | None
    output_name: str

    def __call__(self, observations: FloatArray) -> FloatArray:
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
            parts.append(np.asarray(self.session.run([self.output_name], {self.input_name: padded})[0])[: len(piece)])
        return np.concatenate(parts)


def load_onnx(path: Path, output: str | None) -> Any:
    """A policy from the model; inputs and outputs are checked before it is used."""
    try:
        import onnxruntime
    except ImportError as problem:
        raise MissingExtra("onnxruntime", "onnx", "Reading ONNX models") from problem
    label = one_line(path.name)
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as problem:  # the runtime raises its own kinds
        raise InvalidInput(
            f"{label} cannot be read as an ONNX model ({type(problem).__name__}: {one_line(problem, 200)})."
        ) from problem
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _TYPES or len(inputs[0].shape) != 2:
        raise InvalidInput(
            f"{label} has inputs {_described(inputs)}. One input of floats, (rows, dimensions), is needed."
        )
    rows, dimension = (size if isinstance(size, int) and size > 0 else None for size in inputs[0].shape)
    chosen = _output(session.get_outputs(), label)
    model = OnnxModel(session, inputs[0].name, _TYPES[inputs[0].type], rows, dimension, chosen.name)
    kind = output or _kind(chosen.name)
    if kind is None:  # a guess would be silently wrong: softmax of probabilities is another policy
        raise InvalidInput(
            f"The output {one_line(chosen.name)} of {label} does not say what it is. State it: output='probabilities', "
            "output='logits' (softmax is applied), or output='actions' (a deterministic policy with continuous actions), as in "
            "load_policy(model, output='logits'); --with policy_output=logits on the command line."
        )
    if kind == "actions":
        return DeterministicPolicy(model)
    return SoftmaxPolicy(model) if kind == "logits" else CallablePolicy(lambda s: float32_normalized(model(s)))


def _output(outputs: Any, label: str) -> Any:
    """The output that can be a distribution over actions: floats of rank 2 (classifiers also return labels)."""
    usable = [entry for entry in outputs if entry.type in _TYPES and len(entry.shape) == 2]
    named = [entry for entry in usable if _kind(entry.name)]
    if len(usable) == 1 or len(named) == 1:
        return (named or usable)[0]
    raise InvalidInput(
        f"{label} has outputs {_described(outputs)}. One output of floats, (rows, actions), is needed; name it `probabilities` "
        "or `logits` if there are several. Classifiers must be exported without ZipMap."
    )


def _described(entries: Any) -> str:
    return shown(f"{entry.name}: {entry.type} {entry.shape}" for entry in entries)


def _kind(name: str) -> str | None:
    return "probabilities" if "prob" in name.lower() else "logits" if "logit" in name.lower() else None
