"""(log, policy, d_0, gamma, reward range) -> points, signed weights, rewards. Everything below sees only this."""

from bondic.problem.make import make_problem
from bondic.problem.question import Cloud, Question
from bondic.problem.rows import Problem, Source, assemble
from bondic.problem.streamed import StreamedProblem, in_memory
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
