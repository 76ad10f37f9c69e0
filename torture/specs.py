"""Specs and names that nobody wrote in good faith.

A spec is either an error with its file and line, found before anything is played, or it is accepted, and then all its games
and learners can be made. Names never share a file, never leave their folder, and are shown as they are.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from koloss.core.text import hidden, printable, slug, slugs
from koloss.experiments import SpecError, load, parse, shipped, spec_text
from koloss.experiments.run import check
from torture.trials import Cases, trial

ROUNDS = 50
"""Horizon of learners that are made; those of a full game take their time."""

MEMORY = 6 * 2**30
"""Bytes that a trial may have: what asks for more is to be told so."""

SLOW = 20.0
"""Seconds of computing for one spec, at most."""

OTHERS = (
    """\
[game]
kernel = {kind = "Sum", parts = [{kind = "Linear"}, {kind = "Matern", smoothness = 1.5, lengthscale = 0.3}]}
actions = {kind = "Points", X = [[0.0, 0.5], [0.5, 0.25], [1.0, 1.0]]}
rounds = 30
[adversary]
kind = "replay"
table = "losses.csv"
bound = 1.0
[[learner]]
name = "insured"
kind = "InsuredBandit"
loss_range = [-1.0, 1.0]
[[learner]]
kind = "FollowTheRegularizedLeader"
anytime = true
play = {delay = 3}
""",
    """\
[game]
kernel = {kind = "Polynomial", degree = 2, offset = 0.5}
actions = {kind = "Box", lower = [0.0, 0.0], upper = [1.0, 2.0], net = 0.5}
rounds = 30
runs = 2
[full]
rounds = 60
[adversary]
kind = "predictive"
norm = 0.5
[[learner]]
name = "first"
kind = "BanditExpWeights"
loss_range = [-1.0, 1.0]
design = "john"
tuning = "optimal"
[[learner]]
name = "second"
kind = "ExpWeights"
kernel = {kind = "Periodic", lengthscale = 0.5, period = 1.0}
""",
    """\
title = "Code"
[game]
kernel = {kind = "Quadratic"}
actions = {kind = "PositiveBall", dimension = 2, radius = 1.0, lower = 0.1}
rounds = 30
[adversary]
kind = "python"
file = "own.py"
make = "make"
[[learner]]
kind = "ConditionalGradient"
""",
)
OWN = """\
import koloss as kl

def make(kernel, actions, rng):
    return kl.games.Random(kernel, actions, rng=rng)
"""

BAD: tuple[str, ...] = (
    "0", "-1", "1", "3", "1e308", "-1e308", "5e-324", "1e400", "nan", "inf", "-inf", "0.5", "true",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", f"1{'0' * 400}", f"1{'0' * 5000}",
    "2024-02-29", "2024-02-29T10:00:00+01:00", "10:30:00", "2024-02-31",
    '""', '"  "', '"x"', '"rank"', '"auto"', '"learn"', '"\\u0000"', '"\\u001b[31m"', '"\\u202e"', '"../../../etc/passwd"', '"$$"', '"日本"',
    "'" + "x" * 10_000 + "'", "[]", "[[]]", "[[], [1]]", "[1, 'x']", "[nan]", "[0.0, 1.0]", "[1.0, 0.0]", "[[0.0, 0.5], [1.0]]",
    "{}", "{kind = 'Gaussian'}", "{kind = 3}", "{kind = 'Ball', dimension = 2}", "{a = {b = {c = 1}}}",
    "[" * 10_000, "[" * 200 + "]" * 200, "{a = " * 10_000, "", "=", "nonsense", "'''", "\x00", "\x7f",
)  # fmt: skip
"""What takes the place of a value, as TOML."""

NAMES = (
    "$$", "$x", "\\frac{", "$\\frac{$", "a\nb", "\x1b[31m", "\u202e", "", " ", "..", ".", "../../x", "/x", "con", "a/b", "a-b", "A-B", "日本", "中国",
    "Привет", "😀", "[red]", "[/]", "<script>\"'&", "x" * 200, "x" * 201, "_x", "&amp;", "%s", "{}", "\u0301", "\ufeff", "\U000e0041", "-", "~", "nul",
)  # fmt: skip


# In this process.


def fill(folder: Path) -> None:
    """Write what the specs name."""
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    (folder / "losses.csv").write_text("0.5,1,0\n1,0.5,0\n", encoding="utf-8")


def texts() -> list[str]:
    return [*map(spec_text, shipped()), *OTHERS]


def outcome(data: bytes, what: str) -> str | None:
    """Read one spec and make all that is in it."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        return _outcome(Path(folder) / "x.toml", data, what)


def _outcome(path: Path, data: bytes, what: str) -> str | None:
    path.write_bytes(data)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limits[1]))
    begin = time.process_time()
    try:
        game = load(path)
        check(game, min(game.rounds, ROUNDS))
    except SpecError as error:
        if error.path != str(path) or not str(error).startswith(str(path)):
            return f"{what}: the error does not name the file: {error}"
        if not 1 <= error.line <= data.count(b"\n") + 1 or len(str(error)) > 2000:
            return f"{what}: line {error.line} is not in the file, or the error is endless"
    except BaseException as error:
        return f"{what}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    if time.process_time() - begin > SLOW:
        return f"{what}: took {time.process_time() - begin:.0f} s"
    return None


def leaves(data: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if keys:
        yield keys
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()  # fmt: skip
    for key, value in inner:
        yield from leaves(value, (*keys, key))


def written(data: Any, place: tuple[Any, ...], text: str, here: tuple[Any, ...] = ()) -> str:
    """Data as TOML in one line, with something else at one place."""
    if here == place:
        return text
    if isinstance(data, dict):
        parts = (f"{json.dumps(k)} = {written(v, place, text, (*here, k))}" for k, v in data.items())  # fmt: skip
        return f"{{{', '.join(parts)}}}"
    if isinstance(data, list):
        return f"[{', '.join(written(v, place, text, (*here, k)) for k, v in enumerate(data))}]"
    return "true" if data is True else "false" if data is False else json.dumps(data, ensure_ascii=False)  # fmt: skip


def spec_with(data: dict[str, Any], place: tuple[Any, ...], text: str) -> str:
    """A spec, a line for each key at its top, with something else at one place."""
    lines = (f"{k} = {written(v, place, text, (k,))}" for k, v in data.items())
    return "\n".join(lines) + "\n"


@trial("specs: every value by every bad one", quick=1, full=12)
def bad_values(rng: np.random.Generator) -> Cases:
    known = texts()
    for k in range(len(known)):
        data = tomllib.loads(known[k])
        places = list(leaves(data))
        chosen = rng.choice(len(places) * len(BAD), size=40, replace=False)
        for place, text in ((places[i // len(BAD)], BAD[i % len(BAD)]) for i in chosen):
            spec = spec_with(data, place, text)
            yield outcome(spec.encode(), f"spec {k}, {place} = {text[:40]!r}")


@trial("specs: keys changed, added, taken away", quick=1, full=8)
def bad_keys(rng: np.random.Generator) -> Cases:
    known = texts()
    for k in range(len(known)):
        for _ in range(12):
            data = tomllib.loads(known[k])
            places = [place for place in leaves(data) if isinstance(place[-1], str)]
            *above, key = places[int(rng.integers(len(places)))]
            table: Any = data
            for step in above:
                table = table[step]
            how = ["less", "more", "swap", "dots"][int(rng.integers(4))]
            value = table.pop(key)
            if how == "more":
                table |= {key: value, key + str(rng.choice(["", "s", "\x00", "é"])): value}
            elif how == "swap":
                other = [p[-1] for p in places][int(rng.integers(len(places)))]
                table[other] = value
            text = spec_with(data, (), "")
            if how == "dots":
                text = ".".join([json.dumps(key)] * int(rng.integers(1, 60_000))) + " = 1\n" + text
            yield outcome(text.encode(), f"spec {k}, {how} {(*above, key)}")


@trial("specs: bytes put in, taken out, changed", quick=1, full=20)
def bad_bytes(rng: np.random.Generator) -> Cases:
    known = texts()
    pieces = [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b'"', b"'''", b'"""', b"[", b"]", b"{", b"}", b"=", b".", b"#", b"\\", b"9" * 50, b"[" * 500]  # fmt: skip
    for k in range(len(known)):
        for _ in range(25):
            data = bytearray(known[k].encode())
            for _ in range(int(rng.integers(1, 4))):
                i = int(rng.integers(len(data)))
                how = int(rng.integers(4))
                if how == 0:
                    data[i:i] = pieces[int(rng.integers(len(pieces)))]
                elif how == 1:
                    del data[i : i + int(rng.integers(1, 30))]
                elif how == 2:
                    data[i] = int(rng.integers(256))
                else:
                    data[i:i] = data[i : i + int(rng.integers(1, 200))]
                data = data or bytearray(b"\n")
            yield outcome(bytes(data), f"spec {k}, bytes {bytes(data)!r}"[:3000])


@trial("specs: names of learners", quick=1, full=8)
def bad_names(rng: np.random.Generator) -> Cases:
    for _ in range(60):
        names = [NAMES[i] for i in rng.choice(len(NAMES), 2, replace=False)] + [random_name(rng)]
        tables = "".join(f'[[learner]]\nname = {json.dumps(name, ensure_ascii=False)}\nkind = "ExpWeights"\n' for name in names)  # fmt: skip
        text = OTHERS[0].partition("[[learner]]")[0] + tables
        yield outcome(text.encode("utf-8", "surrogatepass"), f"names {names!a}")
        fine = all(name.strip() and len(name) <= 200 and not hidden(name) for name in names)
        try:
            made = [learner.slug for learner in parse(text, name="x").learners]
        except SpecError as error:
            yield f"{names!a} were refused: {error}" if fine and len(set(names)) == 3 else None
            continue
        yield None if len(set(made)) == len(names) else f"{names!a} share a folder: {made}"


# Names.


def random_name(rng: np.random.Generator) -> str:
    """Letters from a few neighbourhoods of Unicode, so that many names are alike."""
    starts = (0x20, 0x20, 0x41, 0x61, 0xC0, 0x300, 0x400, 0x5D0, 0x2000, 0x3040, 0x4E00, 0xFF01, 0x1F600, 0)  # fmt: skip
    at = rng.choice(starts, int(rng.integers(0, 12)))
    return "".join(chr(int(start + rng.integers(60))) for start in at)


@trial("names: slugs are different, short and safe", quick=1, full=1)
def many_slugs(rng: np.random.Generator) -> Cases:
    names = {random_name(rng) for _ in range(100_000)} | set(NAMES)
    names |= {"".join(map(chr, rng.integers(0, 0x110000, 3))) for _ in range(20_000)}
    alone, together, owner = {name: slug(name) for name in names}, slugs(names), dict[str, str]()
    beside = len(set(together.values())) == len(names)
    yield None if beside else "names that stand beside each other share a slug"
    for name, made in alone.items():
        first = owner.setdefault(made, name)
        both = (made, together[name])
        safe = all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", s) and len(s) <= 100 for s in both)
        device = any(s in ("con", "nul", "prn", "aux") for s in both)
        if first != name:
            yield f"{name!a} and {first!a} share the slug {made}"
        elif not safe or device or printable(printable(name)) != printable(name):
            yield f"{name!a} becomes {both}"
        else:
            yield None


class _Tags(HTMLParser):
    """Tags and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]


@trial("names: pages of experiments", quick=1, full=6)
def pages(rng: np.random.Generator) -> Cases:
    from koloss.experiments import Results, run
    from koloss.report import write_page

    with tempfile.TemporaryDirectory() as folder:
        played = run(["quadratic-oracles"], out=folder, rounds=20, runs=2, jobs=1)
    (result,) = played.results
    for _ in range(8):
        names = [str(rng.choice(NAMES)) + random_name(rng) for _ in range(6)]
        game = replace(result.experiment, name=names[0], title=names[1], text=names[2], shows=names[3], paper=names[4])  # fmt: skip
        curves = tuple(replace(c, learner=f"{names[5]} {k}", failures={0: names[k]}) for k, c in enumerate(result.curves))  # fmt: skip
        page = Results((replace(result, experiment=game, curves=curves, failures={names[0]: names[1]}),), 0, 0.0, played.machine)  # fmt: skip
        yield _page(page, write_page, names)


def _page(results: Any, write: Any, names: list[str]) -> str | None:
    with tempfile.TemporaryDirectory() as above:
        out = Path(above) / "in" / "out"
        try:
            files = write(results, out)
        except Exception as error:
            return f"{names!a}: {type(error).__name__}: {error}"
        strays = [path for path in Path(above).rglob("*") if path.is_file() and out not in path.parents]  # fmt: skip
        read = _Tags()
        read.feed(files[0].read_text("utf-8"))
        if strays or "script" in read.tags or len(set(read.ids)) != len(read.ids):
            return f"{names!a}: files outside, a script, or an id twice"
        if not all(re.fullmatch("[a-z0-9-]+", name) for name in read.ids):
            return f"{names!a}: an id that is no word: {read.ids}"
    return None


# In a process of its own.


@trial("koloss run: a hostile spec, from the command line", quick=1, full=12)
def command(rng: np.random.Generator) -> Cases:
    known = texts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        k = int(rng.integers(len(known)))
        data = tomllib.loads(known[k])
        if rng.random() < 0.5 and "learner" in data:
            label = NAMES[int(rng.integers(len(NAMES)))]
            data["title"] = data["learner"][0]["name"] = label
            spec, what = spec_with(data, (), ""), f"spec {k}, name {label!a}"
        else:
            places = list(leaves(data))
            place = places[int(rng.integers(len(places)))]
            text = BAD[int(rng.integers(len(BAD)))]
            spec, what = spec_with(data, place, text), f"spec {k}, {place} = {text[:40]!a}"
        fill(folder)
        (folder / "x.toml").write_text(spec, encoding="utf-8")
        yield _command(folder, what)


CODE = (
    "sys.exit(0)", "os._exit(0)", "raise ValueError('x')", "raise SystemExit", "1 / 0", "raise GeneratorExit", "os.abort()",
    "return None", "return 3", "return [float('nan')] * 3", "return 'x'", "return kl", "raise StopIteration",
)  # fmt: skip


@trial("koloss run: an adversary that fails", quick=1, full=13)
def adversaries(rng: np.random.Generator) -> Cases:
    code = CODE[int(rng.integers(len(CODE)))]
    stage = int(rng.integers(3))
    lines = ["import os, sys, koloss as kl", "def make(kernel, actions, rng):", "    def choose(t, player):",
             "        return kl.LinearLoss([0.1, 0.1])", "    return kl.games.Function(choose)"]  # fmt: skip
    if stage == 0:
        lines.insert(1, code.replace("return", "raise"))
    else:
        lines.insert(1 + stage, "    " * stage + code)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "\n".join(lines)
        (folder / "own.py").write_text(text + "\n", encoding="utf-8")
        (folder / "x.toml").write_text(OTHERS[2], encoding="utf-8")
        yield _command(folder, f"own.py {lines!r}", fails="own.py" if "abort" not in code and "_exit" not in code else "process")  # fmt: skip


def _command(folder: Path, what: str, fails: str = "") -> str | None:
    """Play a spec for a few rounds: results and exit code 0, or an error, exit code 1 or 2; never a traceback."""
    command = [sys.executable, "-m", "koloss", "run", "x.toml", "--jobs", "1", "--runs", "1", "--rounds", "4", "--out", "out"]  # fmt: skip
    environment = os.environ | {"PYTHONFAULTHANDLER": ""}
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=300, env=environment)  # fmt: skip
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    page, last = folder / "out" / "report.html", err.rstrip("\n").rpartition("\n")[2]
    if "Traceback" in err or "\x1b" in out + err:
        return f"{what}: a traceback, or escapes: {err[-500:]}"
    if done.returncode == 0:
        return None if page.is_file() and "wrote " in out and not fails else f"{what}: no report"
    if done.returncode not in (1, 2) or not last.startswith("error: "):
        return f"{what}: exit code {done.returncode}, {err[-500:]}"
    if done.returncode == 2 and (page.exists() or (folder / "out" / "runs").exists()):
        return f"{what}: something was played before the error {last[:300]}"
    if done.returncode == 2 and "x.toml" not in last:
        return f"{what}: the error does not name the file: {last[:300]}"
    return None if fails in err else f"{what}: {fails} is not named: {err[-500:]}"
