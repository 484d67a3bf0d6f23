"""A small log that ships with the library: a machine that wears out; one may run it (0) or maintain it (1)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO

import numpy as np

from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.policies.standard import TablePolicy


@dataclass(frozen=True)
class Demo:
    """The log and the question: maintain from wear level 3 on; what would a new machine earn?"""

    log: Transitions
    policy: TablePolicy
    initial: InitialStates
    gamma: float = 0.8
    reward_range: tuple[float, float] = (0.0, 1.0)


def load_demo() -> Demo:
    """50 000 decisions at wear levels 0 to 5, made by scripts/make_demo_log.py; the true value is 4.466233.

    Examples
    --------
    >>> from bondic import load_demo
    >>> len(load_demo().log)
    50000
    """
    raw = files("bondic").joinpath("demo_log.npz").read_bytes()
    with np.load(BytesIO(raw), allow_pickle=False) as data:
        columns = {name: data[name] for name in data.files}
    policy = TablePolicy(columns.pop("policy"))
    return Demo(Transitions(**columns), policy, InitialStates.exact([[0.0]]))
