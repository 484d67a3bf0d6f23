"""2^t without a branch, with a proved error: the numbers that every implementation of it uses.

2^t = 2^k p(r), k = round(t), r = t - k, |r| <= 1/2, for -1021 <= t <= 1021. Error relative to 2^t, in units U = 2^-53:
  reduction   adding and subtracting 1.5 * 2^52 rounds t to k; k and t - k are exact                    -> 0
  polynomial  1 + r (C1 + r (C2 + ...)), degree 10, through 2^r at 0 and at ten Chebyshev points:
              at most 2.81 U with the coefficients as rounded (checked in 60 digits)                    -> 2.9
  Horner      two roundings per step, each damped by the later factors r; the last steps dominate       -> 2.3
The power of two is exact, and so is 2^0 = 1. EXP_ULP = 6 is charged.
"""

from __future__ import annotations

EXP_ULP = 6.0

LARGEST = 960.0
"""|t| beyond this is cut by the caller: 2^-960 < 1e-288 is as good as zero, and times a weight still a normal number."""

SHIFTER = 1.5 * 2.0**52
C1 = float.fromhex("0x1.62e42fefa3a19p-1")
C2 = float.fromhex("0x1.ebfbdff82c598p-3")
C3 = float.fromhex("0x1.c6b08d703ce49p-5")
C4 = float.fromhex("0x1.3b2ab6fba1ddap-7")
C5 = float.fromhex("0x1.5d87fe9d7a584p-10")
C6 = float.fromhex("0x1.430913096fd9fp-13")
C7 = float.fromhex("0x1.ffcb54062e698p-17")
C8 = float.fromhex("0x1.62bfd47773353p-20")
C9 = float.fromhex("0x1.b675bca4eeebbp-24")
C10 = float.fromhex("0x1.e6063f7217bc6p-28")
COEFFICIENTS = (C1, C2, C3, C4, C5, C6, C7, C8, C9, C10)
