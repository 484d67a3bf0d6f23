"""`bondic choose LOG`: the policy that is shown to be better than the incumbent, or the incumbent."""

from __future__ import annotations

import json
import warnings
from typing import Any

from bondic.cli.executors import sums_of
from bondic.cli.inputs import make_method, make_question, other_question, read_inputs
from bondic.cli.outputs import GATE_CODES, print_notes, print_validity_notes
from bondic.cli.say import say
from bondic.cli.terminal import PlainConsole, Terminal
from bondic.decisions.choose import choose_policy
from bondic.errors import ValidityNote, ValidityWarning
from bondic.report.progress import progress_bar


def command(log: str, **options: Any) -> int:
    """One sentence, and the differences behind it."""
    with sums_of(options) as sums, progress_bar(PlainConsole(stderr=True, quiet=options["quiet"])) as progress:
        inputs = read_inputs(log, options)
        names = list(dict.fromkeys(options["policies"]))
        first = make_question(inputs, names[0], options)
        problems = {names[0]: first}
        problems |= {name: other_question(first, inputs, name, options, learns=True) for name in names[1:]}
        method = make_method(options["method"], options, inputs, sums)
        named = options["incumbent"]
        incumbent = other_question(first, inputs, named, options).policy
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)
            level = {"alpha": options["alpha"], "method": method, "progress": progress}
            found = choose_policy(problems, incumbent, **level, state=options["state"])
    print_validity_notes((*(ValidityNote(text) for text in first.validity_notes), *first.notes))
    if options["as_json"]:
        lines = {
            name: {"low": one.low, "estimate": one.estimate, "alpha": one.alpha} for name, one in found.results.items()
        }
        data = {"chosen": found.chosen, "favorite": found.favorite, "alpha": found.alpha, "differences": lines}
        say(json.dumps({**data, "answer": str(found)}, indent=1))
    else:
        if not options["quiet"]:
            print_notes(Terminal(), first.notes)
        say(str(found))
    return GATE_CODES["approve" if found.chosen is not None else "cannot tell"]
