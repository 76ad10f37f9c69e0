"""What the user said to a learner: checked once, and plain data in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from koloss.actions import ActionSet, Space
from koloss.core.arrays import as_int
from koloss.core.snapshot import Described


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user said, checked once. Each learner has its own, with the parameters of its constructor."""

    actions: ActionSet
    kernel: Any
    horizon: int | None

    named_kernels: ClassVar[tuple[str, ...]] = ()
    """Words that stand for a kernel which the settings choose."""

    def __post_init__(self) -> None:
        kernel = self.kernel
        if isinstance(self.actions, Space):
            self._set("actions", self.actions.points())
        if not isinstance(self.actions, ActionSet):
            raise TypeError(f"`actions` must be an ActionSet, got {type(self.actions).__name__}")
        by_name = isinstance(kernel, str) and kernel in self.named_kernels
        if not ((callable(kernel) and hasattr(kernel, "diag")) or by_name) and not isinstance(
            kernel, Described
        ):
            got = repr(kernel) if isinstance(kernel, str) else type(kernel).__name__
            names = "".join(f", or {name!r}" for name in self.named_kernels)
            rule = f"must be a Kernel, or have k(X, Y) and k.diag(X){names}"
            raise TypeError(f"`kernel` {rule}, got {got}")
        if self.horizon is not None:
            self._set("horizon", as_int("horizon", self.horizon, minimum=1))
        for name, value in self._items():
            if isinstance(value, list):  # which could be changed later
                self._set(name, tuple(value))

    def _set(self, name: str, value: Any) -> None:
        """Replace what was given by what it means, while the settings are checked."""
        object.__setattr__(self, name, value)

    def _items(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """The settings among a constructor's arguments, `locals()` at its beginning."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})

    def is_default(self, name: str) -> bool:
        """Whether a setting has its default value."""
        value = getattr(self, name)
        default = getattr(type(self), name, MISSING)  # a dataclass keeps defaults as attributes
        return value is default or (type(value) is type(default) and bool(np.all(value == default)))

    def describe(self, name: str) -> str:
        """Arguments as they would be written, those with defaults left out."""
        (_, actions), (_, kernel), *rest = self._items()
        named = [f"{key}={value!r}" for key, value in rest if not self.is_default(key)]
        return f"{name}({', '.join([repr(actions), repr(kernel), *named])})"

    def _restored(self) -> None:
        """Check again what a snapshot says: whatever a constructor refuses is refused."""
        replace(self)
