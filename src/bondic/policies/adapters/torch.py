"""PyTorch modules (extra `torch`): logits, probabilities, actions, or a distribution object, from a batch of observations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput, MissingExtra, one_line
from bondic.policies.adapters.outputs import Output, ask_for_output, to_actions, to_probabilities

FloatArray = npt.NDArray[np.float64]


def _torch(purpose: str) -> Any:
    try:
        import torch
    except ImportError as problem:
        raise MissingExtra("torch", "torch", purpose) from problem
    return torch


@dataclass(frozen=True, eq=False)
class TorchPolicy:
    """pi(a | s) from module(s), evaluated without gradients in the precision of its parameters."""

    module: Any
    output: Output

    def action_probs(self, observations: FloatArray) -> FloatArray:
        return to_probabilities(self._run(observations), len(observations), self.output, "The torch module")

    def _run(self, observations: FloatArray) -> Any:
        torch = _torch("A torch policy")
        first = next(iter(self.module.parameters()), None)
        kind = torch.float32 if first is None or not first.is_floating_point() else first.dtype
        device = "cpu" if first is None else first.device
        with torch.no_grad():
            answer = self.module(torch.as_tensor(np.asarray(observations), dtype=kind, device=device))
            answer = getattr(answer, "probs", answer)  # a Categorical distribution
            return answer.detach().to("cpu", torch.float64).numpy() if isinstance(answer, torch.Tensor) else answer


@dataclass(frozen=True, eq=False)
class TorchActions(TorchPolicy):
    """a = module(s), a deterministic policy with continuous actions."""

    deterministic: ClassVar[bool] = True

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        return to_actions(self._run(observations), len(observations), "The torch module")


def is_torch_module(candidate: Any) -> bool:
    """Without importing torch: every module inherits from torch.nn.Module."""
    return any(
        kind.__module__ == "torch.nn.modules.module" and kind.__name__ == "Module" for kind in type(candidate).__mro__
    )


def wrap_torch(module: Any, output: Output | None) -> TorchPolicy:
    if output is None:
        raise ask_for_output(f"The torch module {type(module).__name__}")
    module.eval()  # dropout and batch statistics would make another policy of it
    return TorchActions(module, output) if output == "actions" else TorchPolicy(module, output)


def load_torchscript(path: Path, output: Output | None) -> TorchPolicy:
    """A TorchScript archive; the caller has made sure that the file is trusted."""
    torch = _torch("Reading TorchScript files")
    try:
        module = torch.jit.load(str(path), map_location="cpu")
    except (Exception, SystemExit) as problem:  # torch raises many kinds, and the archive may hold code
        raise InvalidInput(
            f"{one_line(path.name)} cannot be read as TorchScript ({type(problem).__name__}: {one_line(problem, 200)}). Save the "
            "policy with torch.jit.save; a file of weights alone does not say how they are used."
        ) from problem
    return wrap_torch(module, output)
