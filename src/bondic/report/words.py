"""The words of the page: colors and names of states, assumptions in plain words, what each part covers, a glossary."""

from __future__ import annotations

from bondic.core.cells.proof import ALLOWED
from bondic.core.claims import Status
from bondic.core.dual.bound import ALLOWANCE, BIAS, NOISE, START
from bondic.core.sequential.ends import RARE

STATUSES = {Status.TRIVIAL: ("warn", "the log adds nothing"),
           Status.REJECTED: ("bad", "assumptions contradicted")}  # fmt: skip
GUARANTEES = {
    "finite-sample": ("good", "proved for this finite log"),
    "asymptotic": ("warn", "asymptotic only"),
    "none": ("bad", "no guarantee"),
}
STATES = {"stated": "info", "chosen": "warn", "checked": "good", "rejected": "bad"}
MEANINGS = {
    "stated": "no program can verify it from the log",
    "chosen": "chosen by the method, not stated by you; the interval is valid only if it holds",
    "checked": "it was tested, and holds",
    "rejected": "the log contradicts it, alone or together with others",
}
FRAGILE = ("values", "ratios", "propensities", "data", "world", "rewards", "length", "episodes", "start")
"""Assumptions by how often they fail in practice."""
TITLES = {
    "data": "The log is complete and unaltered, in the order of time",
    "world": "The world stayed the same while the log was made",
    "rewards": "No reward can lie outside the stated range",
    "propensities": "Actions were drawn with the probabilities that the log states",
    "ratios": "No ratio of the two policies exceeds the stated bound",
    "control": "Predictions were made from earlier rows",
    "values": "The value function lies in the stated class",
    "instruments": "The space of weights was chosen without the rows they are used on",
    "plan": "Every block was planned from rows before it",
    "noise": "How large chance effects can be",
    "policy": "What the new policy would do",
    "other policy": "What the other policy does",
    "start": "Where it starts",
    "rates": "The bets were fixed before",
    "episodes": "Episodes stand by themselves",
    "length": "How many rows the log has",
    "process": "What the value is",
    "log": "What you accept about the log",
    "subgroups": "Which subgroups there are",
}
COVERED = {
    BIAS: "what the log leaves unknown about the value function where the policy goes",
    NOISE: "chance: there are only so many rows",
    RARE: "events that no row shows but that may still happen",
    START: "starts that are known only from a sample",
    ALLOWANCE: "the model error that you stated",
    ALLOWED: "what rows of a group may differ by, as you state",
}
GLOSSARY = {
    "policy": "a rule that says which action to take in which situation. The new policy is the one that is evaluated.",
    "value": "the sum of rewards that a policy earns on average from its start. Later rewards count less: each step by the "
    "factor γ, the discount.",
    "value range": "the smallest and the largest value that are possible at all, given the stated reward range.",
    "confidence, α": "α is the probability that the interval misses the true value. 90% confidence means α = 0.1.",
    "certified rows": "the rows of the log that the interval is computed from. Earlier rows (the pilot) only prepare it.",
    "weights ω": "how much each row counts. Rows that look like what the new policy would do count more.",
    "doubly robust value": "an estimate that combines a model of the value with weighted rewards. It is right if either is.",
    "value function, q*": "the value from a given situation and first action on. It is unknown.",
    "group, model, allowance": "states that share one value; a prediction of that value from earlier rows; and by how much "
    "values inside a group may differ from the prediction. Bad groups or a bad model need a larger allowance.",
    "class Q, radius": "Q is the set of functions that is assumed to contain q*. A larger radius allows larger and rougher "
    "functions.",
    "block, plan": "rows are used in blocks. What is done with a block is planned from earlier rows, so it is not fitted to it.",
    "bet": "how chance is measured: for every candidate value, bets on the rows that cannot win on average if the candidate is "
    "right. Candidates against which the bets have won a lot are ruled out.",
    "certificate": "a file from which the interval can be recomputed, given the log.",
}
