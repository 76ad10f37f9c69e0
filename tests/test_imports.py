"""Who imports whom: the graph of the packages, computed from the source, against the order that they are written in.

Imports inside functions, those for type checking and `importlib.import_module("koloss...")` count like any other. Relative imports
are refused by ruff.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "koloss"

FOUNDATION = "_version, errors, core"
"""What needs nothing but each other: each may import those to the left of it."""

CHAINS = f"""
{FOUNDATION} < actions < kernels < proxy < designs < learners
kernels < samplers < learners
kernels < oracles < learners
guarantees < learners < games < experiments < report < cli
learners < studies < cli, testing
cli < __main__
"""
"""A package imports those before it in these chains, and no other."""

ALONE = {"guarantees": {"core.text"}}
"""Packages with nothing before them, and the modules that they import all the same."""

LEARNERS = """
losses, sharing, params, waiting < ledger, settings < base < bandit < insured
losses, sharing, params, waiting < ledger, settings < base < full
"""
"""The same inside `learners`, where all but the last three are modules."""


@cache
def order(chains: str, row: str = "") -> dict[str, frozenset[str]]:
    """Of every name in some chains, the names before it in any of them; in a row, those to the left."""
    before: dict[str, set[str]] = {}
    for chain in filter(None, map(str.strip, chains.splitlines())):
        earlier: set[str] = set()
        for place in chain.split("<"):
            names = [name.strip() for name in place.split(",")]
            for name in names:
                before.setdefault(name, set()).update(earlier)
            earlier = set(names)
    names = [name.strip() for name in row.split(",") if name.strip()]
    for k, name in enumerate(names):
        before[name].update(names[:k])

    def all_before(name: str) -> frozenset[str]:
        return frozenset(before[name]).union(*(all_before(other) for other in before[name]))

    return {name: all_before(name) for name in before}


# Reading the source.


@dataclass(frozen=True)
class Import:
    """One import of a part of koloss: by which module, of which, in which line."""

    source: str  # dotted, without the leading koloss; the package itself is ""
    target: str
    line: int
    at_top: bool  # done when the module is imported
    path: str  # of the file

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports koloss{'.' * bool(self.target)}{self.target}"


def modules(root: Path) -> dict[str, Path]:
    """Every module of a tree, by its dotted name without the leading koloss."""
    names = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def imports(root: Path) -> list[Import]:
    """All imports of parts of koloss in a tree, once for each line; `koloss/__init__.py` itself is the source ""."""
    known = modules(root)
    edges = []
    for name, path in known.items():
        file = path.relative_to(root).as_posix()
        for node, at_top in walk(ast.parse(path.read_text(encoding="utf-8")), True):
            for target in targets(node, known):
                edges.append(Import(name, target, node.lineno, at_top, file))
    return list(dict.fromkeys(edges))


def walk(node: ast.AST, at_top: bool) -> Iterator[tuple[Any, bool]]:
    """All nodes that can import, and whether they do so when the module is imported."""
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)):
        yield node, at_top
    for child in ast.iter_child_nodes(node):
        typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        late = isinstance(node, (ast.FunctionDef, ast.Lambda)) or (typing and child in node.body)
        yield from walk(child, at_top and not late)


def targets(node: Any, known: dict[str, Path]) -> list[str]:
    """The modules of koloss that a node imports, dotted and without the leading koloss."""
    if isinstance(node, ast.Import):  # `import koloss.actions` makes the name koloss, too
        names = [alias.name for alias in node.names]
        names += ["koloss" for alias in node.names if alias.name[:7] == "koloss." and not alias.asname]  # fmt: skip
    elif isinstance(node, ast.ImportFrom):
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [name if name.partition(".")[2] in known else str(node.module) for name in inner]
    else:
        by_name = node.args and "import_module" in ast.dump(node.func)
        names = [ast.unparse(node.args[0]).strip("f\"'").partition("{")[0]] if by_name else []
    inside = [name.partition(".") for name in names]
    return [rest.rstrip(".") for head, _, rest in inside if head == "koloss"]


# Rules.


def room(module: str) -> str:
    """The package, or the module beside the packages, that a module is in."""
    return module.partition(".")[0]


def unknown_rooms(root: Path) -> list[str]:
    """Packages and modules that the chains do not have."""
    allowed = order(CHAINS, FOUNDATION)
    inside = order(LEARNERS)
    names = modules(root)
    of_learners = {name.split(".")[1] for name in names if name.startswith("learners.")}
    rooms = {room(name) for name in names if name and room(name) not in allowed}
    return sorted(rooms | {f"learners.{name}" for name in of_learners if name not in inside})


def of_koloss_itself(root: Path) -> list[str]:
    """Imports of `koloss`, which is the top of the house."""
    return [str(edge) for edge in imports(root) if edge.source and edge.target == ""]


def too_much_at_once(root: Path) -> list[str]:
    """What `import koloss` loads although it is above the learners."""
    allowed = order(CHAINS, FOUNDATION)["learners"] | {"learners"}
    return [
        str(edge)
        for edge in imports(root)
        if edge.source == "" and edge.at_top and edge.target and room(edge.target) not in allowed
    ]


def against_the_order(root: Path) -> list[str]:
    """Imports of packages that are not before one's own."""
    allowed = order(CHAINS, FOUNDATION)
    return [
        str(edge)
        for edge in imports(root)
        if edge.source
        and edge.target
        and room(edge.source) != room(edge.target)
        and room(edge.target) not in allowed.get(room(edge.source), ())
        and edge.target not in ALONE.get(room(edge.source), ())
    ]


def against_the_order_of_learners(root: Path) -> list[str]:
    """The same inside `learners`: only `insured` imports `bandit`, `full` knows neither."""
    allowed = order(LEARNERS)
    wrong = []
    for edge in imports(root):
        if not (edge.source.startswith("learners.") and room(edge.target) == "learners"):
            continue
        source, target = (module.split(".")[1:2] for module in (edge.source, edge.target))
        if not target or (
            source != target and target[0] not in allowed.get(source[0], ())
        ):  # `koloss.learners` imports them all
            wrong.append(str(edge))
    return wrong


def cycles(edges: set[tuple[str, str]]) -> list[str]:
    """Sets of names that reach each other, one line each."""
    after: dict[str, set[str]] = {}
    for source, target in edges:
        if source != target:
            after.setdefault(source, set()).add(target)

    @cache
    def reach(name: str) -> frozenset[str]:
        reached, fresh = set(), [name]
        while fresh:
            fresh = [new for old in fresh for new in after.get(old, ()) if new not in reached]
            reached.update(fresh)
        return frozenset(reached)

    circles = {frozenset(o for o in reach(name) if name in reach(o)) for name in after}
    return sorted(", ".join(sorted(circle)) for circle in circles if circle)


def cycles_of_packages(root: Path) -> list[str]:
    """Packages that import each other, however late."""
    edges = (edge for edge in imports(root) if edge.source and edge.target)
    return cycles({(room(edge.source), room(edge.target)) for edge in edges})


def cycles_of_modules(root: Path) -> list[str]:
    """Modules that import each other when they are imported."""
    edges = (edge for edge in imports(root) if edge.source and edge.target and edge.at_top)
    return cycles({(edge.source, edge.target) for edge in edges})


RULES = [unknown_rooms, of_koloss_itself, too_much_at_once, against_the_order]
RULES += [against_the_order_of_learners, cycles_of_packages, cycles_of_modules]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule):
    wrong = rule(SOURCE)
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_graph_is_that_of_this_house():
    """What everybody knows of it is in it: an empty graph would keep every rule."""
    edges = {f"{room(edge.source)} {room(edge.target)}" for edge in imports(SOURCE)}
    assert {"actions core", "kernels actions", "designs proxy", "learners guarantees"} <= edges
    assert {"games learners", "experiments games", "report experiments", "cli experiments"} <= edges


def test_the_order_is_transitive():
    allowed = order(CHAINS, FOUNDATION)
    assert allowed["kernels"] == {*map(str.strip, FOUNDATION.split(",")), "actions"}
    assert allowed["guarantees"] == set()
    assert {"actions", "guarantees", "samplers", "oracles"} < allowed["games"]
    assert "proxy" not in allowed["samplers"]
    assert "games" not in allowed["studies"]
    assert "cli" not in allowed["testing"]
    assert allowed["errors"] == {"_version"}


# Trees in which something is wrong: each rule can fail.

GOOD = {
    "__init__.py": "import importlib\nfrom koloss.learners import base\n",
    "errors.py": "",
    "core/__init__.py": "",
    "core/arrays.py": "from koloss.errors import Wrong\n",
    "actions/__init__.py": "from koloss.actions.base import Actions\n",
    "actions/base.py": "from koloss.core.arrays import check\n",
    "kernels/__init__.py": "from koloss.actions import Actions\n",
    "learners/__init__.py": "from koloss.learners.insured import bandit\n",
    "learners/base.py": "def late():\n    from koloss.learners import sharing\n",
    "learners/sharing.py": "",
    "learners/bandit/__init__.py": "from koloss.learners.base import late\n",
    "learners/insured/__init__.py": "from koloss.learners.bandit import late\n",
    "learners/full/__init__.py": "from koloss.kernels import Kernel\n",
    "games/__init__.py": "import koloss.learners.base as base\n",
    "guarantees/__init__.py": "",
    "guarantees/base.py": "from koloss.core import text\n",
    "core/text.py": "",
}

BAD = {
    "a room that nobody knows": ("losses/__init__.py", "", unknown_rooms),
    "a room of learners that nobody knows": ("learners/hull.py", "", unknown_rooms),
    "koloss": ("games/play.py", "import koloss\n", of_koloss_itself),
    "koloss by another name": ("games/play.py", "import koloss as kl\n", of_koloss_itself),
    "a name of koloss": ("games/play.py", "from koloss import Gaussian\n", of_koloss_itself),
    "koloss beside a package": ("games/play.py", "import koloss.actions\n", of_koloss_itself),
    "games with koloss": ("__init__.py", "from koloss.games import play\n", too_much_at_once),
    "upwards": ("actions/box.py", "from koloss.kernels import Kernel\n", against_the_order),
    "upwards, from koloss": ("actions/box.py", "from koloss import kernels\n", against_the_order),
    "upwards, renamed": ("actions/box.py", "import koloss.kernels as k\n", against_the_order),
    "upwards, in a method": ("actions/box.py", "class Box:\n    def f(self):\n        from koloss import games\n", against_the_order),
    "upwards, late": ("actions/box.py", "def f():\n    from koloss.kernels import Kernel\n", against_the_order),
    "upwards, for type checking": ("actions/box.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from koloss.games import play\n", against_the_order),
    "upwards, by a string": ("actions/box.py", "import importlib\nkernels = importlib.import_module('koloss.kernels')\n", against_the_order),
    "upwards, by an f-string": ("kernels/box.py", "from importlib import import_module\ndef f(n):\n    import_module(f'koloss.games.{n}')\n", against_the_order),
    "by a string that says nothing": ("kernels/box.py", "from importlib import import_module\ndef f(n):\n    import_module(f'koloss.{n}')\n", of_koloss_itself),
    "sideways": ("samplers/__init__.py", "from koloss.oracles import minimize\n", against_the_order),
    "guarantees upon core": ("guarantees/base.py", "from koloss.core import arrays, text\n", against_the_order),
    "errors upon core": ("errors.py", "from koloss.core.arrays import check\n", against_the_order),
    "guarantees upon actions": ("guarantees/__init__.py", "from koloss.actions import Actions\n", against_the_order),
    "bandit upon insured": ("learners/bandit/points.py", "def f():\n    from koloss.learners.insured import g\n", against_the_order_of_learners),
    "full upon bandit": ("learners/full/learner.py", "from koloss.learners.bandit import g\n", against_the_order_of_learners),
    "base upon full": ("learners/base.py", "from koloss.learners.full import g\n", against_the_order_of_learners),
    "bandit upon all learners": ("learners/bandit/points.py", "from koloss.learners import Learner\n", against_the_order_of_learners),
    "packages in a circle": ("actions/box.py", "def f():\n    from koloss.kernels import Kernel\n", cycles_of_packages),
    "modules in a circle": ("actions/base.py", "from koloss.actions import Actions\n", cycles_of_modules),
}  # fmt: skip


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_good_tree_keeps_the_rule(tmp_path, rule):
    assert rule(plant(tmp_path, GOOD)) == []


@pytest.mark.parametrize("path, text, rule", BAD.values(), ids=BAD)
def test_a_bad_tree_breaks_the_rule(tmp_path, path, text, rule):
    wrong = rule(plant(tmp_path, {**GOOD, path: text}))
    assert len(wrong) == 1
