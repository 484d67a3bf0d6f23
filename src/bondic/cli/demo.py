"""`bondic demo`: the whole way from a log to an interval, a certificate and a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bondic.advice.levers import with_next_steps
from bondic.cli.say import say
from bondic.cli.terminal import PlainConsole, Terminal
from bondic.core.printed import interval_text
from bondic.core.verify import Verification
from bondic.decisions.difference import with_today
from bondic.demo import Demo, load_demo
from bondic.estimate import estimate_interval
from bondic.folders import refuse_existing, result_folder
from bondic.report.exports import write_result
from bondic.report.pens import result_table
from bondic.report.progress import progress_bar
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.problem import make_problem
from bondic.verification import verify


def command(out: Path, alpha: float, *, as_json: bool = False, force: bool = False, quiet: bool | None = None) -> None:
    """Evaluate, print, write, verify."""
    refuse_existing(out, overwrite=force)
    console = Terminal(quiet=bool(quiet) or as_json)
    demo = load_demo()
    console.print(
        f"A machine wears out (levels 0 to 5). {len(demo.log)} logged decisions of operators who ran or maintained it. "
        "What would a new machine have earned, discounted, if it had been maintained from wear level 3 on?\n"
    )
    with progress_bar(PlainConsole(stderr=True, quiet=bool(quiet))) as progress:
        problem = make_problem(demo.log, demo.policy, demo.initial, gamma=demo.gamma, reward_range=demo.reward_range)
        problem = replace(problem, names=("wear level",))
        result = with_today(estimate_interval(problem, alpha=alpha, progress=progress), problem, progress=progress)
        result = with_next_steps(result, problem, command=True)
    checked = _write(result, problem, demo, out, force=force)
    if as_json:
        say(result.to_json(), nl=False)
    elif quiet:
        say(result.summary())
    console.print(result_table(result, verbose=quiet is False, width=console.width))
    console.print(f"\nverified again from the certificate: {interval_text(checked.low, checked.high)}", highlight=False)
    written = f"report       {out / 'report.html'}\ncertificate  {out / 'certificate.json'}"
    console.print(written, highlight=False, soft_wrap=True)


def _write(result: Result, problem: Rows, demo: Demo, out: Path, *, force: bool) -> Verification:
    """Report, certificate and result in one folder; the certificate is checked as it was read back."""
    with result_folder(out, overwrite=force) as folder:
        write_result(folder, result, problem, title="When to maintain the machine")
        return verify(folder / "certificate.json", demo.log, demo.policy)
