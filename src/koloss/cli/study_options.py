"""What the verbs of studies share: the store and the study they are about, and how values are read and answers given."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from koloss.cli.options import UsageError, naming_options, option, print_json

if TYPE_CHECKING:
    from koloss.studies import Store, Study

STORE_VARIABLE = "KOLOSS_STORE"

ARGUMENTS = {
    "name": "NAME",
    "decision": "ID",
    "path": "PATH",
    "setting": "SETTING",
    "context": "--context",
    "url": "--store",
    "policy": "the policy",  # of one's own, which only Python has
    **dict.fromkeys(("value", "labels", "lease", "loss_range", "rows"), "VALUE"),
}
"""What arguments of the library are called here."""


def _complete_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the studies in the store, for the shell's completion."""
    url = context.params.get("store") or os.environ.get(STORE_VARIABLE)
    if not url:
        return []
    with suppress(Exception):  # a shell has no use for errors
        from koloss.studies import open_store

        return [name for name in open_store(url).names() if name.startswith(incomplete)]
    return []


NAME = typer.Argument(..., help="Of the study.", metavar="NAME", autocompletion=_complete_names)
STORE = option(
    None,
    "Store",
    "Such as sqlite:///studies.db or postgresql://user@host/database.",
    "--store",
    metavar="URL",
    envvar=STORE_VARIABLE,
)
REQUEST = option(
    None, "Decision", "A key: sent again under the same one, it is done once.", metavar="KEY"
)


@contextmanager
def open_store_of(context: typer.Context, url: str | None) -> Iterator["Store"]:
    """The store of `--store`; errors of the library name options."""
    from koloss.studies import open_store

    if not url:
        raise UsageError(f"--store must be given, or {STORE_VARIABLE} be set")
    with naming_options(context, **ARGUMENTS):
        store = open_store(url)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def open_study(context: typer.Context, url: str | None, name: str) -> Iterator["Study"]:
    """The study of NAME in the store of `--store`."""
    from koloss.studies import Study

    with open_store_of(context, url) as store:
        yield Study.open(store, name)


def read(text: str | None) -> Any:
    """JSON, or a word as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def say(as_json: bool, line: str, **data: Any) -> None:
    """What was done, in words or as JSON."""
    if as_json:
        print_json(data)
    else:
        print(line)
