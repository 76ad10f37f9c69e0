"""Print the lowest versions that pyproject.toml allows, as constraints for pip: `numpy==2.0` for `numpy>=2.0`.

    python tools/lowest.py --extra report --group test >constraints.txt

What is declared is the one list of versions there is; a requirement without a lower end is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:>=|==)([0-9][^\s,;]*)")

OWN = re.compile(r"koloss\[([a-z,]+)\]")
"""An extra of this project within another."""


def lowest(project: dict, extras: Iterable[str] = (), groups: Iterable[str] = ()) -> dict[str, str]:
    """Lowest version of each package that the project, some extras and some groups ask for."""
    tables = project["project"].get("optional-dependencies", {}), project["dependency-groups"]
    asked = list(project["project"]["dependencies"])
    for table, names in zip(tables, (extras, groups), strict=True):
        for name in names:
            asked += table[name]
    versions: dict[str, str] = {}
    for requirement in asked:  # which grows
        if own := OWN.fullmatch(requirement):
            asked += (part for name in own[1].split(",") for part in tables[0][name])
            continue
        found = REQUIREMENT.match(requirement)
        if found is None:
            raise ValueError(f"a requirement must name its lowest version, got {requirement!r}")
        name, version = found.groups()
        if versions.setdefault(name, version) != version:
            raise ValueError(f"{name} is declared with two minima, {versions[name]} and {version}")
    return versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--extra", action="append", default=[], metavar="NAME")
    parser.add_argument("--group", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    path = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(path.read_text("utf-8"))
    for name, version in lowest(project, options.extra, options.group).items():
        sys.stdout.write(f"{name}=={version}\n")


if __name__ == "__main__":
    main()
