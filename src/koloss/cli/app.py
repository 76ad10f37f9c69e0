"""The command line: thin, every verb one call into the library.

It needs `koloss[experiments]`, and says so where that is missing. A bad option or a mistake in a spec gives one line on
standard error and exit code 2; a computation that fails, one line and exit code 1; Ctrl-C, exit code 130.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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


class LearnerName(StrEnum):
    """What `--learner` takes."""

    bandit = "bandit"
    insured = "insured"
    exp_weights = "exp-weights"
    conditional_gradient = "conditional-gradient"
    leader = "leader"


class FamilyName(StrEnum):
    """What `--family` takes."""

    reported = "reported"
    held_out = "held-out"
    data = "data"


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
        _fail(str(error), code=2 if type(error).__name__ == "SpecError" else 1)
    except (KeyboardInterrupt, _abort()):
        _fail("interrupted", code=130)
    sys.exit(code)


def application() -> "typer.Typer":
    """The verbs, as a Typer application."""
    import typer

    app = typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def option(panel: str, text: str, *names: str, **more: Any) -> Any:
        return typer.Option(*names, help=text, rich_help_panel=panel, **more)

    # The kernel, as every verb that takes one asks for it.
    Kernel = Annotated[
        KernelName, option("Kernel", f"One of {', '.join(KERNELS)}.", metavar="NAME")
    ]
    Bandwidth = Annotated[float | None, option("Kernel", "Of gaussian; 0.3 if not given.")]
    Smoothness = Annotated[float | None, option("Kernel", "Of matern; 2.5 if not given.")]
    Lengthscale = Annotated[
        float | None, option("Kernel", "Of matern (0.3 if not given) and periodic (0.5).")
    ]
    Period = Annotated[float | None, option("Kernel", "Of periodic; 1 if not given.")]
    Degree = Annotated[int | None, option("Kernel", "Of polynomial; 3 if not given.")]
    Offset = Annotated[float | None, option("Kernel", "Of polynomial; 1 if not given.")]

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
        kernel: Kernel = KernelName.gaussian,
        bandwidth: Bandwidth = None,
        smoothness: Smoothness = None,
        lengthscale: Lengthscale = None,
        period: Period = None,
        degree: Degree = None,
        offset: Offset = None,
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

    @app.command()
    def reproduce(
        out: Annotated[
            Path,
            option(
                "Output", "Directory for the report, figures, numbers and runs.", file_okay=False
            ),
        ],
        full: Annotated[
            bool,
            option(
                "Size",
                "60 runs and more rounds (about an hour) or a few minutes.",
                "--full/--quick",
            ),
        ] = False,
        runs: Annotated[
            int | None, option("Size", "Runs of every game; 60 with --full.", min=1)
        ] = None,
        rounds: Annotated[
            int | None, option("Size", "Rounds of every game, in place of each one's own.", min=1)
        ] = None,
        only: Annotated[
            list[str] | None,
            option(
                "Size",
                "Experiments to play: one or more names. All if not given.",
                metavar="NAME...",
                autocompletion=_experiment_names,
            ),
        ] = None,
        more: Annotated[
            list[str] | None, typer.Argument(hidden=True, autocompletion=_experiment_names)
        ] = None,
        seed: Annotated[int, option("Size", "The same seed gives the same results.", min=0)] = 0,
        jobs: Annotated[
            int | None, option("Size", "Processes; as many as processors if not given.", min=1)
        ] = None,
        as_json: Annotated[
            bool, option("Output", "Results as JSON on standard output, nothing else.", "--json")
        ] = False,
    ) -> None:
        """Play the paper's experiments, and write a report.

        Ends with report.html, results.json and figures in the directory. Runs that are there already are not
        computed again: after Ctrl-C, the same command goes on.
        """
        # An option takes one value; what follows it comes as arguments.
        _play([*(only or []), *(more or [])], out, rounds, runs, seed, jobs, full, as_json)

    @app.command()
    def run(
        spec: Annotated[
            str,
            typer.Argument(
                help="A TOML file, or the name of an experiment.",
                metavar="SPEC",
                autocompletion=_experiment_names,
            ),
        ],
        out: Annotated[
            Path | None,
            option("Output", "Directory; SPEC-results if not given.", file_okay=False),
        ] = None,
        full: Annotated[
            bool, option("Size", "At the size of the spec's [full] table.", "--full/--quick")
        ] = False,
        runs: Annotated[int | None, option("Size", "Runs, in place of the spec's.", min=1)] = None,
        rounds: Annotated[
            int | None, option("Size", "Rounds, in place of the spec's.", min=1)
        ] = None,
        seed: Annotated[int, option("Size", "The same seed gives the same results.", min=0)] = 0,
        jobs: Annotated[
            int | None, option("Size", "Processes; as many as processors if not given.", min=1)
        ] = None,
        as_json: Annotated[
            bool, option("Output", "Results as JSON on standard output, nothing else.", "--json")
        ] = False,
    ) -> None:
        """Play the games of a spec, and write a report.

        A spec is a small TOML file; `koloss list --spec NAME` prints one to begin with.
        """
        if spec.endswith(".toml") and not Path(spec).is_file():
            raise _usage_error()(f"there is no file {spec}")
        _play(
            [spec],
            out or Path(f"{Path(spec).stem}-results"),
            rounds,
            runs,
            seed,
            jobs,
            full,
            as_json,
        )

    @app.command()
    def arena(
        out: Annotated[
            Path,
            option("Output", "Directory for the page, figures, numbers and runs.", file_okay=False),
        ],
        games: Annotated[
            list[str] | None,
            option(
                "Who plays what",
                "Games to play: one or more names. All if not given.",
                metavar="NAME...",
                autocompletion=_arena_names,
            ),
        ] = None,
        family: Annotated[
            FamilyName | None,
            option(
                "Who plays what", f"Games of one family: {', '.join(FamilyName)}.", metavar="NAME"
            ),
        ] = None,
        players: Annotated[
            list[str] | None,
            option(
                "Who plays what",
                "Players: one or more names. All if not given.",
                metavar="NAME...",
                autocompletion=_arena_names,
            ),
        ] = None,
        more: Annotated[
            list[str] | None, typer.Argument(hidden=True, autocompletion=_arena_names)
        ] = None,
        no_peers: Annotated[
            bool, option("Who plays what", "Without players from other packages.", "--no-peers")
        ] = False,
        quick: Annotated[
            bool, option("Size", "2 runs of at most 300 rounds, no peers: a minute.", "--quick")
        ] = False,
        runs: Annotated[
            int | None, option("Size", "Runs of every player in every game; 5 if not given.", min=1)
        ] = None,
        rounds: Annotated[
            int | None, option("Size", "Shorten every game to at most so many rounds.", min=1)
        ] = None,
        seed: Annotated[int, option("Size", "The same seed gives the same results.", min=0)] = 0,
        jobs: Annotated[
            int | None, option("Size", "Processes; as many as processors if not given.", min=1)
        ] = None,
        limit: Annotated[
            float,
            option("Size", "Seconds that a run may take; it is stopped between rounds.", min=0.001),
        ] = 120.0,
        whole_summary: Annotated[
            bool,
            option(
                "Output",
                "The summary picture over all games, those that were tuned on included.",
                "--whole-summary",
            ),
        ] = False,
        as_json: Annotated[
            bool, option("Output", "Results as JSON on standard output, nothing else.", "--json")
        ] = False,
    ) -> None:
        """Let every learner and every peer play the same games, and show who loses how much.

        Ends with arena.html, arena.json and figures in the directory. A player that fails is part of the result. Runs
        that are there already are not played again: after Ctrl-C, the same command goes on.
        """
        from koloss import arena as arena_

        field, squad = _arena_choice(
            games or [], players or [], more or [], family, no_peers or quick
        )
        runs, rounds = runs or (2 if quick else 5), rounds or (300 if quick else None)
        with _progress(quiet=as_json, name=lambda job: job.game) as note:
            try:
                found = arena_.run(
                    field,
                    squad,
                    out=out,
                    runs=runs,
                    rounds=rounds,
                    seed=seed,
                    jobs=jobs,
                    limit=limit,
                    progress=note,
                )
            except KeyboardInterrupt:
                _fail(f"interrupted; the same command goes on with the runs in {out}", code=130)
            files = arena_.write_page(found, out, all_games=whole_summary)
        if as_json:
            print(json.dumps(found.to_dict(), indent=1, allow_nan=False, ensure_ascii=False))
        else:
            arena_.show_arena(found, [*files[:3], out / "arena.json", out / "figures"])

    @app.command()
    def bound(
        spec: Annotated[
            str | None,
            typer.Argument(
                help="A TOML file or the name of an experiment, in place of the options below.",
                metavar="[SPEC]",
                autocompletion=_experiment_names,
            ),
        ] = None,
        horizon: Annotated[
            int | None, option("Game", "Number of rounds; 10,000 if not given.", min=1)
        ] = None,
        learner: Annotated[
            LearnerName, option("Game", f"One of {', '.join(LearnerName)}.", metavar="NAME")
        ] = LearnerName.bandit,
        kernel: Kernel = KernelName.gaussian,
        bandwidth: Bandwidth = None,
        smoothness: Smoothness = None,
        lengthscale: Lengthscale = None,
        period: Period = None,
        degree: Degree = None,
        offset: Offset = None,
        actions: Annotated[
            ActionsName, option("Actions", "The unit cube (grid) or the unit ball.")
        ] = ActionsName.ball,
        dimension: Annotated[int, option("Actions", "Coordinates of an action.", min=1)] = 2,
        spacing: Annotated[
            float | None,
            option("Actions", "Play a net with this spacing; the whole set if not given."),
        ] = None,
        loss_norm: Annotated[
            float | None,
            option("Losses", "Largest norm of a loss; sup √K(a, a), at least 1, if not given."),
        ] = None,
        loss_range: Annotated[
            tuple[float, float] | None,
            option(
                "Losses",
                "Interval of all losses (bandit, insured, exp-weights).",
                metavar="LOW HIGH",
            ),
        ] = None,
        as_json: Annotated[
            bool, option("Output", "Numbers as JSON on standard output, nothing else.", "--json")
        ] = False,
    ) -> None:
        """Show the regret guarantee of a game, term by term, without playing.

        With what the paper prints for the same game beside it, and whether that is valid.
        """
        given = {
            "bandwidth": bandwidth,
            "smoothness": smoothness,
            "lengthscale": lengthscale,
            "period": period,
            "degree": degree,
            "offset": offset,
        }
        from koloss import report
        from koloss.experiments import SpecError, bounds

        if spec is not None:
            found = bounds(_spec(spec), rounds=horizon)
        else:
            options = {"loss_norm": loss_norm, "loss_range": loss_range}
            try:
                game = _game(_kernel(kernel, given), actions, dimension, spacing, learner, options)
                found = bounds(game, rounds=horizon or 10_000)
            except SpecError as error:  # of the options: there is no file to point at
                named = error.key.rpartition(".")[2]
                raise _usage_error()(f"`{named}` {error.problem}") from error
            except (TypeError, ValueError) as error:
                raise _usage_error()(str(error)) from error
        if as_json:
            print(json.dumps(found, indent=2, allow_nan=False, ensure_ascii=False))
        else:
            report.show_bounds(found)

    @app.command("list")
    def list_(
        spec: Annotated[
            str | None,
            typer.Option(
                "--spec",
                help="Print the TOML of this experiment, to copy and change.",
                metavar="NAME",
                autocompletion=_experiment_names,
            ),
        ] = None,
        as_json: Annotated[
            bool, typer.Option("--json", help="As JSON on standard output, nothing else.")
        ] = False,
    ) -> None:
        """List experiments, learners, adversaries, kernels and action sets."""
        from koloss import report
        from koloss.experiments import catalogue, spec_text

        if spec is not None:
            try:
                print(spec_text(spec), end="")
            except ValueError as error:
                raise _usage_error()(str(error)) from error
            return
        found = catalogue()
        if as_json:
            print(json.dumps(found, indent=2, ensure_ascii=False))
        else:
            report.show_catalogue(found)

    return app


def _play(
    specs: list[str],
    out: Path,
    rounds: int | None,
    runs: int | None,
    seed: int,
    jobs: int | None,
    full: bool,
    as_json: bool,
) -> None:
    """Play experiments with a progress bar, write the report, and show the table."""
    import typer

    from koloss import experiments, report

    chosen = [_spec(name) for name in specs or experiments.shipped()]
    with _progress(quiet=as_json) as note:
        try:
            found = experiments.run(
                chosen,
                out=out,
                rounds=rounds,
                runs=runs,
                seed=seed,
                jobs=jobs,
                full=full,
                progress=note,
            )
        except KeyboardInterrupt:
            _fail(f"interrupted; the same command goes on with the runs in {out}", code=130)
        files = report.write_page(found, out)
    failed = sum(len(c.failures) for c in found.curves) + sum(
        len(r.failures) for r in found.results
    )
    if as_json:
        print(json.dumps(found.to_dict(), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        report.show_results(found, [files[0], out / "results.json", out / "figures"])
    if failed:
        _say(f"error: {failed} run{'s' if failed > 1 else ''} failed; the report says why")
        raise typer.Exit(1)


def _spec(name: str) -> Any:
    """The experiment of a file or a name."""
    from koloss.experiments import SpecError, load

    try:
        return load(name)
    except SpecError:
        raise
    except ValueError as error:
        raise _usage_error()(str(error)) from error


def _game(
    kernel: kl.Kernel,
    actions: str,
    dimension: int,
    spacing: float | None,
    learner: str,
    options: dict[str, Any],
) -> Any:
    """A spec from options."""
    from koloss.experiments import Experiment, LearnerSpec, Source

    kinds = {
        LearnerName.bandit: "BanditExpWeights",
        LearnerName.insured: "InsuredBandit",
        LearnerName.exp_weights: "ExpWeights",
        LearnerName.conditional_gradient: "ConditionalGradient",
        LearnerName.leader: "FollowTheRegularizedLeader",
    }
    given = {name: value for name, value in options.items() if value is not None}
    ranged = (LearnerName.bandit, LearnerName.insured, LearnerName.exp_weights)
    if "loss_range" in given and learner not in ranged:
        raise ValueError(f"--loss-range does not fit the learner {learner}")
    if "loss_range" not in given and learner == LearnerName.insured:
        raise ValueError(f"--loss-range must be given for the learner {learner}")
    where: dict[str, Any] = {"kind": "Ball", "dimension": dimension}
    if actions == ActionsName.grid:
        where = {"kind": "Box", "lower": [0.0] * dimension, "upper": [1.0] * dimension}
    if spacing is not None:
        where["net"] = spacing
    player = LearnerSpec(learner, kinds[LearnerName(learner)], given)
    return Experiment(
        "game", "game", kernel.to_dict(), where, Source("options", ""), learners=(player,)
    )


def _arena_choice(
    games: list[str], players: list[str], more: list[str], family: str | None, no_peers: bool
) -> tuple[list[str], list[str]]:
    """Names of games and players. An option takes one value; what follows it is known by its name."""
    from koloss import arena

    known, all_players = list(arena.games()), arena.players()
    for what, names, allowed in (
        ("--games", games, known),
        ("--players", players, list(all_players)),
        ("a name", more, [*known, *all_players]),
    ):
        for name in names:
            if name not in allowed:
                raise _usage_error()(f"{what} must be among {', '.join(allowed)}; got {name!r}")
    field = [name for name in known if name in {*games, *more}]
    squad = [slug for slug in all_players if slug in {*players, *more}]
    if field and family is not None:
        raise _usage_error()("give --games or --family, not both")
    squad = [slug for slug in squad or all_players if not (no_peers and all_players[slug].package)]
    if not squad:
        raise _usage_error()("--no-peers leaves no player: all those named need other packages")
    return field or list(arena.games(family)), squad  # type: ignore[arg-type]


def _arena_names(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from koloss import arena

    return [name for name in (*arena.games(), *arena.players()) if name.startswith(incomplete)]


def _experiment_names(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from koloss.experiments import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


@contextmanager
def _progress(
    *, quiet: bool, name: Callable[[Any], str] = lambda job: str(job.game)
) -> Iterator[Callable[[Any], None]]:
    """A bar on a terminal, a line a tenth of the runs elsewhere; on standard error, so that output can be piped.

    `name` says what a job belongs to.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)

    def tell(progress: Any) -> None:
        if progress.error:
            where = f"{name(progress.job)}, run {progress.job.number}"
            console.print(f"{where} failed: {progress.error}", markup=False, soft_wrap=True)
        elif progress.job is None and progress.done and not quiet:
            console.print(f"{progress.done} of {progress.total} runs are there already")

    if quiet or not console.is_terminal:
        step = [0]

        def note(progress: Any) -> None:
            tell(progress)
            tenth = 10 * progress.done // max(progress.total, 1)
            if not quiet and progress.job is not None and tenth > step[0]:
                console.print(f"{progress.done} of {progress.total} runs done")
            step[0] = tenth

        yield note
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("runs", total=None)

        def advance(progress: Any) -> None:
            tell(progress)
            what = name(progress.job) if progress.job else "runs"
            what = "report" if progress.done == progress.total else what
            bars.update(task, total=progress.total, completed=progress.done, description=what)

        yield advance


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


def _abort() -> Any:
    """What click raises for Ctrl-C at a prompt."""
    import typer

    return typer.Abort


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _fail(message: str, *, code: int) -> None:
    """One line on standard error, and out."""
    print("error:", " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
