"""What every baseline owes, whatever its theory. A new one inherits `BaselineCase` and names itself."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic_lab.baselines.registry import BASELINES, make_baseline
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, part


@cache
def mild_world() -> TabularMDP:
    """Three states, two actions; the target is close to the behavior, so that weights stay small."""
    mdp = TabularMDP.random(
        np.random.default_rng(7), n_states=3, n_actions=2, gamma=0.7, reward_range=(-1.0, 0.5), termination=0.5
    )
    mild = 0.3 * mdp.target + 0.7 * mdp.behavior
    return TabularMDP(
        mdp.transitions, mdp.rewards, mdp.initial_probs, mild, mdp.behavior, 0.7, mdp.reward_range, mdp.termination
    )


class BaselineCase:
    """The laws: label, α, sides, value range, needs, repetition, units, mirror images, order of episodes."""

    name: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    episodes: ClassVar[int] = 200
    sides: ClassVar[bool] = True  # it can be asked for one end
    splits: ClassVar[bool] = True  # two ends cost α / 2 each; else one event serves both
    checks: ClassVar[float] = 0.0  # of α, for a check of what was stated, before the ends have theirs
    ordered: ClassVar[bool] = False  # it draws or splits, and looks at the order of episodes when it does
    precision: ClassVar[float] = 1e-6  # of its arithmetic, relative

    @classmethod
    def log(cls) -> bondic.Transitions:
        return as_log(mild_world().rollout(cls.episodes, 4, np.random.default_rng(0)))

    @classmethod
    def ask(cls, log: bondic.Transitions, reward_range: tuple[float, float] = (-1.0, 0.5)) -> Any:
        mdp = mild_world()
        initial = bondic.InitialStates.exact(np.arange(3.0)[:, None], mdp.initial_probs)
        policy = bondic.TablePolicy(mdp.target)
        return bondic.make_problem(log, policy, initial, gamma=0.7, reward_range=reward_range)

    @classmethod
    @cache
    def answer(cls, alpha: float = 0.1, **more: Any) -> bondic.Result:
        """The interval on the log as it is; kept, since most laws compare with it."""
        return cls.run(cls.ask(cls.log()), alpha, **more)

    @classmethod
    def run(cls, problem: Any, alpha: float = 0.1, **more: Any) -> bondic.Result:
        return bondic.estimate_interval(problem, alpha=alpha, method=make_baseline(cls.name, **cls.options, **more))

    def test_it_carries_the_label_of_the_registry(self):
        result = self.answer()
        assert result.guarantee == BASELINES[self.name].guarantee
        assert {item.name for item in result.assumptions} >= {"rewards"}
        assert result.value_range.low <= result.low <= result.high <= result.value_range.high
        assert result.budget.alpha == 0.1
        assert sum(result.budget.parts.values()) <= 0.1 * (1 + 1e-12)

    def test_a_smaller_alpha_contains_a_larger_one(self):
        wide, narrow = self.answer(0.1), self.answer(0.4)
        assert wide.low <= narrow.low + 1e-9
        assert narrow.high <= wide.high + 1e-9

    def test_one_end_alone_may_spend_all_of_alpha(self):
        if not self.sides:
            assert "side" not in BASELINES[self.name].method.__dataclass_fields__
            return
        both = self.answer(0.1)
        lower, upper = (
            self.answer((0.1 + self.checks) / 2 if self.splits else 0.1, side=side) for side in ("lower", "upper")
        )
        assert (lower.low, upper.high) == pytest.approx((both.low, both.high), rel=1e-9, abs=1e-12)
        assert lower.high == lower.value_range.high
        assert upper.low == upper.value_range.low
        ends = {"lower", "upper"} if self.splits else set(upper.budget.parts)
        assert set(both.budget.parts) == ends | ({"propensities"} if self.checks else set())

    def test_what_it_needs_and_does_not_have_is_refused_by_name(self):
        for column in BASELINES[self.name].method.needs:
            without = part(self.log(), drop=(column,))
            with pytest.raises(InvalidInput, match=column):
                self.run(self.ask(without))
        if not BASELINES[self.name].method.needs:
            alone = part(self.log(), drop=("episode_ids", "timesteps", "truncations", "behavior_action_probs"))
            assert np.isfinite(self.run(self.ask(alone)).low)

    def test_the_same_question_has_the_same_answer(self):
        first, again = self.answer(), self.run(self.ask(self.log()))
        assert (first.low, first.estimate, first.high) == (again.low, again.estimate, again.high)

    def test_rewards_in_other_units_scale_the_interval(self):
        log, plain = self.log(), self.answer()
        scaled = self.run(self.ask(part(log, rewards=8.0 * log.rewards), (-8.0, 4.0)))
        wanted = (8 * plain.low, 8 * plain.high, 8 * plain.estimate)
        assert (scaled.low, scaled.high, scaled.estimate) == pytest.approx(
            wanted, rel=self.precision, abs=1e-9, nan_ok=True
        )

    def test_negative_rewards_mirror_the_interval(self):
        """Upper and lower ends are made by one rule: an error of sign in one of them shows here."""
        log, plain = self.log(), self.answer()
        mirror = self.run(self.ask(part(log, rewards=-log.rewards), (-0.5, 1.0)))
        wanted = (-plain.high, -plain.low)
        assert (mirror.low, mirror.high) == pytest.approx(wanted, rel=10 * self.precision, abs=1e-8)
        assert plain.status.name == mirror.status.name

    @pytest.mark.filterwarnings("ignore:Episode numbers go back")
    def test_the_order_of_episodes_does_not_matter(self):
        """Methods that draw or split look at it; of them only the value range is asked."""
        log = self.log()
        ids = np.asarray(log.episode_ids)
        order = np.argsort(np.random.default_rng(3).permutation(ids.max() + 1)[ids], kind="stable")
        found, plain = self.run(self.ask(part(log, order))), self.answer()
        if self.ordered:
            assert (found.value_range, found.status) == (plain.value_range, plain.status)
            return
        assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=1e-9)

    def test_progress_runs_from_nothing_to_all(self):
        shares: list[float] = []
        method = make_baseline(self.name, **self.options)
        bondic.estimate_interval(self.ask(self.log()), method=method, progress=lambda _, share: shares.append(share))
        assert all(0.0 <= share <= 1.0 for share in shares)
        assert shares[-1] == 1.0
