"""How a policy gets into another process: as a file that is read there, or, if the user says so, as a pickle.

PolicyFile("rules.py:target")        what load_policy takes; the file is the same on all machines, by its hash
PolicyPickle()                       the object itself; loading it runs code
"""

from __future__ import annotations

import hashlib
import importlib.util
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput, PolicyError, one_line
from bondic.policies.adapters.load import load_policy

_IMPORTED: dict[str, str] = {}
"""Policies that this process has loaded, with the hash that their file had: a module is imported once."""


@dataclass(frozen=True)
class PolicyFile:
    """A policy by where it is found; arguments are those of `load_policy`.

    Parameters
    ----------
    spec : str
        `module:object`, `file.py:object`, or a file. Files have the same path everywhere.
    trust_pickle : bool, default False
        Allow a file that runs code when it is loaded.
    actions : tuple of str, default None
        Names of the actions, in the order of the log.
    output : str, default None
        What an ONNX or torch model returns.
    digest : str, default ""
        Hash of the file, filled in where it is sent: another file elsewhere is refused.
    """

    spec: str
    trust_pickle: bool = False
    actions: tuple[str, ...] | None = None
    output: str | None = None
    digest: str = ""

    def ready(self, policy: Any) -> PolicyFile:
        """With a path that does not depend on the working folder, and the hash of the file."""
        del policy
        place, colon, name = self.spec.rpartition(":")
        file = place if colon and place.endswith(".py") else self.spec
        if Path(file).is_file():
            spec = str(Path(file).resolve()) + (f":{name}" if file == place else "")
            return replace(self, spec=spec, digest=_digest(Path(file)))
        return replace(self, digest=_digest(_module_file(place)))

    def load(self) -> Any:
        """The policy, in the process that was sent here."""
        place, _, _ = self.spec.rpartition(":")
        path = Path(self.spec) if Path(self.spec).is_file() else Path(place)
        found = path if path.is_file() else _module_file(place)
        if _digest(found) != self.digest:
            raise PolicyError(
                f"The policy {one_line(self.spec, 200)} is not in the same file here as where the work was sent from: it is "
                "missing or has other contents. All processes need the same file under the same path."
            )
        if _IMPORTED.setdefault(self.spec, self.digest) != self.digest:
            raise PolicyError(
                f"The policy {one_line(self.spec, 200)} was changed after this process had loaded it. Start the workers again."
            )
        return load_policy(self.spec, trust_pickle=self.trust_pickle, actions=self.actions, output=self.output)


@dataclass(frozen=True, eq=False)
class PolicyPickle:
    """The policy itself, pickled: loading it runs code, so it has to be chosen on purpose.

    Parameters
    ----------
    content : array of bytes, default None
        The pickle, filled in where it is sent.
    """

    content: npt.NDArray[np.uint8] | None = None

    def ready(self, policy: Any) -> PolicyPickle:
        try:
            return PolicyPickle(np.frombuffer(pickle.dumps(policy), dtype=np.uint8))
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            raise InvalidInput(
                f"The policy ({type(policy).__name__}) cannot be pickled ({one_line(problem, 200)}). Write it into a file, and "
                "say which: PolicyFile('rules.py:target')."
            ) from problem

    def load(self) -> Any:
        assert self.content is not None
        return pickle.loads(self.content.tobytes())


def _module_file(place: str) -> Path | None:
    """The file of a module, if it is one file."""
    try:
        found = importlib.util.find_spec(place) if place else None
    except (ImportError, ValueError):
        found = None
    return None if found is None or found.origin is None else Path(found.origin)


def _digest(path: Path | None) -> str:
    """Of a file; empty where there is none to look at."""
    return "" if path is None or not path.is_file() else hashlib.sha256(path.read_bytes()).hexdigest()
