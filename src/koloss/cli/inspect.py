"""Verbs that play nothing: `inspect`, `bound` and `list`."""

from inspect import signature
from pathlib import Path
from typing import Any

import typer

from koloss.cli import options
from koloss.cli.app import need
from koloss.cli.options import AS_JSON, GAME, UsageError, answer, naming_options, option, takes
from koloss.core.arrays import as_int
from koloss.errors import NetTooLarge, SpecError

MOST_ACTIONS = 200_000
"""Largest grid that `inspect` lays."""


@takes(GAME | AS_JSON)
def inspect(
    context: typer.Context,
    kernel: str,
    dimension: int,
    actions: str = option("grid", "Actions", "The unit cube, or the unit ball.", names="actions"),
    spacing: float = option(0.05, "Actions", "Largest step between neighbours along an axis."),
    method: str = option("pivoted-cholesky", "Proxy", "How features are made.", names="method"),
    rank: int | None = option(None, "Proxy", "Number of features; or use --tolerance."),
    tolerance: float | None = option(
        None, "Proxy", "Certified error; 0.001 of the largest K(a, a) if not given."
    ),
    out: Path | None = options.folder(None, "Directory for inspect.png, .svg and .json."),
) -> None:
    """Build a proxy and a G-optimal design, and show what they are worth.

    The spectrum of the kernel and how fast it decays, the certified error of the features against
    their number, the samples that theory would ask for, and the design against a barycentric
    spanner and uniform play.
    """
    from koloss import report

    if out is not None:
        need("--out", "report", "matplotlib", "jinja2")
        options.check_folder(out)
    chosen = options.read_kernel(kernel)
    with naming_options(context):
        cube = options.read_actions(actions, dimension)
        try:
            net = cube.net(spacing, max_bytes=MOST_ACTIONS * dimension * 8)
        except NetTooLarge as error:
            count = f"about {error.points:.3g} actions, more than {MOST_ACTIONS:,}"
            raise UsageError(f"--spacing {spacing:g} gives {count}; use a larger one") from error
        inspection = report.inspect(chosen, net, method=method, rank=rank, tolerance=tolerance)
    paths = [] if out is None else report.write(inspection, out)
    answer(context, inspection.to_dict(), lambda: report.show(inspection, paths))


@takes(GAME | AS_JSON)
def bound(
    context: typer.Context,
    spec: str | None = options.spec_argument(
        None, "A TOML file or an experiment's name, in place of the options below.", "[SPEC]"
    ),
    horizon: int | None = option(None, "Game", "Number of rounds; 10,000 if not given."),
    learner: str = option("bandit", "Game", "A name, or a part of just one.", names="learner"),
    actions: str = option("ball", "Actions", "The unit cube, or the unit ball.", names="actions"),
    spacing: float | None = option(
        None, "Actions", "Play a net with this spacing; the whole set if not given."
    ),
    loss_norm: float | None = option(
        None, "Losses", "Largest norm of a loss; sup √K(a, a), at least 1, if not given."
    ),
    loss_range: tuple[float, float] | None = option(
        None, "Losses", "Interval of all losses, for learners that take it.", metavar="LOW HIGH"
    ),
) -> None:
    """Show the regret guarantee of a game, term by term, without playing.

    With what the paper prints for the same game beside it, and whether that is valid.
    """
    from koloss import report
    from koloss.experiments import bounds

    with naming_options(context, name="SPEC", net="--spacing"):
        rounds = None if horizon is None else as_int("horizon", horizon, minimum=1)
        if spec is not None:
            _refuse_others(context)
            guarantees = bounds(options.read_spec(spec), rounds=rounds)
        else:
            guarantees = _bounds_of_options(context.params, rounds or 10_000)
    answer(context, guarantees, lambda: report.show_bounds(guarantees))


def _refuse_others(context: typer.Context) -> None:
    """Say which options a spec takes the place of."""
    allowed = ("spec", "horizon", "as_json")
    sources = {p: context.get_parameter_source(p.name or "") for p in context.command.params}
    given = [p.opts[0] for p, source in sources.items() if p.name not in allowed and source and source.name == "COMMANDLINE"]  # fmt: skip
    if given:
        raise UsageError(f"give SPEC, which says what is played, or {', '.join(given)}, not both")


def _bounds_of_options(given: dict[str, Any], rounds: int) -> Any:
    """The guarantee of a game that options describe."""
    from koloss.experiments import Experiment, LearnerSpec, Source, bounds

    name, kind = given["learner"], options.read_learner(given["learner"])
    interval = signature(kind.__init__).parameters.get("loss_range")
    if interval is None and given["loss_range"]:
        raise UsageError(f"--loss-range does not fit the learner {name}")
    if interval and interval.default is interval.empty and not given["loss_range"]:
        raise UsageError(f"--loss-range must be given for the learner {name}")
    losses = {key: given[key] for key in ("loss_norm", "loss_range") if given[key] is not None}
    actions = options.read_actions(given["actions"], given["dimension"]).to_dict()
    if given["spacing"] is not None:
        actions["net"] = given["spacing"]
    kernel = options.read_kernel(given["kernel"]).to_dict()
    learner = LearnerSpec(name, kind.__name__, losses)
    game = Experiment("game", "game", kernel, actions, Source("options", ""), learners=(learner,))
    try:
        return bounds(game, rounds=rounds)
    except SpecError as error:  # of the options: there is no file to point at
        key = error.key.rpartition(".")[2]
        where = f"`learner` {name}:" if key == "learner[1]" else f"`{key}`"
        raise ValueError(f"{where} {error.problem}") from error


@takes(AS_JSON)
def list_(
    context: typer.Context,
    spec: str | None = option(
        None, "Output", "Print the TOML of this experiment, to copy and change.", names="spec"
    ),
) -> None:
    """List experiments, learners, adversaries, kernels and action sets."""
    from koloss import report
    from koloss.experiments import catalogue, spec_text

    if spec is None:
        answer(context, catalogue(), lambda: report.show_catalogue(catalogue()))
    else:
        with naming_options(context, name="--spec"):
            print(spec_text(spec), end="")
