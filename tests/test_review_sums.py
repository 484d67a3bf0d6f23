"""Attacks on the trusted core: sums over batches, draws, certificates that were changed."""

import copy

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
from bondic.core.certificate import Certificate, certify
from bondic.core.claims import conclude
from bondic.core.columns import RowRange
from bondic.core.errors import BondicError, InvalidInput, VerificationError
from bondic.core.verify import read_proof
from bondic.data.stream import ArrayStream
from bondic.engines.sums import STANDARD
from bondic.policies.protocol import CallableSampler
from bondic.rows.estimand import rebuild
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import columns as columns_of

MDP = SyntheticMDP.default(0.9, seed=1, dimension=2)
POLICY = bondic.CallablePolicy(MDP.target_probs)
START = bondic.InitialStates.exact(MDP.initial_states, MDP.initial_probs)
QUESTION = {"gamma": MDP.gamma, "reward_range": MDP.reward_range}


def columns(episodes=12, length=10, seed=7):
    data = MDP.rollout(episodes, length, np.random.default_rng(seed))
    return {name: np.array(getattr(data, name)) for name in data.__dataclass_fields__}


def forged(certificate, change):
    """The certificate with a changed body and a digest that fits it."""
    body = copy.deepcopy(certificate.body)
    change(body)
    return Certificate(body, certificate.arrays)


# Draws


def test_draws_at_initial_states_are_not_those_at_the_first_next_states():
    n = 30
    data = columns_of(n, action_dim=1)
    noise = CallableSampler(lambda states, rng: rng.standard_normal((len(states), 1)))
    start = bondic.InitialStates.exact(np.zeros((n, 2)))
    stream = ArrayStream(data, batch_rows=10)
    problem = bondic.make_problem(stream, noise, start, gamma=0.9, reward_range=(-1, 1), draws=4, initial_draws=4)
    following = np.concatenate([part.next_answers.ravel() for part in problem.batches()])
    everything = np.concatenate([problem.answers.initial.ravel(), following])
    assert np.unique(everything).size == everything.size


# A horizon far beyond every episode


# Certificates whose claims fit what was changed


def reclaimed(certificate, log, policy, change):
    """A forger's work: change the statements, then claim whatever follows from them."""
    draft = forged(certificate, change)
    rows = rebuild(draft.estimand, log, policy, None)
    proof = read_proof(draft, rows.first.layout)
    claims = proof.claims(rows, STANDARD)
    result = conclude(rows.limits, claims.ends, claims.rejected, proof.side)
    return certify(proof, claims, result, proof.assumptions(rows, rejected=result.status.name == "REJECTED"))


def put(*path, value):
    def change(body):
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    return change


@pytest.fixture(scope="module")
def certified():
    log = bondic.Transitions(**columns())
    return log, bondic.estimate_interval(bondic.make_problem(log, POLICY, START, **QUESTION)).certificate


@pytest.mark.parametrize(
    "change",
    [
        put("proof", "budget", "alpha", value=float("nan")),
        put("proof", "budget", "alpha", value=1.5),
        put("proof", "budget", "alpha", value=True),
        lambda body: (
            put("proof", "budget", "alpha", value=float("nan"))(body),
            put("proof", "budget", "parts", "noise", value=1.9)(body),
        ),
        put("proof", "estimand", "terms", "gamma", value=-0.5),
        put("proof", "estimand", "terms", "gamma", value=1.5),
        put("proof", "estimand", "terms", "horizon", value=1),
    ],
    ids=["alpha nan", "alpha 1.5", "alpha true", "nan and noise 1.9", "gamma -0.5", "gamma 1.5", "horizon untimed"],
)
def test_statements_that_no_problem_accepts_are_refused(certified, change):
    log, certificate = certified
    with pytest.raises(BondicError):
        bondic.verify(reclaimed(certificate, log, None, change), log)


def test_a_stochastic_policy_cannot_be_passed_off_as_deterministic():
    log = bondic.Transitions(**columns_of(60, action_dim=1))
    policy = CallableSampler(lambda states, rng: rng.standard_normal((len(states), 1)))
    start = bondic.InitialStates.exact(np.zeros((1, 2)))
    problem = bondic.make_problem(log, policy, start, gamma=0.5, reward_range=(-1, 1), initial_draws=1)
    certificate = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", pilot=0)).certificate
    bondic.verify(certificate, log, policy)
    with pytest.raises(VerificationError):
        bondic.verify(
            reclaimed(certificate, log, None, put("proof", "estimand", "policies", 0, "answers", "exact", value=True)),
            log,
            policy,
        )


# Parquet


def write(path, n, terminations, **more):
    """Rows whose terminal transitions have no next observation."""
    rng = np.random.default_rng(n)
    following = [None if end else list(rng.standard_normal(3)) for end in terminations]
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {
        "observations": pa.array(list(rng.standard_normal((n, 3)))),
        "actions": pa.array(rng.integers(0, 2, n)),
        "rewards": pa.array(rng.uniform(size=n)),
        "next_observations": pa.array(following, type=pa.list_(pa.float64())),
        "terminations": pa.array(terminations, type=pa.bool_()),
    }
    pq.write_table(pa.table(table | more), path)


@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_parts_of_terminal_rows_alone_can_be_read(tmp_path, batch_rows):
    write(tmp_path / "1.parquet", 5, [False, False, True, False, True])
    write(tmp_path / "2.parquet", 1, [True])
    stream = bondic.stream_log(tmp_path, batch_rows=batch_rows)
    assert stream.content_hash == bondic.stream_log(tmp_path, batch_rows=2).content_hash
    assert stream.read(RowRange(4, 5)).next_observations.shape == (1, 3)


def test_numbered_and_named_episodes_do_not_become_one(tmp_path):
    write(tmp_path / "episode_id=0" / "x.parquet", 4, [False] * 4)
    write(tmp_path / "episode_id=a" / "x.parquet", 5, [False] * 5)
    with pytest.raises(InvalidInput, match="episode"):
        bondic.stream_log(tmp_path, batch_rows=3)
