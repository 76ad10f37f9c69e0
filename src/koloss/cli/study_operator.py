"""Verbs of studies for an operator: `pause`, `resume`, `hand-over`, `re-arm`, `change` and `forget-subject`."""

from typing import Any

import typer

from koloss.cli import options
from koloss.cli.options import UsageError, option
from koloss.cli.study_options import NAME, STORE, open_study, read, say

AUTHOR = option("", "Log", "Who does it.", metavar="TEXT")
REASON = option("", "Log", "Why.", metavar="TEXT")


def pause(
    context: typer.Context,
    name: str = NAME,
    author: str = AUTHOR,
    reason: str = REASON,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Make no decisions until `resume`; values are still welcome."""
    with open_study(context, store, name) as study:
        study.pause(author=author, reason=reason)
    say(as_json, f"{name} is paused", name=name, paused=True)


def resume(
    context: typer.Context,
    name: str = NAME,
    author: str = AUTHOR,
    reason: str = REASON,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Make decisions again."""
    with open_study(context, store, name) as study:
        study.resume(author=author, reason=reason)
    say(as_json, f"{name} makes decisions again", name=name, paused=False)


def hand_over(
    context: typer.Context,
    name: str = NAME,
    given: str | None = option(None, "Study", "Only there.", "--context", metavar="CONTEXT"),
    author: str = AUTHOR,
    reason: str = REASON,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Stop the policy in play; the next one, or the robust learner, takes over."""
    with open_study(context, store, name) as study:
        _press(study.hand_over, context=read(given), author=author, reason=reason)
    say(as_json, f"the policy of {name} is stopped", name=name, handed_over=True)


def re_arm(
    context: typer.Context,
    name: str = NAME,
    given: str | None = option(None, "Study", "Only there.", "--context", metavar="CONTEXT"),
    author: str = AUTHOR,
    reason: str = REASON,
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Let the policy that was stopped last play again."""
    with open_study(context, store, name) as study:
        _press(study.re_arm, context=read(given), author=author, reason=reason)
    say(as_json, f"the policy of {name} plays again", name=name, re_armed=True)


def _press(button: Any, **said: Any) -> None:
    """Press a button that not every learner has."""
    try:
        button(**said)
    except TypeError as error:
        raise UsageError(str(error)) from error


def change(
    context: typer.Context,
    name: str = NAME,
    setting: str = typer.Argument(..., help="Which one.", metavar="SETTING"),
    value: str = typer.Argument(..., help="As JSON, or text.", metavar="VALUE"),
    author: str = option(..., "Log", "Who changes it.", metavar="TEXT"),
    reason: str = option(..., "Log", "Why.", metavar="TEXT"),
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Change a setting in the middle: withdraw or add actions, widen the range, the lease, the labels."""
    with open_study(context, store, name) as study:
        study.change(setting, read(value), author=author, reason=reason)
    say(as_json, f"{setting} of {name} is changed", name=name, setting=setting, value=read(value))


def forget_subject(
    context: typer.Context,
    name: str = NAME,
    subject: str = typer.Argument(..., help="Whose traces are erased.", metavar="SUBJECT"),
    store: str | None = STORE,
    as_json: bool = options.JSON,
) -> None:
    """Erase what a study holds of a subject; its history can still be verified."""
    with open_study(context, store, name) as study:
        count = study.forget_subject(subject)
    say(as_json, f"erased {count} of {name}", name=name, erased=count)
