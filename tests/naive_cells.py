"""The bound on cells row by row in 50 digits: the formulas as they are written, with nothing of the code under test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import mpmath as mp

mp.mp.dps = 50
ROUNDS, STEPS, SETTLED = 20, 500, mp.mpf(1) / 1000


def exact(values):
    return [mp.mpf(float(one)) for one in values]


def curvature(u):
    """g(-u) / u^2."""
    return mp.mpf(1) / 2 if u == 0 else (-u - mp.log(1 - u)) / u**2


@dataclass
class NaiveRows:
    """Rows (block, cell, outcome, [(atom, mass), ...]), atoms, γ, reference, bounds of e; and what is forecast to follow them.

    `forecasts` is the label of every row, and of every label its cell, a number and weights on atoms; None: labels are cells.
    """

    rows: list
    atoms: list  # of lists
    gamma: object
    reference: list
    low: object
    high: object
    blocks: int
    forecasts: tuple | None = None
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
        self.learned = [count > 0 for count in self.count]
        self.P = [[mp.mpf(0)] * self.J for _ in range(self.p)]
        for _, cell, _, ahead in self.rows:
            if self.learned[cell]:
                for atom, mass in ahead:
                    self.P[cell][atom] += mass / self.count[cell]
        A, P = mp.matrix(self.atoms), mp.matrix(self.P)
        self.inverse = mp.inverse(mp.eye(self.J) - self.gamma * (A * P))
        self.K = self.inverse * A
        self.largest = max(max(abs(self.low - b), abs(self.high - b)) for b in self.reference)

        self.own = self.forecasts is None
        self.label, self.label_cell = [row[1] for row in self.rows], list(range(self.p))
        self.kappa, self.deviation = self.P, self.residual
        if not self.own:
            self.label, self.label_cell, offset, self.kappa = self.forecasts
            ahead, self.deviation = self.of_atoms(self.reference), []
            for label, (_, _, outcome, following) in zip(self.label, self.rows, strict=True):
                expected = offset[label] + self.gamma * sum(
                    k * b for k, b in zip(self.kappa[label], ahead, strict=True)
                )
                self.deviation.append(expected - outcome - self.gamma * sum(m * ahead[j] for j, m in following))

    def of_atoms(self, values):
        return [sum(a * v for a, v in zip(row, values, strict=True)) for row in self.atoms]

    def direction(self, d):
        """w = d + γ A^T (I - γ (A P)^T)^-1 P^T d."""
        onto = [sum(self.P[c][j] * d[c] for c in range(self.p)) for j in range(self.J)]
        onto = [sum(self.inverse[k, j] * onto[k] for k in range(self.J)) for j in range(self.J)]
        return [d[c] + self.gamma * sum(self.atoms[j][c] * onto[j] for j in range(self.J)) for c in range(self.p)]

    def moved(self, f):
        """x_i(f) of every row."""
        ahead, found = self.of_atoms(f), []
        for label, (_, cell, _, following) in zip(self.label, self.rows, strict=True):
            expected = self.gamma * sum(k * b for k, b in zip(self.kappa[label], ahead, strict=True))
            here = f[cell] if self.own else expected
            found.append(here - self.gamma * sum(m * ahead[j] for j, m in following))
        return found

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
    """E = { t' + t'' }: t' on the cells `inside` in an ellipsoid, t'' in a box."""

    of: NaiveRows
    scale: list
    radius: object
    slack: list
    inside: list

    def __post_init__(self):
        self.inv = [1 / self.scale[c] if self.inside[c] else mp.mpf(0) for c in range(self.of.p)]

    def support(self, d):
        w = self.of.direction(d)
        inside = mp.sqrt(sum((a * b) ** 2 for a, b in zip(w, self.inv, strict=True)))
        return self.radius * inside + sum(abs(a) * b for a, b in zip(w, self.slack, strict=True))

    def weights_of(self, label, atom):
        """(p,) the weights of <F, κ> - F_j on t; atom None: the end."""
        rows = self.of
        here = [sum(rows.kappa[label][k] * rows.K[k, d] for k in range(rows.J)) for d in range(rows.p)]
        return here if atom is None else [a - rows.K[atom, d] for d, a in enumerate(here)]

    def beyond(self, label, atom):
        """|<F, κ> - F_j| over t''; without t' it is a difference of values, and no larger than their range."""
        found = sum(abs(w) * b for w, b in zip(self.weights_of(label, atom), self.slack, strict=True))
        if any(self.inside):
            return found
        return min(found, (sum(abs(k) for k in self.of.kappa[label]) + (atom is not None)) * self.of.largest)

    def difference(self, label, atom):
        """The same on t'."""
        return [w * a for w, a in zip(self.weights_of(label, atom), self.inv, strict=True)]

    def next_differences(self):
        found = [mp.mpf(0)] * len(self.of.kappa)
        for cell, (_, _, _, ahead) in zip(self.of.label, self.of.rows, strict=True):
            after = [atom for atom, _ in ahead]
            if sum((m for _, m in ahead), mp.mpf(0)) < 1 - mp.mpf(10) ** -12:
                after.append(None)
            for atom in after:
                inside = mp.sqrt(sum(x * x for x in self.difference(cell, atom)))
                found[cell] = max(found[cell], self.radius * inside + self.beyond(cell, atom))
        return found

    def joint(self, weights):
        """Weights of rows, added up over labels, and over labels with atoms; None is the end."""
        total, pairs = [mp.mpf(0)] * len(self.of.kappa), {}
        for w, cell, (_, _, _, ahead) in zip(weights, self.of.label, self.of.rows, strict=True):
            total[cell] += w
            rest = w
            for atom, m in ahead:
                pairs[cell, atom] = pairs.get((cell, atom), mp.mpf(0)) + w * m
                rest -= w * m
            pairs[cell, None] = pairs.get((cell, None), mp.mpf(0)) + rest
        return total, pairs

    def parts(self, weights):
        """max w_c / a_c^2, the largest eigenvalue, and the Frobenius norm of the mixed part, at radius 1."""
        p = self.of.p
        total, pairs = self.joint(weights)
        own = max(total[c] * self.inv[c] ** 2 for c in range(p)) if self.of.own else mp.mpf(0)
        form, mixed = mp.zeros(p, p), mp.zeros(p, p)
        for (label, atom), w in pairs.items():
            y = mp.matrix(self.difference(label, atom))
            form += w * (y * y.T)
            for d in range(p if self.of.own else 0):  # t_c times ((P F)_c - F_j), each with its weight
                mixed[label, d] += w * self.inv[label] * y[d]
        top = max(mp.eigsy(form, eigvals_only=True))
        return own, max(top, 0), mp.sqrt(sum(x * x for x in mixed))

    def largest(self, weights):
        own, top, mixed = self.parts(weights)
        return own + self.of.gamma**2 * top + 2 * self.of.gamma * mixed

    def root_energy(self, weights):
        """Of every row: the root for t' plus that for t'', which is that for t plus γ times that for <F, κ> - F_j."""
        total, pairs = self.joint(weights)
        outside = mp.sqrt(sum(total[c] * self.slack[c] ** 2 for c in range(self.of.p))) if self.of.own else mp.mpf(0)
        further = sum(w * self.beyond(cell, atom) ** 2 for (cell, atom), w in pairs.items())
        inside = self.radius * mp.sqrt(self.largest(weights)) if self.radius else mp.mpf(0)
        return inside + outside + self.of.gamma * mp.sqrt(max(further, 0))

    def cell_roots(self):
        """sqrt( sum x_i^2 ) over the rows of every cell; inf where some cells are inside."""
        rows = self.of
        if any(self.inside):
            return [mp.inf] * rows.p
        _, pairs = self.joint([mp.mpf(1)] * len(rows.rows))
        found = [mp.mpf(0)] * rows.p
        for (label, atom), w in pairs.items():
            found[rows.label_cell[label]] += w * self.beyond(label, atom) ** 2
        own = self.slack if rows.own else [mp.mpf(0)] * rows.p
        return [
            rows.gamma * mp.sqrt(max(f, 0)) + mp.sqrt(n) * t for f, n, t in zip(found, rows.count, own, strict=True)
        ]

    def cells(self):
        return [self.radius * a + b for a, b in zip(self.inv, self.slack, strict=True)]


def row_energy(rows, weights, single):
    """constant, linear part and factor of the bound of sum w (D + x - γ ζ')^2."""
    square = sum(w * r * r for w, r in zip(weights, rows.deviation, strict=True))
    ahead = rows.of_atoms(single)
    further = mp.mpf(0)
    linear = [mp.mpf(0)] * rows.p
    for w, r, label, (_, cell, _, nxt) in zip(weights, rows.deviation, rows.label, rows.rows, strict=True):
        onto = [mp.mpf(0)] * rows.J
        for atom, m in nxt:
            further += rows.gamma**2 * w * m * ahead[atom] ** 2
            onto[atom] -= m
        if rows.own:
            linear[cell] += w * r
        else:
            onto = [a + b for a, b in zip(onto, rows.kappa[label], strict=True)]
        for atom in range(rows.J):
            for c in range(rows.p):
                linear[c] += rows.gamma * w * r * onto[atom] * rows.atoms[atom][c]
    theta = mp.sqrt(further / square) if square > 0 else mp.mpf(1 if further > 0 else 0)
    rest = (1 + 1 / theta) * further if theta > 0 else mp.mpf(0)
    return (1 + theta) * square + rest, [2 * (1 + theta) * x for x in linear], 1 + theta


@dataclass
class NaiveEvents:
    """Shape and rates of the vector event, rates of single cells, and the logarithms of both."""

    shape: list
    rates: list
    log_term: object
    cell_rates: list  # of lists
    cell_log_term: object


def own_bounds(rows, events, row_reach, width, roots, single):
    """ε_c: a bound of |mean Z_i| over the rows of every cell."""
    found, further = [mp.inf] * rows.p, rows.gamma * max(rows.of_atoms(single), default=mp.mpf(0))
    for c in range(rows.p):
        own = [
            (abs(r), row_reach[label])
            for r, label, row in zip(rows.deviation, rows.label, rows.rows, strict=True)
            if row[1] == c
        ]
        if not own:
            continue
        energy = len(own) * width**2
        if roots[c] != mp.inf:
            energy = min(energy, (mp.sqrt(sum(r * r for r, _ in own)) + roots[c] + mp.sqrt(len(own)) * further) ** 2)
        largest = max(min(width, r + reach) for r, reach in own)
        for rates in events.cell_rates:
            if rates[c] > 0:
                cost = curvature(rates[c] * largest) * rates[c] * energy
                found[c] = min(found[c], (events.cell_log_term / rates[c] + cost) / len(own))
    return found


def sets_of(rows, scale, radius, tau, own):
    """From cells one by one to all together: those inside about which the vector event says more, up to a factor."""
    everything = rows.largest * (1 + rows.gamma)
    alone = [min(own[c] + tau[c], everything) if rows.learned[c] else tau[c] for c in range(rows.p)]
    found = {}
    for times in (0, 1, 4, 16, 64, mp.mpf(10) ** 300):
        inside = tuple(rows.learned[c] and radius <= times * min(own[c], everything) * scale[c] for c in range(rows.p))
        if inside not in found:
            slack = [tau[c] if inside[c] else alone[c] for c in range(rows.p)]
            found[inside] = NaiveSet(rows, scale, radius if any(inside) else mp.mpf(0), slack, inside)
    return list(found.values())


def naive_locate(rows, events, width, averages, single):
    """The sets, what they leave of single rows, and the energy, by the fixed point."""
    scale, tau = [s * n for s, n in zip(events.shape, rows.count, strict=True)], rows.slack(averages)
    weights = [events.shape[cell] ** 2 for _, cell, _, _ in rows.rows]
    constant, linear, factor = row_energy(rows, weights, single)
    found, radius, own = sum(weights) * width**2, mp.inf, [mp.inf] * rows.p
    row_reach, sets, ahead = [mp.inf] * len(rows.kappa), [], max(rows.of_atoms(single), default=mp.mpf(0))
    roots = [mp.inf] * rows.p
    for _ in range(ROUNDS):
        before, known, costs = found, own, []
        for rate in events.rates:
            worst = mp.mpf(0)
            for r, label, (_, cell, _, _) in zip(rows.deviation, rows.label, rows.rows, strict=True):
                worst = max(worst, rate * events.shape[cell] * min(width, abs(r) + row_reach[label]))
            costs.append(curvature(worst))

        def radius_at(energy, costs=costs):
            return min(events.log_term / r + g * r * energy for r, g in zip(events.rates, costs, strict=True))

        radius = min(radius, radius_at(found))
        now = own_bounds(rows, events, row_reach, width, roots, single)
        own = [min(a, b) for a, b in zip(own, now, strict=True)]
        growths = []
        for one in sets_of(rows, scale, radius, tau, own):
            ball = NaiveSet(rows, scale, mp.mpf(any(one.inside)), [mp.mpf(0)] * rows.p, one.inside)
            rest = replace(one, radius=mp.mpf(0))
            growths.append(
                (ball.support(linear), rest.support(linear), ball.root_energy(weights), rest.root_energy(weights))
            )
        for _ in range(STEPS):
            last = radius
            for a, b, c, d in growths:
                found = min(found, constant + radius * a + b + factor * (radius * c + d) ** 2)
            radius = min(radius, radius_at(found))
            if radius >= last * (1 - mp.mpf(10) ** -6):
                break
        sets = sets_of(rows, scale, radius, tau, own)
        for one in sets:
            here = one.cells() if rows.own else [mp.mpf(0)] * len(rows.kappa)
            steps = zip(here, one.next_differences(), row_reach, strict=True)
            row_reach = [min(old, a + rows.gamma * (b + ahead)) for a, b, old in steps]
        roots = [min(a, *rest) for a, *rest in zip(roots, *(one.cell_roots() for one in sets), strict=True)]
        settled = all(a >= b * (1 - SETTLED) for a, b in zip(own, known, strict=True) if b != mp.inf or a == mp.inf)
        settled = settled and not any(a < b for a, b in zip(own, known, strict=True) if b == mp.inf)
        if found >= before * (1 - SETTLED) and settled:
            break
    return sets, row_reach, found


def naive_end(rows, located, psi, tail, rate, sign, log_term, width, allowance):
    """sign * (the weighed end less E[q̂]), and the plain one, from the parts of (24); `located` = (sets, row_reach)."""
    sets, row_reach = located
    averages, single = allowance
    worst = {}
    for r, label, (block, cell, _, _) in zip(rows.deviation, rows.label, rows.rows, strict=True):
        side = -r if tail[block][cell] > 0 else r
        worst[block, label] = max(worst.get((block, label), -mp.inf), side + row_reach[label])
    weights, value, allowed, balance = [], mp.mpf(0), mp.mpf(0), [sign * rate * x for x in psi]
    ahead = rows.of_atoms(averages)
    for r, label, (block, cell, _, nxt) in zip(rows.residual, rows.label, rows.rows, strict=True):
        v = tail[block][cell]
        most = min(max(worst[block, label], mp.mpf(0)), width)
        weights.append(v * v * curvature(abs(v) * most))
        value -= v * r
        allowed += abs(v) * (averages[cell] + rows.gamma * sum(m * ahead[j] for j, m in nxt))
        balance[cell] -= v
        for atom, m in nxt:
            for c in range(rows.p):
                balance[c] += rows.gamma * v * m * rows.atoms[atom][c]
    constant, linear, factor = row_energy(rows, weights, single)
    both = [a + b for a, b in zip(balance, linear, strict=True)]
    bias = min(one.support(both) + factor * one.root_energy(weights) ** 2 for one in sets)
    start = sum(a * b for a, b in zip(psi, averages, strict=True))
    base = sign * sum(a * b for a, b in zip(psi, rows.reference, strict=True))
    weighed = base + (value + log_term + constant + bias + allowed) / rate + start
    return weighed, base + min(one.support(psi) for one in sets) + start
