"""The panel with sliders: the interval at other radii and error probabilities."""

from __future__ import annotations

from bondic.methods.frontier import Frontier
from bondic.proofs.assumptions import assumes_nothing
from bondic.report.elements import esc

_PROVED = (
    "the valid interval", "is proved", "For one α the curve holds for all radii at once. An interval that is picked because of "
    "its result has no guarantee.",
)  # fmt: skip
_GUESSED = (
    "a guess of the interval", "would follow if the noise were as estimated,", "The noise bound is an estimate: "
    "<b>none of these intervals has a guarantee</b>, whatever you choose.",
)  # fmt: skip
_BALL_HEAD = """<h2>What if the assumption were weaker?</h2>
<p>The radius r<sub>Q</sub> says how large and how rough the value function may be. Data can contradict it but
not prove it. Here is {what} for every radius and every error probability α, computed in this page from certified numbers.</p>"""
_FREE_HEAD = """<h2>What if the confidence level were different?</h2>
<p>Nothing is assumed about the value function: every function in the value range is allowed. Here is
{what} for every error probability α, computed in this page from certified numbers.</p>"""
_BOTH_BREAK = '<b id="break-radius"></b> at the α above, and <b id="break-alpha"></b> with the radius\nabove.'
_RADIUS_CONTROL = """<div><label for="radius-slider">radius r<sub>Q</sub></label><div class="pair">
<input id="radius-slider" type="range" min="0" max="1000" step="1" value="500">
<input id="radius-number" type="number" min="0" step="any" aria-label="radius as a number"></div></div>
"""


def what_if(frontier: Frontier, *, fixed_alpha: bool, rejected: bool = False) -> str:
    """Sliders for the radius and alpha, for alpha alone where Q holds every function; recomputed in the page."""
    note = "<p>For this noise bound α cannot be changed.</p>" if fixed_alpha else ""
    guarantee = frontier.setting.gauge.guarantee
    free = assumes_nothing(frontier.setting.problem, frontier.setting.ball)
    if rejected and free:
        note += (
            "<p>The log contradicts what was stated. Nothing is assumed about the value function, so there is nothing to "
            "relax.</p>"
        )
    elif rejected:
        note += (
            "<p>The log contradicts the assumptions at the reported radius. A larger radius helps only if the radius was the "
            "problem: the intervals here still need all the other assumptions.</p>"
        )
    stated = frontier.setting.problem.terms.value_range is not None
    ranges = "the stated ranges alone imply" if stated else "the reward range alone implies"
    what, follows, terms = _PROVED if guarantee == "finite-sample" else _GUESSED
    head = _FREE_HEAD if free else _BALL_HEAD
    choose = "α" if free else "r<sub>Q</sub> and α"
    curve = "" if free else '<div id="curve"></div>'
    radius = "" if free else _RADIUS_CONTROL
    breaks = '<b id="break-alpha"></b>.' if free else _BOTH_BREAK
    return f"""<section id="what-if" data-guarantee="{esc(guarantee)}" data-ranges="{ranges}" \
data-radius="{"free" if free else "varies"}">{head.format(what=what)}
<p class="note">Choose {choose} <b>before</b> looking. {"" if free and guarantee == "finite-sample" else terms}</p>
<div class="controls">{radius}<div><label for="alpha-slider">error probability α</label><div class="pair">
<input id="alpha-slider" type="range" min="0" max="1000" step="1">
<input id="alpha-number" type="number" min="0" max="1" step="any" aria-label="alpha as a number"></div></div></div>{note}
<div class="reading"><span>from <output id="what-low"></output></span><span>to <output id="what-high"></output></span>
<button id="what-reset" type="button">back to the reported interval</button></div>
<p id="what-verdict" class="verdict" aria-live="polite"></p>{curve}
<h3>How far does a decision hold?</h3>
<p>The value is <select id="break-direction" aria-label="direction"><option value="above">above</option>
<option value="below">below</option></select>
<input id="break-threshold" type="number" step="any" aria-label="threshold" placeholder="threshold"></p>
<p id="break-out" hidden>{follows} {breaks}</p>
<noscript><p>The sliders need JavaScript; the reported interval above does not.</p></noscript></section>"""
