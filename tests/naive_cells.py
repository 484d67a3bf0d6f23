"""The bound on cells row by row in 50 digits: the formulas as they are written, with nothing of the code under test."""

from __future__ import annotations

from dataclasses import dataclass, field

import mpmath as mp

mp.mp.dps = 50
ROUNDS, REFINEMENTS = 200, 3


def exact(values):
    return [mp.mpf(float(one)) for one in values]


def curvature(u):
    """g(-u) / u^2."""
    return mp.mpf(1) / 2 if u == 0 else (-u - mp.log(1 - u)) / u**2


@dataclass
class NaiveRows:
    """Rows (block, cell, outcome, [(atom, mass), ...]), atoms, γ, reference, learned cells, bounds of e."""

    rows: list
    atoms: list  # of lists
    gamma: object
    reference: list
    learned: list
    low: object
    high: object
    blocks: int
    residual: list = field(init=False)

    def __post_init__(self):
        self.gamma = mp.mpf(float(self.gamma))
        self.p, self.J = len(self.reference), len(self.atoms)
        self.residual = []
        for _, cell, outcome, ahead in self.rows:
            following = mp.mpf(0)
            for atom, mass in ahead:
                for c in range(self.p):
                    following += mass * self.atoms[atom][c] * self.reference[c]
            self.residual.append(self.reference[cell] - self.gamma * following - outcome)
        self.count = [sum(row[1] == c for row in self.rows) for c in range(self.p)]
        self.P = [[mp.mpf(0)] * self.J for _ in range(self.p)]
        for _, cell, _, ahead in self.rows:
            if self.learned[cell]:
                for atom, mass in ahead:
                    self.P[cell][atom] += mass / self.count[cell]
        A, P = mp.matrix(self.atoms), mp.matrix(self.P)
        self.inverse = mp.inverse(mp.eye(self.J) - self.gamma * (A * P))
        self.K = self.inverse * A

    def of_atoms(self, values):
        return [sum(a * v for a, v in zip(row, values, strict=True)) for row in self.atoms]

    def direction(self, d):
        """w = d + γ A^T (I - γ (A P)^T)^-1 P^T d."""
        onto = [sum(self.P[c][j] * d[c] for c in range(self.p)) for j in range(self.J)]
        onto = [sum(self.inverse[k, j] * onto[k] for k in range(self.J)) for j in range(self.J)]
        return [d[c] + self.gamma * sum(self.atoms[j][c] * onto[j] for j in range(self.J)) for c in range(self.p)]

    def moved(self, f):
        """x_i(f) of every row."""
        ahead = self.of_atoms(f)
        return [f[cell] - self.gamma * sum(m * ahead[j] for j, m in nxt) for _, cell, _, nxt in self.rows]

    def slack(self, averages):
        """τ of (17)."""
        found, ahead = [], self.of_atoms(averages)
        for c in range(self.p):
            if not self.learned[c]:
                found.append(max(abs(self.low - self.reference[c]), abs(self.high - self.reference[c])))
                continue
            mean = sum(r for r, row in zip(self.residual, self.rows, strict=True) if row[1] == c) / self.count[c]
            following = sum(self.P[c][j] * ahead[j] for j in range(self.J))
            found.append(abs(mean) + averages[c] + self.gamma * following)
        return found


@dataclass
class NaiveSet:
    """E = { t' + t'' }."""

    of: NaiveRows
    scale: list
    radius: object
    slack: list

    def __post_init__(self):
        rows, p, J = self.of, self.of.p, self.of.J
        self.inv = [1 / self.scale[c] if rows.learned[c] else mp.mpf(0) for c in range(p)]
        mean = [sum(rows.K[j, c] for j in range(J)) / J for c in range(p)]
        self.apart = [sum(abs(rows.K[j, c] - mean[c]) * self.slack[c] for c in range(p)) for j in range(J)]
        self.common = sum(abs(mean[c]) * self.slack[c] for c in range(p))
        self.mass = [sum(rows.P[c]) for c in range(p)]
        self.mean = [sum(rows.P[c][j] * self.apart[j] for j in range(J)) for c in range(p)]

    def support(self, d):
        w = self.of.direction(d)
        inside = mp.sqrt(sum((a * b) ** 2 for a, b in zip(w, self.inv, strict=True)))
        return self.radius * inside + sum(abs(a) * b for a, b in zip(w, self.slack, strict=True))

    def beyond(self, c, atom):
        """|(P F)_c - F_j| over t'', atom None: the end."""
        if atom is None:
            return self.mean[c] + self.mass[c] * self.common
        return self.mean[c] + self.apart[atom] + abs(1 - self.mass[c]) * self.common

    def difference(self, c, atom):
        """The row of weights of (P F)_c - F_j on t'."""
        rows = self.of
        return [
            (sum(rows.P[c][k] * rows.K[k, d] for k in range(rows.J)) - (rows.K[atom, d] if atom is not None else 0))
            * self.inv[d]
            for d in range(rows.p)
        ]

    def next_differences(self):
        found = [mp.mpf(0)] * self.of.p
        for _, cell, _, ahead in self.of.rows:
            after = [atom for atom, _ in ahead]
            if sum((m for _, m in ahead), mp.mpf(0)) < 1 - mp.mpf(10) ** -12:
                after.append(None)
            for atom in after:
                inside = mp.sqrt(sum(x * x for x in self.difference(cell, atom)))
                found[cell] = max(found[cell], self.radius * inside + self.beyond(cell, atom))
        return found

    def root_energy(self, weights):
        """weights[i] of every row; root for t plus γ times the root for P F - F_j."""
        rows, p = self.of, self.of.p
        total, pairs = [mp.mpf(0)] * p, {}
        for w, (_, cell, _, ahead) in zip(weights, rows.rows, strict=True):
            total[cell] += w
            rest = w
            for atom, m in ahead:
                pairs[cell, atom] = pairs.get((cell, atom), mp.mpf(0)) + w * m
                rest -= w * m
            pairs[cell, None] = pairs.get((cell, None), mp.mpf(0)) + rest
        own = self.radius * max(mp.sqrt(total[c]) * self.inv[c] for c in range(p))
        own += mp.sqrt(sum(total[c] * self.slack[c] ** 2 for c in range(p)))
        form, outside = mp.zeros(p, p), mp.mpf(0)
        for (cell, atom), w in pairs.items():
            y = mp.matrix(self.difference(cell, atom))
            form += w * (y * y.T)
            outside += w * self.beyond(cell, atom) ** 2
        top = max(mp.eigsy(form, eigvals_only=True))
        return own + rows.gamma * (self.radius * mp.sqrt(max(top, 0)) + mp.sqrt(max(outside, 0)))

    def cells(self):
        return [self.radius * a + b for a, b in zip(self.inv, self.slack, strict=True)]


def row_energy(rows, weights, single):
    """constant, linear part and factor of the bound of sum w (R + x - γ ζ')^2."""
    square = sum(w * r * r for w, r in zip(weights, rows.residual, strict=True))
    ahead = rows.of_atoms(single)
    further = mp.mpf(0)
    linear = [mp.mpf(0)] * rows.p
    for w, r, (_, cell, _, nxt) in zip(weights, rows.residual, rows.rows, strict=True):
        linear[cell] += w * r
        for atom, m in nxt:
            further += rows.gamma**2 * w * m * ahead[atom] ** 2
            for c in range(rows.p):
                linear[c] -= rows.gamma * w * r * m * rows.atoms[atom][c]
    theta = mp.sqrt(further / square) if square > 0 else mp.mpf(1 if further > 0 else 0)
    rest = (1 + 1 / theta) * further if theta > 0 else mp.mpf(0)
    return (1 + theta) * square + rest, [2 * (1 + theta) * x for x in linear], 1 + theta


def naive_locate(rows, shape, rates, log_term, width, averages, single):
    """(ϱ, τ, row_reach) by the fixed point."""
    scale, slack = [s * n for s, n in zip(shape, rows.count, strict=True)], rows.slack(averages)
    weights = [shape[cell] ** 2 for _, cell, _, _ in rows.rows]
    constant, linear, factor = row_energy(rows, weights, single)
    crude = sum(weights) * width**2
    one = NaiveSet(rows, scale, mp.mpf(1), [mp.mpf(0)] * rows.p)
    rest = NaiveSet(rows, scale, mp.mpf(0), slack)
    parts = (one.support(linear), rest.support(linear), one.root_energy(weights), rest.root_energy(weights))
    row_reach, radius, found = [mp.inf] * rows.p, mp.inf, crude
    for _ in range(REFINEMENTS):
        prices = []
        for rate in rates:
            worst = mp.mpf(0)
            for r, (_, cell, _, _) in zip(rows.residual, rows.rows, strict=True):
                worst = max(worst, rate * shape[cell] * min(width, abs(r) + row_reach[cell]))
            prices.append(curvature(worst))
        for _ in range(ROUNDS):
            radius = min(radius, *(log_term / r + g * r * found for r, g in zip(rates, prices, strict=True)))
            root = radius * parts[2] + parts[3]
            found = min(found, constant + radius * parts[0] + parts[1] + factor * root**2)
        now = NaiveSet(rows, scale, radius, slack)
        ahead = max(rows.of_atoms(single), default=mp.mpf(0))
        steps = zip(now.cells(), now.next_differences(), row_reach, strict=True)
        row_reach = [min(old, a + rows.gamma * (b + ahead)) for a, b, old in steps]
    return radius, slack, row_reach


def naive_end(rows, located, psi, tail, rate, sign, log_term, width, allowance):
    """sign * (the weighed end less E[q̂]), and the plain one, from the parts of (24); `located` = (set, row_reach)."""
    feasible, row_reach = located
    averages, single = allowance
    worst = {}
    for r, (block, cell, _, _) in zip(rows.residual, rows.rows, strict=True):
        side = -r if tail[block][cell] > 0 else r
        worst[block, cell] = max(worst.get((block, cell), -mp.inf), side + row_reach[cell])
    weights, value, allowed, balance = [], mp.mpf(0), mp.mpf(0), [sign * rate * x for x in psi]
    ahead = rows.of_atoms(averages)
    for r, (block, cell, _, nxt) in zip(rows.residual, rows.rows, strict=True):
        v = tail[block][cell]
        most = min(max(worst[block, cell], mp.mpf(0)), width)
        weights.append(v * v * curvature(abs(v) * most))
        value -= v * r
        allowed += abs(v) * (averages[cell] + rows.gamma * sum(m * ahead[j] for j, m in nxt))
        balance[cell] -= v
        for atom, m in nxt:
            for c in range(rows.p):
                balance[c] += rows.gamma * v * m * rows.atoms[atom][c]
    constant, linear, factor = row_energy(rows, weights, single)
    both = [a + b for a, b in zip(balance, linear, strict=True)]
    bias = feasible.support(both) + factor * feasible.root_energy(weights) ** 2
    start = sum(a * b for a, b in zip(psi, averages, strict=True))
    base = sign * sum(a * b for a, b in zip(psi, rows.reference, strict=True))
    weighed = base + (value + log_term + constant + bias + allowed) / rate + start
    return weighed, base + feasible.support(psi) + start
