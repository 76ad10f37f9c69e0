"""The command line: thin, every verb one call into the library.

It needs `koloss[experiments]`, and says so where that is missing. A bad option gives one line on standard
error and exit code 2; a computation that fails, one line and exit code 1.
"""

import importlib.util
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import koloss as kl
from koloss.errors import KolossError, NetTooLarge

if TYPE_CHECKING:
    import typer

NEEDS = ("typer", "rich", "matplotlib")

MOST_ACTIONS = 200_000
"""Largest grid that `inspect` lays."""

KERNELS: dict[str, tuple[type[kl.Kernel], dict[str, float]]] = {
    "gaussian": (kl.Gaussian, {"bandwidth": 0.3}),
    "matern": (kl.Matern, {"smoothness": 2.5, "lengthscale": 0.3}),
    "linear": (kl.Linear, {}),
    "quadratic": (kl.Quadratic, {}),
    "polynomial": (kl.Polynomial, {"degree": 3, "offset": 1.0}),
    "periodic": (kl.Periodic, {"lengthscale": 0.5, "period": 1.0}),
}
"""Class and default parameters of every kernel, by the name that `--kernel` takes."""


class KernelName(StrEnum):
    """What `--kernel` takes."""

    gaussian = "gaussian"
    matern = "matern"
    linear = "linear"
    quadratic = "quadratic"
    polynomial = "polynomial"
    periodic = "periodic"


class ActionsName(StrEnum):
    """What `--actions` takes."""

    grid = "grid"
    ball = "ball"


class MethodName(StrEnum):
    """What `--method` takes."""

    pivoted_cholesky = "pivoted-cholesky"
    kernel_pca = "kernel-pca"
    mercer = "mercer"
    exact = "exact"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit.

    Parameters
    ----------
    arguments : sequence of str, optional
        `sys.argv[1:]` where they are missing.
    """
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        needs, them = ", ".join(missing), "it" if len(missing) == 1 else "them"
        _fail(
            f"the command line needs {needs}; install {them} with: pip install 'koloss[experiments]'",
            code=1,
        )
    code = 0
    try:
        code = application()(arguments, prog_name="koloss", standalone_mode=False)
    except _usage_error() as error:
        _fail(error.format_message(), code=2)
    except (KolossError, OSError) as error:
        _fail(str(error), code=1)
    sys.exit(code)


def application() -> "typer.Typer":
    """The verbs, as a Typer application."""
    import typer

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def option(panel: str, text: str, *names: str, **more: Any) -> Any:
        return typer.Option(*names, help=text, rich_help_panel=panel, **more)

    @app.callback(invoke_without_command=True)
    def koloss(
        context: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", help="Show the version and exit.")
        ] = False,
    ) -> None:
        """Repeated decisions against an adversary whose losses live in an RKHS."""
        if version:
            print(f"koloss {kl.__version__}")
            raise typer.Exit
        if context.invoked_subcommand is None:
            print(context.get_help())

    @app.command()
    def inspect(
        kernel: Annotated[
            KernelName,
            option("Kernel", f"One of {', '.join(KERNELS)}.", metavar="NAME"),
        ] = KernelName.gaussian,
        bandwidth: Annotated[
            float | None, option("Kernel", "Of gaussian; 0.3 if not given.")
        ] = None,
        smoothness: Annotated[
            float | None, option("Kernel", "Of matern; 2.5 if not given.")
        ] = None,
        lengthscale: Annotated[
            float | None, option("Kernel", "Of matern (0.3 if not given) and periodic (0.5).")
        ] = None,
        period: Annotated[float | None, option("Kernel", "Of periodic; 1 if not given.")] = None,
        degree: Annotated[int | None, option("Kernel", "Of polynomial; 3 if not given.")] = None,
        offset: Annotated[float | None, option("Kernel", "Of polynomial; 1 if not given.")] = None,
        actions: Annotated[
            ActionsName, option("Actions", "A grid of the unit cube, or a net of the unit ball.")
        ] = ActionsName.grid,
        dimension: Annotated[int, option("Actions", "Coordinates of an action.", min=1)] = 2,
        spacing: Annotated[
            float, option("Actions", "Largest step between neighbours along an axis.")
        ] = 0.05,
        method: Annotated[
            MethodName, option("Proxy", f"One of {', '.join(MethodName)}.", metavar="NAME")
        ] = MethodName.pivoted_cholesky,
        rank: Annotated[
            int | None, option("Proxy", "Number of features; or use --tolerance.")
        ] = None,
        tolerance: Annotated[
            float | None,
            option("Proxy", "Certified error; 0.001 of the largest K(a, a) if not given."),
        ] = None,
        out: Annotated[
            Path | None,
            option("Output", "Directory for inspect.png, .svg and .json.", file_okay=False),
        ] = None,
        as_json: Annotated[
            bool, option("Output", "Numbers as JSON on standard output, nothing else.", "--json")
        ] = False,
    ) -> None:
        """Build a proxy and a G-optimal design, and show what they are worth.

        The spectrum of the kernel and how fast it decays, the certified error of the features against
        their number, the samples that theory would ask for, and the design against a barycentric
        spanner and uniform play.
        """
        from koloss import report

        given = {
            "bandwidth": bandwidth,
            "smoothness": smoothness,
            "lengthscale": lengthscale,
            "period": period,
            "degree": degree,
            "offset": offset,
        }
        try:
            found = report.inspect(
                _kernel(kernel, given),
                _actions(actions, dimension, spacing),
                method=method.value,
                rank=rank,
                tolerance=tolerance,
            )
        except (TypeError, ValueError) as error:
            raise _usage_error()(str(error)) from error
        paths = [] if out is None else report.write(found, out)
        if as_json:
            print(json.dumps(found.to_dict(), indent=2, allow_nan=False))
        else:
            report.show(found, paths)

    return app


def _kernel(name: str, given: dict[str, float | None]) -> kl.Kernel:
    """The kernel of that name, with the parameters given and defaults for the others."""
    kind, defaults = KERNELS[name]
    values = {option: value for option, value in given.items() if value is not None}
    for option in values:
        if option not in defaults:
            takes = ", ".join(f"--{known}" for known in defaults) or "no parameters"
            raise ValueError(f"--{option} does not fit the {name} kernel, which takes {takes}")
    return kind(**(defaults | values))


def _actions(name: str, dimension: int, spacing: float) -> kl.Points:
    """The net of that name on the unit cube or ball."""
    ball = name == ActionsName.ball
    whole = kl.Ball(dimension) if ball else kl.Box((0.0,) * dimension, (1.0,) * dimension)
    try:
        return whole.net(spacing, max_bytes=MOST_ACTIONS * dimension * 8)
    except NetTooLarge as error:
        raise ValueError(
            f"--spacing {spacing:g} gives about {error.points:.3g} actions, more than "
            f"{MOST_ACTIONS:,}; use a larger one"
        ) from error


def _usage_error() -> Any:
    """The exception for bad options: click's, wherever this version of typer keeps its click."""
    import typer

    return typer.BadParameter.__base__


def _fail(message: str, *, code: int) -> None:
    """One line on standard error, and out."""
    print("error:", " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
