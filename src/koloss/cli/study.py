"""Verbs of studies: `koloss study create`, `list`, `show`, `ask`, `tell`, `export`, `verify` and `backup`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from koloss.cli import options
from koloss.cli.options import UsageError, option, print_json
from koloss.cli.study_operator import change, forget_subject, hand_over, pause, re_arm, resume
from koloss.cli.study_options import NAME, REQUEST, STORE, open_store_of, open_study, read
from koloss.core.text import printable

if TYPE_CHECKING:
    from koloss.studies import Store

VALUES_FROM = 10_000
"""Newest events among which `show` looks for values."""


def application() -> typer.Typer:
    """The verbs, as a Typer application."""
    app = typer.Typer(rich_markup_mode="markdown")

    @app.callback(invoke_without_command=True)
    def study(context: typer.Context) -> None:
        """Decisions that survive, shared by many processes."""
        if context.invoked_subcommand is None:
            print(context.get_help())

    verbs: list[Any] = [create, list_, show, ask, tell, export, verify, backup, pause, resume]
    for verb in (*verbs, hand_over, re_arm, change, forget_subject):
        # Values may be negative numbers, which look like options.
        settings = {"ignore_unknown_options": verb is tell}
        name = verb.__name__.rstrip("_").replace("_", "-")
        app.command(name, context_settings=settings)(verb)
    return app


# Beginning.


def create(
    context: typer.Context,
    file: Path | None = typer.Argument(None, help="A TOML file.", metavar="SPEC"),
    name: str | None = option(None, "Study", "In the place of the name in SPEC.", metavar="NAME"),
    example: bool = option(False, "Output", "Print a SPEC to begin with, and exit.", "--example"),
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Begin a study that a TOML file describes.

    `koloss study create --example` prints such a file.
    """
    from koloss.studies import Study
    from koloss.studies.spec import EXAMPLE

    if example:
        print(EXAMPLE, end="")
        return
    if file is None:
        raise UsageError("SPEC must be given, or --example")
    with open_store_of(context, store) as opened:
        try:
            made = Study.from_toml(opened, file, name=name)
        except FileNotFoundError as error:
            raise UsageError(f"there is no file {file}") from error
        if as_json:
            print_json(made.status().to_dict())
        else:
            print(f"created {made.name} in {opened.url}")


def list_(context: typer.Context, store: str | None = STORE, as_json: bool = options.JSON) -> None:
    """List the studies in a store."""
    from koloss.cli.study_text import show_studies

    with open_store_of(context, store) as opened:
        studies = [_entry(opened, name) for name in opened.names()]
        if as_json:
            print_json(studies)
        else:
            show_studies(studies, opened.url)


def _entry(store: "Store", name: str) -> dict[str, Any]:
    """What can be known of a study without making its learner."""
    with store.transaction(name) as log:
        (first,), last = log.events(0, 1), log.last
    settings = first.data["settings"]
    return {
        "name": name,
        "learner": first.data["learner"],
        "goal": settings["goal"],
        "unit": settings["unit"],
        "labels": settings["labels"],
        "created": first.at.isoformat(),
        "events": last,
    }


def show(
    context: typer.Context,
    name: str = NAME,
    given: str | None = option(
        None, "Study", "Show best action and probabilities for it.", "--context", metavar="CONTEXT"
    ),
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Show where a study stands: counts, best action, probabilities, values over time, warnings of the store."""
    from koloss.cli.study_text import show_study

    with open_study(context, store, name) as study:
        status, known = study.status(), read(given)
        shown = {**status.to_dict(), "context": known}
        if known is not None:
            best = study.recommend(known)
            named = {} if best.params is None else {"params": best.params}
            place = {"index": best.index, "action": best.action.tolist()}
            shown["best"] = {**place, **named, "value": best.loss}
        shown["probabilities"] = study.probabilities(known)
        newest = study.events(max(status.events - VALUES_FROM, 0))
        shown["values"] = [event.data["value"] for event in newest if event.kind == "told"]
    if as_json:
        print_json(shown)
    else:
        show_study(shown)


# Ask and tell.


def ask(
    context: typer.Context,
    name: str = NAME,
    count: int | None = option(None, "Decision", "So many at once.", metavar="N"),
    given: str | None = option(
        None, "Decision", "What is known before it: text, or JSON.", "--context", metavar="CONTEXT"
    ),
    subject: str | None = option(
        None, "Decision", "Whose it is: the same one gets the same decision.", metavar="TEXT"
    ),
    allowed: str | None = option(
        None, "Decision", "Actions that may be chosen, as JSON: rows or params.", metavar="JSON"
    ),
    request: str | None = REQUEST,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Make a decision, or several."""
    from koloss.cli.study_text import decision_line

    with open_study(context, store, name) as study:
        made: Any = study.ask(
            count,
            context=read(given),
            subject=subject,
            request=request,
            allowed=read(allowed),
        )
        decisions = [_plain(one) for one in (made if count is not None else [made])]
    if as_json:
        print_json(decisions if count is not None else decisions[0])
    else:
        for decision in decisions:
            print(decision_line(decision))


def _plain(decision: Any) -> dict[str, Any]:
    """A decision, fit for JSON."""
    named = {} if decision.params is None else {"params": decision.params}
    return {
        "id": decision.id,
        "action": decision.action.tolist(),
        **named,
        "index": decision.index,
        "probability": decision.probability,
        "epoch": decision.epoch,
    }


def tell(
    context: typer.Context,
    name: str = NAME,
    pairs: list[str] = typer.Argument(
        ..., help="A decision and what it has brought; any number of these.", metavar="ID VALUE..."
    ),
    request: str | None = REQUEST,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Say what a decision has brought, or several: all of them, or none."""
    if len(pairs) % 2:
        raise UsageError(f"ID VALUE must be pairs, got {len(pairs)} words: {' '.join(pairs)}")
    ids = [_number("ID", text, int, "a whole number") for text in pairs[::2]]
    values = [_number("VALUE", text, float, "a number") for text in pairs[1::2]]
    with open_study(context, store, name) as study:
        study.tell(ids, values, request=request)
    if as_json:
        print_json({"told": [{"id": i, "value": v} for i, v in zip(ids, values, strict=True)]})
    else:
        print(f"told {', '.join(map(str, ids))}")


def _number(name: str, text: str, kind: Any, what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{name} must be {what}, got {text!r}") from None


# What is kept.


def export(
    context: typer.Context,
    name: str = NAME,
    path: Path = typer.Argument(..., help="Ends in .csv or .parquet.", metavar="PATH"),
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Write the decisions to a file, one row each."""
    from koloss.studies.export import export as write

    with open_study(context, store, name) as study:
        try:
            count = write(study, path)
        except ImportError as error:
            raise UsageError(str(error)) from error
    if as_json:
        print_json({"path": str(path), "decisions": count})
    else:
        print(f"wrote {path}: {count:,} decisions")


def verify(
    context: typer.Context,
    name: str = NAME,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Replay a study from its first event, and compare: exit code 0 where the history proves itself, 1 where it does not."""
    from koloss.studies import verify as replay

    with open_store_of(context, store) as opened:
        report = replay(opened, name)
    if as_json:
        print_json(report.to_dict())
    else:
        print(printable(str(report), lines=True))
    if not report.ok:
        raise typer.Exit(1)


def backup(
    context: typer.Context,
    path: Path = typer.Argument(..., help="Of a new file.", metavar="PATH"),
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Write a copy of a whole store, while others go on."""
    with open_store_of(context, store) as opened:
        try:
            opened.backup(path)
        except FileExistsError as error:
            raise UsageError(f"PATH must be that of a new file, got {path}") from error
    if as_json:
        print_json({"path": str(path)})
    else:
        print(f"wrote {path}")
