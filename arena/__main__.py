"""`python -m arena`: let every learner and every peer play the same games, and show who loses how much.

Writes arena.html, arena.json and figures. A player that fails is part of the result. Runs that are in the folder already are not
played again, unless they failed: after Ctrl-C, the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import arena
from arena.base import Family
from koloss.core.text import counted, printable
from koloss.errors import KolossError
from koloss.games.store import Progress


def parser() -> argparse.ArgumentParser:
    """The options."""
    games, players = ", ".join(arena.games()), ", ".join(arena.players())
    made = argparse.ArgumentParser("python -m arena", description=(__doc__ or "").partition(": ")[2], allow_abbrev=False)  # fmt: skip
    add = made.add_argument
    add("--out", type=Path, default=Path("arena-results"), help="folder for the page and its numbers")  # fmt: skip
    add("--games", nargs="+", metavar="NAME", help=f"all if not given: {games}")
    add("--family", choices=get_args(Family), help="games of one family")
    add("--players", nargs="+", metavar="NAME", help=f"all if not given: {players}")
    add("--no-peers", action="store_true", help="without players from other packages")
    add("--quick", action="store_true", help="2 runs of at most 300 rounds, no peers")
    add("--runs", type=int, help="runs of every player in every game; 5 if not given")
    add("--rounds", type=int, help="shorten every game to at most so many rounds")
    add("--seed", type=int, default=0, help="the same seed gives the same results")
    add("--jobs", type=int, help="processes; as many as processors if not given")
    add("--cluster", metavar="ADDRESS", help="play on the Dask cluster there")
    add("--limit", type=float, default=120.0, help="seconds for a run; it is stopped between rounds")  # fmt: skip
    add("--all-games", action="store_true", help="sum up tuned games, too")
    add("--json", action="store_true", help="JSON on standard output, nothing else")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, and write the page; the exit code: 1 where it cannot be done, 2 for a bad option, 130 after Ctrl-C."""
    options = _chosen(parser(), arguments)
    for name in ("SIGTERM", "SIGHUP"):  # processes are ended, and half-written files removed
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL:
            signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        play(options)
    except KeyboardInterrupt:
        return _say(f"error: interrupted; the same command goes on with the runs in {options.out}", 130)  # fmt: skip
    except (TypeError, ValueError) as error:
        names = re.findall(r"`(\w+)`", str(error))
        if not (isinstance(error, KolossError) or set(names) & set(vars(options))):
            raise
        message = re.sub(r"`(\w+)`", r"--\1", str(error))
        return _say(f"error: {message}", 2)
    except (ImportError, KolossError, OSError) as error:
        return _say(f"error: {error}", 1)
    return 0


def _chosen(made: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, with games and players in the order of the tables."""
    options, games, players = made.parse_args(arguments), arena.games(), arena.players()
    if options.games and options.family:
        made.error("give --games or --family, not both")
    for flag, known in (("games", games), ("players", players)):
        for name in getattr(options, flag) or ():
            if name not in known:
                made.error(f"--{flag} must be among {', '.join(known)}; got {name!r}")
    chosen = options.games or arena.games(options.family)
    options.games = [name for name in games if name in chosen]
    some = options.players or players
    own = options.no_peers or options.quick
    options.players = [k for k, spec in players.items() if k in some and not (own and spec.package)]
    if not options.players:
        made.error("--no-peers leaves no player: all those named need other packages")
    return options


def play(options: argparse.Namespace) -> None:
    """Play what the options say, write the page, and print the tables."""
    quick = options.quick
    with ExitStack() as stack:
        executor: Any = None
        if options.cluster is not None:
            try:
                from distributed import Client
            except ImportError as error:
                needs = "--cluster needs dask and distributed: pip install 'koloss[distributed]'"
                raise ImportError(needs) from error
            client = stack.enter_context(Client(options.cluster, timeout=20))
            executor = client.get_executor(pure=False)
        results = arena.run(
            options.games,
            options.players,
            out=options.out,
            runs=options.runs if options.runs is not None else 2 if quick else 5,
            rounds=300 if quick and options.rounds is None else options.rounds,
            seed=options.seed,
            jobs=options.jobs,
            limit=options.limit,
            executor=executor,
            progress=None if options.json else _teller(options.out),
        )
    files = arena.write_page(results, options.out, all_games=options.all_games)
    if options.json:
        print(json.dumps(results.to_dict(), indent=1, allow_nan=False))
    else:
        arena.show_arena(results, [*files[:3], options.out / "arena.json"])


def _teller(out: Path) -> Callable[[Progress], None]:
    """A line for every tenth of the runs, on standard error."""
    tenths = -1

    def tell(progress: Progress) -> None:
        nonlocal tenths
        if progress.replaced:
            runs = counted(progress.replaced, "run")
            _say(f"{runs} in {out} of another size, seed or version will be played again and replaced")  # fmt: skip
        before, tenths = tenths, 10 * progress.done // max(progress.total, 1)
        if tenths > before and progress.done:
            there = "done" if progress.job else "are there already"
            _say(f"{progress.done} of {progress.total} runs {there}")

    return tell


def _say(line: str, code: int = 0) -> int:
    print(printable(line), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
