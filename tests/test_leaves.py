"""Every leaf of the library keeps the laws of leaves."""

import numpy as np
import pytest
from mpmath import mpf

import bondic
import naive
from bondic.core.codec import Encoder, decode
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Leaf
from bondic.core.kernels.features import ExplicitFeatures, Linear, RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac, TimeMask
from bondic.core.kernels.series import GaussianSeries
from bondic.core.registry import from_outside, lookup, names
from conformance_kernels import EMBEDDING, FREQUENCIES, Example, LeafCase, dot_twin, linear_twin, series_twin, waves


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


class TestGaussianSeries(LeafCase):
    examples = tuple(
        Example(
            GaussianSeries(h, degree, center),
            lambda x, y, h=h, degree=degree, center=center: series_twin(x, y, h, degree, center),
        )
        for h, degree, center in ((1.3, 6, 0.0), ([0.5, 2.0], 9, [0.25, -1.0]), (40.0, 1, 0.0))
    )


def test_every_leaf_has_its_case():
    ours = {lookup("kernel", name) for name in names("kernel") if issubclass(lookup("kernel", name), Leaf)}
    cases = [cls for cls in LeafCase.__subclasses__() if cls.__module__ == __name__]
    tried = {type(example.leaf) for case in cases for example in case.examples}
    assert tried == {leaf for leaf in ours if leaf.__module__.startswith("bondic.")}
    assert not any(from_outside(example.leaf) for case in cases for example in case.examples)
