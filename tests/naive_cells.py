"""The bound on cells row by row in 50 digits: the formulas as they are written, with nothing of the code under test."""

from __future__ import annotations

from dataclasses import dataclass, field

import mpmath as mp

from bondic.core.cells.intervals import _STILL, _SWEEPS
from bondic.core.cells.localize import _CONVERGED, _ROUNDS  # choices: any give a bound

mp.mp.dps = 50
CONVERGED = mp.mpf(_CONVERGED)
TOGETHER = (0.0, 1.0, 1e300)


def exact(values):
    return [mp.mpf(float(one)) for one in values]


def curvature(u):
    """g(-u) / u^2."""
    return mp.mpf(1) / 2 if u == 0 else (-u - mp.log(1 - u)) / u**2


@dataclass
class NaiveForecasts:
    """The label and the number m of every row, and of every label its cell, o and κ."""

    label: list
    number: list
    cell: list
    offset: list
    following: list  # of lists


@dataclass
class NaiveRows:
    """Rows (block, cell, outcome, [(atom, mass), ...]), atoms, γ, reference, bounds of e, forecasts."""

    rows: list
    atoms: list  # of lists
    gamma: object
    reference: list
    low: object
    high: object
    blocks: int
    forecasts: NaiveForecasts
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
        self.label, self.label_cell = self.forecasts.label, self.forecasts.cell
        self.kappa = self.forecasts.following
        self.deviation = self._predicted()

    def _predicted(self):
        """D_i = m_i + o_ℓ + γ sum_j κ_ℓj b_j - o_i - γ sum_j π_ij b_j."""
        at_atoms, found = self.of_atoms(self.reference), []
        for label, number, (_, _, outcome, ahead) in zip(self.label, self.forecasts.number, self.rows, strict=True):
            apart = list(self.kappa[label])
            for atom, mass in ahead:
                apart[atom] -= mass
            following = sum((a * b for a, b in zip(apart, at_atoms, strict=True)), mp.mpf(0))
            found.append(number + self.forecasts.offset[label] - outcome + self.gamma * following)
        return found

    def each(self):
        """Label, D_i and next atoms of every row."""
        return zip(self.label, self.deviation, (row[3] for row in self.rows), strict=True)

    def joint(self, weights):
        """Weights of rows, added up over labels with atoms; None is the end."""
        pairs = {}
        for w, (label, _, ahead) in zip(weights, self.each(), strict=True):
            rest = mp.mpf(1)
            for atom, m in ahead:
                pairs[label, atom] = pairs.get((label, atom), mp.mpf(0)) + w * m
                rest -= m
            if rest > mp.mpf(10) ** -12:
                pairs[label, None] = pairs.get((label, None), mp.mpf(0)) + w * rest
        return pairs

    def successors(self):
        return list(self.joint([mp.mpf(1)] * len(self.rows)))

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
        for label, _, nxt in self.each():
            predicted = self.gamma * sum(k * a for k, a in zip(self.kappa[label], ahead, strict=True))
            found.append(predicted - self.gamma * sum(m * ahead[j] for j, m in nxt))
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
    known: dict  # of (label, atom): a bound of |x| that also holds

    def __post_init__(self):
        rows, p, J = self.of, self.of.p, self.of.J
        self.inv = [1 / self.scale[c] if self.inside[c] else mp.mpf(0) for c in range(p)]
        self.predicted = [[sum(row[j] * rows.K[j, c] for j in range(J)) for c in range(p)] for row in rows.kappa]

    def support(self, d):
        w = self.of.direction(d)
        inside = mp.sqrt(sum((a * b) ** 2 for a, b in zip(w, self.inv, strict=True)))
        return self.radius * inside + sum(abs(a) * b for a, b in zip(w, self.slack, strict=True))

    def beyond(self, label, atom):
        """γ |<F, κ> - F_j| over t'', atom None: the end."""
        found = sum((abs(x) * s for x, s in zip(self.apart(label, atom), self.slack, strict=True)), mp.mpf(0))
        return self.of.gamma * found if any(self.inside) else min(self.of.gamma * found, self.known[label, atom])

    def apart(self, label, atom):
        """The row of weights of <F, κ> - F_j on t."""
        return [x - (self.of.K[atom, c] if atom is not None else 0) for c, x in enumerate(self.predicted[label])]

    def difference(self, label, atom):
        """The row of weights of <F, κ> - F_j on t'."""
        return [x * scale for x, scale in zip(self.apart(label, atom), self.inv, strict=True)]

    def successors(self):
        """|x| of rows of a label that an atom follows, None: the end."""
        return {successor: self.successor(*successor) for successor in self.of.successors()}

    def successor(self, label, atom):
        inside = mp.sqrt(sum(x * x for x in self.difference(label, atom)))
        return self.of.gamma * self.radius * inside + self.beyond(label, atom)

    def largest(self, weights):
        """The largest eigenvalue, at radius 1."""
        form = mp.zeros(self.of.p, self.of.p)
        for (label, atom), w in self.of.joint(weights).items():
            y = mp.matrix(self.difference(label, atom))
            form += w * (y * y.T)
        return max(*mp.eigsy(form, eigvals_only=True), mp.mpf(0))

    def root(self, weights):
        """Of sum w x^2: the root for t' plus that for t''."""
        inside = self.of.gamma * self.radius * mp.sqrt(self.largest(weights)) if self.radius else mp.mpf(0)
        further = sum(w * self.beyond(*successor) ** 2 for successor, w in self.of.joint(weights).items())
        return inside + mp.sqrt(max(further, 0))

    def cell_roots(self):
        """sqrt( sum x_i^2 ) over the rows of every cell."""
        successors, found = self.successors(), [mp.mpf(0)] * self.of.p
        for successor, mass in self.of.joint([mp.mpf(1)] * len(self.of.rows)).items():
            found[self.of.label_cell[successor[0]]] += mass * successors[successor] ** 2
        return [mp.sqrt(x) for x in found]


class NaiveRanges:
    """An interval of f for every cell, and a bound of |t| (inf: none); every row by what follows it."""

    def __init__(self, rows, low, high, equations):
        self.of, self.low, self.high, self.equations = rows, list(low), list(high), equations

    def at_atoms(self):
        return self.of.of_atoms(self.low), self.of.of_atoms(self.high)

    def sweep(self, sweeps):
        """f_c = t_c + γ sum_j P_cj F_j, again and again."""
        rows = self.of
        for _ in range(sweeps):
            low, high = self.at_atoms()
            before = list(self.low), list(self.high)
            for c in range(rows.p):
                if self.equations[c] == mp.inf:
                    continue
                ahead = [sum(P * x for P, x in zip(rows.P[c], side, strict=True)) for side in (low, high)]
                self.low[c] = max(self.low[c], rows.gamma * ahead[0] - self.equations[c])
                self.high[c] = min(self.high[c], rows.gamma * ahead[1] + self.equations[c])
            moved = max(max(a - b, d - c) for a, b, c, d in zip(self.low, before[0], self.high, before[1], strict=True))
            if moved <= mp.mpf(_STILL) * max(b - a for a, b in zip(self.low, self.high, strict=True)):
                break
        return self

    def support(self, d):
        return sum(max(a * x, a * y) for a, x, y in zip(d, self.low, self.high, strict=True))

    def between(self, weights):
        """Bounds of <F, weights>."""
        low, high = self.at_atoms()
        both = [(min(w * a, w * b), max(w * a, w * b)) for w, a, b in zip(weights, low, high, strict=True)]
        return sum((a for a, _ in both), mp.mpf(0)), sum((b for _, b in both), mp.mpf(0))

    def moved(self, label, atom):
        """Bounds of x for rows of a label that an atom follows, None: the end."""
        rows = self.of
        weights = [k - (j == atom) for j, k in enumerate(rows.kappa[label])]
        low, high = (rows.gamma * x for x in self.between(weights))
        return low, high

    def successors(self):
        return {successor: max(abs(x) for x in self.moved(*successor)) for successor in self.of.successors()}

    def each(self):
        """Of every block and label: [(atom or None, mass)] of its rows, and their D."""
        found = {}
        for (block, *_), (label, d, ahead) in zip(self.of.rows, self.of.each(), strict=True):
            entries, deviations = found.setdefault((block, label), ([], []))
            deviations.append(d)
            entries += ahead
            rest = 1 - sum((m for _, m in ahead), mp.mpf(0))
            if rest > mp.mpf(10) ** -12:
                entries.append((None, rest))
        return found

    def farthest(self):
        found = [mp.mpf(0)] * len(self.of.kappa)
        for (_, label), (entries, _) in self.each().items():
            for atom, _ in entries:
                found[label] = max(found[label], *(abs(x) for x in self.moved(label, atom)))
        return found

    def squares(self):
        """sum of x_i^2 by block and label: through atoms, or through the spread of what follows; the smaller one."""
        rows, found = self.of, {}
        low, high = self.at_atoms()
        for (block, label), (entries, deviations) in self.each().items():
            n = len(deviations)
            first = sum(m * max(abs(x) for x in self.moved(label, atom)) ** 2 for atom, m in entries)
            sides = [(mp.mpf(0), mp.mpf(0)) if atom is None else (low[atom], high[atom]) for atom, _ in entries]
            width = max(b for _, b in sides) - min(a for a, _ in sides)
            apart = list(rows.kappa[label])
            for atom, m in entries:
                if atom is not None:
                    apart[atom] -= m / n
            size = max(abs(x) for x in self.between(apart))
            second = n * rows.gamma**2 * (width**2 / 4 + size**2)
            found[block, label] = min(first, second)
        return found

    def deviations(self, single, width):
        """sum of Δ_i^2 by block and label."""
        squares, found = self.squares(), {}
        for key, (_, deviations) in self.each().items():
            n = len(deviations)
            root = mp.sqrt(sum(d * d for d in deviations)) + mp.sqrt(squares[key]) + mp.sqrt(n) * single
            found[key] = min(root**2, n * width**2)
        return found

    def whole(self):
        return all(len(row[3]) <= 1 and all(m == 1 for _, m in row[3]) for row in self.of.rows)

    def charges(self, tail, single, width):
        """sum of g(-v Δ) by block and label."""
        squares, reach, found = self.deviations(single, width), self.farthest(), {}
        for (block, label), (entries, deviations) in self.each().items():
            v = tail[block][self.of.label_cell[label]]
            low, high = min(deviations) - single, max(deviations) + single
            # clipped, g is not convex: rows that several atoms follow have no bound through them
            first = mp.mpf(0) if self.whole() else mp.inf
            for atom, m in entries if self.whole() else ():
                a, b = self.moved(label, atom)
                ends = (v * max(min(low + a, 0), -width), v * min(max(high + b, 0), width))
                first += m * max(y - mp.log(1 + y) for y in ends)
            most = reach[label] - low if v > 0 else reach[label] + high
            second = v * v * curvature(abs(v) * min(max(most, 0), width)) * squares[block, label]
            found[block, label] = min(first, second)
        return found


def row_energy(rows, weights, single):
    """constant, linear part and factor of the bound of sum w (D + x - γ ζ')^2."""
    square = sum(w * r * r for w, r in zip(weights, rows.deviation, strict=True))
    ahead = rows.of_atoms(single)
    further = mp.mpf(0)
    linear = [mp.mpf(0)] * rows.p
    for w, (label, r, nxt) in zip(weights, rows.each(), strict=True):
        for c in range(rows.p):
            onto = sum(k * row[c] for k, row in zip(rows.kappa[label], rows.atoms, strict=True))
            linear[c] += rows.gamma * w * r * onto
        for atom, m in nxt:
            further += rows.gamma**2 * w * m * ahead[atom] ** 2
            for c in range(rows.p):
                linear[c] -= rows.gamma * w * r * m * rows.atoms[atom][c]
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


def own_bounds(rows, events, row_reach, width, roots, single, squares):
    """ε_c: a bound of |mean Z_i| over the rows of every cell; `squares`: bounds of sum Δ_i^2 by block and label."""
    found, ahead = [mp.inf] * rows.p, max(rows.of_atoms(single), default=mp.mpf(0))
    for c in range(rows.p):
        own = [(abs(r), row_reach[label]) for label, r, _ in rows.each() if rows.label_cell[label] == c]
        if not own:
            continue
        energy = sum(x for (_, label), x in squares.items() if rows.label_cell[label] == c)
        if roots[c] != mp.inf:
            root = mp.sqrt(sum(r * r for r, _ in own)) + roots[c] + mp.sqrt(len(own)) * rows.gamma * ahead
            energy = min(energy, root**2)
        largest = min(width, max(r + reach for r, reach in own))
        for rates in events.cell_rates:
            if rates[c] > 0:
                cost = curvature(rates[c] * largest) * rates[c] * energy
                found[c] = min(found[c], (events.cell_log_term / rates[c] + cost) / len(own))
    return found


def sets_of(rows, scale, radius, tau, own, known):
    """From cells one by one to all together: those inside about which the vector event says more, up to a factor."""
    everything = rows.largest * (1 + rows.gamma)
    alone = [min(own[c] + tau[c], everything) if rows.learned[c] else tau[c] for c in range(rows.p)]
    found = {}
    for times in exact(TOGETHER):
        inside = tuple(rows.learned[c] and radius <= times * min(own[c], everything) * scale[c] for c in range(rows.p))
        if inside not in found:
            slack = [tau[c] if inside[c] else alone[c] for c in range(rows.p)]
            found[inside] = NaiveSet(rows, scale, radius if any(inside) else mp.mpf(0), slack, inside, known)
    return list(found.values())


def radius_of(rows, events, row_reach, width):
    """ϱ = min_k ( log(2K/δ) / r_k + G_k r_k energy )."""
    found = []
    for rate in events.rates:
        worst = mp.mpf(0)
        for label, r, _ in rows.each():
            size = min(width, abs(r) + row_reach[label])
            worst = max(worst, rate * events.shape[rows.label_cell[label]] * size)
        found.append((events.log_term / rate, curvature(worst) * rate))
    return lambda energy: min(a + b * energy for a, b in found)


def naive_locate(rows, events, width, averages, single):
    """The sets, the intervals, what they leave of single rows, and the energy, by the fixed point."""
    scale, tau = [s * n for s, n in zip(events.shape, rows.count, strict=True)], rows.slack(averages)
    weights = [events.shape[cell] ** 2 for _, cell, _, _ in rows.rows]
    constant, linear, factor = row_energy(rows, weights, single)
    found, radius, own = sum(weights) * width**2, mp.inf, [mp.inf] * rows.p
    row_reach, most = [mp.inf] * len(rows.kappa), {}
    ahead = rows.gamma * max(rows.of_atoms(single), default=mp.mpf(0))
    roots = [mp.inf] * rows.p
    ranges = NaiveRanges(rows, [rows.low - b for b in rows.reference], [rows.high - b for b in rows.reference], own)
    for _ in range(_ROUNDS):
        before, known = found, own
        squares = ranges.deviations(ahead, width)
        found = min(found, sum(events.shape[rows.label_cell[label]] ** 2 * x for (_, label), x in squares.items()))
        radius = min(radius, radius_of(rows, events, row_reach, width)(found))
        now = own_bounds(rows, events, row_reach, width, roots, single, squares)
        own = [min(a, b) for a, b in zip(own, now, strict=True)]
        for one in sets_of(rows, scale, radius, tau, own, ranges.successors()):
            found = min(found, constant + one.support(linear) + factor * one.root(weights) ** 2)
            for (label, _), x in one.successors().items():
                most[label] = max(most.get(label, mp.mpf(0)), x)
            row_reach = [min(old, most.get(label, mp.mpf(0)) + ahead) for label, old in enumerate(row_reach)]
            most = {}
            roots = [min(a, b) for a, b in zip(roots, one.cell_roots(), strict=True)]
        radius = min(radius, radius_of(rows, events, row_reach, width)(found))
        equations = [min(own[c], radius / scale[c]) + tau[c] if rows.count[c] else mp.inf for c in range(rows.p)]
        ranges = NaiveRanges(rows, ranges.low, ranges.high, equations).sweep(_SWEEPS)
        row_reach = [min(old, x + ahead) for old, x in zip(row_reach, ranges.farthest(), strict=True)]
        moved = any(a < b * (1 - CONVERGED) for a, b in zip(own, known, strict=True))
        if found >= before * (1 - CONVERGED) and not moved:
            break
    return sets_of(rows, scale, radius, tau, own, ranges.successors()), ranges, row_reach, found


def naive_end(rows, located, psi, tail, rate, sign, log_term, width, allowance):
    """sign * (the weighed end less E[q̂]), and the plain one, from the parts of (24); `located` = (sets, ranges, row_reach)."""
    sets, ranges, row_reach = located
    averages, single = allowance
    worst = {}
    for (label, r, _), (block, cell, _, _) in zip(rows.each(), rows.rows, strict=True):
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
    charges = ranges.charges(tail, rows.gamma * max(rows.of_atoms(single), default=mp.mpf(0)), width)
    paid = [sum(charges.values()) + min(ranges.support(balance), *(one.support(balance) for one in sets))]
    for apart in (set(), cheaper_alone(rows, charges, weights, row_reach)):
        kept = [mp.mpf(0) if (row[0], label) in apart else w
                for w, label, row in zip(weights, rows.label, rows.rows, strict=True)]  # fmt: skip
        constant, linear, factor = row_energy(rows, kept, single)
        both = [a + b for a, b in zip(balance, linear, strict=True)]
        bias = min(one.support(both) + factor * one.root(kept) ** 2 for one in sets)
        paid.append(constant + bias + sum(charges[key] for key in apart))
    start = sum(a * b for a, b in zip(psi, averages, strict=True))
    base = sign * sum(a * b for a, b in zip(psi, rows.reference, strict=True))
    weighed = base + (value + log_term + min(paid) + allowed) / rate + start
    signed = [sign * x for x in psi]
    return weighed, base + min(ranges.support(signed), *(one.support(psi) for one in sets)) + start


def cheaper_alone(rows, charges, weights, row_reach):
    """Blocks and labels that look cheaper row by row: a choice, any gives a bound."""
    own = {}
    for w, (block, *_), (label, d, _) in zip(weights, rows.rows, rows.each(), strict=True):
        price, square, count = own.get((block, label), (w, mp.mpf(0), 0))
        own[block, label] = (price, square + d * d, count + 1)
    return {
        key for key, (price, square, count) in own.items()
        if charges[key] < price * (mp.sqrt(square) + mp.sqrt(count) * row_reach[key[1]]) ** 2
    }  # fmt: skip
