"""The report: one HTML file with everything in it, for a screen of any width and for paper."""

from __future__ import annotations

import base64
import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from koloss.experiments import Curve, Dimension, Experiment, Result, Results

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #565656; --paper: #ffffff; --line: #d8d8d8; --box: #f5f6f7;
  --link: #005a8d; --bad: #a33a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #b4b4b4; --paper: #16181a; --line: #3a3d40;
  --box: #1f2225; --link: #7cc4f0; --bad: #ff9a5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 50rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.4rem 0 0.6rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 2.6rem 0 0.4rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.3rem 0 0.3rem; }
p, ul, dl { margin: 0.5rem 0; }
a { color: var(--link); }
.soft, figcaption, footer { color: var(--soft); font-size: 0.9rem; }
.bad { color: var(--bad); font-weight: 600; }
.note { background: var(--box); border-left: 4px solid var(--line); padding: 0.5rem 0.8rem; }
figure { margin: 1rem 0; }
figure img { display: block; width: 100%; max-width: 36rem; height: auto; background: #fff; border-radius: 4px; }
dt { font-weight: 600; margin-top: 0.6rem; }
dd { margin: 0 0 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; font-variant-numeric: tabular-nums; margin: 0.8rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.5rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
td.n, th.n { text-align: right; }
code { font: 0.9em ui-monospace, "DejaVu Sans Mono", monospace; background: var(--box); padding: 0.1em 0.3em; border-radius: 3px; }
pre { background: var(--box); padding: 0.7rem; white-space: pre-wrap; border-radius: 4px; }
pre code { padding: 0; }
@media (max-width: 44rem) {
  table, tbody, tr, td.first { display: block; width: 100%; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { border-bottom: 1px solid var(--line); padding: 0.4rem 0; }
  td, td.n { display: inline; border: 0; padding: 0; text-align: left; }
  td::before { content: attr(data-label) " "; color: var(--soft); }
  td:not(.first):not(:last-child)::after { content: "; "; }
  td.first { font-weight: 600; }
  td.first::before { content: ""; }
}
@media print {
  :root { --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --box: #f3f3f3; --link: #000; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 { break-after: avoid; } figure, tr, dl { break-inside: avoid; }
  figure img { max-width: 12cm; }
}
"""

INTRO = """
<h2 id="how">How to read this page</h2>
<p>A <b>game</b> goes on for many rounds. In each round a <b>learner</b> picks an action, say a point of a disc, and an
<b>adversary</b> picks a loss, a function of the action; the learner pays the loss of its action. <b>Smaller is better.</b>
Losses here are functions in the space of a <b>kernel</b>: quadratics, polynomials, sums of Gaussian bumps.</p>
<dl>
<dt>Full information, bandit feedback</dt>
<dd>After a round the learner is told the whole loss function, or only what its own action cost.</dd>
<dt>Regret</dt>
<dd>What the learner has paid so far, less what the best single action would have paid in the same rounds. The best action is
known only afterwards, so nobody can have it from the start. A learner that does not learn has a regret that grows in proportion
to the rounds.</dd>
<dt>Growth exponent</dt>
<dd>The power of t that the mean regret grows like, fitted on the second half of the rounds: 1 means no progress,
below 1 means that the regret per round falls. After ± comes its standard error, found by leaving out one run at a
time.</dd>
<dt>Guarantee</dt>
<dd>A number that theory promises the expected regret to stay below, whatever the adversary does. It is <b>valid</b> where the
theorem is proved for the settings that were played and none of its assumptions is known to fail. The paper's own bound is
given beside it; where it is called not valid, the paper's proof has a gap or its statement is false.</dd>
</dl>
<p>In the figures both axes are logarithmic, so that a power of t is a straight line whose slope is the exponent; the two short grey
lines have the slopes of t and √t. The solid line is the mean over independent runs, the shaded band holds the true mean
with 95 % confidence, round by round, the dashed line is the guarantee, and the dotted line is what playing uniformly at random
would have paid.</p>
"""


def write_page(results: Results, out: str | Path) -> list[Path]:
    """Write `report.html` and `figures/*.png` and `.svg` of some results.

    Parameters
    ----------
    results : Results
    out : path
        Directory.

    Returns
    -------
    list of Path
        The files written, the page first.
    """
    from koloss.report.figures import save
    from koloss.report.regret import dimension_figure, picture_figure, regret_figure

    out = Path(out)
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    pictures: dict[str, list[Path]] = {}
    for result in results.results:
        name, drawn = result.experiment.name, []
        if result.curves:
            drawn.append((name, regret_figure(result)))
        if result.dimensions:
            drawn.append((f"{name}-dimension", dimension_figure(result)))
        if result.picture is not None:
            drawn.append((name, picture_figure(result)))
        for stem, figure in drawn:
            files += save(figure, folder, stem)
            pictures.setdefault(name, []).append(folder / f"{stem}.svg")
    path = out / "report.html"
    path.write_text(page(results, pictures), encoding="utf-8")
    return [path, *files]


def page(results: Results, pictures: dict[str, list[Path]]) -> str:
    """The page as text; `pictures` are the SVG files of each experiment, by name."""
    sections = [
        _section(result, pictures.get(result.experiment.name, [])) for result in results.results
    ]
    games = sum(curve.runs for curve in results.curves)
    lead = (
        f"{counted(len(results.results), 'experiment')}, {counted(games, 'game')} played. "
        "Everything on this page is computed by one command; how to repeat it stands at the end."
    )
    body = [
        "<h1>Online learning with kernel losses: the experiments</h1>",
        f"<p>{lead}</p>",
        _verdict(results),
        INTRO,
        _summary(results),
        *sections,
        _foot(results),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>Koloss: the experiments</title>\n"
        '<link rel="icon" href="data:,">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


# Parts.


def _verdict(results: Results) -> str:
    curves = results.curves
    if not curves:
        return ""
    below = [curve for curve in curves if sublinear(curve)]
    above = [curve for curve in curves if curve.above]
    slower = "grew clearly slower than the rounds (exponent below 1 by more than twice its error)"
    words = [f"The regret {slower} for {len(below)} of {counted(len(curves), 'learner')}."]
    if above:
        names = ", ".join(escape(curve.name) for curve in above)
        words.append(f'<span class="bad">Above a valid guarantee: {names}.</span>')
    else:
        words.append("No mean regret was above its valid guarantee at any time.")
    return f'<p class="note">{" ".join(words)}</p>'


def _summary(results: Results) -> str:
    if not results.curves:
        return ""
    rows = []
    for result in results.results:
        link = f'<a href="#{result.experiment.name}">{escape(result.experiment.title)}</a>'
        for k, curve in enumerate(result.curves):
            several, first = len(result.curves) > 1, f"{link}: " if k == 0 else "the same: "
            rows.append(
                [
                    f"{first}{escape(curve.learner)}" if several else link,
                    f"{curve.rounds:,}",
                    f"{curve.runs}",
                    regret_text(curve),
                    exponent_text(curve),
                    _guarantee(curve),
                    _printed(curve),
                ]
            )
    head = ["experiment", "rounds", "runs", "regret (95 % band)", "growth exponent", "guarantee", "the paper's bound"]  # fmt: skip
    return '<h2 id="summary">All results in one table</h2>' + html_table(head, rows, numbers={1, 2, 3, 4, 5, 6})  # fmt: skip


def _section(result: Result, pictures: list[Path]) -> str:
    experiment = result.experiment
    parts = [f'<h2 id="{experiment.name}">{escape(experiment.title)}</h2>']
    if experiment.paper:
        parts.append(f'<p class="soft">In the paper: {escape(experiment.paper)}.</p>')
    if experiment.text:
        parts.append(f"<p>{escape(_flat(experiment.text))}</p>")
    captions = [_caption(result), "Eigenvalues of the kernels, and the number of features that makes the guarantee smallest."]  # fmt: skip
    for path, caption in zip(pictures, captions, strict=False):
        data = base64.b64encode(path.read_bytes()).decode()
        parts.append(
            f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{escape(_alt(result))}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    if experiment.shows:
        parts.append(f"<p><b>What it shows.</b> {escape(_flat(experiment.shows))}</p>")
    if result.curves and result.curves[0].rounds < experiment.rounds:
        parts.append(
            f'<p class="note">These games had {result.curves[0].rounds:,} rounds, the experiment is made for '
            f"{experiment.rounds:,}: what is said of it may not show yet.</p>"
        )
    parts += [_measured(curve, several=len(result.curves) > 1) for curve in result.curves]
    if result.dimensions:
        parts.append(_dimension_table(result))
    if result.curves:
        parts.append(_setting(experiment, result.curves))
    for name, text in result.failures.items():
        parts.append(f'<p class="bad">{escape(name)} failed: {escape(text)}</p>')
    return "\n".join(parts)


def _caption(result: Result) -> str:
    if result.picture is None:
        runs = result.curves[0].runs if result.curves else 0
        return f"Mean regret of {counted(runs, 'run')}, both axes logarithmic."
    facts = result.picture.facts
    return (
        f"{facts['draws']:,} draws of {facts['chains']} chains. Split R-hat {facts['r_hat']:.3f} (near 1: the chains agree), "
        f"effective sample size {facts['effective_size']:,.0f}, {100 * facts['acceptance']:.0f} % of proposals accepted. "
        f"Mean of Σ K(x, z) over the draws: {facts['mean_loss']:.4f} ± {facts['error']:.4f} (standard error); by "
        f"quadrature over the density: {facts['mean_loss_exact']:.4f}."
    )


def _alt(result: Result) -> str:
    if result.picture is not None:
        return "Draws of the sampler as dots over the density, which is light where they are dense."
    parts = []
    for curve in result.curves:
        parts.append(
            f"{curve.learner}: regret {short_number(curve.mean[-1])} after {curve.rounds:,} rounds, guarantee {short_number(curve.bound[-1])}"
        )
    return "Regret against rounds. " + "; ".join(parts) + "."


def _measured(curve: Curve, *, several: bool) -> str:
    """What was measured of one learner, in words that the numbers choose."""
    promise = curve.promise
    large = {k: v for k, v in promise["terms"].items() if v > 1e-3 * sum(promise["terms"].values())}
    terms = ", ".join(f"{name} {short_number(value)}" for name, value in large.items())
    words = [
        f"Regret {regret_text(curve)} after {curve.rounds:,} rounds, mean of {counted(curve.runs, 'run')}."
    ]
    words.append(f"Playing uniformly at random would have had {short_number(curve.uniform[-1])}.")
    if math.isfinite(curve.exponent):
        clear = "" if sublinear(curve) else ", which is not clearly below 1 at this size"
        words.append(f"The regret grew like t to the power {exponent_text(curve)}{clear}.")
    elif curve.rounds > 1:
        words.append("There is no growth exponent: the mean regret was not positive throughout.")
    share = curve.mean[-1] / curve.bound[-1] if curve.bound[-1] > 0 else 0.0
    words.append(
        f"The guarantee is {short_number(curve.bound[-1])} ({escape(promise['statement'])}: {escape(terms)})"
        + (
            f"; the regret was {100 * share:.0f} % of it."
            if promise["informative"]
            else ", no more than what no player can exceed: the game is too short for it to say more."
        )
    )
    if not curve.valid:
        words.append('<span class="bad">It is not valid here.</span>')
    if curve.above:
        words.append('<span class="bad">The mean regret was above it.</span>')
    head = f"<h3>{escape(curve.learner)}</h3>" if several else "<h3>What was measured</h3>"
    lines = [f"<li>{escape(a['text'])}: {_holds(a['holds'])}</li>" for a in promise["assumptions"]]
    text = f"{head}<p>{' '.join(words)}</p>"
    if lines:
        text += f'<p class="soft">The guarantee assumes:</p><ul class="soft">{"".join(lines)}</ul>'
    text += f'<p class="soft">{_comparator(curve)} {_paper(curve)} {_cost(curve)}</p>'
    for number, why in curve.failures.items():
        text += f'<p class="bad">Run {number} failed: {escape(why)}</p>'
    return text


def _comparator(curve: Curve) -> str:
    return {
        "exhaustive": "The best action in hindsight was found by looking at all of them.",
        "dual": "The best action in hindsight comes with a proof that none is better.",
        "local only": "The best action in hindsight was searched from many starts; that none is better is not proved, "
        "so the true regret could be larger.",
    }[curve.certificate]


def _paper(curve: Curve) -> str:
    said = curve.printed
    if said is None:
        return "The paper prints no bound for this setting."
    own = "" if said["of_this_tuning"] else " for its own tuning"
    text = f"{escape(said['statement'])}{own}: {short_number(said['total'])}"
    if said["valid"]:
        return f"{text}; valid."
    why = [a["text"] for a in said["assumptions"] if a["holds"] is False]
    return f"{text}; not valid" + (f" ({escape('; '.join(why))})." if why else ".")


def _cost(curve: Curve) -> str:
    each = 1000 * curve.learner_seconds / (curve.runs * curve.rounds)
    rank = f" {curve.rank} features" if curve.rank is not None else ""
    error = (
        f" with an error of at most {curve.epsilon:.2g}"
        if curve.epsilon is not None and curve.epsilon > 0
        else ", exact"
    )
    features = f"The learner used{rank}{error}. " if curve.rank is not None else ""
    return f"{features}It took {each:.2g} ms a round."


def _dimension_table(result: Result) -> str:
    measured = {curve.learner: curve for curve in result.curves}
    head = [
        "kernel",
        "eigenvalues fall like",
        "features at this horizon",
        "growth of features",
        "growth of the guarantee",
        "growth of the measured regret",
        "the paper's Corollary",
        "repaired theory",
    ]
    rows = [
        [
            escape(d.learner),
            f"j<sup>−{d.rate:.2f}</sup>" if d.profile == "polynomial" else f"e<sup>−{d.rate:.2f} j</sup>",
            f"{measured[d.learner].rank}" if d.learner in measured else "",
            f"n<sup>{d.rank_growth:.2f}</sup>",
            f"n<sup>{d.bound_growth:.2f}</sup>",
            f"t<sup>{exponent_text(measured[d.learner])}</sup>" if d.learner in measured else "",
            _rate(d, d.corollary),
            _rate(d, d.repaired),
        ]
        for d in result.dimensions
    ]  # fmt: skip
    horizons = result.dimensions[0].horizons
    return (
        "<h3>Against the Corollary's rates</h3>"
        + html_table(head, rows, numbers=set(range(1, 8)))
        + '<p class="soft">The eigenvalues are fitted by an upper envelope over all that can be told from rounding. Growth of the '
        f"features and of the guarantee: fitted over horizons from {min(horizons):,} to {max(horizons):,}, computed without "
        "playing; on a finite net the number of features ends at the number of points, and the guarantee of the roughest kernel "
        "then grows like √n at last. The rates of the Corollary and of the repaired theory are for the worst adversary and up to "
        "logarithms; the adversary here is random, so the measured regret may grow slower.</p>"
    )


def _rate(dimension: Dimension, rate: float | None) -> str:
    if rate is None:
        return f"none: β = {dimension.rate:.2f} is too small"
    logs = " log" if dimension.profile == "exponential" else ""
    return f"n<sup>{rate:.2f}</sup>{logs}"


def _setting(experiment: Experiment, curves: tuple[Curve, ...]) -> str:
    own = {k: v for k, v in experiment.adversary.items() if k != "kind"}
    options = ", ".join(f"{k} = {v}" for k, v in own.items() if not isinstance(v, list))
    facts = [
        ("kernel", _named(experiment.kernel)),
        ("actions", _named(experiment.actions)),
        ("adversary", experiment.adversary["kind"] + (f" ({options})" if options else "")),
        ("rounds, runs", f"{curves[0].rounds:,}, {curves[0].runs}"),
    ]
    several = any(learner.kernel for learner in experiment.learners)
    if several:
        facts[0] = ("kernels", ", ".join(_named(learner.kernel or experiment.kernel) for learner in experiment.learners))  # fmt: skip
    items = "; ".join(f"{name}: {escape(value)}" for name, value in facts)
    return f'<p class="soft">Settings: {items}. Name: <code>{escape(experiment.name)}</code>.</p>'


def _foot(results: Results) -> str:
    machine = results.machine
    seconds = sum(curve.seconds for curve in results.curves)
    names = " ".join(f"--only {result.experiment.name}" for result in results.results)
    single = names if len(results.results) < 4 else ""
    return (
        '<h2 id="again">How to repeat this</h2>'
        f"<pre><code>koloss reproduce --out DIR --seed {results.seed} {single}</code></pre>"
        "<p>A longer run at full size: <code>--full</code>. An experiment of your own: copy one with "
        "<code>koloss list --spec NAME</code>, change it, and play it with <code>koloss run FILE.toml</code>. All numbers of this "
        "page are in <code>results.json</code>, all figures in <code>figures/</code>.</p>"
        f"<footer><p>Koloss {escape(results_version(results))}, Python {machine['python']}, NumPy {machine['numpy']}, SciPy "
        f"{machine['scipy']}; {escape(machine['system'])}, {counted(machine['processors'] or 1, 'processor')}. Seed {results.seed}. The "
        f"games took {seconds:,.0f} seconds of computing. The same seed gives the same curves for any number of processes.</p></footer>"
    )


def results_version(results: Results) -> str:
    """Version of the library that the results were computed with."""
    return str(results.machine["koloss"])


# Small things.


def sublinear(curve: Curve) -> bool:
    """Whether the growth exponent is below 1 by more than twice its standard error."""
    error = curve.exponent_error if math.isfinite(curve.exponent_error) else 0.0
    return math.isfinite(curve.exponent) and curve.exponent + 2 * error < 1


def regret_text(curve: Curve, *, band: bool = True) -> str:
    """Mean regret at the end, and its band."""
    mean, low, high = curve.mean[-1], curve.low[-1], curve.high[-1]
    ends = f" ({short_number(low)} to {short_number(high)})" if band and curve.runs > 1 else ""
    return f"{short_number(mean)}{ends}"


def exponent_text(curve: Curve) -> str:
    """Growth exponent and its error."""
    if not math.isfinite(curve.exponent):
        return "–"
    error = f" ± {curve.exponent_error:.2f}" if math.isfinite(curve.exponent_error) else ""
    return f"{curve.exponent:.2f}{error}"


def _guarantee(curve: Curve) -> str:
    return short_number(curve.bound[-1]) + ("" if curve.valid else " (not valid)")


def _printed(curve: Curve) -> str:
    said = curve.printed
    if said is None:
        return "–"
    return f"{short_number(said['total'])} ({'valid' if said['valid'] else 'not valid'})"


def _holds(holds: bool | None) -> str:
    return {True: "checked, holds", False: "fails", None: "not checked"}[holds]


def _named(data: dict[str, Any]) -> str:
    options = ", ".join(f"{k} = {v}" for k, v in data.items() if k != "kind")
    return f"{data['kind']}({options})"


def short_number(value: float) -> str:
    """About three digits."""
    value = float(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def counted(number: int, word: str) -> str:
    """A number of things."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def html_table(head: list[str], rows: list[list[str]], numbers: set[int]) -> str:
    """A table that becomes a list of cards on a narrow screen; cells are HTML."""

    def kind(k: int) -> str:
        names = [name for name, yes in (("first", k == 0), ("n", k in numbers)) if yes]
        return f' class="{" ".join(names)}"' if names else ""

    top = "".join(f'<th scope="col"{kind(k)}>{escape(text)}</th>' for k, text in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f'<td{kind(k)} data-label="{escape(head[k])}">{cell}</td>' for k, cell in enumerate(row)) + "</tr>"
        for row in rows
    )  # fmt: skip
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
