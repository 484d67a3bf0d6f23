"""W: the instruments, chosen without the rows they are used on (section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bondic.core.classes.provenance import Provenance
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.checks import check_kernel


@dataclass(frozen=True, eq=False)
class Instruments:
    """The unit ball of the RKHS of `kernel`; weight functions ω are multiples of its members.

    The noise bound needs K_max = sup k(x, x) < inf, and that neither the kernel nor its bandwidth has seen the
    rows that are certified: `provenance` says where they come from and `estimate_interval` checks it.

    Parameters
    ----------
    kernel : Kernel
        k, with a finite K_max. A richer kernel has weights that balance the log better; noise grows with their norm.
    provenance : Provenance
        Which rows kernel and bandwidth were tuned on; none of them may be certified. Default: fixed beforehand.
    """

    kernel: Kernel
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        check_kernel(self.kernel)
        if not math.isfinite(self.kernel.sup_diag):
            raise InvalidInput(
                f"W needs a kernel that is bounded on the diagonal; {self.kernel!r} has no finite supremum."
            )
