"""What is said where parts of a transition have no column: which columns they may be, each for one part only."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.table import Column
from bondic.data.names import ALIASES, OF_ALL_ACTIONS, REQUIRED
from bondic.errors import did_you_mean, shown


def not_found(
    missing: list[str],
    parts: Mapping[str, tuple[str, ...]],
    names: list[str],
    taken: Collection[str],
    skip: Collection[str],
    look: ReadColumn | None = None,
) -> str:
    """Every part without a column, how it is named, and which columns it may be."""
    first = ALIASES[missing[0]]
    listed = ", ".join(f"'{part}': {'[...]' if part == 'observations' else '...'}" for part in missing)
    named = options({part: "NAME,..." if part == "observations" else "NAME" for part in missing})
    text = (
        f"No column for {', '.join(f'`{part}`' for part in missing)} among {shown(names) or 'no columns'}. Name "
        f"{'it' if len(missing) == 1 else 'them'}: columns={{{listed}}} ({named})."
    )
    logs = any("logp" in name.lower() for name in names)  # of a language model, maybe: known by its probabilities
    proposal = propose(missing, parts, names, taken, skip, look)
    if logs and (look is None or set(missing) - {*proposal.columns, "terminations"}):
        proposal = ColumnGuess({}, "")
    if proposal.columns:
        python = ", ".join(
            f"'{part}': {(group[0] if len(group) == 1 else list(group))!r}" for part, group in proposal.columns.items()
        )
        told = options({part: ",".join(map(one_line, group)) for part, group in proposal.columns.items()})
        text += f" Perhaps columns={{{one_line(python, _LONGEST)}}} ({told})"
        text += ", with one_step=True (--one-step) if every row is a decision of its own?" if proposal.single else "?"
    else:
        text += f" Usual names: {', '.join(first[:4])}, or numbered ones such as {first[0]}_0, {first[0]}_1."
        text += _resembling(missing[0], names, taken)
    text += proposal.words
    if "observations" in missing and "actions" in parts:
        text += (
            " That no policy looks at a state, as in a plain experiment, is stated by columns={'observations': None} "
            "(--columns observations=none)."
        )
    if "terminations" in missing:
        text += (
            " That nothing ever terminates is stated by columns={'terminations': None} (--columns terminations=none), that every "
            "row ends by one_step=True (--one-step)."
        )
    return text if proposal.columns and not logs else text + _of_probabilities(missing, parts, names, taken)


_LONGEST = 400


def options(words: Mapping[str, str]) -> str:
    """The same as `columns=`, for the command line."""
    return " ".join(f"--columns {part}={name}" for part, name in words.items())


_PIECES = {
    "logged_action_probs": ("pi", "policy", "new", "target", "prob", "probs"),
    "episode_ids": ("id", "session", "run", "trajectory", "patient", "visit", "user", "episode"),
    "timesteps": ("step", "turn", "hour", "day", "tick", "round", "time"),
    "behavior_action_probs": ("prob", "propens"),
    "terminations": ("done", "end", "final", "last", "terminal", "left", "exit", "quit", "discharg"),
    "rewards": (
        "reward", "outcome", "click", "payoff", "profit", "revenue", "return", "score", "bought", "purchas", "conver", "paid",
        "recover", "cured", "surviv", "died", "death", "success",
    ),
    "actions": (
        "act", "treatment", "arm", "choice", "decision", "item", "banner", "move", "dose", "offer", "price", "care", "reply",
        "push", "therap", "drug", "message", "prescri",
    ),
}  # fmt: skip
"""How words in the names of columns often begin, in the order in which columns are given away; proposed, never taken."""
_MOST_STATES = 8
"""Columns left over that are proposed as the state."""
_SEVERAL = 3
_FEW = 50
"""Values that a column of actions, or of text in states, has at most to be proposed as such; columns that are looked into."""


@dataclass(frozen=True)
class ColumnGuess:
    """Every column for one part; `words` say what is still open, `single` that rows seem to be episodes of their own."""

    columns: Mapping[str, tuple[str, ...]]
    words: str
    single: bool = False


def propose(
    missing: Collection[str],
    parts: Mapping[str, tuple[str, ...]],
    names: Iterable[str],
    taken: Collection[str],
    skip: Collection[str] = (),
    look: ReadColumn | None = None,
) -> ColumnGuess:
    """Columns that the missing parts, and keys of rows, may be in: a guess for a message. Numbered ones go together, x_*.

    What may be an outcome, an action or an end is no state: not before rewards and actions have a column of their own.
    """
    free = _patterns([name for name in names if name not in taken])
    lower = {name.lower(): name for name in free}
    pairs = {name: lower[after] for name in free if (after := f"next_{name.lower()}") in lower}
    rest = [name for name in free if name not in pairs and not name.lower().startswith("next")]
    guessed = _by_name(missing, parts, rest)
    unused = {*skip, *(("episode_ids",) if "timesteps" in skip else ())}  # keys of rows that are episodes of their own
    rest = [name for name in rest if (name,) not in guessed.values() and not _fits(name, ("id",))]
    seen = {name: _Seen.of(name, look if len(rest) <= _FEW else None) for name in rest}
    still, words = {*missing} - {*guessed}, ""
    for part in ("rewards", "actions"):
        if part not in still:
            continue
        fits = [name for name in rest if seen[name].may_be(part)]
        if len(fits) == 1 and (pairs or len(rest) == 1 or "observations" not in missing):
            guessed[part] = (fits[0],)
            rest.remove(fits[0])
            still.remove(part)
        else:
            fits.sort(key=lambda name: part == "rewards" and not seen[name].flag)
            given = [name for name in parts.get("observations", ()) if _fits(name, _PIECES[part])]
            none = f" No column is left that may hold `{part}`{f': {shown(given)} is in `observations`' * bool(given)}."
            words += f" `{part}` may be in {shown(fits)}." if fits else none
    if "observations" in missing:
        late = (*_PIECES["rewards"], *_PIECES["terminations"])
        states = [name for name in rest if seen[name].may_be("observations") and not _fits(name, late)]
        if pairs:
            guessed |= {"observations": tuple(pairs), "next_observations": tuple(pairs.values())}
        elif still.isdisjoint(("rewards", "actions")) and 0 < len(states) <= _MOST_STATES:
            guessed["observations"] = tuple(states)
        elif not states:
            words += " No column is left for `observations`: what was known before each decision."
    single = "terminations" in still and not pairs and "timesteps" not in {*guessed, *parts}
    single = single and _all_differ((guessed | dict(parts)).get("episode_ids"), look)
    columns = {part: guessed[part] for part in ALIASES if part in guessed.keys() - unused}
    return ColumnGuess(columns if {*missing} & {*guessed} else {}, words, single)


def _by_name(
    missing: Collection[str], parts: Mapping[str, tuple[str, ...]], names: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Parts that the words in exactly one name speak of."""
    free, guessed = list(names), dict[str, tuple[str, ...]]()
    for part, pieces in _PIECES.items():
        if part in parts or (part in REQUIRED and part not in missing):
            continue
        fits = [name for name in free if name.endswith("*") == (part in OF_ALL_ACTIONS) and _fits(name, pieces)]
        if len(fits) == 1:
            guessed[part] = (fits[0],)
            free.remove(fits[0])
    return guessed


def _fits(name: str, pieces: Collection[str]) -> bool:
    return any(word.startswith(piece) for word in re.split(r"[^a-z]+", name.lower()) for piece in pieces)


ReadColumn = Callable[[str], Column]


@dataclass(frozen=True)
class _Seen:
    """What a column holds: how many values, whether they are text, whether only 0 and 1; nothing of it if it was not read."""

    usable: bool = True
    text: bool = False
    flag: bool = False
    values: int = 0
    whole: bool = True
    rows: int = 0

    @classmethod
    def of(cls, name: str, look: ReadColumn | None) -> _Seen:
        if look is None or name.endswith("*"):
            return cls()
        try:
            column = look(name)
        except InvalidInput:  # dates, for example
            return cls(usable=False)
        if column.values.ndim > 1:
            return cls(whole=False)
        held = set(column.values.tolist())
        flag = held <= {0, 1}
        whole = column.text or column.values.dtype.kind in "biu"
        return cls(True, column.text, flag, len(held), whole, len(column.values))

    def may_be(self, part: str) -> bool:
        few = self.values <= _FEW and (2 * self.values <= self.rows or self.rows <= _FEW)
        fits = {"rewards": not self.text, "actions": few and self.whole, "observations": few or not self.text}
        return self.usable and fits[part]


def _all_differ(ids: tuple[str, ...] | None, look: ReadColumn | None) -> bool:
    """Whether no two rows have one id, as far as there are ids."""
    if ids is None:
        return True
    seen = _Seen.of(ids[0], look)
    return seen.rows > 0 and seen.values == seen.rows


def _patterns(names: list[str]) -> list[str]:
    """The same names, with x_* in place of x_0, x_1, x_2, ..."""
    stems = [re.sub(r"\d+$", "*", name) for name in names]
    several = {stem for stem in stems if stem.endswith("*") and stems.count(stem) >= _SEVERAL}
    return list(dict.fromkeys(stem if stem in several else name for stem, name in zip(stems, names, strict=True)))


_TELLING = {
    "behavior_log_probs": ("old", "behav", "logging", "sampl"),
    "target_log_probs": ("new", "target", "eval"),
    "rewards": ("score", "return", "payoff", "grade", "rating"),
}
"""What a log of probabilities needs, with pieces of names that say which column it may be."""


def _of_probabilities(
    missing: Collection[str], parts: Mapping[str, tuple[str, ...]], names: list[str], taken: Collection[str]
) -> str:
    """What is missing of a log that has neither states nor actions, but the probabilities of what was done."""
    if not {"observations", "actions"} & set(missing):
        return ""
    free = [name for name in names if name not in taken]
    named = []
    for part, pieces in _TELLING.items():
        if part in parts or part.replace("log", "action") in parts:
            continue
        fits = [name for name in free if any(piece in name.lower().split(".")[-1] for piece in pieces)]
        if part != "rewards":
            fits = [name for name in fits if "prob" in name.lower() or "logp" in name.lower()]
        named.append((part, one_line(fits[0]) if len(fits) == 1 else "NAME"))
    return (
        " With LoggedTarget() (--policy logged) observations and actions are not needed; missing are then "
        f"{', '.join(f'`{part}`' for part, _ in named)}: {' '.join(f'--columns {part}={name}' for part, name in named)}."
    )


def _resembling(part: str, names: list[str], taken: Collection[str]) -> str:
    """A column whose name is nearly one of the usual ones."""
    free = [name for name in names if name not in taken]
    return next((hint for alias in ALIASES[part] if len(alias) > 2 and (hint := did_you_mean(alias, free))), "")
