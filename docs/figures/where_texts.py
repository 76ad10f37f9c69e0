"""What the guide says of the table of random games: lists and tables, with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from docs.figures.where_table import (
    BINS,
    DOCS,
    FIRST,
    HOSTILE,
    HOSTILE_ONLY,
    KIND,
    OURS,
    WORST,
    Row,
    chosen,
    having,
    median_share,
    won,
    worst,
)
from koloss import arena

SPEC = DOCS.parent / "examples" / "random_games.toml"


def name_of(slug: str) -> str:
    """As in the tables of the arena."""
    return arena.players()[slug].name


def texts(rows: Sequence[Row]) -> dict[str, str]:
    """What stands between the marks of the page."""
    return {
        "spec": f"```toml\n{SPEC.read_text('utf-8').strip()}\n```",
        "losses": _losses(rows),
        "common": _common(rows),
        "why": _why(rows),
        "alarms": _alarms(rows),
        "games": _worst_games(rows),
        "who": _who(rows),
        "paid": _paid(rows),
        "players": _players(rows),
        "regions": _regions(rows),
    }


def _losses(rows: Sequence[Row]) -> str:
    lines = []
    for slug in OURS:
        behind = [row for row in rows if row.behind(slug) > 0]
        kind, hostile = chosen(behind, KIND), chosen(behind, HOSTILE)
        sizes = np.array([row.behind(slug) for row in behind])
        to = Counter(row.rival for row in worst(rows, slug)).most_common(3)
        below = [row for row in rows if row.share(slug) > 1]
        lines.append(
            f"- **{name_of(slug)}** is behind in {len(behind)} games: {len(kind)} of the {len(chosen(rows, KIND))} kind ones and "
            f"{len(hostile)} of the {len(chosen(rows, HOSTILE))} hostile ones. In half of these games by less than "
            f"{np.median(sizes):.3f} per round, in {(sizes > 0.05).sum()} by more than 0.05, at worst by {sizes.max():.3f}. In the "
            f"{WORST} games in which it is furthest behind, the best rival is {_listed(to)}. It pays more than uniform play in "
            f"{len(below)} games, {len(chosen(below, HOSTILE))} of them hostile."
        )
    return "\n".join(lines)


def _listed(counts: Sequence[tuple[str, int]]) -> str:
    words = [f"{name_of(slug)} ({count})" for slug, count in counts]
    return ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]


def _common(rows: Sequence[Row]) -> str:
    """What the worst games have in common: settings that are more frequent among them than among all games."""
    few = worst(rows)
    found = []
    for name, bins in {"hostility": {"none": KIND}, **BINS}.items():
        tests = {"none": KIND, **BINS["hostility"]} if name == "hostility" else bins
        for label, test in tests.items():
            among, overall = len(chosen(few, test)) / len(few), len(chosen(rows, test)) / len(rows)
            if overall < 1 and abs(among - overall) >= 0.1:
                found.append((among / overall, f"{name} {label}", among, overall))
    found.sort(reverse=True)
    lines = [f"| setting | among the {WORST} worst | among all games |", "| --- | --- | --- |"]
    lines += [f"| {what} | {among:.0%} | {overall:.0%} |" for _, what, among, overall in found]
    return "\n".join(lines)


def _alarms(rows: Sequence[Row]) -> str:
    """When the insured learner gave its policy up, by how hostile the game was."""
    lines = ["| hostility | from | games | handed over in | median round | median share of uniform play's regret |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    parts = [("none", "", chosen(rows, KIND))]
    for label, test in BINS["hostility"].items():
        parts += [(label, when, chosen(rows, test, half)) for when, half in BINS["hostile from"].items()]  # fmt: skip
    for label, when, games in parts:
        over = [row.handed_over for row in games if row.handed_over is not None]
        middle = f"{np.median(over):.0f}" if over else ""
        cells = label, when, len(games), len(over), middle, f"{median_share(games, FIRST):.2f}"
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


SHOWN = ("hostility", "onset", "drift", "delay", "noise", "dimension", "actions", "bumps", "length", "stretch", "kernel")  # fmt: skip


def _why(rows: Sequence[Row]) -> str:
    """Three ways in which the insured learner loses."""
    kind, soft = chosen(rows, KIND), chosen(rows, having("hostility", 0.1))
    middle, hard = chosen(rows, having("hostility", 0.3)), chosen(rows, having("hostility", 1))
    thompson = [row for row in worst(rows) if row.behind("insured-thompson") < row.behind()]
    wide, rest = chosen(kind, having("stretch", 4)), chosen(kind, lambda s: s["stretch"] < 4)
    prompt = chosen(kind, having("delay", "none"), lambda s: s["stretch"] < 4)
    small = [row.behind() for row in prompt if row.behind() > 0]
    narrow = chosen(kind, lambda s: s["stretch"] < 1)
    hostility = (
        f"- **An adversary that looks.** Its policy is deterministic most of the time, and an adversary that looks finds it. It is given up when there is evidence: in {_over(hard)} of {len(hard)} games with hostility 1, "
        f"in {_over(middle)} of {len(middle)} with 0.3, but in {_over(soft)} of {len(soft)} with 0.1 (the table below). What was lost until then is lost, and exponential weights, which take over, learn slowly. With 0.3 "
        f"Insured is behind in {_behind(middle)} of {len(middle)} games, and pays {median_share(middle, FIRST):.2f} of uniform play's regret in the median game; GP Thompson sampling, which throws a coin in every round, pays {median_share(middle, 'gp-thompson'):.2f}. "
        f'`policy="thompson"` throws one inside the insurance: it is less far behind than Insured in {len(thompson)} of the {WORST} worst games.'
    )  # fmt: skip
    kernel = (
        f"- **A kernel that is much too wide.** Told four times the true length, Insured is behind in {_behind(wide)} of {len(wide)} kind games, otherwise in {_behind(rest)} of {len(rest)}. GP-UCB is told the same, and "
        f"wins {won(wide)['gp-ucb'] + won(wide)['gp-ucb-discounted']} of the {len(wide)}, plain or discounted. With a length that is too short Insured is behind in {_behind(narrow)} of {len(narrow)}."
    )  # fmt: skip
    premium = (
        f"- **Losses that are told at once, in kind games.** Here GP-UCB is at its best. With a length at most twice the true one, Insured is behind in {len(small)} of {len(prompt)}, mostly by little: by {np.median(small):.3f} per round in the median of these. "
        "What it explores in case its policy is wrong is a part of that."
    )  # fmt: skip
    return f"{hostility}\n{kernel}\n{premium}"


def _over(rows: Sequence[Row]) -> int:
    return sum(row.handed_over is not None for row in rows)


def _behind(rows: Sequence[Row]) -> int:
    return sum(row.behind() > 0 for row in rows)


def _percent(rows: Sequence[Row], *slugs: str) -> str:
    return f"{100 * sum(won(rows)[slug] for slug in slugs) / len(rows):.0f} %"


def _who(rows: Sequence[Row]) -> str:
    """Who wins where, in words."""
    kind, hostile = chosen(rows, KIND), chosen(rows, HOSTILE)
    prompt, late = (chosen(kind, lambda s, x=x: (s["delay"] == "none") is x) for x in (True, False))  # fmt: skip
    both = "gp-ucb", "gp-ucb-discounted"
    soft, middle, hard = (chosen(rows, test) for test in BINS["hostility"].values())
    no_kernel = won(kind)["exp-weights"] + won(kind)["exp3"] + won(kind)["uniform"]
    in_kind = (
        f"- **Kind games.** Insured wins {_percent(kind, FIRST)}, Insured with Thompson sampling {_percent(kind, OURS[1])}, GP-UCB, plain or discounted, {_percent(kind, *both)}. Where losses are told at once it is {_percent(prompt, FIRST)} "
        f"for Insured and {_percent(prompt, *both)} for GP-UCB, where they are late {_percent(late, FIRST)} and {_percent(late, *both)}: until it hears of an action, GP-UCB goes on playing it. PyXAB's tree wins {won(kind)['pyxab-hct']}, all of them with noise above 0.13. "
        f"Exponential weights, EXP3 and uniform play win {no_kernel}: 1,000 rounds are too few for their rates."
    )  # fmt: skip
    in_hostile = (
        f"- **Hostile games.** Insured with Thompson sampling wins {_percent(hostile, OURS[1])}, exponential weights {_percent(hostile, OURS[2])}, GP Thompson sampling {_percent(hostile, 'gp-thompson')}, Insured {_percent(hostile, FIRST)}. With a little hostility, 0.1, learning fast is still what counts (Insured in either form: {_percent(soft, *OURS[:2])}); "
        f"with 0.3 exponential weights ({_percent(middle, OURS[2])}) and GP Thompson sampling ({_percent(middle, 'gp-thompson')}) win most often, with 1 Insured with Thompson sampling ({_percent(hard, OURS[1])}) and exponential weights ({_percent(hard, OURS[2])})."
    )  # fmt: skip
    nobody = (
        f"- **Without the kernel.** river's UCB wins {won(rows)['river-ucb']} of all {len(rows)} games, Vowpal Wabbit's SquareCB {won(rows)['vowpal-wabbit-squarecb']}. "
        "Neither is told the kernel, and river's does not use coordinates at all."
    )  # fmt: skip
    return f"{in_kind}\n{in_hostile}\n{nobody}"


def _paid(rows: Sequence[Row]) -> str:
    """What everyone pays, in words."""
    kind, hostile, hard = chosen(rows, KIND), chosen(rows, HOSTILE), chosen(rows, having("hostility", 1))  # fmt: skip
    late = chosen(kind, having("delay", "fixed"))
    prompt = chosen(kind, having("delay", "none"))
    quiet, loud = (chosen(kind, BINS["noise"][name]) for name in ("below 0.07", "to 0.2"))
    most = np.quantile([row.share(FIRST) for row in hostile], 0.9)
    return (
        f"Hostility decides. GP-UCB pays {median_share(kind, 'gp-ucb'):.2f} of uniform play's regret in the median kind game and {median_share(hard, 'gp-ucb'):.2f} in the median game with hostility 1; Insured {median_share(kind, FIRST):.2f} and "
        f"{median_share(hard, FIRST):.2f}, Insured with Thompson sampling {median_share(kind, OURS[1]):.2f} and {median_share(hard, OURS[1]):.2f}. In kind games a delay costs GP-UCB most (a fixed one: {median_share(late, 'gp-ucb'):.2f}, none: {median_share(prompt, 'gp-ucb'):.2f}), "
        f"and noise costs the learners that are fast a part of their lead (Insured: {median_share(quiet, FIRST):.2f} where it is below 0.07, {median_share(loud, FIRST):.2f} where it is above 0.13). The insurance is no promise to beat uniform play in 1,000 rounds: in a tenth of the hostile games Insured pays more than {most:.2f} of its regret."
    )  # fmt: skip


def _worst_games(rows: Sequence[Row], count: int = 8) -> str:
    """The games in which the insured learner is furthest behind, and their settings."""
    head = ["behind", "best rival", "Insured", *map(name_of, OURS[1:]), "Uniform", *SHOWN, "seed"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for row in worst(rows, count=count):
        r, s = row.regrets, row.settings
        cells = [f"{row.behind():.3f}", f"{name_of(row.rival)}: {r[row.rival]:.0f}"]
        cells += [f"{r[slug]:.0f}" for slug in (*OURS, "uniform")]
        cells += [f"{s[n]:.2g}" if isinstance(s[n], float) else f"{s[n]}" for n in SHOWN]
        lines.append("| " + " | ".join([*cells, str(s["seed"])]) + " |")
    return "\n".join(lines)


def _players(rows: Sequence[Row]) -> str:
    """Every player: games won, and shares of uniform play's regret."""
    kind, hostile = chosen(rows, KIND), chosen(rows, HOSTILE)
    head = f"| player | won, of {len(kind)} kind games | of {len(hostile)} hostile ones | median share, kind | hostile | nine in ten below, kind | hostile |"
    lines = [head, "| --- | --- | --- | --- | --- | --- | --- |"]
    for slug in rows[0].regrets | dict.fromkeys(s for row in rows for s in row.regrets):
        shares = [[row.share(slug) for row in part if slug in row.regrets] for part in (kind, hostile)]  # fmt: skip
        middle, most = ([f"{np.quantile(part, q):.2f}" for part in shares] for q in (0.5, 0.9))
        cells = [str(won(kind)[slug]), str(won(hostile)[slug]), *middle, *most]
        lines.append(f"| {name_of(slug)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _regions(rows: Sequence[Row], most: int = 3, least: int = 30) -> str:
    """For each player, the kinds of games of which it wins the largest share."""
    lines = ["| player | wins most in | of these |", "| --- | --- | --- |"]
    parts = {}
    for weather, kind in (("kind", KIND), ("hostile", HOSTILE)):
        for name, bins in BINS.items():
            for label, test in bins.items():
                words = f"{weather}, {name} {label}" if label else f"all {weather} games"
                if weather == "hostile" or name not in HOSTILE_ONLY:
                    parts[words] = chosen(rows, kind, test)
    total = won(rows)
    for slug in dict.fromkeys(s for row in rows for s in row.regrets):
        ranked = sorted(
            ((won(games)[slug] / len(games), words, len(games)) for words, games in parts.items() if len(games) >= least),
            reverse=True,
        )[:most]  # fmt: skip
        where = "; ".join(words for _, words, _ in ranked) if total[slug] else "no game"
        share = "; ".join(f"{part:.0%}" for part, *_ in ranked) if total[slug] else ""
        lines.append(f"| {name_of(slug)} ({total[slug]} in all) | {where} | {share} |")
    return "\n".join(lines)
