"""The bound on features row by row in 50 digits: the formulas as they are written, with nothing of the code under test."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp

from bondic_lab.features.sets import _CONVERGED, _ROUNDS  # choices: any give a bound
from bondic_lab.features.sums import _EDGES

mp.mp.dps = 50


def exact(values):
    return [mp.mpf(float(one)) for one in values]


def matrix(rows):
    return mp.matrix([exact(row) for row in rows])


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), mp.mpf(0))


def length(a):
    return mp.sqrt(dot(a, a))


def curvature(u):
    """g(-u) / u^2."""
    return mp.mpf(1) / 2 if u == 0 else (-u - mp.log(1 - u)) / u**2


def times(shape, vector):
    """A^T v."""
    return [sum(shape[i, j] * vector[i] for i in range(len(vector))) for j in range(shape.cols)]


def trust_region(form, linear):
    """max z^T M z + 2 <b, z> over |z| <= 1: the least ν + sum c_j^2 / (ν - l_j) over ν >= l_max."""
    values, vectors = mp.eigsy(form)
    along = [sum(vectors[i, j] * linear[i] for i in range(len(linear))) ** 2 for j in range(len(linear))]
    top = max(max(values), mp.mpf(0))
    low, high = top, top + mp.sqrt(sum(along)) + mp.mpf(10) ** -40

    def slope(nu):
        return sum(c / (nu - v) ** 2 for c, v in zip(along, values, strict=True) if c)

    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 1 else (low, middle)
    return high + sum(c / (high - v) for c, v in zip(along, values, strict=True) if c)


@dataclass
class NaiveBound:
    """Rows as dictionaries of 50-digit numbers; one shape A with its λ and guess."""

    rows: list
    gamma: object
    reference: list
    width: object
    rates: list
    log_term: object
    shape: object
    ridge: object
    guess: object
    bounded: bool

    def __post_init__(self):
        for row in self.rows:
            step = [a - self.gamma * b for a, b in zip(row["features"], row["following"], strict=True)]
            moves = [a - self.gamma * b for a, b in zip(row["forecast"], row["following"], strict=True)]
            row.update(step=step, moves=moves, residual=dot(self.reference, step) - row["outcome"])
            row["deviation"] = row["expected"] - row["outcome"] + dot(self.reference, moves)
            row["center"] = row["value"] + row["expected"] + dot(self.reference, row["forecast"])
            row["moved"], row["shifted"] = (length(times(self.shape, row[name])) for name in ("moves", "forecast"))
            row["h"] = row["scale"] + self.gamma * row["next_scale"]
        count = len(self.rows[0]["instruments"])
        self.g = [sum(row["instruments"][k] * row["residual"] for row in self.rows) for k in range(count)]
        gram = mp.matrix(count, count)
        for row in self.rows:
            for i in range(count):
                for j in range(count):
                    gram[i, j] += row["instruments"][i] * row["instruments"][j]
        plain = sum(length(row["instruments"]) * row["h"] for row in self.rows)
        root = mp.sqrt(max(mp.eigsy(gram, eigvals_only=True)) * sum(row["h"] ** 2 for row in self.rows))
        self.bias = min(plain, root)

    def k(self, beta, radius):
        rho = radius + length(self.g) + beta * self.bias
        ball = (beta + length(self.reference)) ** 2 if self.bounded else mp.mpf(0)
        return mp.sqrt(rho**2 + self.ridge * ball)

    def classes(self, bets):
        """Rows by what they may lose at the guess; `bets`: (|a|, room, lost, under or None) of every row."""
        found = {}
        for row, bet in zip(self.rows, bets, strict=True):
            place = sum(bet[2] + bet[0] * row["moved"] * self.guess > edge for edge in exact(_EDGES))
            found.setdefault(place, []).append((row, bet))
        return list(found.values())

    def weighing(self, bets, beta, k, multiple):
        """Prices by class; then S, x, M of sum w (D + <f, U>)^2, and (sum w e^2)^(1/2)."""
        size = len(self.reference)
        constant, linear, form, ahead, over, shifted = mp.mpf(0), [mp.mpf(0)] * size, mp.zeros(size, size), 0, 0, 0
        for group in self.classes(bets):
            lost = max(mp.mpf(0), max(bet[2] for _, bet in group)) + k * max(
                bet[0] * row["moved"] for row, bet in group
            )
            lost += self.gamma * beta * max(bet[0] * row["next_scale"] for row, bet in group)
            price = curvature(multiple * min(lost, max(bet[0] * bet[1] for _, bet in group)))
            for row, (a, _, _, under) in group:
                w = price * a * a
                constant += w * row["deviation"] ** 2
                ahead += w * row["next_scale"] ** 2
                if under is not None:
                    over += price * max(under + self.guess * a * row["shifted"], 0) ** 2
                    shifted += w * row["shifted"] ** 2
                for i in range(size):
                    linear[i] += w * row["deviation"] * row["moves"][i]
                    for j in range(size):
                        form[i, j] += w * row["moves"][i] * row["moves"][j]
        beside = self.gamma * beta * mp.sqrt(ahead) + mp.sqrt(over) + max(k - self.guess, 0) * mp.sqrt(shifted)
        return constant, linear, form, beside

    def supremum(self, constant, linear, form, k):
        inner = k * k * (self.shape.T * form * self.shape)
        return constant + trust_region(inner, [k * x for x in times(self.shape, linear)])

    def vector_bets(self):
        found = []
        for row in self.rows:
            a = self.rates[0] * length(row["instruments"])
            found.append((a, self.width, a * abs(row["deviation"]), None))
        return found

    def radius(self, beta, k, rate):
        """ϱ at one rate over the ellipsoid."""
        multiple = rate / self.rates[0]
        constant, linear, form, beside = self.weighing(self.vector_bets(), beta, k, multiple)
        root = mp.sqrt(self.supremum(constant, linear, form, k)) + beside
        return (self.log_term + (multiple * root) ** 2) / rate

    def locate(self, beta):
        """k at the end of the fixed point."""
        first, bets = self.rates[0], self.vector_bets()
        found, rates = [], sorted(self.rates)
        for k, rate in enumerate(rates):
            energy = mp.mpf(0)
            for group in self.classes(bets):
                price = curvature(rate / first * self.width * max(bet[0] for _, bet in group))
                energy += price * sum((rate / first * bet[0] * self.width) ** 2 for _, bet in group)
            found.append(((self.log_term + energy) / rate, k))
        radius, best = min(found)
        for _ in range(_ROUNDS):
            last, k = radius, self.k(beta, radius)
            tried = [(self.radius(beta, k, rates[j]), j) for j in range(len(rates))[best : best + 2]]
            radius, best = min([(radius, best), *tried])
            if not radius < last * (1 - mp.mpf(_CONVERGED)):
                break
        return self.k(beta, radius)

    def end(self, e, sign, rate, log_term, starts, beta, k):
        """(24): the end with weights, and the one without."""
        center, features, scale = starts
        bets, size = [], len(self.reference)
        for row in self.rows:
            v, floor = row["weights"][e], row["floors"][e]
            end = min(max(floor, row["low"]), row["low"] + self.width)
            room = row["low"] + self.width - end if v > 0 else end - row["low"]
            bets.append(
                (abs(v), room, -v * row["deviation"], v * (floor - row["center"]) if room < self.width else None)
            )
        constant, linear, form, beside = self.weighing(bets, beta, k, mp.mpf(1))
        t = beside / mp.sqrt(constant) if constant > 0 else mp.mpf(1)
        apart = (1 + 1 / t) * beside**2 if beside > 0 else mp.mpf(0)
        steps = [sum(row["weights"][e] * row["step"][i] for row in self.rows) for i in range(size)]
        balance = [(sign * rate * features[i] - steps[i]) / 2 for i in range(size)]
        joint = [(1 + t) * x + b for x, b in zip(linear, balance, strict=True)]
        whole = self.supremum((1 + t) * constant, joint, (1 + t) * form, k) + apart + log_term
        whole += beta * sum(abs(row["weights"][e]) * row["h"] for row in self.rows)
        whole -= sum(row["weights"][e] * row["residual"] for row in self.rows)
        base = center + dot(self.reference, features)
        weighed = sign * base + whole / rate + beta * scale
        plain = sign * base + k * length(times(self.shape, features)) + beta * scale
        return weighed, plain
