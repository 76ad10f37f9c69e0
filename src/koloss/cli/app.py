"""The command line: thin, every verb one call into the library.

It needs `koloss[cli]`, verbs that draw `koloss[report]`, and says so where these are missing. A bad option or a mistake in
a spec gives one line on standard error and exit code 2; a computation that fails, one line and exit code 1; Ctrl-C, exit
code 130, and any other signal that ends it 128 and its number. A fault of Koloss is shown in full, with exit code 1.
"""

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from koloss._version import __version__
from koloss.core.text import printable
from koloss.errors import KolossError

if TYPE_CHECKING:
    import typer


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit; without `arguments` on those of the process."""
    _prepare_output()
    try:
        need("the command line", "cli", "typer", "rich", "msgspec")
    except MissingExtra as error:
        _fail(str(error), code=1)
    import typer

    from koloss.cli.options import UsageError

    code = 0
    try:
        code = application()(arguments, prog_name="koloss", standalone_mode=False)
    except UsageError as error:
        _fail(error.format_message(), code=2)
    except (KolossError, MissingExtra) as error:
        _fail(str(error), code=1)
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        _fail(f"{error.filename}: {error.strerror}" if named else str(error), code=1)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", code=130)
    except Exception:
        traceback.print_exc()
        _fail("this is a fault of koloss; please report it with the lines above", code=1)
    sys.exit(code)


def application() -> "typer.Typer":
    """The verbs, as a Typer application."""
    import typer

    from koloss.cli import inspect, play, study
    from koloss.cli.options import Verb

    app = typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def koloss(
        context: typer.Context,
        version: bool = typer.Option(False, "--version", help="Show the version and exit."),
    ) -> None:
        """Make repeated choices – prices, bids, settings –, learn from what each one cost, and know in advance how far you can fall behind the best fixed choice."""
        if version:
            print(f"koloss {__version__}")
            raise typer.Exit
        if context.invoked_subcommand is None:
            print(context.get_help())

    played = play.reproduce, play.run
    for verb in (inspect.inspect, *played, inspect.bound):
        app.command(cls=Verb)(verb)
    app.command("list", cls=Verb)(inspect.list_)
    app.add_typer(study.application(), name="study")
    return app


class MissingExtra(Exception):
    """Packages that a verb needs are not installed."""


def need(who: str, extra: str, *packages: str) -> None:
    """Say what to install where packages are missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        install = f"install {them} with: pip install 'koloss[{extra}]'"
        raise MissingExtra(f"{who} needs {', '.join(missing)}; {install}")


def _prepare_output() -> None:
    """Replace what a terminal cannot show, and send it no escapes where NO_COLOR is set."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if os.environ.get("NO_COLOR"):
        os.environ["TERM"] = "dumb"  # rich alone would still print bold, italics and moving bars


def _fail(message: str, *, code: int) -> NoReturn:
    """One line on standard error, and out."""
    print("error:", printable(" ".join(message.split())), file=sys.stderr)
    sys.exit(code)
