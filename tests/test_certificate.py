"""A certificate is re-checked from the log alone, and any change of data, omega or numbers is found."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import bondic
from bondic.core.balls import Instruments
from bondic.core.certificate import Certificate
from bondic.core.dual.noise import FixedLambda
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import ExpansionFunction, FeatureFunction, KernelFunction
from bondic.core.kernels.features import ExplicitFeatures, RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.plug_in import PlugIn
from builders import continuous, synthetic


@pytest.fixture(scope="module")
def certified():
    mdp, log, policy, initial = synthetic(600, gamma=0.3)
    problem = bondic.make_problem(log, policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range)
    return bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", gauge=PlugIn(0.05))), log, policy


def same(checked, result):
    """Verification may group its sums differently: both intervals are within the rounding they admit to."""
    for end, mine, theirs in ((result.lower, checked.low, result.low), (result.upper, checked.high, result.high)):
        assert abs(mine - theirs) <= (0.0 if end is None else 2 * end.rounding + 1e-12)


def _with(log: bondic.Transitions, **changes: object) -> bondic.Transitions:
    names = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids",
             "timesteps")  # fmt: skip
    return bondic.Transitions(**{name: getattr(log, name) for name in names} | changes)


@pytest.mark.parametrize("name", ["observations", "actions", "truncations", "timesteps"])
def test_any_change_of_the_log_is_noticed(certified, name):
    result, log, _ = certified
    values = getattr(log, name).copy()
    row = -1
    if name == "actions":
        values[row] = (values[row] + 1) % 2
    elif name == "truncations":
        values[row] = not values[row]
    else:
        values[row] = values[row] + 1 if name == "timesteps" else np.nextafter(values[row], 0.5)
    with pytest.raises(VerificationError, match="not the one that was certified"):
        bondic.verify(result.certificate, _with(log, **{name: values}))


def _leaves(node: object, path: tuple = ()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path, node


def _set(body: dict, path: tuple, value: object) -> dict:
    body = copy.deepcopy(body)
    node = body
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return body


def test_every_changed_number_is_noticed_by_the_digest(certified):
    result, log, _ = certified
    body, arrays = result.certificate.body, result.certificate.arrays
    for path, value in _leaves(body):
        changed = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v * 1.5 + 1, str: lambda v: v + "x"}
        other = 1 if value is None else changed[type(value)](value)
        with pytest.raises(VerificationError):
            bondic.verify(Certificate(_set(body, path, other), arrays, result.certificate.digest), log)


def test_changed_arrays_are_noticed_even_with_a_forged_digest(certified):
    result, log, _ = certified
    names = [name for name in result.certificate.arrays if name.startswith("estimand")]
    names += ["omegas.lower.coordinates", "omegas.upper.coordinates", "ball.kernel.parts.0.parts.0.bandwidth"]
    for name in names:
        arrays = {key: value.copy() for key, value in result.certificate.arrays.items()}
        flat = arrays[name].reshape(-1)
        if name == "estimand.policies.0.start.weights":
            flat[0], flat[1] = flat[0] + 0.01, flat[1] - 0.01
        elif name.startswith("estimand.policies.0.answers"):
            arrays[name] = np.roll(arrays[name], 1, axis=1)
        else:
            flat[np.argmax(np.abs(flat))] *= 1.01
            flat[0] += 0.01
        with pytest.raises(VerificationError):
            bondic.verify(Certificate(result.certificate.body, arrays), log)


def test_an_end_without_weights_or_alpha_beyond_its_sum_does_not_verify(certified):
    result, log, _ = certified
    for parts in (("proof", "omegas", "lower"), ("claims", "ends", 0)):
        body = copy.deepcopy(result.certificate.body)
        del body[parts[0]][parts[1]][parts[2]]
        with pytest.raises(VerificationError, match="end point"):
            bondic.verify(Certificate(body, result.certificate.arrays), log)
    body = _set(result.certificate.body, ("proof", "budget", "parts", "noise"), 0.3)
    with pytest.raises(VerificationError, match="spend more than alpha"):
        bondic.verify(Certificate(body, result.certificate.arrays), log)


def test_an_older_certificate_names_the_version_that_verifies_it(certified):
    result, log, _ = certified
    old = result.certificate.body | {"format": "bondic certificate 4"}
    with pytest.raises(
        VerificationError, match=r"certificate 4.*certificate 10.*written by bondic \S+; verify it with that"
    ):
        bondic.verify(Certificate(old, result.certificate.arrays), log)
    for information in (None, {"versions": 3}, {"versions": {"bondic": ["1"]}}):
        with pytest.raises(VerificationError, match="make it again with this version"):
            bondic.verify(Certificate(old | {"information": information}, result.certificate.arrays), log)


def test_a_file_is_never_half_written_nor_overwritten(certified, tmp_path, monkeypatch):
    result, _, _ = certified
    text, _ = bondic.save_certificate(result.certificate, tmp_path / "c")
    with pytest.raises(InvalidInput, match="exists already"):
        bondic.save_certificate(result.certificate, text)
    bondic.save_certificate(result.certificate, text, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"c.json", "c.npz"}
    for path in tmp_path.iterdir():
        path.unlink()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        bondic.save_certificate(result.certificate, tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_continuous_actions_one_sided_bounds_and_samples_verify():
    log, policy, initial = continuous()
    problem = bondic.make_problem(log, policy, initial, gamma=0.3, reward_range=(-1, 1), initial_draws=8)
    for side in ("both", "lower", "upper"):
        result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", side=side))
        same(bondic.verify(result.certificate, log, policy), result)
        assert set(result.budget.parts) == {"noise", "initial"}
        assert (result.low == result.value_range.low) or side != "upper"


def test_every_kind_of_weight_function_verifies():
    mdp, log, policy, initial = synthetic(300, gamma=0.3)
    problem = bondic.make_problem(log, policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range)
    kernels = {
        ExpansionFunction: bondic.Gaussian(1.0) * Dirac() + Constant(0.5),
        FeatureFunction: RandomFeatures.gaussian(16, 1, 1.0, seed=0) * Dirac() + Constant(0.5),
    }
    ball = bondic.Ball(bondic.Matern(1.0, nu=1.5) * Dirac() + Constant(1.0), 20.0)
    for kind, kernel in kernels.items():
        method = bondic.Dual(instruments=Instruments(kernel), ball=ball, gauge=PlugIn(0.01))
        result = bondic.estimate_interval(problem, method=method)
        assert result.guarantee == "none"
        names = " ".join(result.certificate.arrays)
        assert ("omegas.upper.coordinates " in f"{names} ") == (kind is FeatureFunction)
        same(bondic.verify(result.certificate, log), result)
    kernel = kernels[ExpansionFunction]
    weights = np.zeros((len(problem), 2))
    weights[np.arange(len(problem)), problem.whole().slots] = 1.0 / len(problem)
    candidate = KernelFunction(kernel, problem.layout, problem.whole().logged, weights)
    method = bondic.Dual(
        instruments=Instruments(kernel), ball=ball, gauge=FixedLambda(0.5), advanced=Advanced(candidates=(candidate,))
    )
    result = bondic.estimate_interval(problem, method=method)
    same(bondic.verify(result.certificate, log), result)


def test_a_center_and_feature_functions_of_the_user_are_rechecked():
    mdp, log, policy, initial = synthetic(200, gamma=0.5)
    problem = bondic.make_problem(log, policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range)

    def bumps(states):
        return np.exp(-((states - np.linspace(-1, 1, 5)) ** 2)) / np.sqrt(5.0)

    own = ExplicitFeatures(bumps, 1.0, "bumps")
    center = KernelFunction(Constant(1.0), problem.layout, problem.whole().logged[:1], np.array([[0.2, 0.0]]))
    method = bondic.Dual(
        instruments=Instruments(own * Dirac() + Constant(1.0)),
        ball=bondic.Ball(bondic.Gaussian(0.5) * Dirac() + Constant(1.0), 9.0, center),
    )
    result = bondic.estimate_interval(problem, method=method)
    same(bondic.verify(result.certificate, log, functions={"bumps": bumps}), result)
    with pytest.raises(VerificationError, match="bumps"):
        bondic.verify(result.certificate, log)


def test_numpy_numbers_go_into_a_certificate(tmp_path):
    """float32 alphas and int64 seeds are what people have at hand."""
    mdp, log, policy, initial = synthetic(60, gamma=0.5)
    problem = bondic.make_problem(
        log, policy, initial, gamma=np.float32(0.5), reward_range=np.array(mdp.reward_range), seed=np.int64(3)
    )
    method = bondic.Dual(radius=np.float32(9.0), pilot=np.int64(20), advanced=Advanced(pairs=8))
    result = bondic.estimate_interval(problem, alpha=np.float32(0.1), method=method)
    bondic.save_certificate(result.certificate, tmp_path / "c")
    same(bondic.verify(bondic.load_certificate(tmp_path / "c"), log, policy), result)


# --- what verify says, and what it must not leave unsaid -----------------------------------------------------------------


def _forged(certificate: Certificate, arrays: dict | None = None, **changes: object) -> Certificate:
    """Fields by their dotted path, with a digest that fits."""
    body = copy.deepcopy(certificate.body)
    for path, value in changes.items():
        body = _set(body, tuple(int(key) if key.isdigit() else key for key in path.split("__")), value)
    return Certificate(body, {**certificate.arrays, **(arrays or {})})


def test_a_noise_bound_without_guarantee_is_never_called_verified(certified, tmp_path, capsys, monkeypatch):
    from bondic.cli.main import main

    result, log, policy = certified
    checked = bondic.verify(result.certificate, log)
    assert checked.guarantee == "none"
    assert [item.name for item in checked.assumptions] == [item.name for item in result.assumptions]
    assert any("pass the policy" in gap for gap in checked.unchecked)
    assert not any("policy" in gap for gap in bondic.verify(result.certificate, log, policy).unchecked)
    bondic.save_certificate(result.certificate, tmp_path / "c")
    np.savez(tmp_path / "log.npz", **{name: column for name, column in log.columns().items() if column is not None})
    monkeypatch.setattr("sys.argv", ["bondic", "verify", str(tmp_path / "c.json"), str(tmp_path / "log.npz")])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr().out
    assert stopped.value.code == 7
    assert printed.startswith(
        "not checked: when the plan was made; the policy, recomputed, WITHOUT any guarantee otherwise (as stated: a list of"
    )
    assert "gamma = 0.3" in printed
    assert "not checked" in printed


def test_assumptions_are_recomputed(certified):
    result, log, _ = certified
    for forged in (
        _forged(result.certificate, assumptions=[]),
        _forged(result.certificate, assumptions__1__text="Every possible reward lies in [-1000, 1000]."),
        _forged(result.certificate, assumptions__4__text="Hoeffding in a Hilbert space, half the range."),
    ):
        with pytest.raises(VerificationError, match="assumptions"):
            bondic.verify(forged, log)


def test_answers_and_starts_that_do_not_fit_are_refused(certified):
    result, log, _ = certified
    certificate = result.certificate
    name = certificate.body["proof"]["estimand"]["policies"][0]["answers"]["next"]["array"]
    off = certificate.arrays[name] * (1 - 5e-7)
    with pytest.raises(VerificationError, match="do not sum to 1"):
        bondic.verify(_forged(certificate, {name: off}), log)
    for flag in ("answers__exact", "answers__discrete", "start__count_fixed"):
        with pytest.raises(VerificationError, match="true or false"):
            bondic.verify(_forged(certificate, **{f"proof__estimand__policies__0__{flag}": "yes"}), log)
    few, other = (bondic.InitialStates.exact(np.zeros((count, log.observations.shape[1]))) for count in (2, 5))
    with pytest.raises(VerificationError, match="2 initial states that were passed are not those of the certificate"):
        bondic.verify(certificate, log, initial=few)
    with pytest.raises(VerificationError, match="not those of the certificate"):
        bondic.verify(certificate, log, initial=other)


def test_drawn_actions_cannot_be_declared_exact():
    log, policy, initial = continuous(300)
    problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=(-1.0, 1.0))
    result = bondic.estimate_interval(problem)
    with pytest.raises(VerificationError, match="not exact"):
        bondic.verify(_forged(result.certificate, proof__estimand__policies__0__answers__exact=True), log)


def test_what_is_no_certificate_is_refused_with_the_way_out(certified):
    result, log, _ = certified
    assert bondic.verify(result, log) == bondic.verify(result.certificate, log)
    for other in (log, None, 3):
        with pytest.raises(bondic.InvalidInput, match="a file or folder, or the `certificate` of a result"):
            bondic.verify(other, log)
    with pytest.raises(bondic.InvalidInput, match=r"no file absent\.json"):
        bondic.verify("absent", log)
