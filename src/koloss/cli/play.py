"""Verbs that play: `reproduce` and `run`."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import typer

from koloss.cli import options
from koloss.cli.app import need
from koloss.cli.options import (
    AS_JSON,
    SIZE,
    completing,
    folder,
    naming_options,
    option,
    spec_argument,
    takes,
)
from koloss.core.terminal import say
from koloss.core.text import counted, printable


@takes(SIZE | AS_JSON)
def reproduce(
    context: typer.Context,
    out: Path = folder(..., "Directory for the report and all that it is made of."),
    full: bool = option(False, "Size", "60 runs and more rounds: an hour.", "--full/--quick"),
    only: list[str] = option([], "Size", "Experiments. All if not given.", names="only"),
    more: list[str] | None = typer.Argument(None, hidden=True, autocompletion=completing("only")),
) -> None:
    """Play the paper's experiments, and write a report.

    Ends with report.html, results.json and figures in the directory. Runs that are there already are not
    computed again, unless they failed: after Ctrl-C, the same command goes on.
    """
    # An option takes one value; what follows it comes as arguments.
    _play(context, "--only", [*only, *(more or ())], out)


@takes(SIZE | AS_JSON)
def run(
    context: typer.Context,
    spec: str = spec_argument(..., "A TOML file, or the name of an experiment.", "SPEC"),
    out: Path | None = folder(None, "Directory; SPEC-results if not given."),
    full: bool = option(False, "Size", "At the size of the spec's [full] table.", "--full/--quick"),
) -> None:
    """Play the games of a spec, and write a report.

    A spec is a small TOML file; `koloss list --spec NAME` prints one to begin with.
    """
    _play(context, "SPEC", [spec], out or Path(f"{Path(spec).stem}-results"))


def _play(context: typer.Context, flag: str, specs: list[str], out: Path) -> None:
    """Play the experiments that `flag` names, write the report, and show the table."""
    from koloss import experiments, report

    need(f"koloss {context.command.name}", "report", "matplotlib", "jinja2")
    size = {key: context.params[key] for key in ("rounds", "runs", "seed", "jobs", "full", "fresh")}
    as_json = context.params["as_json"]
    options.check_folder(out)
    with _progress(out, quiet=as_json) as progress:
        with naming_options(context, name=flag, experiments=flag):
            chosen = [options.read_spec(spec) for spec in specs] or None
            with _cluster(context) as executor:
                results = experiments.run(
                    chosen, out=out, progress=progress, executor=executor, **size
                )
        files = report.write_page(results, out)
    if as_json:
        options.print_json(results.to_dict(), indent=1)
    else:
        report.show_results(results, [files[0], out / "results.json", out / "figures"])
    failed = sum(len(c.failures) for c in results.curves)
    failed += sum(len(r.failures) for r in results.results)
    if failed:
        _say(f"error: {counted(failed, 'run')} failed; the report says why")
        raise typer.Exit(1)


@contextmanager
def _cluster(context: typer.Context) -> Iterator[Any]:
    """The Dask cluster of `--cluster`, as an executor; None where there is none."""
    address, quiet = context.params["cluster"], context.params["as_json"]
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        _say("error: --cluster needs dask and distributed: pip install 'koloss[distributed]'")
        raise typer.Exit(1) from error
    # Workers that come and go are its affair; what concerns us is raised.
    for name in logging.root.manager.loggerDict:
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        client = Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError) as error:
        _say(f"error: no cluster at {address}: {error}")
        raise typer.Exit(1) from error
    with client:
        if not quiet:
            _say(f"cluster {address}, dashboard {client.dashboard_link}")
        yield client.get_executor(pure=False)


@contextmanager
def _progress(out: Path, *, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """A bar on a terminal, a line for every tenth of the runs elsewhere; on standard error, since output may be piped.

    Ctrl-C and other signals that end a program say that the runs in `out` are not lost.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    from koloss.games.workers import ClusterLost

    console = Console(stderr=True, highlight=False)
    lines = quiet or not console.is_terminal or console.is_dumb_terminal
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    bar, tenths = Progress(*columns, console=console, disable=lines), 0
    task = bar.add_task(f"{'runs':<28}", total=None)

    def tell(progress: Any) -> None:
        nonlocal tenths
        job, of_all = progress.job, f"{progress.done} of {progress.total} runs"
        before, tenths = tenths, 10 * progress.done // max(progress.total, 1)
        news = []
        if progress.replaced:
            runs = f"{counted(progress.replaced, 'run')} in {out}"
            news.append(
                f"{runs} of another size, seed or version will be played again and replaced"
            )
        if job is None and progress.done:
            news.append(f"{of_all} are there already")
        if lines and job is not None and tenths > before:
            news.append(f"{of_all} done")
        if quiet:
            news.clear()
        if progress.error:
            news.append(f"{job.game}, run {job.number} failed: {progress.error}")
        for line in news:
            say(console, line)
        what = "report" if progress.done == progress.total else job.game if job else "runs"
        description = escape(f"{printable(what):<28}")
        bar.update(task, total=progress.total, completed=progress.done, description=description)

    handlers = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # What is ignored, by nohup, stays so; only the main thread may handle signals.
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            with suppress(ValueError):
                handlers[number] = signal.signal(number, _end)
    try:
        # A bar that is disabled may still end its line.
        with nullcontext() if lines else bar:
            yield tell
    except ClusterLost as error:
        _say(f"error: {error}; the same command goes on with the runs in {out}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt as error:
        number = error.args[0] if error.args else signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        with suppress(OSError):  # a terminal that was closed
            _say(f"error: {how}; the same command goes on with the runs in {out}")
        raise typer.Exit(128 + number) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, frame: Any) -> None:
    """End a command as Ctrl-C does: processes are ended, half-written files removed. A second signal ends it at once."""
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt(signal.Signals(number))


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)
