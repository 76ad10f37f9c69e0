"""Options that verbs share, the names they take, and how an error of the library comes to name an option."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from koloss.actions import Ball, Box
from koloss.core.arrays import as_int
from koloss.errors import KolossError, SpecError
from koloss.kernels import Kernel

UsageError: Any = typer.BadParameter.__base__
"""For bad options: click's, wherever this version of typer keeps its click."""

DEFAULTS: dict[str, dict[str, float]] = {
    "gaussian": {"bandwidth": 0.3},
    "matern": {"smoothness": 2.5, "lengthscale": 0.3},
    "periodic": {"lengthscale": 0.5, "period": 1.0},
    "polynomial": {"degree": 3, "offset": 1.0},
}
"""Parameters of kernels where nothing is said; each is an option, too."""


MOST_DIMENSIONS = 10**6
"""Of actions that options describe."""


def names_of(parameter: str | None) -> Iterable[str]:
    """Names that a parameter takes, for help and completion; looked up when they are needed, since that takes time."""
    if parameter == "actions":
        return "grid", "ball"
    if parameter == "kernel":
        return [name.lower() for name in Kernel.kinds()]
    if parameter not in ("learner", "method", "only", "spec"):
        return ()
    from koloss.experiments import shipped
    from koloss.experiments.inspection import METHODS

    names: dict[str, Callable[[], Iterable[str]]] = {
        "learner": learner_kinds,
        "method": lambda: METHODS,
    }
    return names.get(parameter, shipped)()


def completing(*parameters: str) -> Callable[[str], list[str]]:
    """For the shell's completion: names that parameters take."""

    def complete(incomplete: str) -> list[str]:
        names = [name for parameter in parameters for name in names_of(parameter)]
        return [name for name in names if name.startswith(incomplete)]

    return complete


class Verb(TyperCommand):
    """A command whose help lists the names that its options take."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            if names := ", ".join(names_of(parameter.name)):
                parameter.help = f"{parameter.help} Names: {names}."  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


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

KERNEL = option("gaussian", "Kernel", "Parameters may follow: gaussian:bandwidth=0.2.", names="kernel")  # fmt: skip
BANDWIDTH = option(None, "Kernel", "Of gaussian; 0.3 if not given.")
SMOOTHNESS = option(None, "Kernel", "Of matern; 2.5 if not given.")
LENGTHSCALE = option(None, "Kernel", "Of matern (0.3 if not given) and periodic (0.5).")
PERIOD = option(None, "Kernel", "Of periodic; 1 if not given.")
DEGREE = option(None, "Kernel", "Of polynomial; 3 if not given.")
OFFSET = option(None, "Kernel", "Of polynomial; 1 if not given.")
DIMENSION = option(2, "Actions", "Coordinates of an action.")
RUNS = option(None, "Size", "Runs of every game, in place of each one's own.")
ROUNDS = option(None, "Size", "Rounds of every game, in place of each one's own.")
SEED = option(0, "Size", "The same seed gives the same results.")
JOBS = option(None, "Size", "Processes; as many as processors if not given.")
CLUSTER = option(
    None, "Size", "A Dask cluster: local starts one, ADDRESS joins one.", metavar="local|ADDRESS"
)
TRUST = option(False, "Game", "Let the spec name files outside its folder.", "--trust")
JSON = option(False, "Output", "JSON on standard output, nothing else.", "--json")


def read_spec(text: str, *, trust: bool = False) -> Any:
    """The experiment of that name, or of a file."""
    from koloss.experiments import load

    try:
        return load(text, trust=trust)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {text}") from error


def read_kernel(options: Mapping[str, Any]) -> Kernel:
    """The kernel of `--kernel`, whose parameters stand behind its name or in options of their own."""
    name, _, rest = options["kernel"].partition(":")
    written = dict(_parameter(part) for part in re.split(r",(?=\s*\w+\s*=)", rest) if part)
    parameters = {key for defaults in DEFAULTS.values() for key in defaults}
    given = {key: options[key] for key in parameters if options[key] is not None}
    for key in given.keys() & written.keys():
        raise UsageError(f"give --{key} or {key} in --kernel, not both")
    values = DEFAULTS.get(name.lower(), {}) | written | given
    try:
        return Kernel.from_dict({"kind": name} | values)
    except (TypeError, ValueError) as error:
        flags = {"kind": "--kernel"} | {key: f"--{key}" for key in given}
        message = re.sub(r", in \w+$", "", _with_flags(str(error), flags))
        if not message.startswith("--"):
            message = f"--kernel {name}: {message.replace('`', '')}"
        raise UsageError(message) from error


def _parameter(text: str) -> tuple[str, Any]:
    """One `name=value` of `--kernel`: a number, a list of numbers, or a word."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise UsageError(f"--kernel must be like gaussian:bandwidth=0.3, got {text!r} in it")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def read_actions(name: str, dimension: int) -> Ball | Box:
    """The unit cube or the unit ball of `--actions`."""
    if name not in names_of("actions"):
        raise not_among("--actions", name, names_of("actions"))
    as_int("dimension", dimension, minimum=1, maximum=MOST_DIMENSIONS)
    return Ball(dimension) if name == "ball" else Box((0.0,) * dimension, (1.0,) * dimension)


def learner_kinds() -> dict[str, Any]:
    """Learners by the names that `--learner` takes."""
    from koloss.experiments.spec import LEARNERS

    return {re.sub("(?<=[a-z])(?=[A-Z])", "-", key).lower(): LEARNERS[key] for key in LEARNERS}


def read_learner(text: str) -> Any:
    """The class of `--learner`: its name, or a beginning or a part that no other has."""
    kinds = learner_kinds()
    for fits in (str.__eq__, str.startswith, str.__contains__):
        names = [name for name in kinds if fits(name, text)]
        if len(names) == 1:
            return kinds[names[0]]
    raise not_among("--learner", text, kinds)


def not_among(flag: str, name: str, allowed: Iterable[str]) -> Any:
    """The error for a name that is not allowed."""
    return UsageError(f"{flag} must be among {', '.join(allowed)}; got {name!r}")


@contextmanager
def naming_options(context: typer.Context, /, **flags: str) -> Iterator[None]:
    """Turn an error of the library, which names an argument, into one that names the option.

    `flags` are the options of arguments that are not called like them. An error that names none of them is no mistake of
    whoever typed the command, and stays what it is.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        flags = {p.name: p.opts[0] for p in context.command.params if p.name} | flags
        names = re.findall(r"`(\w+)`", str(error))
        if not isinstance(error, (SpecError, KolossError)) and flags.keys().isdisjoint(names):
            raise
        # A SpecError names a file and a line.
        message = str(error) if isinstance(error, SpecError) else _with_flags(str(error), flags)
        raise UsageError(message) from error


def _with_flags(message: str, flags: Mapping[str, str]) -> str:
    """The message, with a flag in the place of every argument in backquotes that has one."""
    return re.sub(r"`(\w+)`", lambda name: flags.get(name[1], name[0]), message)


def print_json(data: Any, indent: int = 2) -> None:
    """Data as JSON on standard output, escaped where that cannot hold all characters."""
    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=escaped))
