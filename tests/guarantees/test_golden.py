"""The texts of guarantees: word by word as they were read by somebody, and made from one table, which nothing reads back."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

import koloss
from koloss.guarantees import Clause, Guarantee, wording
from koloss.guarantees.base import MARKS, Note, clause
from tests.guarantees import golden
from tests.support import inside

SOURCE = Path(koloss.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "wording.py")

TABLES = {"clause": wording.CLAUSES, "note": wording.NOTES}
LOSSES = re.compile(r"\b(loss|losses|loses?)\b", re.IGNORECASE)

# The file of texts.

NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
"""A number that is no part of a name: not that of "Theorem F6.7", nor of "R_300"."""


def unit(number: str) -> float:
    """One in the last place of a number that was rounded; whole numbers below 100 are counts."""
    mantissa, _, exponent = number.replace(",", "").partition("e")
    _, _, decimals = mantissa.partition(".")
    if not decimals and float(mantissa) < 100:
        return 0.0
    return float(10 ** (int(exponent or 0) - len(decimals)))


def is_like(found: str, expected: str) -> bool:
    """Whether two texts have the same words, and numbers up to 0.2 % and what is lost by rounding."""
    if NUMBER.split(found) != NUMBER.split(expected):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(expected), strict=True)
    values = [(float(a.replace(",", "")), float(b.replace(",", "")), unit(b)) for a, b in pairs]
    return all(abs(a - b) <= max(2e-3 * abs(b), last) + 1e-12 for a, b, last in values)


@pytest.mark.parametrize(
    "found, expected, like",
    [
        ("at most 9.001 (bias)", "at most 9.002 (bias)", True),
        ("at most 9.1 (bias)", "at most 9.0 (bias)", True),  # one in the last place
        ("at most 9.2 (bias)", "at most 9.0 (bias)", False),
        ("2,617 in all", "2,618 in all", True),
        ("2,617 in all", "2,717 in all", False),
        ("4 losses", "5 losses", False),
        ("Theorem F6.6", "Theorem F6.6c", False),
        ("Theorem B3 over 4000", "Theorem B4 over 4000", False),
        ("R_300 ≤ 1", "R_301 ≤ 1", False),
        ("every loss", "every reward", False),
        ("1 and 2", "1", False),
    ],
)
def test_texts_are_compared_by_words_and_numbers(found, expected, like):
    assert is_like(found, expected) is like


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return dict(golden.texts())


@pytest.mark.slow
def test_every_text_is_as_in_the_file(texts):
    written = golden.GOLDEN.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    expected = dict(one.removeprefix("[").split("]\n", 1) for one in written)
    assert list(texts) == list(expected)
    changed = [name for name in texts if not is_like(texts[name], expected[name])]
    lines = [
        line
        for name in changed
        for line in difflib.ndiff(expected[name].splitlines(), texts[name].splitlines())
    ]
    assert not changed, "\n".join([f"{changed}; see tests/guarantees/golden.py", *lines])


def test_of_rewards_no_text_speaks_of_losses(texts):
    rewards = {name: text for name, text in texts.items() if "rewards" in name}
    assert len(rewards) >= 5
    for name, text in rewards.items():
        assert not LOSSES.search(text), name
        assert "reward" in text
    assert LOSSES.search(texts["bandit"])


def test_no_sentence_has_its_own_word_for_a_loss():
    """`{loss}` and the like are in braces, so that a table says of rewards what it says of losses."""
    for table in (wording.CLAUSES, wording.NOTES, wording.SENTENCES, wording.COMPARATORS):
        for key, sentence in table.items():
            plain = "".join(part for part, *_ in Formatter().parse(sentence))
            assert not LOSSES.search(plain), key


# Keys and numbers: those that are used, and those that are in the tables.


def strings(node: ast.expr) -> list[str] | None:
    """What a literal can be; None where it is not one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        both = strings(node.body), strings(node.orelse)
        return None if None in both else [*both[0], *both[1]]
    return None


def values_of(name: str, tree: ast.Module) -> Iterator[str]:
    """All literals that a module gives a variable or a parameter with this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            yield from strings(node.value) or ()
        elif isinstance(node, ast.Call):
            renewed = isinstance(node.func, ast.Name) and node.func.id == "replace"
            for word in node.keywords:
                if word.arg == name and not renewed:
                    yield from strings(word.value) or ()
        elif isinstance(node, ast.FunctionDef):
            with_default = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            for arg, default in zip(with_default, node.args.defaults, strict=True):
                if arg.arg == name:
                    yield from strings(default) or ()


def fields(sentence: str) -> set[str]:
    """The numbers that a sentence needs."""
    known = {*wording.WORDS["minimize"], "subject"}
    return {name for _, name, *_ in Formatter().parse(sentence) if name} - known


def uses(tree: ast.Module) -> Iterator[tuple[str, str, set[str]]]:
    """Of every clause and note that a module makes: which, its key, and the names of its numbers."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        words = {word.arg: word.value for word in node.keywords if word.arg}
        if node.func.id in TABLES and node.args:
            key, given = node.args[0], set(words) - {"holds"}
            found = strings(key)
            if found is None:
                assert isinstance(key, ast.Name), ast.dump(key)
                found = list(values_of(key.id, tree))
                assert found, key.id
            for one in found:
                yield node.func.id, one, given
        elif node.func.id == "replace" and "key" in words:  # of a clause, which keeps its numbers
            for one in strings(words["key"]) or ():
                yield "clause", one, fields(wording.CLAUSES[one])


def in_source() -> Iterator[tuple[str, str, set[str]]]:
    for path in MODULES:
        if path != SOURCE / "guarantees" / "base.py":
            yield from uses(ast.parse(path.read_text("utf-8")))
    yield "clause", "semidefinite", {"eigenvalue"}  # of base.py, which has the functions, too
    yield "clause", "hindsight", set()
    yield "clause", "as they are", set()
    yield "note", "range known", {"width"}
    yield "note", "range unknown", set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_every_key_of_the_table_is_used_and_no_other(kind):
    assert {key for which, key, _ in in_source() if which == kind} == set(TABLES[kind])


def test_every_sentence_gets_the_numbers_that_it_needs():
    for kind, key, given in in_source():
        assert fields(TABLES[kind][key]) == given, (kind, key)


@pytest.mark.parametrize("goal", wording.WORDS)
@pytest.mark.parametrize("kind", TABLES)
def test_every_sentence_can_be_printed(kind, goal):
    for key, sentence in TABLES[kind].items():
        numbers = {
            name: 0.25 if spec else "words"
            for _, name, spec, _ in Formatter().parse(sentence)
            if name in fields(sentence)
        }
        one = Clause(key, None, numbers, goal) if kind == "clause" else Note(key, numbers, goal)
        assert not re.search("[{}]", str(one))
        if goal == "maximize":
            assert not LOSSES.search(str(one))


@pytest.mark.slow
def test_every_theorem_and_detail_is_used():
    """Theorems with a profile are named by f"12 {profile}"."""
    found = {
        node.value
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = set(wording.THEOREMS) | set(wording.DETAILS) | set(wording.COMPARATORS)
    assert named - found - {"12 exponential", "12 polynomial"} == set()


def test_keys_that_stand_for_others_exist():
    assert set(wording.CLAUSES) >= wording.OBLIVIOUS
    assert set(wording.THEOREMS) >= set(wording.JOINTS)


# Nothing reads a sentence back: what a program wants to know is in keys, numbers and marks.

PROSE = {"statement", "notes", "text"}
READING = {"startswith", "endswith", "replace", "partition", "rpartition", "split", "rsplit",
           "removeprefix", "removesuffix", "find", "rfind", "index", "count", "translate"}  # fmt: skip
PROMISES = ("promise", "guarantee", "clause", "assumption", "proved", "robust", "last", "bound")
"""Names that guarantees and their clauses have; other things have a text, too."""


def is_prose(node: ast.AST) -> bool:
    """Whether an expression is, or is made of, a sentence of a guarantee."""
    if isinstance(node, ast.Attribute) and node.attr in PROSE:
        return node.attr != "text" or _is_named(node.value)
    if isinstance(node, ast.Subscript):
        key = node.slice
        if isinstance(key, ast.Constant) and key.value in PROSE:
            return True
        return is_prose(node.value)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
            return any(isinstance(a, ast.Name) and _is_named(a) for a in node.args)
        return isinstance(node.func, ast.Attribute) and is_prose(node.func.value)
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return is_prose(node.elt)
    return False


def _is_named(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return any(name in node.attr for name in PROMISES)
    return isinstance(node, ast.Name) and (
        any(name in node.id for name in PROMISES) or node.id in ("a", "one")
    )


def readings(source: str) -> list[str]:
    """Expressions that search or edit a sentence."""
    found = []
    for node in ast.walk(ast.parse(source)):
        read = False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            read = node.func.attr in READING and is_prose(node.func.value)
            read |= isinstance(node.func.value, ast.Name) and (
                node.func.value.id == "re" and any(map(is_prose, node.args))
            )
        elif isinstance(node, ast.Compare):
            read = any(map(is_prose, [node.left, *node.comparators]))
        if read:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize(
    "source",
    [
        'promise.statement.startswith("Theorem B3")',
        'promise.statement.replace("loss", "reward")',
        '[a for a in promise.assumptions if a.text.startswith("every loss")]',
        '[a for a in promise.assumptions if "range" in a.text]',
        'told = [a.text == DRAWN for a in promise.assumptions]',
        'DRAWN in [one.text for one in promise.assumptions]',
        'head, _, rest = promise.statement.partition(": ")',
        'any("not covered" in note for note in promise.notes) or NOTE in promise.notes',
        'promise.notes[0].endswith("so far")',
        're.sub("loss", "reward", str(promise))',
        'str(guarantee).split("assumes")',
        '[a for a in kept["assumptions"] if "range" in a["text"]]',
        'assumption.text.lower().count("loss")',
    ],
)  # fmt: skip
def test_a_sentence_that_is_read_is_found(source):
    assert readings(source)


def test_no_module_reads_a_sentence():
    found = {path.relative_to(SOURCE).as_posix(): readings(path.read_text("utf-8")) for path in MODULES}  # fmt: skip
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.slow
def test_no_module_but_the_table_has_a_sentence():
    """A clause that is written where it is used would not speak of rewards."""
    parts = {
        max((part for part, *_ in Formatter().parse(sentence)), key=len).strip()
        for table in TABLES.values()
        for sentence in table.values()
    }
    long = [part for part in parts if len(part) > 25]
    assert len(long) > 50
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:  # fmt: skip
                assert not [part for part in long if part in node.value], path.name


# What is said first.

BOUND = Guarantee(("A3",), 1000, {"all": 80.0}, 1000.0)
FIRST = "Over 1,000 rounds the learner loses on average at most 80 more than the best single action: 0.08 per round."
WORST = "The worst case without it is 1 per round, the range of the losses."
RANDOM = "Playing at random would lose about 200 more, by the learner's own estimate."


@pytest.mark.parametrize(
    "change, words",
    [
        ({}, f"{FIRST} {WORST}"),
        ({"random": 200.0}, f"{FIRST} {RANDOM}"),
        (
            {"random": 79.0},
            f"{FIRST} {RANDOM.replace('200', '79')} So far the guarantee says little about this game: it is larger than that.",
        ),
        ({"trivial": float("inf")}, FIRST),  # losses may be outside of every range
        (
            {"goal": "maximize", "random": 200.0},
            ("Over 1,000 rounds the learner earns on average at most 80 less than the best single action: 0.08 per round. "
            "Playing at random would earn about 200 less, by the learner's own estimate."),
        ),
        ({"goal": "maximize"}, f"{FIRST.replace('loses', 'earns').replace('more', 'less')} {WORST.replace('losses', 'rewards')}"),
        ({"confidence": 0.99}, f"{FIRST.replace('on average', 'with probability 0.99')} {WORST}"),
        ({"regret": "hindsight"}, f"{FIRST.replace('action:', 'action, chosen after the game:')} {WORST}"),
        (
            {"comparator": "mapping", "regret": "hindsight"},
            f"{FIRST.replace('the best single action', 'the best choice of one action for each context')} {WORST}",
        ),
        (
            {"comparator": "law", "price": 5.0},
            f"{FIRST.replace('the best single action', 'the best fixed mixture of actions within the shares')} {WORST}",
        ),
        (
            {"unit": "ρ"},
            (f"{FIRST.replace('80 more', '80 ρ more').replace('0.08', '0.08 ρ')} ρ is the range of the losses, largest minus smallest; "
            f"no two that differ were received yet. {WORST.replace('1 per', '1 ρ per')}"),
        ),
        (
            {"unit": "ρ", "seen": 2.5},
            (f"{FIRST.replace('80 more', '80 ρ more').replace('0.08', '0.08 ρ')} ρ is the range of the losses, largest minus smallest; "
            f"so far it is 2.5, and the bound 200. {WORST.replace('1 per', '1 ρ per')}"),
        ),
        (
            {"terms": {"all": 1234.5}},
            "No useful guarantee: over 1,000 rounds it is no smaller than what the range of the losses allows, 1,000.",
        ),
        (
            {"terms": {"all": 1234.5}, "random": 200.0},
            f"No useful guarantee: over 1,000 rounds it is no smaller than what the range of the losses allows, 1,000. {RANDOM}",
        ),
        (
            {"proved": False, "assumptions": (clause("oblivious", False),)},
            "No guarantee: nothing is proved for what is played here. The number below is for the nearest case that is proved.",
        ),
        (
            {"assumptions": (clause("coin"), clause("rounds", False, horizon=900))},
            "No guarantee: what it assumes does not hold (at most 900 rounds).",
        ),
        (
            {"assumptions": (clause("oblivious", False),), "goal": "maximize"},
            "No guarantee: what it assumes does not hold (rewards do not depend on the player's actions).",
        ),
        (
            {"terms": {"all": float("nan")}, "trivial": float("nan")},
            "No guarantee can be given in losses: their range is not known.",
        ),
        ({"theorems": ("one action",), "trivial": 0.0}, "One action: nothing can be lost."),
        ({"theorems": ("equal",), "trivial": 0.0}, "All actions are equally good: nothing can be lost."),
    ],
)  # fmt: skip
def test_in_words(change: dict[str, Any], words: str):
    promise = replace(BOUND, **change)
    assert promise.in_words() == words
    assert str(promise).splitlines()[0] == words
    assert words in re.sub("&#x27;|&#39;", "'", inside.html(promise))


def test_informative_is_more_than_not_trivial():
    assert BOUND.informative
    assert not BOUND.is_trivial
    assert replace(BOUND, random=81.0).informative
    poor = replace(BOUND, random=79.0)
    assert (poor.informative, poor.is_trivial, poor.valid) == (False, False, True)
    vacuous = replace(BOUND, terms={"all": 1000.0}, random=5000.0)
    assert (vacuous.informative, vacuous.is_trivial, vacuous.total) == (False, True, 1000.0)
    # What random play loses is in losses, the bound in units of what was seen of their range.
    scaled = replace(BOUND, unit="ρ", seen=0.5, random=41.0)
    assert scaled.informative
    assert not replace(scaled, random=39.0).informative


def test_what_is_the_users_to_know_comes_first():
    marks = [True, "so far", None, False, None]
    promise = replace(BOUND, assumptions=tuple(clause("coin", mark) for mark in marks))
    lines = [line for line in str(promise).splitlines() if line.startswith("  assumes: ")]
    shown = [line.rpartition(" [")[2].rstrip("]") for line in lines]
    assert shown == [MARKS[mark] for mark in (None, None, False, "so far", True)]
    assert shown == ["yours to know", "yours to know", "FAILS", "held so far", "holds"]
    assert not promise.valid
    assert replace(promise, assumptions=promise.assumptions[:3]).valid  # none is known to fail
