"""A branch-free exponential for vectorised loops, with a proved error.

exp(x) = 2^k p(r), k = round(x / log 2), r = x - k log 2, |r| <= 0.3466, for -708 <= x <= 0. Error of the
result relative to exp(x), in units U = 2^-53:
  reduction   k * LN2_HI is exact (41 + 11 bits); the two subtractions leave |dr| <= 0.36 U           -> 0.4
  polynomial  degree 11, interpolation at Chebyshev points: at most 0.16 U (checked in 60 digits)     -> 0.2
  Horner      1 + r (1 + r (...)): two last steps dominate, (1 + 0.36 + 0.36^2 + ...) roundings        -> 2.5
The power of two is exact. EXP_ULP = 5 is charged. Below -708 the result is that of -708 (absolute error < 1e-307).
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

EXP_ULP = 5.0

LOG2E = float.fromhex("0x1.71547652b82fep+0")
LN2_HI = float.fromhex("0x1.62e42fefa2000p-1")
LN2_LO = float.fromhex("0x1.9ef35793c7673p-41")
SHIFTER = 1.5 * 2.0**52
C2 = float.fromhex("0x1.0000000000011p-1")
C3 = float.fromhex("0x1.555555555555ap-3")
C4 = float.fromhex("0x1.555555554f0cfp-5")
C5 = float.fromhex("0x1.111111110f225p-7")
C6 = float.fromhex("0x1.6c16c187fbe02p-10")
C7 = float.fromhex("0x1.a01a01b14378fp-13")
C8 = float.fromhex("0x1.a01991ac87309p-16")
C9 = float.fromhex("0x1.71ddf5749d126p-19")
C10 = float.fromhex("0x1.28b4057f4415fp-22")
C11 = float.fromhex("0x1.af631d0059c0cp-26")


@intrinsic
def _power_of_two(typingctx: Any, shifted: Any) -> Any:
    """2^k for shifted = SHIFTER + k: the low mantissa bits hold k; move k + 1023 into the exponent field."""
    del typingctx, shifted

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        int64, double = ir.IntType(64), ir.DoubleType()
        bits = builder.bitcast(args[0], int64)
        exponent = builder.add(bits, ir.Constant(int64, 1023))
        return builder.bitcast(builder.shl(exponent, ir.Constant(int64, 52)), double)

    return types.float64(types.float64), codegen


@numba.njit(inline="always", fastmath={"contract"})
def exp_nonpositive(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0, relative error at most EXP_ULP U (for x >= -708)."""
    x = x if x > -708.0 else -708.0
    shifted = x * LOG2E + SHIFTER
    k = shifted - SHIFTER
    r = (x - k * LN2_HI) - k * LN2_LO
    p = C10 + r * C11
    p = C9 + r * p
    p = C8 + r * p
    p = C7 + r * p
    p = C6 + r * p
    p = C5 + r * p
    p = C4 + r * p
    p = C3 + r * p
    p = C2 + r * p
    p = 1.0 + r * p
    p = 1.0 + r * p
    return p * _power_of_two(shifted)  # type: ignore[call-arg]
