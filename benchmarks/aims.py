"""What is aimed at: a cell of a table, the least or the most that it should be, and why it is not where it falls short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import Spread


@dataclass(frozen=True)
class Aim:
    """A number in a table, found by the beginning of the title, some cells of the row, and the column."""

    figure: str
    benchmark: str
    table: str
    row: Mapping[str, Any]
    column: str
    reason: str  # shown where the aim is missed
    least: float | None = None
    most: float | None = None

    @property
    def wanted(self) -> str:
        """The aim in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"

    def find(self, results: Mapping[str, Any]) -> Spread | float | None:
        """The number, or None where it was not measured."""
        for table in results.get(self.benchmark, {"tables": []})["tables"]:
            if table["title"].startswith(self.table):
                for row in table["rows"]:
                    if all(row.get(key) == value for key, value in self.row.items()):
                        return _number(row.get(self.column))
        return None

    def is_met(self, cell: Spread | float) -> bool:
        """Whether the number, or its median, is where it should be."""
        value = cell.median if isinstance(cell, Spread) else cell
        return value >= self.least if self.least is not None else value <= self.most  # type: ignore[operator]


def _number(cell: Any) -> Spread | float | None:
    if isinstance(cell, dict):
        return Spread(**cell)
    return cell if isinstance(cell, (int, float)) else None


def _studies(who: str, durability: str, aims: Mapping[str, float], reason: str) -> list[Aim]:
    row = {"store": who, "survives": durability}
    names = {"RDB": "Optuna's RDB", "journal": "Optuna's journal"}
    return [
        Aim(f"studies on {who} ({durability}) over {names[column]}", "studies",
            "Studies: ask+tell per second", row, column, reason, least=least)
        for column, least in aims.items()
    ]  # fmt: skip


BANDIT, CALLS = "Bandit: 1,000 points", "Bandit: single calls"
ROUND = (
    "An epoch of 120 rounds takes about 290 µs: products, factor and solve 140, of which SYRK is 110, the scaling of the features before it 30, exponentials, "
    "sums, draws and rows 45, and Python around the two calls the rest, none of it for each decision. Linear algebra alone would allow about 230 times (the last "
    "table of this group has its time). Batches of the rank, which the guide advises, reach half of it; three times the rank reach the aim, with a regret 7% above the textbook's."
)
CALLED = (
    "Beside the kernels the call waits for the covariance, makes its Cholesky factor on the host and, with a bonus, sends the inverse back; launches from Python, "
    "transfers and waiting take more than the kernels do. A CUDA graph with a factorisation on the device would save most of it, and is not built."
)
KERNELS = (
    "The tensor cores wait for the features to be split and turned; see the kernels by themselves."
)
CALL = (
    "Amortised over the refreshes that the calls open; the drift of the weights ends epochs early."
)
PRODUCTS = (
    "The features are read four times: F'F, lengths, leverages of a coreset's design, and the certificate; the last three are products with a square matrix, twice "
    "SYRK's work each. What is left is the solution on the coreset and on the two thousand actions that can be in an optimal design, the same whatever their number."
)
DISK = (
    "One `fdatasync` for each of ask and tell is all that is waited for. Where it takes milliseconds it decides (at 4 ms the ratio was 0.91 on another machine); on a disk that "
    "answers in a tenth of one, Python and SQLite take more than the disk does: the row against killed processes, which waits for no disk, has their time."
)
SEARCH = (
    "A quarter to a third of the time chooses the starts, which compares all distances in the pool; the rest is NumPy around small arrays, some forty calls per step: "
    "projections, step sizes and the line search. With thousands of centres the losses themselves take nearly all of it."
)
AIMS = [
    Aim("a round in batches of twice the rank: textbook / koloss", "bandit", BANDIT, {"player": "ask(2 rank)"}, "textbook / player", ROUND, least=150),
    Aim("a single ask, µs", "bandit", CALLS, {"batch": "auto"}, "ask: µs", CALL, most=40),
    Aim("a single tell, µs", "bandit", CALLS, {"batch": "auto"}, "tell: µs", CALL, most=40),
    Aim("growth of the amortised round with N", "growth", "Growth: the amortised round as the number of actions", {"actions N": "all"}, "exponent",
        "Features that no longer fit the cache are read from memory: see the steps between sizes.", most=1),
    Aim("growth of the amortised round with m", "growth", "Growth: the amortised round as the number of features", {"actions N": "all"}, "exponent",
        "The factor of the covariance grows like m² per round: see the steps between sizes.", most=1),
    *(
        Aim(f"a refresh on a GPU, 1,000,000 × 64, {name}: µs of its kernels", "gpu", "GPU: one refresh", {"actions": 1_000_000, "refresh": f"koloss, {name}"}, "µs of kernels",
            KERNELS, most=most)
        for name, most in (("11 bits", 150), ("single precision", 220), ("single precision, with a bonus", 350))
    ),
    *(
        Aim(f"a refresh on a GPU, 1,000,000 × 64, {name}: µs of the whole call", "gpu", "GPU: one refresh", {"actions": 1_000_000, "refresh": f"koloss, {name}"}, "µs of the whole call",
            CALLED, most=most)
        for name, most in (("11 bits", 150), ("single precision", 220), ("single precision, with a bonus", 350))
    ),
    Aim("a refresh on a GPU, 10,000,000 × 64, single precision, its kernels over reading the features", "gpu", "GPU: one refresh", {"actions": 10_000_000, "refresh": "koloss, single precision"},
        "over reading", KERNELS, most=2.2),
    Aim("a round of the insured learner over exponential weights", "insured", "Insured: 400 points", {"player": "insured"}, "over exponential weights",
        "A round takes about 124 µs, one of exponential weights 48, which bounds the drift of its weights in place of computing it. Some 200 Python calls in a round, none of which takes more than a tenth of its time (see the profiles): forecasts, the account of the policy, its bets and what is pending. Linear algebra alone is 7 µs.", most=2.2),
    Aim("CVXPY with its default solver over john_design at 1e-4, 500 × 20", "designs", "Design on 500", {"method": "CVXPY with SCS (default)"}, "over koloss, 1e-4",
        "About 20 Newton steps on working sets of 50, 130 and 100 actions are two thirds of the time, of which their Cholesky factors are most; coordinates, the choice of actions and the certificate are the rest. "
        "The design is solved to 1e-8 whatever is asked for, so that few actions carry it; Clarabel, which is as exact as CVXPY gets by itself, takes several times as long as the default.", least=100),
    *(
        Aim(f"the textbook's design over john_design, 10,000 × {m}", "designs", "john_design as the rank", {"rank": m}, "textbook / koloss",
            "Both take steps towards one action or away from it; the textbook's change the leverages of all actions, and these those of the working set, which grows faster than m (430 actions of rank 50, 1,200 of rank 100, 2,800 of rank 200).", least=1)
        for m in (20, 50, 100, 200)
    ),
    *(
        Aim(f"john_design, 10,000,000 × 64 in {kind}, seconds", "designs", "john_design of many actions", {"actions": 10_000_000, "features": kind}, "s",
            "Five passes over the features: one to look for infinities, F'F, and three products with a square matrix.", most=60)
        for kind in ("float64", "float32")
    ),
    Aim("john_design in products F'F, 400,000 × 64", "designs", "john_design in units", {"actions": 400_000}, "products F'F", PRODUCTS, most=40),
    *(
        Aim(f"acceptance of exact draws on the ball, {family}, 50 dimensions", "samplers", "quadratic_ball: smallest acceptance", {"family": family}, "s=1e6, d=50",
            "The envelope fits worst where many axes are nearly flat.", least=0.05)
        for family in ("random", "positive", "boundary 0.5", "boundary 0.67", "interior", "hard", "near hard", "repeated")
    ),
    Aim("the minimum on a ball over one eigendecomposition, 50 dimensions", "oracles", "minimize_quadratic_ball over its floor", {"problem": "|b| = 2", "dimension": 50}, "time / floor",
        "Python around some fifty calls of NumPy and LAPACK, checks included, takes about 60 µs in any dimension.", most=2),
    Aim("a search from many starts over its losses and gradients, 10 dimensions", "oracles", "Searches from many starts", {"loss": "Gaussian, 200 centres"}, "time / floor",
        SEARCH, most=2),
    Aim("studies on SQLite (power): time over two fdatasync", "studies", "Studies: ask+tell per second", {"store": "SQLite", "survives": "power"},
        "2 syncs", DISK, most=1.5),
    *_studies("SQLite", "power", {"RDB": 5, "journal": 1.5}, DISK),
    *_studies("SQLite", "process", {"RDB": 20, "journal": 5}, "Python around the two calls, the same on any disk: see the last table of studies."),
    Aim("import koloss over numpy and scipy.linalg", "imports", "Import", {"import": "koloss"}, "times numpy, scipy.linalg",
        "The library's own modules, many of which make frozen dataclasses; none of them is slow by itself.", most=1.5),
]  # fmt: skip
