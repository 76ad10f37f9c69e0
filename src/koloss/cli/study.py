"""Verbs of studies: `koloss study create`, `list`, `show`, `ask`, `tell`, `export`, `verify`, `backup`, and an operator's."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from koloss.cli.options import (
    AS_JSON,
    Shared,
    UsageError,
    answer,
    naming_options,
    option,
    read_json,
    takes,
)
from koloss.core.text import printable

if TYPE_CHECKING:
    from koloss.studies import Store, Study

VALUES_FROM = 10_000
"""Newest events among which `show` looks for values."""

STORE_VARIABLE = "KOLOSS_STORE"

ARGUMENTS = {
    "name": "NAME",
    "decision": "ID",
    "path": "PATH",
    "setting": "SETTING",
    "context": "--context",
    "url": "--store",
    "policy": "the policy",  # of one's own, which only Python has
    **dict.fromkeys(("value", "labels", "lease", "loss_range", "rows"), "VALUE"),
}
"""What arguments of the library are called here."""


def _complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the studies in the store, for the shell's completion."""
    with suppress(Exception):  # a shell has no use for errors
        from koloss import studies

        store = studies.open_store(context.params.get("store") or os.environ[STORE_VARIABLE])
        return [name for name in store.names() if name.startswith(incomplete)]
    return []


IN_STORE: Shared = {
    "store": (
        str | None,
        option(
            None,
            "Store",
            "Such as sqlite:///studies.db or postgresql://user@host/database.",
            "--store",
            metavar="URL",
            envvar=STORE_VARIABLE,
        ),
    ),
    **AS_JSON,
}
NAME = typer.Argument(..., help="Of the study.", metavar="NAME", autocompletion=_complete_names)
REQUEST = option(
    None, "Decision", "A key: sent again under the same one, it is done once.", metavar="KEY"
)


@contextmanager
def open_store(context: typer.Context) -> Iterator["Store"]:
    """The store of `--store`; errors of the library name options."""
    from koloss import studies

    url = context.params["store"]
    if not url:
        raise UsageError(f"--store must be given, or {STORE_VARIABLE} be set")
    with naming_options(context, **ARGUMENTS):
        store = studies.open_store(url)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def open_study(context: typer.Context) -> Iterator["Study"]:
    """The study of NAME in the store of `--store`."""
    from koloss.studies import Study

    with open_store(context) as store:
        yield Study.open(store, context.params["name"])


# Beginning.


@takes(IN_STORE)
def create(
    context: typer.Context,
    file: Path | None = typer.Argument(None, help="A TOML file.", metavar="SPEC"),
    name: str | None = option(None, "Study", "In place of the name in SPEC.", metavar="NAME"),
    example: bool = option(False, "Output", "Print a SPEC to begin with, and exit.", "--example"),
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
    with open_store(context) as store:
        try:
            made = Study.from_toml(store, file, name=name)
        except FileNotFoundError as error:
            raise UsageError(f"there is no file {file}") from error
        answer(context, made.status().to_dict(), f"created {made.name} in {store.url}")


@takes(IN_STORE)
def list_(context: typer.Context) -> None:
    """List the studies in a store."""
    from koloss.cli.study_text import show_studies
    from koloss.studies.status import summary_of

    with open_store(context) as store:
        studies = [summary_of(store, name) for name in store.names()]
        answer(context, studies, lambda: show_studies(studies, store.url))


@takes(IN_STORE)
def show(
    context: typer.Context,
    name: str = NAME,
    given: str | None = option(
        None, "Study", "Show best action and probabilities for it.", "--context", metavar="CONTEXT"
    ),
) -> None:
    """Show where a study stands: counts, best action, probabilities, values over time, warnings of the store."""
    from koloss.cli.study_text import show_study
    from koloss.studies.status import described

    with open_study(context) as study:
        status, known = study.status(), read_json(given)
        shown = {**status.to_dict(), "context": known}
        if known is not None:
            shown["best"] = described(study.recommend(known))
        shown["probabilities"] = study.probabilities(known)
        newest = study.events(max(status.events - VALUES_FROM, 0))
        shown["values"] = [event.data["value"] for event in newest if event.kind == "told"]
    answer(context, shown, lambda: show_study(status, shown))


# Ask and tell.


@takes(IN_STORE)
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
) -> None:
    """Make a decision, or several."""
    from koloss.cli.study_text import decision_line

    with open_study(context) as study:
        known, rows = read_json(given), read_json(allowed)
        made: Any = study.ask(count, context=known, subject=subject, request=request, allowed=rows)
    decisions = [one.to_dict() for one in ([made] if count is None else made)]
    lines = "\n".join(map(decision_line, decisions))
    answer(context, decisions[0] if count is None else decisions, lines)


@takes(IN_STORE)
def tell(
    context: typer.Context,
    name: str = NAME,
    pairs: list[str] = typer.Argument(
        ..., help="A decision and what it has brought; any number of these.", metavar="ID VALUE..."
    ),
    request: str | None = REQUEST,
) -> None:
    """Say what a decision has brought, or several: all of them, or none."""
    if len(pairs) % 2:
        raise UsageError(f"ID VALUE must be pairs, got {len(pairs)} words: {' '.join(pairs)}")
    ids = [_number("ID", text, int, "a whole number") for text in pairs[::2]]
    values = [_number("VALUE", text, float, "a number") for text in pairs[1::2]]
    with open_study(context) as study:
        study.tell(ids, values, request=request)
    told = [{"id": i, "value": value} for i, value in zip(ids, values, strict=True)]
    answer(context, {"told": told}, f"told {', '.join(map(str, ids))}")


def _number(name: str, text: str, kind: Any, what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{name} must be {what}, got {text!r}") from None


# What is kept.


@takes(IN_STORE)
def export(
    context: typer.Context,
    name: str = NAME,
    path: Path = typer.Argument(..., help="Ends in .csv or .parquet.", metavar="PATH"),
) -> None:
    """Write the decisions to a file, one row each."""
    from koloss.studies.export import export as write

    with open_study(context) as study:
        try:
            count = write(study, path)
        except ImportError as error:
            raise UsageError(str(error)) from error
    answer(context, {"path": str(path), "decisions": count}, f"wrote {path}: {count:,} decisions")


@takes(IN_STORE)
def verify(context: typer.Context, name: str = NAME) -> None:
    """Replay a study from its first event, and compare: exit code 0 where the history proves itself, 1 where it does not."""
    from koloss.studies import verify as replay

    with open_store(context) as store:
        report = replay(store, name)
    answer(context, report.to_dict(), printable(str(report), lines=True))
    if not report.ok:
        raise typer.Exit(1)


@takes(IN_STORE)
def backup(
    context: typer.Context,
    path: Path = typer.Argument(..., help="Of a new file.", metavar="PATH"),
) -> None:
    """Write a copy of a whole store, while others go on."""
    with open_store(context) as store:
        try:
            store.backup(path)
        except FileExistsError as error:
            raise UsageError(f"PATH must be that of a new file, got {path}") from error
    answer(context, {"path": str(path)}, f"wrote {path}")


# What an operator does.


def _log(text: str, default: Any = "") -> Any:
    return str, option(default, "Log", text, metavar="TEXT")


def _word(text: str, metavar: str) -> Any:
    return str, typer.Argument(..., help=text, metavar=metavar)


BY: Shared = {"author": _log("Who does it."), "reason": _log("Why.")}
THERE: Shared = {
    "given": (str | None, option(None, "Study", "Only there.", "--context", metavar="CONTEXT")),
    **BY,
}
CHANGE: Shared = {
    "setting": _word("Which one.", "SETTING"),
    "value": _word("As JSON, or text.", "VALUE"),
    "author": _log("Who changes it.", ...),
    "reason": _log("Why.", ...),
}
SUBJECT: Shared = {"subject": _word("Whose traces are erased.", "SUBJECT")}

# What each does, its arguments, and what is said afterwards, in words and as JSON.
CONTROLS: dict[str, tuple[str, Shared, str, dict[str, bool]]] = {
    "pause": ("Make no decisions until `resume`; values are still welcome.", BY, "{name} is paused", {"paused": True}),
    "resume": ("Make decisions again.", BY, "{name} makes decisions again", {"paused": False}),
    "hand_over": ("Stop the policy in play; the robust learner takes over.", THERE, "the policy of {name} is stopped", {"handed_over": True}),
    "re_arm": ("Let the policy that was stopped last play again.", THERE, "the policy of {name} plays again", {"re_armed": True}),
    "change": ("Change a setting in the middle: withdraw or add actions, widen the range, the lease, the labels.", CHANGE, "{setting} of {name} is changed", {}),
    "forget_subject": ("Erase what a study holds of a subject; its history can still be verified.", SUBJECT, "erased {erased} of {name}", {}),
}  # fmt: skip


def control(method: str) -> Callable[..., None]:
    """The verb that calls a method of `Study`, by the same name."""
    text, arguments, done, facts = CONTROLS[method]

    @takes({"name": (str, NAME), **arguments, **IN_STORE})
    def verb(context: typer.Context) -> None:
        given = {name: context.params[name] for name in arguments}
        if "given" in given:
            given["context"] = read_json(given.pop("given"))
        if "value" in given:
            given["value"] = read_json(given["value"])
        with open_study(context) as study:
            try:
                count = getattr(study, method)(**given)
            except TypeError as error:
                if arguments is not THERE:  # a method that not every learner has
                    raise
                raise UsageError(str(error)) from error
        said = {"name": context.params["name"], **facts}
        said |= {key: given[key] for key in ("setting", "value") if key in given}
        said |= {} if count is None else {"erased": count}
        answer(context, said, done.format(**said))

    verb.__name__, verb.__doc__ = method, text
    return verb


def application() -> typer.Typer:
    """The verbs, as a Typer application."""
    app = typer.Typer(rich_markup_mode="markdown")

    @app.callback(invoke_without_command=True)
    def study(context: typer.Context) -> None:
        """Decisions that survive, shared by many processes."""
        if context.invoked_subcommand is None:
            print(context.get_help())

    verbs = [create, list_, show, ask, tell, export, verify, backup]
    for verb in (*verbs, *map(control, CONTROLS)):
        # Values may be negative numbers, which look like options.
        settings = {"ignore_unknown_options": verb is tell}
        name = verb.__name__.rstrip("_").replace("_", "-")
        app.command(name, context_settings=settings)(verb)
    return app
