"""A slow twin of the ends over the whole ball: plain loops, 40 digits, exact inner products, no landmarks' left-overs.

What is predictable (λφ, v, κ, r̂, clips) comes as floats. The twin knows (13)-(16) and nothing else: for one e of the ball,
`value_at`, or for the worst e of every part apart, `apart`. An end must lie between the two.
"""

from mpmath import mp, mpf

DIGITS = 40


def g(y):
    """y - log(1 + y)"""
    return y - mp.log(1 + y)


def clip(value, low, high):
    return min(max(value, low), high)


class Twin:
    """One end (sign +1: upper) of a ball of radius r around 0; measures are lists of (weight, point, slot)."""

    def __init__(self, kernel, radius, gamma, sign):
        self.kernel, self.radius, self.gamma, self.sign = kernel, mpf(radius), mpf(gamma), sign

    def product(self, f, h):
        return mp.fsum(v * w * self.kernel(x, a, y, b) for v, x, a in f for w, y, b in h)

    def norm(self, f):
        return mp.sqrt(max(self.product(f, f), 0))

    @staticmethod
    def plus(*terms):
        """sum of factor * measure"""
        return [(mpf(factor) * w, x, a) for factor, f in terms for w, x, a in f]

    def measure(self, rate, start, rows):
        """μ = Λ psi_0 - sum_i v_i T_i"""
        steps = [(-mpf(row.v), self.plus((1, row.here), (-self.gamma, row.next))) for row in rows]
        return self.plus((rate, start), *steps)

    def price(self, row, low, high):
        """max of g(-v Delta) at the ends of a range of Delta"""
        v = self.sign * mpf(row.v)
        return max(g(-v * low), g(-v * high))

    def delta_at(self, row, e):
        """Y - clip(ŷ) for one e"""
        outcome = mpf(row.reward) + self.gamma * self.product(e, row.next)
        predicted = mpf(row.predicted) + self.gamma * self.product(e, row.kappa)
        return outcome - clip(predicted, mpf(row.clip[0]), mpf(row.clip[1]))

    def value_at(self, rate, start, rows, log, e):
        """( Λ·0 + sum v r + <e, μ> + log + sum g(-v Delta(e)) ) / Λ, signed: no valid end is below"""
        base = mp.fsum(mpf(row.v) * mpf(row.reward) for row in rows)
        signed = self.sign * (base + self.product(e, self.measure(rate, start, rows)))
        prices = [self.price(row, *[self.delta_at(row, e)] * 2) for row in rows]
        return (signed + log + mp.fsum(prices)) / mpf(rate)

    def apart(self, rate, start, rows, log):
        """The same with r |μ| for the bias and the worst Delta of every row over |Y - ŷ| <= |a| + gamma r |D|, wide clips"""
        base = mp.fsum(mpf(row.v) * mpf(row.reward) for row in rows)
        bias = self.radius * self.norm(self.measure(rate, start, rows))
        prices = []
        for row in rows:
            offset = mpf(row.reward) - mpf(row.predicted)
            size = abs(offset) + self.gamma * self.radius * self.norm(self.plus((1, row.next), (-1, row.kappa)))
            size = min(size, mpf(row.limits[1]) - mpf(row.limits[0]))
            prices.append(max(self.price(row, -size, -size), self.price(row, size, size)))
        return (self.sign * base + bias + log + mp.fsum(prices)) / mpf(rate)
