"""W is chosen on earlier rows, Q is stated, and the result says so."""

from dataclasses import replace

import numpy as np
import pytest

import bondic as b
import builders
from bondic.core.balls import Instruments, Provenance
from bondic.core.dual.noise import FixedLambda
from bondic.core.errors import InvalidInput, TunedOnCertifiedRows
from bondic.core.kernels.leaves import Dirac
from bondic.tuning.defaults import Choices
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import part, tabular

MDP = SyntheticMDP.default(gamma=0.6, termination=0.1)
QUICK = Choices(pairs=8)
"""Few features: the tests look at who saw what, not at tightness."""


def rollout(seed, rows=300):
    """Exactly `rows` rows, episodes of at most 10 steps."""
    found = MDP.rollout(rows // 2, 10, np.random.default_rng(seed))
    return {name: getattr(found, name)[:rows].copy() for name in builders.COLUMNS[:-1]}


def problem_of(columns, *, starts_from_log=False, **statements):
    # not inspected: most logs here are shuffled on purpose
    options = {"gamma": MDP.gamma, "reward_range": MDP.reward_range, "accept": None, **statements}
    log = b.Transitions(**columns)
    initial = b.InitialStates.exact(MDP.initial_states, MDP.initial_probs)
    initial = b.InitialStates.from_log(log) if starts_from_log else initial
    return b.make_problem(log, b.CallablePolicy(MDP.target_probs), initial, **options)


def with_other_rows(columns, start, stop, seed=99):
    """The same log with other observations, actions, rewards and next states in rows start..stop-1."""
    rng = np.random.default_rng(seed)
    out = {name: values.copy() for name, values in columns.items()}
    size = stop - start
    out["observations"][start:stop] = rng.uniform(-30, 30, (size, 1))
    out["next_observations"][start:stop] = rng.uniform(-30, 30, (size, 1))
    out["rewards"][start:stop] = rng.uniform(*MDP.reward_range, size)
    out["actions"][start:stop] = rng.integers(MDP.n_actions, size=size)
    return out


def chosen(result):
    """W and Q, with their kernels' numbers, as the certificate has them."""
    body, arrays = result.certificate.body["proof"], result.certificate.arrays

    def resolve(spec):
        if isinstance(spec, dict):
            if set(spec) == {"array"}:
                return np.asarray(arrays[spec["array"]]).tolist()
            return {key: resolve(value) for key, value in spec.items() if key != "log_hash"}
        return [resolve(item) for item in spec] if isinstance(spec, list) else spec

    return {"W": resolve(body["instruments"]), "Q": resolve(body["ball"])}


# ------------------------------------------------------------------------------------------- only earlier rows


@pytest.mark.parametrize("statements", [{}, {"horizon": 6, "gamma": 1.0}, {"starts_from_log": True}])
def test_certified_rows_tune_nothing(statements):
    """Any change of the certified rows leaves W, its scales and its features as they were."""
    columns = rollout(0)
    method = b.Dual(radius="paper", choices=QUICK, pilot=100)
    one = b.estimate_interval(problem_of(columns, **statements), method=method)
    other = b.estimate_interval(problem_of(with_other_rows(columns, 100, 300), **statements), method=method)
    assert one.hashes["log"] != other.hashes["log"]
    assert one.estimate != other.estimate
    assert one.rows == (100, 300)
    assert chosen(one)["W"] == chosen(other)["W"]
    for note in ("W", "W picked"):
        assert one.choices[note] == other.choices[note]
    # Q is an assumption and may look at every row
    assert chosen(one)["Q"] != chosen(other)["Q"]
    # the comparison can fail: one pilot row does change W and Q
    third = b.estimate_interval(problem_of(with_other_rows(columns, 99, 100), **statements), method=method)
    for name in ("W", "Q"):
        assert chosen(one)[name] != chosen(third)[name]


def test_without_a_pilot_w_does_not_know_whether_states_are_whole_numbers():
    """One certified state more or less: names or numbers for Q, the same W, unless the user said which columns hold names."""
    rng = np.random.default_rng(3)
    states, actions, rewards = rng.integers(0, 9, (200, 1)).astype(float), rng.normal(size=(200, 1)), rng.random(200)
    policy, initial = b.GaussianPolicy(lambda s: 0.0 * s, 0.2), b.InitialStates.exact([[0.0]])
    found = {}
    for first in (1.0, 0.5):
        changed = np.vstack([[[first]], states[1:]])
        log = b.Transitions(changed, actions, rewards, states, np.zeros(200, dtype=bool))
        problem = b.make_problem(log, policy, initial, gamma=0.5, reward_range=(0, 1))
        for categorical in (None, (0,)):
            method = b.Dual(radius="paper", pilot=0, choices=replace(QUICK, categorical=categorical))
            found[first, categorical] = chosen(b.estimate_interval(problem, method=method))
    assert found[1.0, None]["W"] == found[0.5, None]["W"]
    assert found[1.0, None]["Q"]["kernel"] != found[0.5, None]["Q"]["kernel"]
    assert found[1.0, (0,)]["W"] == found[0.5, (0,)]["W"] != found[1.0, None]["W"]


def test_pilot_rows_are_not_certified():
    """The mirror image: with W and Q given, changing pilot rows of an explicit selection changes no number."""
    columns = rollout(2)
    method = b.Dual(instruments=Instruments(b.Gaussian(0.7) * Dirac()), ball=b.Ball(b.Gaussian(1.0) * Dirac(), 5.0))
    one = b.estimate_interval(problem_of(columns).select(100), method=method)
    other = b.estimate_interval(problem_of(with_other_rows(columns, 0, 100)).select(100), method=method)
    assert one.terms() == other.terms()
    assert one.rows == other.rows == (100, 300)


# ------------------------------------------------------------------------------------------------- provenance


@pytest.mark.parametrize("rows", [(0, 300), (0, 1), (299, 300), (120, 130), (299, 400)])
def test_instruments_tuned_on_certified_rows_are_refused(rows):
    problem = problem_of(rollout(4))
    tuned = Instruments(b.Gaussian(0.7) * Dirac(), Provenance("bandwidth by eye", rows, problem.log_hash))
    why = rf"W was tuned on rows \({rows[0]}, {rows[1]}\).*certify rows \(0, 300\).*tune on earlier rows.*select"
    with pytest.raises(TunedOnCertifiedRows, match=why):
        b.estimate_interval(problem, method=b.Dual(instruments=tuned, radius=3.0))
    unknown = Instruments(tuned.kernel, Provenance("bandwidth by eye", rows))
    with pytest.raises(TunedOnCertifiedRows):
        b.estimate_interval(problem, method=b.Dual(instruments=unknown, radius=3.0))


# ---------------------------------------------------------------------------------------------------- pilot rows


@pytest.mark.parametrize(
    ("pilot", "certified"),
    [(0.2, 60), (0.5, 150), (0.0, 0), (0, 0), (0.05, 0), (19, 0), (20, 20), (100, 100), (299, 299)],
)
def test_pilot_as_share_or_number(pilot, certified):
    """A float is a share, an int a number of rows; fewer than 20 rows are no pilot, and every row is certified."""
    result = b.estimate_interval(problem_of(rollout(6)), method=b.Dual(pilot=pilot, choices=QUICK, radius=5.0))
    assert result.rows == (certified, 300)
    assert f"rows {certified}..299 are certified" in result.choices["pilot"]
    assert (result.proof.instruments.provenance.rows is None) == (certified == 0)


def test_a_pilot_of_a_log_that_may_stop_any_time():
    """Its end is fixed beforehand: a share of the planned rows, or a number; never a share of what came."""
    method = b.Dual(choices=QUICK, radius=5.0, planned_rows=200, pilot=0.5)
    for rows in (300, 150):
        assert b.estimate_interval(problem_of(rollout(6, rows)), method=method).rows == (100, rows)
    with pytest.raises(InvalidInput, match="within its pilot of 100 rows"):
        b.estimate_interval(problem_of(rollout(6, 90)), method=method)
    with pytest.raises(InvalidInput, match="pilot= as a whole number"):
        b.estimate_interval(problem_of(rollout(6)), method=b.Dual(radius=5.0, choices=QUICK, gauge=FixedLambda(0.1)))
    own = b.Dual(radius=5.0, choices=QUICK, gauge=FixedLambda(0.1), pilot=50)
    assert b.estimate_interval(problem_of(rollout(6)), method=own).rows == (50, 300)


# --------------------------------------------------------------------------------------------------------- radius


def test_w_does_not_know_how_long_a_stopped_log_became():
    """Under a fixed lambda n may be a stopping time: W must be the same for every n."""
    mdp, log, policy, initial = tabular(2000, gamma=0.9)
    picked = set()
    for rows in (1100, 1500, 2000):
        problem = b.make_problem(
            part(log, slice(rows)), policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range
        )
        result = b.estimate_interval(problem, method=b.Dual(gauge=FixedLambda(0.05), pilot=1000, radius=5.0))
        picked.add(result.choices["W picked"] + repr(result.proof.instruments.kernel))
    assert len(picked) == 1
