"""Kernels: every leaf keeps the laws of leaves; counted errors; sums and products against their 50-digit twin."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
import naive
from bondic.core.balls import Instruments
from bondic.core.bounded import U
from bondic.core.codec import Encoder, decode
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.kernels import base
from bondic.core.kernels.base import NUMPY_ULP, FeatureLeaf, Leaf
from bondic.core.kernels.features import ExplicitFeatures, Linear, RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac, TimeMask
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.registry import from_outside, lookup, names
from conformance_kernels import EMBEDDING, FREQUENCIES, Example, LeafCase, dot_twin, linear_twin, waves

# What the formulas cost in roundings, counted here once more; `declared` may be larger, never smaller.
# d dimensions; a relative error e of the exponent D moves exp(-D) by at most e / (exp(1) (1 - e)).
COUNTED = {
    "gaussian": lambda d: (d + 4) / math.e + NUMPY_ULP,
    "laplace": lambda d: (d + 1) / math.e + NUMPY_ULP,
    "matern 0.5": lambda d: ((d + 4) / 2 + 3) / math.e + NUMPY_ULP,
    "matern 1.5": lambda d: ((d + 4) / 2 + 3) * 4 / math.e**2 + NUMPY_ULP + 2,
    "matern 2.5": lambda d: ((d + 4) / 2 + 3) * 0.6045 + NUMPY_ULP + 5,
}


@pytest.mark.parametrize("dimension", [1, 2, 7, 40])
@pytest.mark.parametrize("name", COUNTED)
def test_declared_errors_cover_the_count(name, dimension):
    kernel = {
        "gaussian": bondic.Gaussian(1.0),
        "laplace": bondic.Laplace(1.0),
        "matern 0.5": bondic.Matern(1.0, 0.5),
        "matern 1.5": bondic.Matern(1.0, 1.5),
        "matern 2.5": bondic.Matern(1.0, 2.5),
    }[name]
    x = np.zeros((1, dimension))
    counted = COUNTED[name](dimension) * U
    assert counted <= kernel.value_error(x, x) <= 2.5 * counted


def test_elementary_functions_are_as_good_as_trusted(rng):
    """numpy's exp, cos and sin against 50 digits, in the units in which the error bounds charge them."""
    base.check_elementary_functions()
    x = -np.concatenate([rng.uniform(0, 745, 1500), np.exp(rng.uniform(-30, 5, 1000))])
    exact = [mp.exp(mpf(float(v))) for v in x]
    worst = max(
        float(abs(mpf(float(a)) - b) / b) for a, b in zip(np.exp(x[x > -708]), np.array(exact)[x > -708], strict=True)
    )
    assert worst <= NUMPY_ULP * U
    angles = np.concatenate(
        [rng.uniform(-10, 10, 500), np.exp(rng.uniform(0, 35, 1000)), np.pi / 2 * np.arange(-50, 50)]
    )
    for fast, slow in ((np.cos, mp.cos), (np.sin, mp.sin)):
        worst = max(float(abs(mpf(float(a)) - slow(mpf(float(v))))) for a, v in zip(fast(angles), angles, strict=True))
        assert worst <= NUMPY_ULP * U


@pytest.mark.parametrize("name", ["exp", "cos", "sin"])
def test_an_inaccurate_function_stops_everything(monkeypatch, name):
    """The start-up check must see an error of 5 units of 2^-53."""
    good = getattr(np, name)
    monkeypatch.setattr(base.np, name, lambda x: good(x) * (1 + 6 * U))
    with pytest.raises(NumericalError, match=name):
        base.check_elementary_functions.__wrapped__()


# --------------------------------------------------------------------------------------- sums and products


DISCRETE = Layout(observation_dim=2, has_time=True, action_dim=0, slots=4)
CONTINUOUS = Layout(observation_dim=2, has_time=True, action_dim=1, slots=1)


def parts_of(layout, z, slot):
    """Vector parts of a point for the twins."""
    observation, time = z[:2], z[2:3]
    action = [slot] if layout.discrete else z[3:]
    state = z[:3]
    return {"observation": observation, "time": time, "action": action, "state": state, "point": z}


def leaf_pool(layout):
    """(library leaf, twin on parts) for random expressions."""

    def on(part, twin):
        return lambda p, q: twin(p[part], q[part])

    pool = [
        (bondic.Gaussian([0.8, 1.7]), on("observation", lambda x, y: naive.gaussian(x, y, [0.8, 1.7]))),
        (bondic.Laplace(1.3, on="state"), on("state", lambda x, y: naive.laplace(x, y, 1.3))),
        (bondic.Matern(2.0, 1.5, on="time"), on("time", lambda x, y: naive.matern(x, y, 2.0, 1.5))),
        (TimeMask(3), on("time", lambda x, y: mpf(int(x[0] < 3 and y[0] < 3)))),
        (Constant(0.7), lambda p, q: mpf(0.7)),  # noqa: ARG005
        (RandomFeatures(FREQUENCIES), on("observation", lambda x, y: naive.random_feature(x, y, FREQUENCIES))),
        (Linear(center=0.5), on("observation", linear_twin([0.5, 0.5], [1.0, 1.0]))),
        (Dirac(on="time"), on("time", naive.dirac)),
        (Dirac(), on("action", naive.dirac)),
    ]
    if layout.discrete:
        pool.append((ActionEmbedding(EMBEDDING), on("action", lambda a, b: dot_twin(EMBEDDING[a[0]], EMBEDDING[b[0]]))))
    else:
        pool.append((bondic.Gaussian(0.5, on="action"), on("action", lambda x, y: naive.gaussian(x, y, 0.5))))
        pool.append((bondic.Gaussian(2.0, on="point"), on("point", lambda x, y: naive.gaussian(x, y, 2.0))))
    return pool


def random_expression(pool, rng, depth):
    if depth == 0 or rng.random() < 0.25:
        return pool[rng.integers(len(pool))]
    choice = rng.integers(3)
    left, twin = random_expression(pool, rng, depth - 1)
    if choice == 0:
        factor = float(rng.uniform(0.1, 3))
        return factor * left, lambda p, q: mpf(factor) * twin(p, q)
    right, other = random_expression(pool, rng, depth - 1)
    if choice == 1:
        return left + right, lambda p, q: twin(p, q) + other(p, q)
    return left * right, lambda p, q: twin(p, q) * other(p, q)


def direct(terms, z, y, a, b):
    """The kernel value that a normal form stands for, and the error it declares."""
    total, error = 0.0, 0.0
    for term in terms:
        inner = float(term.embedding[a] @ term.embedding[b])
        size, value_error = term.bounds(z, y)
        assert abs(term.block(z, y)).max() <= size * (1 + 1e-9)
        total += float(term.block(z, y)[0, 0]) * inner
        sizes = float(np.linalg.norm(term.embedding[a]) * np.linalg.norm(term.embedding[b]))
        error += (value_error + 20 * U * size) * sizes
    return total, error * (1 + 1e-9)


@pytest.mark.parametrize("layout", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("seed", range(12))
def test_normal_form_is_the_same_kernel(layout, seed):
    rng = np.random.default_rng(seed)
    kernel, twin = random_expression(leaf_pool(layout), rng, 4)
    terms = normal_form(kernel, layout)
    z = np.hstack([rng.normal(size=(5, 2)), rng.integers(0, 4, size=(5, 1)), rng.normal(size=(5, layout.action_dim))])
    z[1] = z[0]
    z[2, :2] = z[0, :2]
    for i, j in [(0, 1), (0, 2), (2, 3), (3, 4), (4, 4)]:
        a, b = (int(s) for s in rng.integers(0, layout.slots, 2))
        for second in {a, b}:
            exact = twin(parts_of(layout, z[i], a), parts_of(layout, z[j], second))
            ours, error = direct(terms, z[i : i + 1], z[j : j + 1], a, second)
            assert abs(mpf(ours) - exact) <= error
        exact = twin(parts_of(layout, z[i], a), parts_of(layout, z[i], a))
        diagonal = sum(float(t.diag(z[i : i + 1])[0] * (t.embedding[a] @ t.embedding[a])) for t in terms)
        assert abs(mpf(diagonal) - exact) <= mpf(10) ** -12 * (1 + abs(exact))
        assert exact <= mpf(kernel.sup_diag) * (1 + mpf(64 * U))


def test_action_embedding_from_similarities():
    gram = np.exp(-0.5 * (np.arange(4)[:, None] - np.arange(4)[None, :]) ** 2)
    leaf = ActionEmbedding.from_gram(gram)
    assert np.allclose(leaf.embedding @ leaf.embedding.T, gram, atol=1e-14)
    assert leaf.sup_diag >= 1.0 - 1e-14
    with pytest.raises(InvalidInput, match="semi-definite"):
        ActionEmbedding.from_gram([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InvalidInput, match="symmetric"):
        ActionEmbedding.from_gram([[1.0, 0.5], [0.2, 1.0]])


def test_value_error_of_features_is_honest(rng):
    """With errors planted in the features, the inner products stay within what `value_error` says."""

    class Rough(FeatureLeaf):
        name, on, sup_diag = "rough", "observation", 1.0

        def features(self, x):
            return np.column_stack([np.cos(x[:, 0]), np.sin(x[:, 0])]) + 1e-6 * np.sign(x[:, :1])

        def feature_error(self, x):  # noqa: ARG002
            return 1e-6 * (1 + 1e-9)

        def parameters(self):
            return {}

    leaf, x = Rough(), rng.normal(size=(40, 1))
    exact = np.cos(x - x.T)
    observed = np.abs(leaf.block(x, x) - exact).max()
    assert 2.5e-6 < observed <= leaf.value_error(x, x)  # 2 sqrt(2) 1e-6 at worst


# -------------------------------------------------------------------------------------------- what is refused


def test_stated_suprema_are_checked():
    x = np.array([[3.0, 4.0]])
    with pytest.raises(InvalidInput, match="supremum"):
        Linear(supremum=24.0).max_abs(x, x)
    assert Linear(supremum=25.0).max_abs(x, x) >= 25.0
    with pytest.raises(InvalidInput, match="waves"):
        ExplicitFeatures(waves, 1e-3, "waves").block(x, x)
    assert Linear().sup_diag == math.inf
    with pytest.raises(InvalidInput, match="bounded on the diagonal"):
        Instruments(Linear() + Constant(1.0))


@pytest.mark.parametrize(
    "build",
    [
        lambda: bondic.Gaussian(0.0),
        lambda: bondic.Gaussian([1.0, -1.0]),
        lambda: bondic.Gaussian(math.nan),
        lambda: bondic.Gaussian(1.0, on="color"),
        lambda: bondic.Laplace(math.inf),
        lambda: bondic.Matern(1.0, 2.0),
        lambda: Constant(0.0),
        lambda: Constant(math.nan),
        lambda: -1.0 * bondic.Gaussian(1.0),
        lambda: 0.0 * bondic.Gaussian(1.0),
        lambda: math.inf * bondic.Gaussian(1.0),
        lambda: TimeMask(0),
        lambda: Linear(supremum=0.0),
        lambda: RandomFeatures([[math.nan]]),
        lambda: RandomFeatures.gaussian(0, 2, 1.0, seed=0),
        lambda: ActionEmbedding([[math.inf]]),
        lambda: normal_form(bondic.Gaussian(1.0, on="action"), DISCRETE),
        lambda: normal_form(ActionEmbedding(EMBEDDING), CONTINUOUS),
        lambda: normal_form(ActionEmbedding(EMBEDDING[:2]), DISCRETE),
        lambda: normal_form(TimeMask(2), Layout(2, False, 0, 2)),
        lambda: bondic.Gaussian([1.0, 2.0, 3.0]).block(np.zeros((1, 2)), np.zeros((1, 2))),
        lambda: RandomFeatures(FREQUENCIES).features(np.zeros((1, 3))),
    ],
)
def test_bad_kernels_are_refused(build):
    with pytest.raises(InvalidInput):
        build()


def test_far_points_do_not_poison_a_block():
    """A square that overflows, or a decay that underflows, is a kernel value of 0."""
    x, y = np.zeros((1, 1)), np.array([[1e5], [1e140]])
    for leaf in (bondic.Gaussian(1.0), bondic.Laplace(1.0), *(bondic.Matern(1.0, nu) for nu in (0.5, 1.5, 2.5))):
        assert np.all(leaf.block(x, y) == 0.0)


# --- Every leaf of the library keeps the laws of leaves.


class TestGaussian(LeafCase):
    examples = tuple(
        Example(bondic.Gaussian(h), lambda x, y, h=h: naive.gaussian(x, y, h)) for h in (0.7, [0.3, 5.0], 1e-9, 1e9)
    )


class TestLaplace(LeafCase):
    examples = tuple(Example(bondic.Laplace(h), lambda x, y, h=h: naive.laplace(x, y, h)) for h in (0.7, [3.0, 0.2]))


class TestMatern(LeafCase):
    examples = tuple(
        Example(bondic.Matern([0.5, 3.0], nu), lambda x, y, nu=nu: naive.matern(x, y, [0.5, 3.0], nu))
        for nu in (0.5, 1.5, 2.5)
    )


class TestConstant(LeafCase):
    examples = (Example(Constant(0.3), lambda x, y: naive.constant(x, y, 0.3)),)


class TestDirac(LeafCase):
    examples = (Example(Dirac(on="observation"), naive.dirac),)


class TestActionEmbedding(LeafCase):
    examples = (
        Example(
            ActionEmbedding(EMBEDDING),
            lambda x, y: dot_twin(EMBEDDING[int(x[0])], EMBEDDING[int(y[0])]),
            "actions",
        ),
    )


class TestTimeMask(LeafCase):
    examples = (Example(TimeMask(3), lambda x, y: mpf(int(x[0] < 3 and y[0] < 3)), "times"),)


class TestLinear(LeafCase):
    examples = (Example(Linear(bandwidth=[2.0, 0.3], center=[0.1, -5.0]), linear_twin([0.1, -5.0], [2.0, 0.3])),)


class TestExplicitFeatures(LeafCase):
    leaf, functions = ExplicitFeatures(waves, 3.0, "waves"), {"waves": waves}
    examples = (Example(leaf, lambda x, y: dot_twin(waves(np.array([x]))[0], waves(np.array([y]))[0]), "near"),)

    def test_its_function_is_asked_for(self):
        encoder = Encoder()
        data = encoder.encode(self.leaf, "k")
        with pytest.raises(InvalidInput, match="waves"):
            decode(Leaf, data, encoder.arrays, "k")


class TestRandomFeatures(LeafCase):
    drawn = np.random.default_rng(3).standard_normal((40, 2)) / [0.5, 2.0]
    examples = (
        Example(RandomFeatures(FREQUENCIES), lambda x, y: naive.random_feature(x, y, FREQUENCIES)),
        Example(RandomFeatures(FREQUENCIES, center=[0.5, 1e3]), lambda x, y: naive.random_feature(x, y, FREQUENCIES)),
        Example(
            RandomFeatures.gaussian(40, 2, [0.5, 2.0], seed=3),
            lambda x, y, drawn=drawn: naive.random_feature(x, y, drawn),
            "near",
        ),
    )


def test_every_leaf_has_its_case():
    ours = {lookup("kernel", name) for name in names("kernel") if issubclass(lookup("kernel", name), Leaf)}
    cases = [cls for cls in LeafCase.__subclasses__() if cls.__module__ == __name__]
    tried = {type(example.leaf) for case in cases for example in case.examples}
    assert tried == {leaf for leaf in ours if leaf.__module__.startswith("bondic.")}
    assert not any(from_outside(example.leaf) for case in cases for example in case.examples)
