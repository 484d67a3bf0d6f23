"""Networks as policies: numpy only, a slow twin, files, and the ones that ship with their values."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from math import exp, tanh

import numpy as np
import pytest

from bondic_lab.worlds.mlp import MLPPolicy
from bondic_lab.worlds.shipped import ENVIRONMENTS, STAGES, ground_truth, shipped_policy

SHIPPED = [(name, stage) for name in ENVIRONMENTS for stage in STAGES]
shipped = pytest.mark.parametrize(("name", "stage"), SHIPPED, ids=lambda part: part)


def random_policy(rng: np.random.Generator, sizes: tuple[int, ...] = (3, 5, 4, 2), **settings: float) -> MLPPolicy:
    shapes = [(b, a) for a, b in pairwise(sizes)]
    weights = tuple(rng.standard_normal(shape) for shape in shapes)
    return MLPPolicy(weights, tuple(rng.standard_normal(b) for b, _ in shapes), **settings)


def slow_probs(policy: MLPPolicy, state: list[float]) -> list[float]:
    """Neuron by neuron."""
    values = list(state)
    depth = len(policy.weights)
    for layer in range(depth):
        weight, bias = policy.weights[layer].tolist(), policy.biases[layer].tolist()
        sums = [sum(w * v for w, v in zip(row, values, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
        values = sums if layer == depth - 1 else [tanh(s) for s in sums]
    odds = [exp(v / policy.temperature) for v in values]
    return [o / sum(odds) for o in odds]


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("sizes", [(3, 5, 4, 2), (1, 2), (4, 8, 3)])
def test_by_the_slow_definition(sizes, temperature, rng):
    policy = random_policy(rng, sizes, temperature=temperature)
    states = rng.standard_normal((20, sizes[0]))
    expected = [slow_probs(policy, state) for state in states.tolist()]
    np.testing.assert_allclose(policy.action_probs(states), expected, rtol=1e-10, atol=1e-15)


# --- what ships ---------------------------------------------------------------------------------------


@shipped
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_stored_values_agree_with_a_fresh_simulation(name, stage, temperature):
    """Independent episodes; the difference of two means is within 4 standard errors of both together."""
    dynamics, truth = ENVIRONMENTS[name](), ground_truth(name, stage, temperature)
    assert truth.gamma == dynamics.gamma
    assert truth.truncation_bias <= 1e-4
    episodes = 60 if name == "glucose" else 300
    length = 120  # what is cut is worth 0.95^120 · 20 = 0.04 at most; the margin has it
    sums = dynamics.returns(
        shipped_policy(name, stage, temperature).action_probs, episodes, length, rng=np.random.default_rng(1)
    )
    error = np.hypot(sums.std() / np.sqrt(len(sums)), truth.standard_error)
    assert abs(sums.mean() - truth.value) <= 4 * error + dynamics.truncation_bias(length)


def test_neither_torch_nor_gymnasium_is_needed():
    """Both are made unimportable, then every environment and policy is used."""
    code = (
        "import sys\n"
        "for name in ('torch', 'gymnasium', 'stable_baselines3', 'mujoco'): sys.modules[name] = None\n"
        "import numpy as np\n"
        "from bondic_lab.worlds.shipped import ENVIRONMENTS, shipped_policy\n"
        "for name, kind in ENVIRONMENTS.items():\n"
        "    kind().rollout(shipped_policy(name).action_probs, 2, 2, rng=np.random.default_rng(0))\n"
        "try:\n"
        "    import bondic_lab.worlds.gym\n"
        "except ImportError as problem:\n"
        "    print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bondic[train]" in done.stdout
