"""What every kernel leaf has to do. A subclass names examples with their formula in 50 digits and inherits the tests:

class TestMine(LeafCase):
    examples = (Example(Mine(0.7), lambda x, y: ...),)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mpf

import naive
from bondic.core.codec import Encoder, decode
from bondic.core.kernels.base import FeatureLeaf, Leaf
from bondic.core.registry import registered


def linear_twin(center, scales):
    def twin(x, y):
        c, h = naive.vector(center), naive.vector(scales)
        parts = zip(naive.vector(x), naive.vector(y), c, h, strict=True)
        return sum(((a - m) * (b - m) / (s * s) for a, b, m, s in parts), mpf(0))

    return twin


def waves(x):
    return np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 1]), x[:, 0] * x[:, 1] / (1 + (x * x).sum(axis=1))])


def dot_twin(x, y):
    """The floats a feature function returns are its features: only their inner product is left to check."""
    return sum((mpf(float(a)) * mpf(float(b)) for a, b in zip(x, y, strict=True)), mpf(0))


FREQUENCIES = np.random.default_rng(5).normal(size=(6, 2))
EMBEDDING = np.array([[1.0, 0.25], [-0.5, 2.0], [0.1, 0.1], [0.0, 1.0]])


def sample(domain, rng):
    """Points that strain a formula: equal, almost equal, shifted by 1e8, far apart, tiny."""
    if domain == "actions":
        return np.array([[0.0], [1.0], [2.0], [3.0]])
    if domain == "times":
        return np.array([[0.0], [2.0], [3.0], [4.0]])
    near = rng.normal(size=(7, 2))
    if domain == "near":
        return near
    close = near[:1] + np.array([[1e-9, -1e-12]])
    return np.vstack([near, close, 1e8 + near[:3], [[0.0, 0.0], [-0.0, 0.0], [1e-170, 5e-324], [3e12, -3e12]]])


@dataclass(frozen=True)
class Example:
    """A leaf, the same formula in 50 digits, and the points that it is tried on."""

    leaf: Any
    twin: Any
    domain: str = "plane"


class LeafCase:
    """Laws of a leaf."""

    examples: tuple[Example, ...] = ()
    functions: dict[str, Any] = {}  # noqa: RUF012
    """What whoever reads a certificate supplies."""

    def test_values_diagonal_and_supremum_are_as_declared(self, rng):
        for example in self.examples:
            leaf, x = example.leaf, sample(example.domain, rng)
            values, diagonal, error = leaf.block(x, x), leaf.diag(x), leaf.value_error(x, x)
            assert values.shape == (len(x), len(x))
            assert diagonal.shape == (len(x),)
            largest = mpf(leaf.max_abs(x, x))
            for i in range(len(x)):
                for j in range(i + 1):
                    exact = example.twin(x[i], x[j])
                    assert abs(mpf(values[i, j]) - exact) <= mpf(error)
                    assert abs(mpf(values[j, i]) - exact) <= mpf(error)
                    assert abs(exact) <= largest
                assert abs(mpf(diagonal[i]) - exact) <= mpf(error)
                assert exact <= mpf(leaf.sup_diag)  # K_max is an upper bound, not a float near one

    def test_it_is_symmetric_and_positive_semidefinite(self, rng):
        for example in self.examples:
            x = self._near(example, rng)
            values = example.leaf.block(x, x)
            # a product of matrices may sum an entry and its mirror image in different orders
            apart = 2 * example.leaf.value_error(x, x) if isinstance(example.leaf, FeatureLeaf) else 0.0
            assert np.abs(values - values.T).max() <= apart
            assert np.linalg.eigvalsh(values)[0] >= -1e-13 * max(1.0, float(np.abs(values).max())) * len(x)

    def test_features_are_the_kernel(self, rng):
        for example in self.examples:
            if isinstance(example.leaf, FeatureLeaf):
                x = self._near(example, rng)
                phi = example.leaf.features(x)
                np.testing.assert_allclose(phi @ phi.T, example.leaf.block(x, x), rtol=1e-12, atol=1e-13)
                assert example.leaf.feature_error(x) >= 0

    def test_it_is_data_under_a_name(self, rng):
        for example in self.examples:
            leaf, x, encoder = example.leaf, self._near(example, rng), Encoder()
            data = encoder.encode(leaf, "k")
            assert registered(type(leaf)) == ("kernel", data["kernel"])
            again = decode(Leaf, data, encoder.arrays, "k", functions=self.functions)
            assert np.array_equal(again.block(x, x), leaf.block(x, x))
            assert again.sup_diag == leaf.sup_diag
            assert repr(again) == repr(leaf)

    def test_its_words_tell_it_from_others(self):
        words = [repr(example.leaf) for example in self.examples]
        assert len(set(words)) == len(words) > 0
        assert all(
            text.startswith(type(example.leaf).__name__) for text, example in zip(words, self.examples, strict=True)
        )

    @staticmethod
    def _near(example, rng):
        return sample("near" if example.domain == "plane" else example.domain, rng)
