"""Claims: an end point is the outward sum of its parts; `conclude` is the one way from claims to an interval."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bondic.core.bounded import Enclosure
from bondic.core.claims import Claim, Part, Status, conclude, ends_of
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.terms import ValueRange

RANGE = ValueRange(-2.0, 3.0)

numbers = st.floats(-1e12, 1e12, allow_subnormal=True)
sizes = st.floats(0.0, 1e12)
errors = st.one_of(st.just(0.0), st.floats(0.0, 1e-3))
end = st.sampled_from(["lower", "upper"])


@st.composite
def claims(draw):
    values = draw(st.lists(st.builds(Enclosure, numbers, errors), min_size=1, max_size=3))
    spreads = draw(st.lists(st.builds(Enclosure, sizes, errors), max_size=5))
    details = draw(st.lists(st.builds(Enclosure, numbers, errors), max_size=2))
    named = [(f"{role} {k}", size, role) for role, found in
             (("value", values), ("spread", spreads), ("detail", details)) for k, size in enumerate(found)]  # fmt: skip
    return Claim(draw(end), tuple(Part(*part) for part in named), draw(st.booleans()))


def at(which, bound, *, uses_log=True):
    """A claim whose bound is this number, up to the step outward."""
    return Claim(which, (Part("value", Enclosure(bound), "value"),), uses_log)


@given(claims())
def test_a_bound_is_outward_of_the_exact_sum(claim):
    """Whatever numbers the enclosures stand for: the worst of them is still inside."""
    sign = 1 if claim.end == "upper" else -1
    exact = sum(Fraction(part.size.mid) + sign * Fraction(part.size.rad) for part in claim.of("value"))
    exact += sign * sum(Fraction(part.size.mid) + Fraction(part.size.rad) for part in claim.of("spread"))
    assert sign * Fraction(claim.bound) > sign * exact
    middle = sum(Fraction(part.size.mid) for part in claim.of("value"))
    middle += sign * sum(Fraction(part.size.mid) for part in claim.of("spread"))
    assert abs(Fraction(claim.bound) - middle) <= 2 * Fraction(claim.rounding)
    # and hardly further out than it must be
    size = sum(abs(Fraction(part.size.mid)) for part in claim.parts)
    assert sign * (Fraction(claim.bound) - exact) <= size * Fraction(1, 2**45) + Fraction(1, 2**900) + sum(
        Fraction(part.size.rad) for part in claim.parts
    ) * Fraction(1, 2**40)


@given(claims())
def test_what_is_shown_adds_up(claim):
    table = claim.table()
    assert list(table) == [part.name for part in claim.parts if part.role != "detail"] + ["rounding", "end point"]
    assert table["end point"] == claim.bound
    assert all(size >= 0 for size in claim.steps().values())
    shown = claim.value.mid + claim.sign * sum(claim.steps().values())
    size = sum(abs(part.size.mid) + part.size.rad for part in claim.parts)
    assert claim.sign * (shown - claim.bound) >= -1e-12 * size  # spreads are shown by their upper bounds
    assert claim[claim.parts[-1].name] == claim.parts[-1].size


@given(claims(), sizes)
def test_a_further_spread_never_tightens(claim, size):
    wider = replace(claim, parts=(*claim.parts, Part("more", Enclosure(size), "spread")))
    assert claim.gain(wider) >= 0
    assert wider.gain(claim) <= 0
    assert replace(claim, parts=(*claim.parts, Part("more", Enclosure(size), "detail"))).bound == claim.bound


def test_parts_are_what_they_are_called():
    with pytest.raises(NumericalError, match="'noise' of an end point is negative"):
        Part("noise", Enclosure(-1.0, 0.5), "spread")
    assert Part("noise", Enclosure(-1e-9, 1e-8), "spread").size.mid < 0  # 0 up to its own error
    with pytest.raises(AssertionError, match="two parts of one name"):
        Claim("lower", (Part("a", Enclosure(1.0), "value"), Part("a", Enclosure(1.0), "spread")))
    with pytest.raises(KeyError):
        Claim("lower", (Part("a", Enclosure(1.0), "value"),))["b"]
    assert Part("none", Enclosure(0.0, 1e-300), "spread").shown == 0.0
    assert (ends_of("both"), ends_of("lower"), ends_of("upper")) == (("lower", "upper"), ("lower",), ("upper",))
    with pytest.raises(InvalidInput, match="side='middle'"):
        ends_of("middle")


ends_inside = st.floats(-4.0, 5.0)


@given(ends_inside, ends_inside, st.booleans(), st.sampled_from(["both", "lower", "upper"]))
def test_conclude_cuts_to_the_range(low, high, rejected, side):
    both = (at("lower", low), at("upper", high))
    found = conclude(RANGE, both, rejected, side)
    asked = {"both": both, "lower": both[:1], "upper": both[1:]}[side]
    assert found == conclude(RANGE, asked, rejected, side)  # an end that is not asked for says nothing
    wanted_low = max([RANGE.low, *(claim.bound for claim in asked if claim.end == "lower")])
    wanted_high = min([RANGE.high, *(claim.bound for claim in asked if claim.end == "upper")])
    if rejected or wanted_low > wanted_high:
        assert (found.low, found.high, found.status) == (RANGE.low, RANGE.high, Status.REJECTED)
        return
    assert (found.low, found.high) == (wanted_low, wanted_high)
    moved = wanted_low > RANGE.low or wanted_high < RANGE.high
    assert found.status is (Status.INTERVAL if moved else Status.TRIVIAL)


@given(ends_inside, ends_inside)
def test_an_end_without_the_log_is_the_end_of_the_range(low, high):
    """It may still contradict the other end; it is never reported."""
    idle, used = at("lower", low, uses_log=False), at("upper", high)
    found = conclude(RANGE, (idle, used), False, "both")
    if max(RANGE.low, idle.bound) > min(RANGE.high, used.bound):
        assert found.status is Status.REJECTED
    else:
        assert (found.low, found.high) == (RANGE.low, min(RANGE.high, used.bound))
    alone = conclude(RANGE, (idle,), False, "both")
    assert (alone.low, alone.high) == (RANGE.low, RANGE.high)
    assert alone.status is (Status.REJECTED if idle.bound > RANGE.high else Status.TRIVIAL)


@pytest.mark.parametrize(("which", "beyond"), [("lower", 3.5), ("upper", -2.5)])
def test_an_empty_intersection_rejects(which, beyond):
    for side in ("both", which):
        assert conclude(RANGE, (at(which, beyond),), False, side).status is Status.REJECTED
    crossing = (at("lower", 1.0), at("upper", 0.0))
    assert conclude(RANGE, crossing, False, "both").status is Status.REJECTED
    assert conclude(RANGE, (), False, "both").status is Status.TRIVIAL


@given(st.permutations([at("lower", -1.0), at("lower", 0.5), at("lower", 2.0, uses_log=False), at("upper", 2.5)]))
def test_of_several_claims_the_tightest_counts(order):
    found = conclude(RANGE, order, False, "both")
    assert (found.low, found.high) == (at("lower", 0.5).bound, at("upper", 2.5).bound)
