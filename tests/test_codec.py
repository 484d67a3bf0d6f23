"""Everything that a certificate holds survives being written and read; everything else is refused with its place."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mpmath import mpf

import bondic
from bondic.core.balls import Box, Instruments, Provenance, ValueClass
from bondic.core.bounded import Enclosure, U
from bondic.core.codec import Encoder, Extended, Numbers, decode, first_difference, same
from bondic.core.dual.noise import FixedLambda, NoiseBound, Pinelis
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import ExpansionFunction, FeatureFunction, Function, KernelFunction, TermExpansion
from bondic.core.kernels.base import Kernel, Leaf, PointPart
from bondic.core.kernels.features import ExplicitFeatures, Linear, RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac, TimeMask
from bondic.core.kernels.normal_form import Layout
from bondic.core.proof import FloatArray
from bondic.core.registry import from_outside, lookup, names, register, registered
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import Terms
from bondic.engines.sums import STANDARD
from bondic.report.page import report_page
from bondic_lab.noise.plug_in import PlugIn
from conformance_kernels import Example, LeafCase

LAYOUT = Layout(2, has_time=False, action_dim=0, slots=2)


def waves(x: FloatArray) -> FloatArray:
    return np.cos(x)


def there_and_back(annotation: Any, value: Any, **supplies: Any) -> Any:
    encoder = Encoder()
    data = encoder.encode(value, "here")
    assert all(name.startswith("here") for name in encoder.arrays)
    return decode(annotation, data, encoder.arrays, "here", layout=LAYOUT, functions={"waves": waves}, **supplies)


# --- round trips ----------------------------------------------------------------------------------------

sizes = st.floats(1e-3, 1e3)
vectors = st.lists(sizes, min_size=2, max_size=2)
parts: st.SearchStrategy[PointPart] = st.sampled_from(["observation", "state", "point"])
centers = st.lists(st.floats(-9, 9), min_size=2, max_size=2)
LEAVES: dict[str, st.SearchStrategy[Leaf]] = {
    "gaussian": st.builds(bondic.Gaussian, sizes | vectors, parts),
    "laplace": st.builds(bondic.Laplace, sizes | vectors, parts),
    "matern": st.builds(bondic.Matern, sizes | vectors, st.sampled_from([0.5, 1.5, 2.5]), parts),
    "constant": st.builds(Constant, sizes),
    "dirac": st.builds(Dirac, st.sampled_from(["action", "state"])),
    "action-embedding": st.builds(ActionEmbedding, arrays(np.float64, (2, 3), elements=st.floats(-2, 2))),
    "time-mask": st.builds(TimeMask, st.integers(1, 10**6)),
    "linear": st.builds(Linear, sizes | st.just(math.inf), vectors, centers, parts),
    "explicit-features": st.builds(ExplicitFeatures, st.just(waves), sizes, st.just("waves"), parts),
    "random-features": st.builds(RandomFeatures, arrays(np.float64, (3, 2), elements=st.floats(-5, 5)), centers, parts),
}
leaves = st.one_of(*LEAVES.values())
kernels = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda c, a: c * a, sizes, inner),
    ),
    max_leaves=6,
)


def own(kind: str) -> set[str]:
    return {name for name in names(kind) if lookup(kind, name).__module__.startswith("bondic.")}


def test_every_leaf_is_tried():
    assert set(LEAVES) == own("kernel") - {"sum", "product", "scaled"}


@given(kernels)
@settings(max_examples=150, deadline=None)
def test_kernels_survive(kernel):
    again = there_and_back(Kernel, kernel)
    assert same(kernel, again)
    assert repr(kernel) == repr(again)


def numbers(*shape: int) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float64, shape, elements=st.floats(-1e6, 1e6))


FUNCTIONS = {
    "centers": st.builds(KernelFunction, st.just(bondic.Gaussian(1.0)), st.just(LAYOUT), numbers(3, 2), numbers(3, 2)),
    "features": st.builds(FeatureFunction, st.just(Linear() + Linear()), st.just(LAYOUT), numbers(4)),
    "expansion": st.builds(
        lambda one, two: ExpansionFunction(bondic.Gaussian(1.0) * Dirac() + bondic.Gaussian(2.0), LAYOUT, (one, two)),
        st.builds(TermExpansion, numbers(3, 2), numbers(3, 2)),
        st.builds(TermExpansion, numbers(1, 2), numbers(1, 1)),
    ),
}
GAUGES = {
    "fixed-lambda": st.builds(FixedLambda, st.floats(1e-6, 1e6)),
    "pinelis": st.builds(Pinelis, st.sampled_from(["half", "range", "paper"])),
}
provenances = st.builds(Provenance, st.text("abc ", max_size=9), st.none() | st.just((3, 9)), st.just("ab12"))
CLASSES = {
    "ball": st.builds(
        bondic.Ball, leaves, sizes, st.none() | st.one_of(*FUNCTIONS.values()), st.floats(0, 1), provenances
    ),
    "box": st.builds(Box, sizes, st.none() | st.one_of(*FUNCTIONS.values()), provenances),
}
TERMS = st.builds(
    Terms, st.floats(0, 1), st.tuples(sizes, sizes), st.booleans(), st.none() | st.integers(1, 99), st.booleans(),
    st.none() | st.tuples(sizes, sizes),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "base", "made"),
    [("function", Function, FUNCTIONS), ("noise", NoiseBound, GAUGES), ("class", ValueClass, CLASSES)],
)
def test_other_kinds_survive(kind, base, made):
    assert set(made) == own(kind)

    @given(st.one_of(*made.values()))
    @settings(max_examples=60, deadline=None)
    def check(value):
        assert same(value, there_and_back(base, value))

    check()


@given(
    TERMS,
    st.dictionaries(st.text("ab", min_size=1), sizes),
    st.builds(Instruments, leaves.filter(lambda leaf: leaf.sup_diag < math.inf), provenances),
)
@settings(max_examples=60, deadline=None)
def test_plain_dataclasses_survive(terms, budget, instruments):
    assert there_and_back(Terms, terms) == terms
    assert there_and_back(dict[str, float], budget) == budget
    assert same(there_and_back(Instruments, instruments), instruments)


# --- refusals -------------------------------------------------------------------------------------------


class Color(StrEnum):
    RED = "red as a rose"


@dataclass(frozen=True)
class Everything:
    number: float = 1.5
    count: int = 2
    flag: bool = True
    text: str = "t"
    maybe: float | None = None
    word: Literal["a", "b"] = "a"
    color: Color = Color.RED
    pair: tuple[int, float] = (1, 2.0)
    many: tuple[str, ...] = ("x", "y")
    named: dict[str, float] = field(default_factory=lambda: {"one": 1.0})
    open_end: Extended = math.inf
    vector: Numbers = field(default_factory=lambda: np.arange(3.0))
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.arange(2))
    kernel: Kernel = field(default_factory=lambda: Constant(1.0))
    leaf: Leaf = field(default_factory=Dirac)


WRONG = [
    ("number", "x", "number: a number is needed, not 'x'"),
    ("number", math.nan, "number: a number is needed, not nan"),
    ("number", math.inf, "number: a finite number is needed"),
    ("count", 2.0, "count: a whole number is needed, not 2.0"),
    ("flag", 1, "flag: true or false is needed, not 1"),
    ("text", 5, "text: text is needed, not 5"),
    ("maybe", "x", "maybe: a number is needed"),
    ("word", "c", "word: one of 'a', 'b' is needed, not 'c'"),
    ("color", "red as a rose", "color: a Color is needed"),
    ("pair", [1], "pair: a list of 2 is needed"),
    ("pair", [1.0, 2.0], r"pair\.0: a whole number is needed"),
    ("pair", {"0": 1}, "pair: a list is needed"),
    ("many", ["x", 1], r"many\.1: text is needed"),
    ("named", {"one": "1"}, r"named\.one: a number is needed"),
    ("open_end", math.nan, "open_end: a number is needed"),
    ("vector", [1.0, 2.0], "vector: an array is needed"),
    ("vector", {"array": "nothing"}, "vector: the name of an array"),
    ("vector", {"array": ["it.vector"]}, "vector: the name of an array"),
    ("vector", {"array": "it.rows"}, "vector: numbers of type float64 are needed, not 'int64'"),
    ("kernel", None, "kernel: a list of named values"),
    ("kernel", {"value": 1.0, "on": "time"}, "kernel: there is no kernel None; known are action-embedding, constant"),
    ("kernel", {"kernel": "magic"}, "kernel: there is no kernel 'magic'; known are action-embedding, constant"),
    ("kernel", {"kernel": ["constant"]}, r"kernel: there is no kernel \['constant'\]"),
    ("kernel", {"kernel": "constant", "on": "time"}, r"kernel\.value is missing"),
    ("kernel", {"kernel": "constant", "on": "time", "value": 1.0, "more": 1}, r"kernel\.more does not belong here"),
    ("kernel", {"kernel": "constant", "on": "moon", "value": 1.0}, r"kernel\.on: one of 'observation'"),
    (
        "kernel",
        {"kernel": "constant", "on": "time", "value": -1.0},
        "it.kernel: A constant kernel needs a positive value",
    ),
    ("kernel", {"kernel": "sum", "parts": []}, "it.kernel: A sum or product of kernels has no parts"),
    ("leaf", {"kernel": "sum", "parts": [{"kernel": "dirac", "on": "action"}]}, "leaf: a Leaf is needed, not 'Sum'"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_what_does_not_belong_is_refused_with_its_place(name, value, words):
    encoder = Encoder()
    data = encoder.encode(Everything(), "it")
    assert same(decode(Everything, data, encoder.arrays, "it"), Everything())
    with pytest.raises(VerificationError, match=words) as refused:
        decode(Everything, {**data, name: value}, encoder.arrays, "it")
    assert str(refused.value).startswith(f"it.{name}")
    assert str(refused.value).isprintable()
    lost = copy.deepcopy(data)
    del lost[name]
    with pytest.raises(VerificationError, match=rf"it\.{name} is missing"):
        decode(Everything, lost, encoder.arrays, "it")


def test_hostile_values_stay_short_and_printable():
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    for value in ("\x1b[2J" * 1000, deep, {"\u202e": 1}, "x" * 10**6):
        with pytest.raises(VerificationError) as refused:
            decode(float, value, {}, "place")
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 400
    with pytest.raises(VerificationError) as refused:
        decode(Terms, {"\x1b[2J": 1}, {}, "terms")
    assert str(refused.value).isprintable()


def test_what_is_supplied_is_not_written():
    encoder = Encoder()
    data = encoder.encode(ExplicitFeatures(waves, 2.0, "waves"), "k")
    assert "function" not in data
    with pytest.raises(InvalidInput, match=r"pass functions=\{'waves': f\}"):
        decode(Kernel, data, {}, "k")
    with pytest.raises(VerificationError, match="does not belong"):
        decode(Kernel, {**data, "function": "os.system"}, {}, "k", functions={"waves": waves})


# --- a kernel and a noise bound from outside ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CauchyFormula(Leaf):
    """k(x, y) = 1 / (1 + |(x - y) / h|^2)."""

    bandwidth: float
    on: PointPart = "observation"
    flaw: str = ""

    @property
    def sup_diag(self) -> float:
        return 0.5 if self.flaw == "supremum" else 1.0

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        differences = (x[:, None, :] - y[None, :, :]) / self.bandwidth
        squares = (differences * differences).sum(axis=2)
        if self.flaw == "asymmetric":
            squares = squares + np.maximum(differences[:, :, 0], 0.0)
        return 1.0 - squares if self.flaw == "indefinite" else 1.0 / (1.0 + squares)

    def diag(self, x: FloatArray) -> FloatArray:
        return np.full(x.shape[0], 1.1 if self.flaw == "diagonal" else 1.0)

    def value_error(self, x: FloatArray, y: FloatArray) -> float:
        return math.inf if self.flaw == "error" else (max(x.shape[1], y.shape[1]) + 6) * U

    def max_abs(self, x: FloatArray, y: FloatArray) -> float:
        return 1e3 if self.flaw == "indefinite" else float(x.shape[1] == y.shape[1])


@register("kernel", "test-cauchy")
@dataclass(frozen=True, eq=False)
class Cauchy(CauchyFormula):
    pass


def cauchy(x, y):
    return 1 / (1 + sum(((mpf(float(a)) - mpf(float(b))) / mpf(0.7)) ** 2 for a, b in zip(x, y, strict=True)))


class TestCauchy(LeafCase):
    examples = (Example(Cauchy(0.7), cauchy),)


def test_a_kernel_from_outside_is_certified_like_ours(tmp_path):
    log = bondic.load_demo().log
    data = {name: column[:400] for name, column in log.columns().items() if column is not None}
    log = bondic.Transitions(**data)
    problem = bondic.make_problem(
        log, bondic.UniformPolicy(2), bondic.InitialStates.exact(log.observations[:1]), gamma=0.5, reward_range=(0, 1)
    )
    kernel = Cauchy(1.0) * Dirac() + Constant(1.0)
    method = bondic.Dual(instruments=Instruments(kernel), ball=bondic.Ball(kernel, 3.0), gauge=PlugIn(1e-3))
    result = bondic.estimate_interval(problem, method=method)
    assert result.status is bondic.Status.INTERVAL
    bondic.save_certificate(result.certificate, tmp_path / "c")
    assert "Cauchy(" in report_page(result, problem, title="a kernel from outside")
    for sums in (STANDARD, REFERENCE):
        checked = bondic.verify(bondic.load_certificate(tmp_path / "c"), log, sums=sums)
        assert checked.low == pytest.approx(result.low, abs=1e-9)
        assert checked.headline[-1] == f"the kernel 'test-cauchy' of the module {__name__}"
        assert any("its formulas were run, whether they are true is not known" in gap for gap in checked.unchecked)


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ("asymmetric", r"block\(x, y\) is not block\(y, x\) transposed"),
        ("diagonal", "diag differs"),
        ("supremum", "exceeds sup_diag = 0.5"),
        ("error", "value_error is inf"),
        ("indefinite", "not positive semi-definite"),
    ],
)
def test_broken_promises_are_found_when_a_method_is_made(flaw, words):
    kernel = bondic.Gaussian(1.0) * Cauchy(1.0, flaw=flaw)
    for options in ({"ball": bondic.Ball(kernel, 1.0)}, {"instruments": Instruments(Constant(1.0) + kernel)}):
        with pytest.raises(InvalidInput, match=words):
            bondic.Dual(**options)
    with pytest.raises(InvalidInput, match=words):
        bondic.Sequential(ball=bondic.Ball(kernel, 1.0))


class Unregistered(bondic.Gaussian):
    """Looks like a leaf, has no name of its own."""


@register("kernel", "test-forgetful")
@dataclass(frozen=True, eq=False)
class Forgetful(CauchyFormula):
    hidden: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", object())


@register("kernel", "test-vague")
@dataclass(frozen=True, eq=False)
class Vague(CauchyFormula):
    setting: object = None


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Unregistered(1.0), r'not registered.*@register\("kernel", "a-name"\)'),
        (Forgetful(1.0), "not the same after"),
        (Vague(1.0), r"kernel\.setting: values of type <class 'object'> cannot be read"),
        (Cauchy(1.0, on="nowhere"), "acts on one of"),
        (Cauchy(np.ones(2)), "a number is needed"),
    ],
)
def test_leaves_that_no_certificate_can_hold_are_refused_by_methods(kernel, words):
    with pytest.raises(InvalidInput, match=words):
        bondic.Dual(instruments=Instruments(bondic.Gaussian(1.0) * kernel))


@register("noise", "test-doubled")
@dataclass(frozen=True)
class Doubled(NoiseBound):
    """Twice another bound: valid, and wide."""

    inner: NoiseBound = field(default_factory=Pinelis)
    flaw: str = ""
    guarantee = "finite-sample"

    def epsilon(self, facts, probability):
        wide = Enclosure(2.0) * self.inner.epsilon(facts, 1 - probability if self.flaw == "order" else probability)
        return Enclosure(math.inf) if self.flaw == "infinite" else wide

    def p_value(self, facts, epsilon):
        return self.inner.p_value(facts, epsilon if self.flaw == "level" else epsilon / 2)

    def describe(self):
        return f"twice the {self.inner.describe()}"


def test_noise_bounds_from_outside():
    assert same(there_and_back(NoiseBound, Doubled()), Doubled())
    assert bondic.Dual(gauge=Doubled()).gauge == Doubled()
    for flaw, words in (("order", "grow"), ("infinite", "finite"), ("level", "level")):
        with pytest.raises(InvalidInput, match=words):
            bondic.Dual(gauge=Doubled(flaw=flaw))

    class Nameless(Pinelis):
        pass

    with pytest.raises(InvalidInput, match="not registered"):
        bondic.Dual(gauge=Nameless())


# --- the registry ---------------------------------------------------------------------------------------


def test_names_are_given_once_and_to_the_right_kind():
    assert registered(bondic.Gaussian) == ("kernel", "gaussian")
    assert registered(Unregistered) is None
    assert from_outside(Cauchy(1.0))
    assert not from_outside(bondic.Gaussian(1.0))
    frozen = dataclass(frozen=True)
    for kind, name, cls, words in (
        ("kernel", "gaussian", Unregistered, "taken by bondic.core.kernels.leaves.Gaussian"),
        ("color", "red", Unregistered, "no kind 'color'; there are cells, class, control, function, kernel"),
        ("noise", "test-new", Unregistered, "is no NoiseBound"),
        ("kernel", "test-new", type("Loose", (Leaf,), {}), "must be a frozen dataclass"),
        ("kernel", "test-new", Unregistered, "is derived from Gaussian, and wherever .* computes with that formula"),
        (
            "kernel", "test-new", frozen(type("Mixed", (Leaf,), {"__annotations__": {"kernel": int}, "kernel": 1})),
            "called 'kernel'",
        ),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            register(kind, name)(cls)
    assert register("kernel", "test-vague")(Vague) is Vague  # a cell of a notebook that is run again
    assert "test-new" not in names("kernel")
    with pytest.raises(VerificationError, match="known are"):
        lookup("kernel", "test-new")


@dataclass(frozen=True)
class Several:
    share: float | int | None = None
    columns: bool | tuple[int, ...] | None = None
    gauge: str | NoiseBound = "half"
    ball: bondic.Ball | Box | None = None


@pytest.mark.parametrize(
    "value",
    [
        Several(),
        Several(share=5, columns=True, gauge=FixedLambda(0.5)),
        Several(share=0.5, columns=(0, 2)),
        Several(ball=bondic.Ball(bondic.Gaussian(1.0), 2.0)),
        Several(ball=Box(2.0)),
    ],
)
def test_a_field_of_several_types_comes_back_as_it_was(value):
    """5 rows are not a share of 5.0, and a box is no ball."""
    again = there_and_back(Several, value)
    assert same(again, value)
    assert type(again.share) is type(value.share)


def test_the_first_difference_is_named():
    first = {"a": (np.array([1.0, math.inf]), 2.0), "b": Several(share=0.5)}
    second = {"a": (np.array([1.0 + 1e-9, math.inf]), 2.0), "b": Several(share=0.5)}
    assert first_difference(first, second, "here", 1e-6) == ""
    assert first_difference(first, second, "here", 1e-12) == "here.a.0"
    for other, place in (
        ({**second, "b": Several(share=0.6)}, "here.b.share"),
        ({**second, "b": Several(share=0.5, gauge="range")}, "here.b.gauge"),
        ({**second, "a": (np.array([1.0, 1e300]), 2.0)}, "here.a.0"),
        ({**second, "a": (np.array([1.0]), 2.0)}, "here.a.0"),
        ({"a": second["a"]}, "here"),
    ):
        assert first_difference(first, other, "here", 1e-6) == place
    assert first_difference(np.array([10**9]), np.array([10**9 + 1]), "rows", 1e-6) == "rows"
    assert first_difference(np.zeros((0, 2)), np.zeros((0, 2)), "none", 1e-6) == ""
