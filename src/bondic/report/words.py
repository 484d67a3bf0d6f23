"""The words that a page uses, one line each, for readers who meet them for the first time; folded away at its end."""

from __future__ import annotations

from bondic.report.elements import esc

_WORDS = {
    "policy": "a rule that says which action to take in which situation. The new policy is the one that is evaluated.",
    "value": "the sum of rewards that a policy earns on average from its start. Later rewards count less: each step by the "
    "factor γ, the discount.",
    "value range": "the smallest and the largest value that are possible at all, given the stated reward range.",
    "confidence, α": "α is the probability that the interval misses the true value. 90% confidence means α = 0.1.",
    "certified rows": "the rows of the log that the interval is computed from. Earlier rows (the pilot) only prepare it.",
    "weights ω": "how much each row counts. Rows that look like what the new policy would do count more.",
    "doubly robust value": "an estimate that combines a model of the value with weighted rewards. It is right if either is.",
    "value function, q*": "the value from a given situation and first action on. It is unknown.",
    "group, model, allowance": "situations that are treated alike; a guess, from earlier rows, of what each is worth; and how "
    "far rows of a group may be from alike, beyond that guess. Bad groups or a bad model need a larger allowance.",
    "class Q, radius": "Q is the set of functions that is assumed to contain q*. A larger radius allows larger and rougher "
    "functions.",
    "block, plan": "rows are used in blocks. What is done with a block is planned from earlier rows, so it is not fitted to it.",
    "bet": "how chance is measured: for every candidate value, bets on the rows that cannot win on average if the candidate is "
    "right. Candidates against which the bets have won a lot are ruled out.",
    "certificate": "a file with which anybody who has the log can compute the interval again.",
}


def glossary(*, groups: bool = False) -> str:
    """A section that is closed until somebody opens it; of classes and groups only what the page is about."""
    other = "class Q, radius" if groups else "group, model, allowance"
    told = {word: meaning for word, meaning in _WORDS.items() if word != other}
    items = "".join(f"<li><b>{esc(word)}</b><p>{esc(meaning)}</p></li>" for word, meaning in told.items())
    return f'<section id="words"><details><summary>Words on this page</summary><ul class="items">{items}</ul></details></section>'
