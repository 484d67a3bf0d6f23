"""`bondic demo`: the whole way from a log to an interval, a certificate and a page."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bondic.certificate.io import load_certificate, save_certificate, write_atomically
from bondic.certificate.verify import verify
from bondic.environments.demo import load_demo
from bondic.estimate import estimate_interval
from bondic.problem import make_problem
from bondic.report.page import report_page
from bondic.report.progress import progress_bar
from bondic.report.table import result_table


def command(out: Path, alpha: float) -> None:
    """Evaluate, print, write, verify."""
    console = Console()
    demo = load_demo()
    console.print(
        f"A machine wears out (levels 0 to 5). {len(demo.log)} logged decisions of operators who ran or maintained it. "
        "What would a new machine have earned, discounted, if it had been maintained from wear level 3 on?\n"
    )
    with progress_bar(Console(stderr=True)) as progress:
        problem = make_problem(demo.log, demo.policy, demo.initial, gamma=demo.gamma, reward_range=demo.reward_range)
        result = estimate_interval(problem, alpha=alpha, progress=progress)
    console.print(result_table(result))
    out.mkdir(parents=True, exist_ok=True)
    page = out / "report.html"
    words = report_page(result, problem, title="When to maintain the machine", log=demo.log, columns=["wear level"])
    write_atomically(page, words.encode())
    assert result.certificate is not None
    text, _ = save_certificate(result.certificate, out / "certificate", overwrite=True)
    checked = verify(load_certificate(text), demo.log, demo.policy)
    console.print(f"\nverified again from the certificate: [{checked.low:.6g}, {checked.high:.6g}]", highlight=False)
    console.print(f"report       {page}\ncertificate  {text}", highlight=False, soft_wrap=True)
