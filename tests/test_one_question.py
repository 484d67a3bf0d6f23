"""One log, one answer, whatever is asked: in memory, read in batches, or worked on elsewhere, the same bits.

`test_one_answer` is about single intervals of stated balls; here are the defaults and the questions about two policies.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from builders import Here

ROWS = 6000
RULES = """
import numpy as np

def right(states):
    high = (states[:, 0] > 0.2).astype(float)
    return np.column_stack([0.9 - 0.8 * high, 0.1 + 0.8 * high])

def left(states):
    low = (states[:, 0] < 0.5).astype(float)
    return np.column_stack([0.2 + 0.6 * low, 0.8 - 0.6 * low])

def right3(states):
    return np.column_stack([0.9 * right(states), np.full(len(states), 0.1)])

def left3(states):
    return np.column_stack([0.7 * left(states), np.full(len(states), 0.3)])
"""


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", 512)


def columns(kind):
    """Names: four states. Numbers, three: a smooth world, as many actions. Clicks: single decisions. Short: episodes of three."""
    rng = np.random.default_rng(4)
    steps = {"names": 20, "numbers": 50, "three": 50, "clicks": 1, "short": 3}[kind]
    at, action = np.arange(ROWS) % steps, rng.integers(3 if kind == "three" else 2, size=ROWS)
    if kind == "names":
        states = rng.integers(4, size=ROWS) / 4
        after = (states * 4 + action) % 4 / 4
    else:
        states, after = rng.uniform(-1, 1, (2, ROWS))
    going = at < steps - 1
    after[:-1] = np.where(going[:-1], states[1:], after[:-1])
    rewards = (rng.uniform(size=ROWS) < 0.4 + 0.2 * np.sin(2 * states) * (2 * action - 1)).astype(float)
    found = {"obs_0": states, "action": action, "reward": rewards}
    if kind in ("clicks", "short"):
        found["behavior_action_probs"] = np.full(ROWS, 0.5)
    if kind == "clicks":
        return found
    ends = {"short": {"terminated": ~going, "truncated": np.zeros(ROWS, bool)}}
    ends["names"] = ends["numbers"] = ends["three"] = {"terminated": np.zeros(ROWS, bool), "truncated": ~going}
    return found | {"next_obs_0": after, "episode_id": np.arange(ROWS) // steps, "timestep": at, **ends[kind]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    (folder / "rules.py").write_text(RULES)
    for kind in ("names", "numbers", "three", "clicks", "short"):
        pq.write_table(pa.table(columns(kind)), folder / f"{kind}.parquet", row_group_size=700)
    return folder


NUMBERS = b.Groups(allowance=(0.005, 0.1), count=4)
QUESTIONS = {
    "two policies on groups, three actions": ("three", {"against": "left3", "method": NUMBERS}),
    "a table": ("names", {}),
    "two policies on a table": ("names", {"against": "left"}),
    "a table by column": ("names", {"by": 0}),
    "groups": ("numbers", {"method": NUMBERS}),
    "two policies on groups": ("numbers", {"against": "left", "method": NUMBERS}),
    "groups without an allowance": ("numbers", {}),
    "the curve of a difference": ("numbers", {"against": "left", "method": b.Groups(count=4)}),
    "decisions": ("clicks", {}),
    "two policies on decisions": ("clicks", {"against": "left"}),
    "decisions against today": ("clicks", {"against": "today"}),
    "episodes": ("short", {}),
    "two policies on episodes": ("short", {"against": "left"}),
    "episodes against today": ("short", {"against": "today"}),
}  # fmt: skip


def answer(place, kind, how, asked):
    path, one_step = place / f"{kind}.parquet", kind == "clicks"
    if how == "in memory":
        log = b.read_log(path, one_step=one_step).transitions
    else:
        log = b.stream_log(path, one_step=one_step, batch_rows=how, executor=Here() if how == 777 else None)
    asked, start = dict(asked), None
    if kind in ("names", "numbers"):
        start, asked["may_terminate"] = b.InitialStates.exact([[0.0], [0.5]]), False
    if asked.get("against", "today") != "today":
        asked["against"] = b.load_policy(f"{place}/rules.py:{asked['against']}")
    policy = b.load_policy(f"{place}/rules.py:{'right3' if kind == 'three' else 'right'}")
    gamma = {"names": 0.5, "numbers": 0.8, "three": 0.8, "clicks": 0.0, "short": 0.5}[kind]
    found = b.evaluate_policy(log, policy, initial=start, gamma=gamma, reward_range=(0, 1), accept=None, **asked)
    line = [] if found.curve is None else [(point.low, point.high) for point in found.curve.line()]
    parts = [] if found.subgroups is None else [(part.low, part.high) for part in found.subgroups.results.values()]
    return found.low, found.high, repr(found.estimate), found.status, line, parts, str(found)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.filterwarnings("ignore::bondic.ValidityWarning")
def test_every_question_has_the_same_bits_however_the_log_is_read(place, name):
    kind, asked = QUESTIONS[name]
    first = answer(place, kind, "in memory", asked)
    for how in (300, 777, 5000):
        assert answer(place, kind, how, asked) == first, how
