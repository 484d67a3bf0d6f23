"""Two-cone problem by one singular value decomposition (section 6).

    min_w  g.w + r |psi_0 + A w| + kappa |w|   =   max { psi_0 . theta : |theta| <= r, |g + A^T theta| <= kappa }

With A = P diag(sigma) V^T everything is diagonal. The multipliers a, b >= 0 of the two constraints on the right give
theta = (psi_0 - b A g) / (a + b A A^T) and w = -b (g + A^T theta). For a fixed ridge l = a / b the best b has a closed
form, which leaves a function of l alone. It is quasi-convex (the dual function is jointly convex in a, b), and it falls
exactly where |theta| > r: a root of one monotone sign, found by bracketing, O(D) per step.
Both signs, many radii, many alphas and many initial distributions share the decomposition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd
from scipy.optimize import brentq

from bondic.search.model import SearchModel

FloatArray = npt.NDArray[np.float64]
SpectralStatus = Literal["optimal", "zero is optimal", "stalled", "unbounded: Q is rejected"]

_TINY = 1e-300
_REACH = 80.0
"""Ridges between e^-80 and e^80 times the largest sigma^2: far beyond the resolution of float64."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The decomposition: A = P diag(sigma) V^T, p = P^T psi_0, and what of psi_0 no ω can reach."""

    sigma: FloatArray  # (k,)
    right: FloatArray  # (k, D) = V^T
    start: FloatArray  # (k,) p
    unreachable: float  # |psi_0 - P p|
    gradient: FloatArray  # (k,) V^T g
    outside: FloatArray  # (D,) g - V V^T g: costs no balance at all
    _project: FloatArray  # (M, k) P

    @staticmethod
    def of(model: SearchModel) -> Spectrum:
        u, sigma, right = svd(model.balance, full_matrices=False, check_finite=False)
        keep = sigma > 1e-15 * max(float(sigma.max(initial=0.0)), _TINY)
        u, sigma, right = u[:, keep], sigma[keep], right[keep]
        none = np.zeros(sigma.size)
        blank = Spectrum(sigma, right, none, 0.0, none, np.zeros(right.shape[1]), u)
        return blank.with_gradient(model.gradient).starting_from(model.start)

    def starting_from(self, start: FloatArray) -> Spectrum:
        """Another initial distribution, same decomposition."""
        inside = self._project.T @ start
        rest = start - self._project @ inside
        return replace(self, start=inside, unreachable=float(np.linalg.norm(rest)))

    def with_gradient(self, gradient: FloatArray) -> Spectrum:
        """Other rewards or another center, same decomposition. What rounding alone can leave outside is dropped."""
        rotated = self.right @ gradient
        outside = gradient - self.right.T @ rotated
        if np.linalg.norm(outside) <= 1e-13 * np.linalg.norm(gradient):
            outside = np.zeros_like(outside)
        return replace(self, gradient=rotated, outside=outside)

    @property
    def rest(self) -> float:
        """The part of the loss that no q can change."""
        return float(np.linalg.norm(self.outside))

    @property
    def distance(self) -> float:
        """|psi_0|."""
        return math.hypot(float(np.linalg.norm(self.start)), self.unreachable)


@dataclass(frozen=True, eq=False)
class Proposal:
    """A proposed w with its value in coordinates and a lower bound of the best value there."""

    weights: FloatArray  # (D,)
    objective: float
    primal: float  # objective of a feasible q: no w does better
    status: SpectralStatus
    iterations: int

    @property
    def gap(self) -> float:
        return self.objective - self.primal


def propose(s: Spectrum, *, sign: float, radius: float, kappa: float, tolerance: float = 1e-6) -> Proposal:
    """Minimize sign * g.w + radius |psi_0 + A w| + kappa |w|; "stalled" if the relative gap exceeds `tolerance`."""
    trivial = radius * s.distance
    zero = Proposal(np.zeros(s.right.shape[1]), trivial, trivial, "zero is optimal", 0)
    floor, inner = loss_floor(s, radius, sign)
    if floor > kappa * (1 + 1e-12):
        return replace(zero, primal=-math.inf, status="unbounded: Q is rejected")
    if trivial == 0 or _loss(s, sign, radius * s.start / s.distance) <= kappa:
        return zero
    path = _Path(s, sign, radius, kappa)
    ridge, steps = _crossing(s, path.excess)
    v, b, theta, perp = path.at(ridge)
    weights = s.right.T @ v - sign * b * s.outside
    best = Proposal(weights, path.objective(v, b), path.primal(theta, perp, inner), "optimal", steps)
    if not best.objective < trivial:
        best = replace(zero, primal=best.primal, iterations=steps)
    return best if best.gap <= tolerance * max(trivial, abs(best.objective)) else replace(best, status="stalled")


@dataclass(frozen=True, eq=False)
class _Path:
    """The best multipliers for every ridge l = a / b, and what follows from them."""

    s: Spectrum
    sign: float
    radius: float
    kappa: float

    def at(self, log_ridge: float) -> tuple[FloatArray, float, FloatArray, float]:
        """(V^T w, b, theta along P, theta in the unreachable part of psi_0).

        b minimizes  alpha / b + beta b,  alpha = psi_0 . psi_0 / (l + AA^T),  beta = kappa^2 + l r^2 - min_theta
        ( |g + A^T theta|^2 + l |theta|^2 ) >= 0. beta is a difference and is known to about 1e-15 of its first part.
        """
        s, ridge = self.s, math.exp(log_ridge)
        shrink = 1.0 / (ridge + s.sigma**2)
        alpha = float(shrink @ s.start**2) + s.unreachable**2 / ridge
        room = self.kappa**2 + ridge * self.radius**2
        beta = room - s.rest**2 - ridge * float(shrink @ s.gradient**2)
        b = math.sqrt(alpha / max(beta, 1e-15 * room, _TINY))
        g = self.sign * s.gradient
        v = -(ridge * b * g + s.sigma * s.start) * shrink
        theta = (s.start / b - s.sigma * g) * shrink
        return v, b, theta, s.unreachable / (b * ridge)

    def excess(self, log_ridge: float) -> float:
        """log( |theta| / r ) + log( kappa / loss ): positive where more ridge improves the bound.

        At the best b both have the same sign, as l (|theta|^2 - r^2) = kappa^2 - loss^2; one is accurate where the ridge
        is small, the other where it is large.
        """
        v, b, theta, perp = self.at(log_ridge)
        size = math.hypot(float(np.linalg.norm(theta)), perp)
        loss = math.hypot(float(np.linalg.norm(v)) / b, self.s.rest)
        return math.log(max(size, _TINY) / self.radius) + math.log(max(self.kappa, _TINY) / max(loss, _TINY))

    def objective(self, v: FloatArray, b: float) -> float:
        """g.w + r |psi_0 + A w| + kappa |w| at V^T w = v, w = -b g outside the row space."""
        s = self.s
        t = math.hypot(float(np.linalg.norm(s.start + s.sigma * v)), s.unreachable)
        size = math.hypot(float(np.linalg.norm(v)), b * s.rest)
        return self.sign * float(s.gradient @ v) - b * s.rest**2 + self.radius * t + self.kappa * size

    def primal(self, theta: FloatArray, perp: float, inner: FloatArray) -> float:
        """psi_0 . theta after pulling theta into the ball and then toward `inner` until its loss is at most kappa."""
        s = self.s
        scale = min(1.0, self.radius / max(math.hypot(float(np.linalg.norm(theta)), perp), _TINY))
        theta, perp = scale * theta, scale * perp
        share = 1.0
        if _loss(s, self.sign, theta) > self.kappa:
            first = self.sign * s.gradient + s.sigma * inner
            share = _leave(first, s.sigma * (theta - inner), self.kappa**2 - s.rest**2)
        return float(s.start @ (inner + share * (theta - inner))) + share * perp * s.unreachable


def _leave(inside: FloatArray, direction: FloatArray, square: float) -> float:
    """The largest share in [0, 1] with |inside + share direction|^2 <= square; 0 if `inside` itself is on the edge."""
    a, b = float(direction @ direction), float(inside @ direction)
    c = min(float(inside @ inside) - square, 0.0)
    root = math.sqrt(b * b - a * c)
    share = -c / (b + root) if b > 0 else (root - b) / max(a, _TINY)
    return min(max(share, 0.0), 1.0)


def _loss(s: Spectrum, sign: float, theta: FloatArray) -> float:
    """L_W(q) = |g + A^T theta|."""
    return math.hypot(float(np.linalg.norm(sign * s.gradient + s.sigma * theta)), s.rest)


def _ridge(s: Spectrum, ridge: float) -> tuple[FloatArray, float]:
    """theta(l) = argmin |g + A^T theta|^2 + l |theta|^2 and the loss there."""
    shrink = 1.0 / (s.sigma**2 + ridge)
    left = float(np.linalg.norm(ridge * shrink * s.gradient))
    return -s.sigma * shrink * s.gradient, math.hypot(left, s.rest)


def _crossing(s: Spectrum, falling: Callable[[float], float]) -> tuple[float, int]:
    """Where a function of log(ridge) that goes from positive to negative crosses 0 (or the nearer end), and the steps."""
    middle = 2.0 * math.log(max(float(s.sigma.max(initial=0.0)), 1e-150))
    low, high = middle - _REACH, middle + _REACH
    if falling(low) <= 0:
        return low, 1
    if falling(high) >= 0:
        return high, 2
    root, search = brentq(falling, low, high, xtol=1e-13, rtol=1e-15, maxiter=300, full_output=True, disp=False)
    return float(root), int(search.function_calls)


def loss_floor(s: Spectrum, radius: float, sign: float = 1.0) -> tuple[float, FloatArray]:
    """min { L_W(q) : |q - center| <= radius } in coordinates, and the minimizer theta."""
    theta, loss = _ridge(s, 0.0)
    if float(np.linalg.norm(theta)) > radius:

        def excess(log_ridge: float) -> float:
            size = float(np.linalg.norm(_ridge(s, math.exp(log_ridge))[0]))
            return math.log(max(size, _TINY) / max(radius, _TINY))

        theta, loss = _ridge(s, math.exp(_crossing(s, excess)[0]))
    return loss, sign * theta


def _smallest(s: Spectrum, kappa: float) -> FloatArray:
    """theta of least norm with loss <= kappa; of least loss when there is none."""
    if _ridge(s, 0.0)[1] >= kappa:
        return _ridge(s, 0.0)[0]

    def shortfall(log_ridge: float) -> float:
        return math.log(kappa / max(_ridge(s, math.exp(log_ridge))[1], _TINY))

    return _ridge(s, math.exp(_crossing(s, shortfall)[0]))[0]


def minimal_radius(s: Spectrum, kappa: float) -> float:
    """r_min = min { |q - center| : L_W(q) <= kappa } in coordinates; inf when no q is feasible."""
    if math.hypot(float(np.linalg.norm(s.gradient)), s.rest) <= kappa:
        return 0.0
    if _ridge(s, 0.0)[1] > kappa:
        return math.inf
    return float(np.linalg.norm(_smallest(s, kappa)))


def witness(s: Spectrum, *, radius: float | None = None, kappa: float | None = None) -> FloatArray | None:
    """ω that certifies the loss floor at `radius`, or r_min at `kappa`: w = -(g + A^T theta)."""
    if radius is not None:
        theta = loss_floor(s, radius)[1]
    else:
        assert kappa is not None
        theta = _smallest(s, kappa)
    direction = -(s.right.T @ (s.gradient + s.sigma * theta) + s.outside)
    size = float(np.linalg.norm(direction))
    return direction / size if size > 0 else None
