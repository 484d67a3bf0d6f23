"""Two-cone problem by one singular value decomposition (section 6).

    min_w  g.w + r |psi_0 + A w| + kappa |w|

With A = P diag(sigma) V^T everything is diagonal. Writing r t = min_u ( t^2 / (2u) + r^2 u / 2 ) for both norms
leaves a smooth convex function of two scalars (u_1, u_2): a few alternating steps (majorise-minimise), then Newton.
Both signs, many radii, many alphas and many initial distributions share the decomposition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, svd

from bondic.solvers.model import SearchModel

FloatArray = npt.NDArray[np.float64]
Status = Literal["optimal", "zero is optimal", "stalled", "unbounded: Q is rejected"]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The decomposition: A = P diag(sigma) V^T, p = P^T psi_0, and what of psi_0 no omega can reach."""

    sigma: FloatArray  # (k,)
    right: FloatArray  # (k, D) = V^T
    start: FloatArray  # (k,) p
    unreachable: float  # |psi_0 - P p|
    gradient: FloatArray  # (k,) V^T g
    outside: FloatArray  # (D,) g - V V^T g: costs no balance at all
    _project: FloatArray  # (M, k) P

    @staticmethod
    def of(model: SearchModel) -> Spectrum:
        matrix, left = model.balance, None
        if matrix.shape[0] > 1.2 * matrix.shape[1]:
            left, matrix = qr(matrix, mode="economic", check_finite=False)
        u, sigma, right = svd(matrix, full_matrices=False, check_finite=False)
        keep = sigma > 1e-15 * max(float(sigma[0]) if sigma.size else 0.0, 1e-300)
        u, sigma, right = u[:, keep], sigma[keep], right[keep]
        u = u if left is None else left @ u
        rotated = right @ model.gradient
        outside = model.gradient - right.T @ rotated
        if np.linalg.norm(outside) <= 1e-13 * np.linalg.norm(model.gradient):
            outside = np.zeros_like(outside)
        blank = Spectrum(sigma, right, np.zeros(sigma.size), 0.0, rotated, outside, u)
        return blank.starting_from(model.start)

    def starting_from(self, start: FloatArray) -> Spectrum:
        """Another initial distribution, same decomposition."""
        inside = self._project.T @ start
        rest = start - self._project @ inside
        return replace(self, start=inside, unreachable=float(np.linalg.norm(rest)))

    def with_gradient(self, gradient: FloatArray) -> Spectrum:
        rotated = self.right @ gradient
        return replace(self, gradient=rotated, outside=gradient - self.right.T @ rotated)


@dataclass(frozen=True, eq=False)
class Proposal:
    """A proposed w with its value in coordinates and a lower bound of the best value there."""

    weights: FloatArray  # (D,)
    objective: float
    primal: float  # objective of a feasible q: no w does better
    status: Status
    iterations: int

    @property
    def gap(self) -> float:
        return self.objective - self.primal


def _state(
    s: Spectrum, sign: float, v: FloatArray, x: float, radius: float, kappa: float
) -> tuple[float, float, float]:
    """(objective, |psi_0 + A w|, |w|) at v = V^T w and w's part x along -outside."""
    t = math.hypot(float(np.linalg.norm(s.start + s.sigma * v)), s.unreachable)
    size = math.hypot(float(np.linalg.norm(v)), x)
    rest = float(np.linalg.norm(s.outside))
    return sign * float(s.gradient @ v) - rest * x + radius * t + kappa * size, t, size


def propose(s: Spectrum, *, sign: float, radius: float, kappa: float, tolerance: float = 1e-10) -> Proposal:
    """Minimise sign * g.w + radius |psi_0 + A w| + kappa |w|."""
    g, rest = sign * s.gradient, float(np.linalg.norm(s.outside))
    total_start = math.hypot(float(np.linalg.norm(s.start)), s.unreachable)
    zero = _finish(s, sign, np.zeros(s.sigma.size), 0.0, radius, kappa, "zero is optimal", 0)
    pull = g if total_start == 0 else g + radius * s.sigma * s.start / total_start
    slope = math.hypot(float(np.linalg.norm(pull)), rest)
    if total_start > 0 and slope <= kappa:
        return zero
    floor, _ = loss_floor(s, radius)
    if floor > kappa * (1 + 1e-12):
        return replace(zero, status="unbounded: Q is rejected", primal=-math.inf)
    scale = max(abs(radius) * total_start, 1e-300)
    u = np.log([max(total_start, 1e-12) / max(radius, 1e-300), _first_size(s, g, rest, radius, kappa, total_start)])
    best = zero
    previous = math.inf
    for iteration in range(1, 400):
        v, x, t, size, gradient, hessian = _smooth(s, g, rest, radius, kappa, u)
        objective = float(g @ v) - rest * x + radius * t + kappa * size
        if objective < best.objective:
            best = _finish(s, sign, v, x, radius, kappa, "optimal", iteration)
        if best.status == "optimal" and best.gap <= tolerance * max(scale, abs(best.objective)):
            return best
        u, moved = _step(s, g, rest, radius, kappa, u, t, size, gradient, hessian, iteration)
        settled = abs(previous - objective) <= 1e-16 * max(scale, abs(objective)) and iteration > 60
        if not moved or settled:
            break
        previous = objective
    good = best.gap <= 1e-6 * max(scale, abs(best.objective))
    return best if good else replace(best, status="stalled")


def _first_size(s: Spectrum, g: FloatArray, rest: float, radius: float, kappa: float, total_start: float) -> float:
    """A first guess of |w| / kappa: the size of the ridge solution that balances the start."""
    del g, rest, radius
    ridge = 1e-3 * float(s.sigma.max(initial=0.0)) ** 2 + 1e-300
    v = -s.sigma * s.start / (s.sigma**2 + ridge)
    size = max(float(np.linalg.norm(v)), 1e-6 * max(total_start, 1e-300))
    return size / max(kappa, 1e-300)


def _smooth(
    s: Spectrum, g: FloatArray, rest: float, radius: float, kappa: float, u: FloatArray
) -> tuple[FloatArray, float, float, float, FloatArray, FloatArray]:
    """Minimiser over w at fixed (u_1, u_2) = exp(u); gradient and Hessian of the reduced function in u."""
    u1, u2 = float(np.exp(u[0])), float(np.exp(u[1]))
    diagonal = s.sigma**2 / u1 + 1.0 / u2
    v = -(g + s.sigma * s.start / u1) / diagonal
    x = rest * u2
    image = s.start + s.sigma * v
    t = math.hypot(float(np.linalg.norm(image)), s.unreachable)
    size = math.hypot(float(np.linalg.norm(v)), x)
    # d/du1 of  t^2/(2 u1) + r^2 u1/2  and likewise for u2, at the optimal w (envelope theorem)
    d1 = 0.5 * radius**2 - 0.5 * t**2 / u1**2
    d2 = 0.5 * kappa**2 - 0.5 * size**2 / u2**2
    a = s.sigma * image / u1**2  # -d(grad_w)/du1
    b = v / u2**2
    h11 = t**2 / u1**3 - float((a * a / diagonal).sum())
    h22 = size**2 / u2**3 - float((b * b / diagonal).sum()) - (x / u2**2) ** 2 * u2
    h12 = -float((a * b / diagonal).sum())
    gradient = np.array([u1 * d1, u2 * d2])
    hessian = np.array([[u1 * u1 * h11 + u1 * d1, u1 * u2 * h12], [u1 * u2 * h12, u2 * u2 * h22 + u2 * d2]])
    return v, x, t, size, gradient, hessian


def _reduced(s: Spectrum, g: FloatArray, rest: float, radius: float, kappa: float, u: FloatArray) -> float:
    u1, u2 = float(np.exp(u[0])), float(np.exp(u[1]))
    v, x, t, size, _, _ = _smooth(s, g, rest, radius, kappa, u)
    smooth = t * t / (2 * u1) + radius**2 * u1 / 2 + size * size / (2 * u2) + kappa**2 * u2 / 2
    return float(g @ v) - rest * x + smooth


def _step(
    s: Spectrum, g: FloatArray, rest: float, radius: float, kappa: float, u: FloatArray,
    t: float, size: float, gradient: FloatArray, hessian: FloatArray, iteration: int,
) -> tuple[FloatArray, bool]:  # fmt: skip
    """Newton when it descends, otherwise the alternating step u = (t / r, |w| / kappa), which always does."""
    safe = np.array([math.log(max(t, 1e-300) / max(radius, 1e-300)), math.log(max(size, 1e-300) / max(kappa, 1e-300))])
    current = _reduced(s, g, rest, radius, kappa, u)
    candidates = [safe]
    if iteration > 2:
        eigenvalues, vectors = np.linalg.eigh(hessian)
        damped = np.maximum(np.abs(eigenvalues), 1e-14 * max(float(np.abs(eigenvalues).max()), 1e-300))
        direction = -(vectors / damped) @ (vectors.T @ gradient)
        longest = float(np.abs(direction).max())
        direction *= min(1.0, 4.0 / max(longest, 1e-300))
        candidates = [u + direction, u + 0.25 * direction, u + 4.0 * (safe - u), safe]
    values = [(_reduced(s, g, rest, radius, kappa, c), k) for k, c in enumerate(candidates)]
    values = [(value, k) for value, k in values if math.isfinite(value)]
    if not values:
        return u, False
    lowest, index = min(values)
    if lowest > current:
        return safe, bool(np.any(np.abs(safe - u) > 1e-15))
    return candidates[index], bool(np.any(np.abs(candidates[index] - u) > 1e-16 * (1 + np.abs(u))))


def _finish(
    s: Spectrum, sign: float, v: FloatArray, x: float, radius: float, kappa: float, status: Status, iterations: int
) -> Proposal:
    """Back to w, and a feasible q from the same stationarity conditions for the duality gap."""
    objective, _, _ = _state(s, sign, v, x, radius, kappa)
    rest = float(np.linalg.norm(s.outside))
    w = s.right.T @ v
    if rest > 0:
        w = w - sign * x * s.outside / rest
    return Proposal(w, objective, _primal(s, sign, v, radius, kappa), status, iterations)


def _primal(s: Spectrum, sign: float, v: FloatArray, radius: float, kappa: float) -> float:
    """E[q - center] of a feasible q: theta = r (psi_0 + A w) / t, pulled into L_W(q) <= kappa if it is outside."""
    image = s.start + s.sigma * v
    t = math.hypot(float(np.linalg.norm(image)), s.unreachable)
    if t == 0:
        return -math.inf
    theta, along = radius * image / t, radius * s.unreachable / t
    rest = float(np.linalg.norm(s.outside))

    def loss(q: FloatArray) -> float:
        return math.hypot(float(np.linalg.norm(sign * s.gradient + s.sigma * q)), rest)

    share = 1.0
    if loss(theta) > kappa:
        floor, inner = loss_floor(s, radius, sign)
        if floor >= kappa:
            return -math.inf if floor > kappa * (1 + 1e-9) else float(s.start @ inner)
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if loss(inner + middle * (theta - inner)) <= kappa else (low, middle)
        share = low
        theta = inner + share * (theta - inner)
    return float(s.start @ theta) + share * along * s.unreachable


def _ridge(s: Spectrum, sign: float, ridge: float) -> tuple[FloatArray, float]:
    """theta(l) = argmin |g + A^T theta|^2 + l |theta|^2 and the loss there."""
    g = sign * s.gradient
    theta = -s.sigma * g / (s.sigma**2 + ridge)
    rest = float(np.linalg.norm(s.outside))
    return theta, math.hypot(float(np.linalg.norm(g + s.sigma * theta)), rest)


def _bisect(s: Spectrum, above: bool, target: float, *, by_loss: bool) -> float:
    """log of the ridge at which the loss (or the norm of theta) meets the target."""
    largest = float(s.sigma.max(initial=0.0)) ** 2 + 1e-300
    low, high = math.log(largest) - 80.0, math.log(largest) + 80.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        theta, loss = _ridge(s, 1.0, math.exp(middle))
        value = loss if by_loss else float(np.linalg.norm(theta))
        # the loss grows with the ridge, the norm falls
        if (value > target) == by_loss:
            high = middle
        else:
            low = middle
    return low if above else high


def loss_floor(s: Spectrum, radius: float, sign: float = 1.0) -> tuple[float, FloatArray]:
    """min { L_W(q) : |q - center| <= radius } in coordinates, and the minimiser theta."""
    theta, loss = _ridge(s, 1.0, 0.0)
    if float(np.linalg.norm(theta)) > radius:
        theta, loss = _ridge(s, 1.0, math.exp(_bisect(s, False, radius, by_loss=False)))
    return loss, sign * theta


def minimal_radius(s: Spectrum, kappa: float) -> float:
    """r_min = min { |q - center| : L_W(q) <= kappa } in coordinates; inf when no q is feasible."""
    size = math.hypot(float(np.linalg.norm(s.gradient)), float(np.linalg.norm(s.outside)))
    if size <= kappa:
        return 0.0
    if _ridge(s, 1.0, 0.0)[1] > kappa:
        return math.inf
    theta, _ = _ridge(s, 1.0, math.exp(_bisect(s, True, kappa, by_loss=True)))
    return float(np.linalg.norm(theta))


def witness(s: Spectrum, *, radius: float | None = None, kappa: float | None = None) -> FloatArray | None:
    """omega that certifies the loss floor at `radius`, or r_min at `kappa`: w = -(g + A^T theta)."""
    if radius is not None:
        theta, _ = loss_floor(s, radius)[::-1]
    else:
        assert kappa is not None
        if math.isfinite(minimal_radius(s, kappa)):
            theta, _ = _ridge(s, 1.0, math.exp(_bisect(s, True, kappa, by_loss=True)))
        else:
            theta, _ = _ridge(s, 1.0, 0.0)
    direction = -(s.right.T @ (s.gradient + s.sigma * theta) + s.outside)
    size = float(np.linalg.norm(direction))
    return direction / size if size > 0 else None
