"""The report: one HTML file with everything in it, for a screen of any width and for paper.

What it says stands in `templates/report.html`; here are the values it is filled with.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koloss.core.files import write_text
from koloss.core.terminal import console, say, section, wrote
from koloss.core.text import (
    Safe,
    Table,
    counted,
    decimals,
    duration,
    escape,
    short_number,
    slugs,
)
from koloss.guarantees.base import MARKS

if TYPE_CHECKING:
    from koloss.experiments import Curve, Result, Results
    from koloss.experiments.results import Dimension


Key = tuple[str, str]
"""Of a figure: the name of an experiment, and "main" or "dimension"."""

OVERVIEW: Key = ("", "overview")


def write_page(results: Results, out: str | Path) -> list[Path]:
    """Write `report.html` and `figures/*.png` and `.svg` of some results into a directory; the files, the page first."""
    from koloss.games.store import locked
    from koloss.report.figures import save

    with locked(Path(out)):
        path, folder = Path(out) / "report.html", Path(out) / "figures"
        folder.mkdir(exist_ok=True)
        drawn = {key: save(figure, folder, stem) for key, stem, figure in _figures(results)}
        pictures = {key: picture_data(svg) for key, (_, svg) in drawn.items()}
        write_text(path, page(results, pictures))
    return [path, *(file for files in drawn.values() for file in files)]


def _figures(results: Results) -> Iterator[tuple[Key, str, Any]]:
    """All figures of a report: the key of each, the name of its files, and the figure."""
    from koloss.report import figures

    names = [result.experiment.name for result in results.results]
    stems = slugs(names, taken=("overview", *(f"{name}-dimension" for name in names)))
    if len(names) > 1 and results.curves:
        yield OVERVIEW, "overview", figures.overview_figure(results)
    for result, name in zip(results.results, names, strict=True):
        if result.curves:
            yield (name, "main"), stems[name], figures.regret_figure(result)
        elif result.picture is not None:
            yield (name, "main"), stems[name], figures.picture_figure(result)
        if result.dimensions:
            stem = f"{stems[name]}-dimension"
            yield (name, "dimension"), stem, figures.dimension_figure(result)


def page(results: Results, pictures: Mapping[Key, str]) -> str:
    """The page as text, with the addresses of those of its pictures that there are."""
    from koloss.report import figures

    several = len(results.results) > 1
    paper = any(result.experiment.paper for result in results.results)
    title = "Online learning with kernel losses: the experiments"
    if not paper and results.results:
        title = results.results[0].experiment.title
        title += f", and {counted(len(results.results) - 1, 'other')}" if several else ""
    names = [result.experiment.name for result in results.results]
    links = {name: f"experiment-{link}" for name, link in slugs(names).items()}
    return render(
        "report.html",
        window="Koloss: the experiments" if paper else title,
        results=results, title=title, several=several, paper=paper, anchors=links,
        picture=lambda *key: pictures.get(key, ""), opening=pictures.get(OVERVIEW, ""),
        games=sum(curve.runs for curve in results.curves),
        overview_alt=f"{figures.overview_headline(results.curves)}. {_ends(results.curves)}",
        summary=summary_table(results, links if several else {}, paper=paper),
        command=_command(results, paper=paper),
        share=lambda curve: f"{100 * curve.mean[-1] / curve.bound[-1]:.0f} %" if curve.bound[-1] > 0 else "all",
        logarithmic=figures.logarithmic, ends=_ends, regret=regret_text, exponent=exponent_text, terms=_terms,
        printed=_printed, dimension_table=_dimension_table, settings=_settings,
    )  # fmt: skip


# What all pages share.


def render(template: str, *, folder: Path | None = None, **values: Any) -> str:
    """A template filled in, of a folder or of the report; whatever is not HTML already is escaped."""
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

    own = [] if folder is None else [FileSystemLoader(folder)]

    environment = Environment(
        loader=ChoiceLoader([*own, PackageLoader("koloss.report")]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"short": short_number, "counted": counted, "duration": duration}
    environment.filters["flat"] = lambda text: " ".join(text.split())
    environment.tests |= {"finite": math.isfinite, "sublinear": sublinear}
    return environment.get_template(template).render(**values)


def picture_data(path: Path) -> str:
    """A picture as an address that has all of it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


# Tables, and what is said of a curve.


def summary_table(results: Results, links: dict[str, str], *, paper: bool) -> Table:
    """A row for every learner, under the name of its experiment."""
    head = ["learner", "rounds", "runs", "regret (95 % band)", "growth exponent", "guarantee"]
    rows: list[list[str]] = []
    for result in results.results:
        title = result.experiment.title
        if (link := links.get(result.experiment.name)) and result.curves:
            rows.append([Safe(f'<a href="#{link}">{escape(title)}</a>')])
        for curve in result.curves:
            bound = short_number(curve.bound[-1]) + ("" if curve.valid else " (not valid)")
            row = [curve.learner, f"{curve.rounds:,}", str(curve.runs), regret_text(curve), exponent_text(curve), bound]  # fmt: skip
            said = curve.printed
            printed = (
                f"{short_number(said['total'])} ({'valid' if said['valid'] else 'not valid'})"
                if said
                else "–"
            )
            rows.append([*row, printed] if paper else row)
    return Table([*head, "the paper's bound"] if paper else head, rows)


def sublinear(curve: Curve) -> bool:
    """Whether the growth exponent is below 1 by more than twice its standard error."""
    error = curve.exponent_error if math.isfinite(curve.exponent_error) else 0.0
    return math.isfinite(curve.exponent) and curve.exponent + 2 * error < 1


def regret_text(curve: Curve, *, band: bool = True) -> str:
    """Mean regret at the end, and its band."""
    mean, low, high = (short_number(line[-1]) for line in (curve.mean, curve.low, curve.high))
    return f"{mean} ({low} to {high})" if band and curve.runs > 1 else mean


def exponent_text(curve: Curve) -> str:
    """Growth exponent and its error."""
    return decimals(curve.exponent, curve.exponent_error)


def _printed(curve: Curve) -> str:
    """What the paper prints for the same game."""
    said = curve.printed
    if said is None:
        return "The paper prints no bound for this setting."
    tuning = "" if said["of_this_tuning"] else " for its own tuning"
    text = f"{said['statement']}{tuning}: {short_number(said['total'])}"
    if said["valid"]:
        return f"{text}; valid."
    why = [a["text"] for a in said["assumptions"] if a["holds"] is False]
    return f"{text}; not valid" + (f" ({'; '.join(why)})." if why else ".")


def _terms(promise: dict[str, Any]) -> str:
    """The terms that matter."""
    least = 1e-3 * sum(promise["terms"].values())
    large = {name: value for name, value in promise["terms"].items() if value > least}
    return ", ".join(f"{name} {short_number(value)}" for name, value in large.items())


def _ends(curves: Iterable[Curve]) -> str:
    return "; ".join(
        f"{curve.learner}: regret {short_number(curve.mean[-1])} after {curve.rounds:,} rounds, "
        f"guarantee {short_number(curve.bound[-1])}"
        for curve in curves
    ) + "."  # fmt: skip


def _dimension_table(result: Result) -> Table:
    measured = {curve.learner: curve for curve in result.curves}
    ends = [
        f"{n:,}" for n in result.dimensions[0].horizons[:: len(result.dimensions[0].horizons) - 1]
    ]
    head = ["learner", "eigenvalues fall like", "features at this horizon", f"effective dimension at n = {' and '.join(ends)}",
            "growth of the dimension", "growth of the guarantee", "growth of the measured regret", "the paper's Corollary",
            "leading features", "ridge, rank-one losses", "ridge, losses of a norm"]  # fmt: skip
    rows = []
    for d in result.dimensions:
        decay = _power("j", f"−{d.rate:.2f}") if d.profile == "polynomial" else _power("e", f"−{d.rate:.2f} j")  # fmt: skip
        curve = measured.get(d.learner)
        rank, grew = (str(curve.rank), _power("t", exponent_text(curve))) if curve else ("", "")
        rates = [_power("n", f"{rate:.2f}") for rate in (d.dimension_growth, d.bound_growth)]
        theory = [_rate(d, rate) for rate in (d.corollary, d.repaired, d.hull, d.norm)]
        size = " and ".join(short_number(d.dimensions[k]) for k in (0, -1))
        rows.append([d.learner, decay, rank, size, *rates, grew, *theory])
    return Table(head, rows)


def _rate(dimension: Dimension, rate: float | None) -> str:
    if rate is None:
        return "none"
    logs = " log" if dimension.profile == "exponential" else ""
    return Safe(f"{_power('n', f'{rate:.2f}')}{logs}")


def _power(base: str, exponent: str) -> Safe:
    return Safe(f"{base}<sup>{exponent}</sup>")


def _settings(result: Result) -> str:
    """Kernel, actions, adversary and size of an experiment."""
    experiment, curve = result.experiment, result.curves[0]
    several = any(learner.kernel for learner in experiment.learners)
    kernels = [learner.kernel or experiment.kernel for learner in experiment.learners]
    kernel = (
        f"kernels: {', '.join(map(_named, kernels))}"
        if several
        else f"kernel: {_named(experiment.kernel)}"
    )
    adversary = _named({k: v for k, v in experiment.adversary.items() if not isinstance(v, list)})
    size = f"rounds, runs: {curve.rounds:,}, {curve.runs}"
    return f"{kernel}; actions: {_named(experiment.actions)}; adversary: {adversary}; {size}"


def _named(data: dict[str, Any]) -> str:
    options = ", ".join(f"{k} = {v}" for k, v in data.items() if k != "kind")
    return f"{data['kind']}({options})" if options else str(data["kind"])


def _command(results: Results, *, paper: bool) -> str:
    """What to type for the same page."""
    if not paper:
        return f"koloss run FILE.toml --out DIR --seed {results.seed}"
    names = [result.experiment.name for result in results.results]
    chosen = "".join(f" --only {name}" for name in names) if len(names) < 4 else ""
    return f"koloss reproduce --out DIR --seed {results.seed}{chosen}"


# In the terminal.


def show_results(results: Results, paths: Sequence[Path] = ()) -> None:
    """Print a line for every curve, and the names of files written."""
    screen = console()
    rows: list[Sequence[str]] = []
    for result in results.results:
        several = len(result.curves) > 1
        rows += [(result.experiment.name,)] if several else []
        for curve in result.curves:
            name = f"  {curve.learner}" if several else curve.name
            mark = ("" if curve.valid else " (not valid)") + (" ABOVE" if curve.above else "")
            regret, grew = regret_text(curve, band=False), exponent_text(curve)
            bound = f"{curve.bound[-1]:,.0f}{mark}"
            rows.append((name, f"{curve.rounds:,}", str(curve.runs), regret, grew, bound))
    head = ("experiment", "rounds", "runs", "regret", "exponent", "guarantee")
    if results.curves:
        title = "Regret against the best single action in hindsight"
        screen.print(section(title, Table(head, rows)))
    for result in results.results:
        if result.picture is not None:
            facts = result.picture.facts
            size = f"effective size {facts['effective_size']:,.0f}"
            words = f"{facts['draws']:,} draws, R-hat {facts['r_hat']:.3f}, {size}"
            say(screen, f"{result.experiment.name}: {words}")
    wrote(screen, paths)


def show_bounds(bounds: list[dict[str, Any]]) -> None:
    """Print guarantees, term by term."""
    screen = console()
    for entry in bounds:
        promise, paper = entry["guarantee"], entry["paper"]
        values = {**promise["terms"], "sum": sum(promise["terms"].values())}
        if not promise["informative"]:
            values["trivial: no player exceeds"] = promise["trivial"]
        bold = range(len(promise["terms"]), len(values))
        if paper is not None:
            values[f"the paper prints ({'valid' if paper['valid'] else 'not valid'})"] = paper[
                "total"
            ]
        rows = [(name, f"{value:,.1f}") for name, value in values.items()]
        title = f"{entry['learner']}, {entry['kernel']}, {entry['rounds']:,} rounds: {promise['statement']}"
        screen.print(section(title, Table(("term", "bound"), rows), bold), soft_wrap=True)
        if entry["rank"] is not None:
            say(screen, f"  features: {entry['rank']}, error at most {entry['epsilon']:.3g}")
        kind = "regret in hindsight" if promise["regret"] == "hindsight" else "pseudo-regret"
        say(screen, f"  bounds: the {kind}")
        say(screen, f"  valid: {'yes' if promise['valid'] else 'no'}")
        for assumption in promise["assumptions"]:
            say(screen, f"  assumes: {assumption['text']} [{MARKS[assumption['holds']]}]")
        for note in promise["notes"]:
            say(screen, f"  note: {note}")
        screen.print()


def show_catalogue(catalogue: dict[str, list[dict[str, str]]]) -> None:
    """Print what there is, with a line about each."""
    screen = console()
    width = max(len(entry["name"]) for entries in catalogue.values() for entry in entries)
    for heading, entries in catalogue.items():
        screen.print(heading.capitalize(), style="bold")
        for entry in entries:
            say(screen, f"  {entry['name']:<{width}}  {entry['about']}")
        screen.print()
