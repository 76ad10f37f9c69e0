"""Options that verbs share, the names they take, and how an error of the library comes to name an option."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from koloss.actions import Ball, Box
from koloss.core.arrays import as_int
from koloss.errors import KolossError, SpecError
from koloss.kernels import Kernel
from koloss.kernels.described import kernel_of_text

UsageError: Any = typer.BadParameter.__base__
"""For bad options: click's, wherever this version of typer keeps its click."""

Shared = dict[str, tuple[Any, Any]]
"""Options that several verbs have: the type of each, and how it is declared."""

MOST_DIMENSIONS = 10**6
"""Of actions that options describe."""


def names_of(parameter: str | None) -> Iterable[str]:
    """Names that a parameter takes, for help and completion; looked up when they are needed, since that takes time."""
    if parameter == "actions":
        return "grid", "ball"
    if parameter == "kernel":
        return [name.lower() for name in Kernel.kinds()]
    if parameter == "learner":
        return learner_kinds()
    if parameter == "method":
        from koloss.report.inspection import METHODS

        return METHODS
    if parameter in ("only", "spec"):
        from koloss.experiments import shipped

        return shipped()
    return ()


def completing(parameter: str) -> Callable[[str], list[str]]:
    """For the shell's completion: names that a parameter takes."""
    return lambda incomplete: [n for n in names_of(parameter) if n.startswith(incomplete)]


class Verb(TyperCommand):
    """A command whose help lists the names that its options take."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            if names := ", ".join(names_of(parameter.name)):
                parameter.help = f"{parameter.help} Names: {names}."  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def takes(shared: Shared) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb options that it shares with others; it names those that it uses as arguments."""

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = signature(verb).parameters

        @wraps(verb)
        def call(**given: Any) -> None:
            verb(**{name: given[name] for name in own})

        parts = {name: (one.annotation, one.default) for name, one in own.items()} | shared
        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in parts.items()
        ]
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def option(default: Any, panel: str, text: str, *flags: str, names: str = "", **more: Any) -> Any:
    """An option in a panel of the help; `names` is the parameter whose names it takes."""
    if names:
        more["metavar"] = "NAME" if default != [] else "NAME..."
        more["autocompletion"] = completing(names)
    return typer.Option(default, *flags, help=text, rich_help_panel=panel, **more)


def folder(default: Any, text: str) -> Any:
    """The option `--out`."""
    return option(default, "Output", text, file_okay=False)


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to before anything is computed; nothing is made here."""
    try:
        there = next(path for path in (out, *out.absolute().parents) if path.exists())
    except OSError as error:
        raise UsageError(f"--out must be a folder, got {out}: {error.strerror}") from error
    if not there.is_dir():
        raise UsageError(f"--out must be a folder, got {out}: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--out must be a folder to write to, got {out}: {there} is not")


def spec_argument(default: Any, text: str, metavar: str) -> Any:
    """The argument that names an experiment or a file."""
    return typer.Argument(default, help=text, metavar=metavar, autocompletion=completing("spec"))


# Options of more than one verb.

AS_JSON: Shared = {
    "as_json": (bool, option(False, "Output", "JSON on standard output, nothing else.", "--json"))
}
SIZE: Shared = {
    "runs": (int | None, option(None, "Size", "Runs of every game, in place of each one's own.")),
    "rounds": (int | None, option(None, "Size", "Rounds of every game, in place of each one's own.")),
    "seed": (int, option(0, "Size", "The same seed gives the same results.")),
    "jobs": (int | None, option(None, "Size", "Processes; as many as processors if not given.")),
    "cluster": (str | None, option(None, "Size", "Play on the Dask cluster there.", metavar="ADDRESS")),
    "fresh": (bool, option(False, "Size", "Play again what is in the directory already.", "--fresh")),
}  # fmt: skip
GAME: Shared = {
    "kernel": (str, option("gaussian", "Kernel", "Parameters may follow: gaussian:bandwidth=0.2.", names="kernel")),
    "dimension": (int, option(2, "Actions", "Coordinates of an action.")),
}  # fmt: skip


def read_spec(text: str) -> Any:
    """The experiment of that name, or of a file."""
    from koloss.experiments import load

    try:
        return load(text)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {text}") from error


def read_kernel(text: str) -> Kernel:
    """The kernel of `--kernel`: its name, and parameters behind it."""
    try:
        return kernel_of_text(text)
    except (TypeError, ValueError) as error:
        message = str(error).replace("`kind`", "--kernel").replace("`", "")
        start = "" if message.startswith("--kernel") else f"--kernel {text.partition(':')[0]}: "
        raise UsageError(start + message) from error


def read_json(text: str | None) -> Any:
    """JSON, or a word as it is."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_actions(name: str, dimension: int) -> Ball | Box:
    """The unit cube or the unit ball of `--actions`."""
    if name not in names_of("actions"):
        allowed = ", ".join(names_of("actions"))
        raise UsageError(f"--actions must be among {allowed}; got {name!r}")
    as_int("dimension", dimension, minimum=1, maximum=MOST_DIMENSIONS)
    return Ball(dimension) if name == "ball" else Box((0.0,) * dimension, (1.0,) * dimension)


def learner_kinds() -> dict[str, Any]:
    """Learners by the names that `--learner` takes."""
    from koloss.experiments.specs import LEARNERS

    return {re.sub("(?<=[a-z])(?=[A-Z])", "-", key).lower(): LEARNERS[key] for key in LEARNERS}


def read_learner(text: str) -> Any:
    """The class of `--learner`: its name, or a beginning or a part that no other has."""
    kinds = learner_kinds()
    begin = [name for name in kinds if name.startswith(text)]
    fit = begin or [name for name in kinds if text in name]
    if len(fit) != 1:
        raise UsageError(f"--learner must be among {', '.join(kinds)}; got {text!r}")
    return kinds[fit[0]]


@contextmanager
def naming_options(context: typer.Context, /, **flags: str) -> Iterator[None]:
    """Turn an error of the library, which names an argument, into one that names the option.

    `flags` are the options of arguments that are not called like them. An error that names none of them is no mistake of
    whoever typed the command, and stays what it is.
    """
    try:
        yield
    except SpecError as error:  # which names a file and a line
        raise UsageError(str(error)) from error
    except (TypeError, ValueError) as error:
        flags = {p.name: p.opts[0] for p in context.command.params if p.name} | flags
        names = re.findall(r"`(\w+)`", str(error))
        if not isinstance(error, KolossError) and flags.keys().isdisjoint(names):
            raise
        message = re.sub(r"`(\w+)`", lambda name: flags.get(name[1], name[0]), str(error))
        raise UsageError(message) from error


def answer(context: typer.Context, data: Any, show: str | Callable[[], object]) -> None:
    """What was done, as JSON, in words, or as a call shows it."""
    if context.params["as_json"]:
        print_json(data)
    elif isinstance(show, str):
        print(show)
    else:
        show()


def print_json(data: Any, indent: int = 2) -> None:
    """Data as JSON on standard output, escaped where that cannot hold all characters."""
    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=escaped))
