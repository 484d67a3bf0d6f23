"""Parts of a log that are worked on elsewhere: what is sent, what comes back, what is kept. Here the other process is this one.

With real workers: test_cluster.py. Blocks are made short, so that small logs have several of them.
"""

import errno
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.bounds import elsewhere
from bondic.engines.products import Pairs
from bondic.errors import ExecutorError, InvalidInput, PolicyError
from bondic.executors import checkpoints, named, parcel
from bondic.executors.checkpoints import Checkpoints
from bondic.executors.here import Here
from bondic.executors.parcel import Parcel, pack
from bondic.executors.threads import Serial, Threads
from bondic.kernels.normal_form import Layout, normal_form
from bondic.policies.travel import PolicyFile, PolicyPickle
from bondic.rounding import upper_sum
from bondic.sums import elsewhere as sums_elsewhere
from bondic.sums.engine import Engine, enclose
from bondic.sums.forms import Sums
from bondic.sums.reference import Reference
from bondic.sums.spool import Direct, sum_blocks
from test_one_answer import EASY, KERNELS, columns, method

BLOCK = 128
RULES = """
import numpy as np

def soft(states):
    logits = np.stack([states[:, 0], -states[:, 0]], axis=1)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)

def other(states):
    return soft(-states)

class Drawn:
    def sample_action(self, states, rng):
        return 0.3 * states[:, :1] + 0.6 * rng.standard_normal((len(states), 1))

drawn = Drawn()
"""


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", BLOCK)


@pytest.fixture(autouse=True)
def nothing_known():
    """Every test stands for processes of its own."""
    elsewhere._received.cache_clear()
    elsewhere.receive_rows.cache_clear()


def write_log(folder, data, parts=3):
    """The log in so many Parquet parts."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(data["rewards"])), parts)):
        table = {}
        for name, column in data.items():
            flat = column[rows] if column.ndim == 1 else list(column[rows])
            table[name] = pa.array(flat)
        pq.write_table(pa.table(table), folder / f"part-{number}.parquet")
    return folder


@pytest.fixture
def place(tmp_path):
    (tmp_path / "rules.py").write_text(RULES)
    write_log(tmp_path / "log", columns())
    return tmp_path


def ask(place, *, policy="soft", log="log", **statements):
    data = columns()
    start = b.InitialStates.exact(data["observations"][:5])
    rows = b.stream_log(place / log, batch_rows=200)
    return b.make_problem(rows, b.load_policy(f"{place}/rules.py:{policy}"), start, **EASY, **statements)


def answer(question, name="gaussian", executor=None, engines=None):
    return b.estimate_interval(question, method=replace(method(name, "half"), engine=Sums(engines, executor)))


def bits(result):
    return result.low, result.high, [(claim.end, claim.parts) for claim in result.claims]


def file(place, policy="soft"):
    return PolicyFile(f"{place}/rules.py:{policy}")


# ------------------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("most", [2**24, 0], ids=["held", "read again"])
@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("name", [*KERNELS, "table"])
def test_work_that_was_sent_has_the_same_bits(name, horizon, most, tmp_path, monkeypatch):
    monkeypatch.setattr("bondic.sums.forms.MOST_HELD", most)
    data = columns(table=name == "table")
    (tmp_path / "rules.py").write_text(RULES)
    write_log(tmp_path / "log", data)
    start = b.InitialStates.exact(data["observations"][:5])
    policy = b.load_policy(f"{tmp_path}/rules.py:soft")
    logs = [b.Transitions(**data), b.stream_log(tmp_path / "log"), b.stream_log(tmp_path / "log", batch_rows=77)]
    asked = [b.make_problem(log, policy, start, **EASY, horizon=horizon) for log in logs]
    found = [
        answer(asked[0], name),
        answer(asked[1], name),
        *(answer(one, name, Here(file(tmp_path))) for one in asked[1:]),
    ]
    assert all(bits(other) == bits(found[0]) for other in found)
    again = b.verify(found[2].certificate, logs[1], policy, sums=Sums(executor=Here(file(tmp_path))))
    assert (again.low, again.high) == (found[0].low, found[0].high)


def test_draws_of_a_continuous_policy_are_those_of_their_rows(tmp_path):
    data = columns(continuous=True)
    (tmp_path / "rules.py").write_text(RULES)
    write_log(tmp_path / "log", data)
    question = ask(tmp_path, policy="drawn")
    assert bits(answer(question)) == bits(answer(question, executor=Here(file(tmp_path, "drawn"))))


@pytest.mark.parametrize("engine", ["series", "pairs", "cutoff", "reference"])
def test_engines_travel_by_their_name(engine, place, monkeypatch):
    monkeypatch.setattr("bondic.sums.forms.MOST_HELD", 0)
    question, engines = ask(place), Sums.named(engine).engines
    assert bits(answer(question, engines=engines, executor=Serial())) == bits(
        answer(question, engines=engines, executor=Here(file(place)))
    )


def test_engines_of_ones_own_are_refused(place):
    class Mine(Engine):
        name = "mine"

        def cost(self, term, survey):
            del term, survey

        def begin(self, term, survey):
            raise AssertionError((term, survey))

    engines = (*Sums.named("auto").engines, Mine())
    with pytest.raises(InvalidInput, match="do not travel"):
        answer(ask(place), engines=engines, executor=Here(file(place)))


def test_rows_in_memory_stay_here():
    data = columns()
    policy = b.SoftmaxPolicy(lambda s: np.stack([s[:, 0], -s[:, 0]], axis=1))
    question = b.make_problem(b.Transitions(**data), policy, b.InitialStates.exact(data["observations"][:5]), **EASY)
    assert bits(answer(question)) == bits(answer(question, executor=Here()))


def test_arrays_cannot_be_sent(place):
    data = columns()
    question = b.make_problem(
        b.stream_log(data, batch_rows=200),
        b.load_policy(f"{place}/rules.py:soft"),
        b.InitialStates.exact(data["observations"][:5]),
        **EASY,
    )
    with pytest.raises(InvalidInput, match="Parquet files that all of them see"):
        answer(question, executor=Here(file(place)))


# ------------------------------------------------------------------------------------------------- files


def test_a_part_that_was_changed_is_named(place):
    question = ask(place)
    stamp = (place / "log" / "part-1.parquet").stat().st_mtime
    os.utime(place / "log" / "part-1.parquet", (stamp + 5, stamp + 5))
    with pytest.raises(InvalidInput, match=r"part-1\.parquet"):
        answer(question, executor=Here(file(place)))


def test_a_part_more_is_named(place):
    question = ask(place)
    (place / "log" / "part-7.parquet").write_bytes((place / "log" / "part-2.parquet").read_bytes())
    with pytest.raises(InvalidInput, match=r"part-7\.parquet is not the file"):
        answer(question, executor=Here(file(place)))


def test_a_damaged_part_is_named(place):
    question = ask(place)
    path = place / "log" / "part-2.parquet"
    whole, status = path.read_bytes(), path.stat()
    path.write_bytes(whole[: len(whole) // 4] + bytes(len(whole) // 4) + whole[len(whole) // 2 :])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InvalidInput, match=r"part-2\.parquet cannot be read"):
        answer(question, executor=Here(file(place)))


# ------------------------------------------------------------------------------------------------- policies


def test_nobody_guesses_where_the_policy_is(place):
    with pytest.raises(InvalidInput, match="PolicyFile"):
        answer(ask(place), executor=Here())


def test_another_policy_is_refused(place):
    with pytest.raises(PolicyError, match="does not answer as it does"):
        answer(ask(place), executor=Here(file(place, "other")))


def test_a_policy_file_that_changes_on_the_way_is_refused(place, monkeypatch):
    question, made = ask(place), PolicyFile.ready

    def ready(self, policy):
        found = made(self, policy)
        (place / "rules.py").write_text(RULES + "# changed\n")
        return found

    monkeypatch.setattr(PolicyFile, "ready", ready)
    with pytest.raises(PolicyError, match="not in the same file"):
        answer(question, executor=Here(file(place)))


def test_a_process_that_has_loaded_an_older_file_says_so(place):
    answer(ask(place), executor=Here(file(place)))
    (place / "rules.py").write_text(RULES + "# changed\n")
    with pytest.raises(PolicyError, match="Start the workers again"):
        answer(ask(place), executor=Here(file(place)))


def test_a_relative_path_and_a_module_are_found(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    first = bits(answer(ask(place)))
    assert bits(answer(ask(place), executor=Here(PolicyFile("rules.py:soft")))) == first
    (place / "rules_of_mine.py").write_text(RULES)
    assert bits(answer(ask(place), executor=Here(PolicyFile("rules_of_mine:soft")))) == first


def test_a_pickle_travels_if_it_is_asked_for(place):
    data = columns()
    start = b.InitialStates.exact(data["observations"][:5])
    question = b.make_problem(b.stream_log(place / "log"), b.UniformPolicy(2), start, **EASY)
    assert bits(answer(question)) == bits(answer(question, executor=Here(PolicyPickle())))
    closure = b.SoftmaxPolicy(lambda s: np.stack([s[:, 0], -s[:, 0]], axis=1))
    question = b.make_problem(b.stream_log(place / "log"), closure, start, **EASY)
    with pytest.raises(InvalidInput, match="cannot be pickled"):
        answer(question, executor=Here(PolicyPickle()))


# ------------------------------------------------------------------------------------------------- what is kept


def counted(monkeypatch):
    """Places that were worked on."""
    places, made = [], elsewhere.weigh_block

    def weigh_block(job, place):
        places.append(place)
        return made(job, place)

    monkeypatch.setattr(elsewhere, "weigh_block", weigh_block)
    return places


def keeping(place):
    return Here(file(place), Checkpoints(place / "kept"))


def test_finished_work_is_not_done_again(place, monkeypatch):
    places, question = counted(monkeypatch), ask(place)
    first = answer(question, executor=keeping(place))
    done = len(places)
    assert done >= 6
    assert bits(answer(question, executor=keeping(place))) == bits(first) == bits(answer(question))
    assert len(places) == done
    assert all(re.fullmatch(r"[0-9]{8}\.part", path.name) for path in (place / "kept").glob("*/*"))


def test_a_job_that_was_stopped_goes_on(place, monkeypatch):
    places, question = counted(monkeypatch), ask(place)
    whole = bits(answer(question, executor=Here(file(place))))
    every = len(places)
    places.clear()
    stop, made = 4, checkpoints.KeptResults.write

    def write(self, place, data):
        made(self, place, data)
        if len(places) == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.KeptResults, "write", write)
    with pytest.raises(KeyboardInterrupt):
        answer(question, executor=keeping(place))
    assert len(places) == stop
    stop = 0
    assert bits(answer(question, executor=keeping(place))) == whole
    assert len(places) == every


def test_a_damaged_result_is_made_again(place, monkeypatch):
    places, question = counted(monkeypatch), ask(place)
    first = bits(answer(question, executor=keeping(place)))
    paths = sorted((place / "kept").glob("*/*.part"))
    paths[1].write_bytes(paths[1].read_bytes()[:-3])
    content = bytearray(paths[-1].read_bytes())
    content[-1] ^= 1
    paths[-1].write_bytes(bytes(content))
    done = len(places)
    assert bits(answer(question, executor=keeping(place))) == first
    assert len(places) == done + 2


def test_another_question_is_other_work(place, monkeypatch):
    places = counted(monkeypatch)
    answer(ask(place), executor=keeping(place))
    done = len(places)
    answer(ask(place, value_range=(-2.0, 2.0)), executor=keeping(place))
    assert len(places) > done + 3


@pytest.mark.parametrize("call", ["write_bytes", "mkdir"])
def test_a_full_disk_ends_with_words(place, call, monkeypatch):
    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    question = ask(place)
    monkeypatch.setattr(Path, call, full)
    with pytest.raises(ExecutorError, match="No space left"):
        answer(question, executor=keeping(place))
    assert not list((place / "kept").glob("*/*.part"))


# ------------------------------------------------------------------------------------------------- parcels


def test_a_parcel_comes_back_as_it_was(rng):
    data = pack(one=rng.normal(size=(3, 2)), two=(1, 2.5), three=None, four={"a": np.arange(3)})
    parcel = Parcel(data)
    assert data == pack(one=parcel.read("one", np.ndarray[tuple, np.dtype[np.float64]]), two=(1, 2.5), three=None,
                        four={"a": np.arange(3)})  # fmt: skip
    assert parcel.read("two", tuple[int, float]) == (1, 2.5)
    assert "five" not in parcel
    with pytest.raises(ExecutorError, match="has no five"):
        parcel.read("five", int)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d + b"0", lambda d: d[:0], lambda d: bytes(len(d))])
def test_what_is_no_parcel_is_refused(damage):
    with pytest.raises(ExecutorError, match="no parcel"):
        Parcel(damage(pack(one=np.arange(5.0))))


def test_objects_are_not_sent():
    with pytest.raises(InvalidInput, match="cannot be sent"):
        pack(one=np.array([object()]))


def test_another_version_is_refused(place, monkeypatch):
    question = ask(place)
    real = elsewhere.pack_job

    def older(**values):
        with monkeypatch.context() as patch:
            patch.setattr(parcel, "__version__", "0.0.0")
            return real(**values)

    monkeypatch.setattr(elsewhere, "pack_job", older)
    with pytest.raises(ExecutorError, match="Install the same version"):
        answer(question, executor=Here(file(place)))


# ------------------------------------------------------------------------------------------------- names


def test_executors_have_names(tmp_path):
    assert isinstance(named.named_executor("serial"), Serial)
    assert named.named_executor("threads://3") == Threads(3)
    assert named.named_executor("threads").count is None
    assert isinstance(named.named_executor("serial", checkpoints=tmp_path), Here)


@pytest.mark.parametrize("text", ["", "cloud", "threads://x", "threads://0", "dask://x", "serial://2", "ray://-1"])
def test_names_that_nobody_has_are_refused(text):
    with pytest.raises(InvalidInput, match="There are serial"):
        named.named_executor(text)


def test_dask_and_ray_are_asked_for_by_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    for kind, extra in (("dask", "bondic[dask]"), ("ray", "bondic[ray]")):
        monkeypatch.delitem(sys.modules, f"bondic.executors.{kind}", raising=False)
        with pytest.raises(b.BondicError, match=re.escape(extra)):
            named.named_executor(f"{kind}://2")


def test_settings_are_plain_data(place):
    """A job is readable: no pickle in it."""
    jobs = []

    class Listening(Here):
        def parts(self, task, job, places):
            jobs.append(job)
            return super().parts(task, job, places)

    answer(ask(place), executor=Listening(file(place)))
    head = json.loads(jobs[0][8 : 8 + int.from_bytes(jobs[0][:8], "little")])
    assert head["values"]["modules"]
    assert head["values"]["version"] == b.__version__


# ------------------------------------------------------------------------------------- pairs of blocks of points


@pytest.mark.parametrize("most", [2**24, 0], ids=["held", "read again"])
@pytest.mark.parametrize("engine", ["pairs", "reference"])
def test_pairs_of_blocks_can_be_summed_elsewhere(engine, most, place, monkeypatch):
    """Many blocks: one pair of them is one task, and the bits are those of one process; the exact sum lies inside."""
    whole = answer(ask(place), engines=Sums.named(engine).engines, executor=Serial())
    monkeypatch.setattr("bondic.sums.forms.MOST_HELD", most)
    monkeypatch.setattr(Direct, "block", 64)
    done = []
    original = sums_elsewhere.sum_pair_at
    monkeypatch.setattr(sums_elsewhere, "sum_pair_at", lambda job, number: done.append(number) or original(job, number))
    question, engines = ask(place), Sums.named(engine).engines
    here = answer(question, engines=engines, executor=Serial())
    assert not done
    assert bits(here) == bits(answer(question, engines=engines, executor=Here(file(place))))
    assert len(done) > 20
    assert here.low == pytest.approx(whole.low, abs=1e-9)
    assert here.high == pytest.approx(whole.high, abs=1e-9)


@pytest.mark.parametrize("width", [1, 3])
def test_sums_over_blocks_hold_the_exact_one(width):
    rng = np.random.default_rng(width)
    points, columns_ = rng.normal(size=(530, 3)), rng.normal(size=(530, width)) * [10.0**k for k in range(width)]
    (term,) = normal_form(b.Gaussian(0.8), Layout(3, False, 0, 1))
    size = [upper_sum(np.abs(columns_[:, c])) ** 2 for c in range(width)]
    exact = [float(mp_sum(points, columns_[:, c], 0.8)) for c in range(width)]
    for engine in (Pairs(), Reference()):
        engine.block = 100
        share = sum_blocks(
            engine, term, 530, lambda i: (points[100 * i : 100 * i + 100], columns_[100 * i : 100 * i + 100]), Serial()
        )
        assert share.totals.shape == (21, width)
        for value, truth, mass in zip(enclose([share], width, size), exact, size, strict=True):
            assert abs(value.mid - truth) <= value.rad + 1e-15 * abs(truth)
            assert value.rad <= 1e-11 * mass


def mp_sum(points, u, bandwidth):
    """u' K u in extended precision."""
    z, u = points.astype(np.longdouble) / np.longdouble(bandwidth), u.astype(np.longdouble)
    square = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    return u @ np.exp(-square / 2) @ u


def test_a_pair_of_blocks_that_is_not_there_is_refused():
    with pytest.raises(ExecutorError, match="no pair of blocks"):
        sums_elsewhere._place(3, 2)
    assert [sums_elsewhere._place(k, 3) for k in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
