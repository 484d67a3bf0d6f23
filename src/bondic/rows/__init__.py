"""(log, policy, d_0, gamma, reward range) -> points, signed weights, rewards. Everything below sees only this."""

from bondic.rows.make import make_problem
from bondic.rows.question import Cloud, Question
from bondic.rows.rows import Problem, Source, assemble
from bondic.rows.streamed import StreamedProblem, in_memory
from bondic.terms import Terms

__all__ = [
    "Cloud",
    "Problem",
    "Question",
    "Source",
    "StreamedProblem",
    "Terms",
    "assemble",
    "in_memory",
    "make_problem",
]
