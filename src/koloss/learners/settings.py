"""What the user said to a learner: checked once, and plain data in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from koloss.actions import ActionSet, Space
from koloss.core.arrays import as_int
from koloss.core.plain import Plain
from koloss.learners.reading import Reader


@dataclass(frozen=True)
class Described:
    """In the place of an object that a snapshot cannot hold: its description."""

    text: str

    def __repr__(self) -> str:
        return self.text


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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot; what has none is described."""
        return {name: _plain(value) for name, value in self._items()}

    @classmethod
    def from_dict(cls, data: Reader) -> Self:
        """The settings in a snapshot, checked again; arrays stay as they were, to the last bit."""
        values = {field.name: _from_plain(data.raw(field.name)) for field in fields(cls)}
        data.finish()
        settings = cls(**values)
        for name, value in values.items():
            if isinstance(value, np.ndarray) and isinstance(getattr(settings, name), np.ndarray):
                settings._set(name, value)
        return settings


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Plain):
        return {"plain": value.to_dict(arrays=True)}
    if isinstance(value, (list, tuple)):
        return {"tuple": [_plain(v) for v in value]}
    if isinstance(value, dict):
        return {"mapping": [[_plain(k), _plain(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.copy()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"described": repr(value)}


def _from_plain(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    ((form, data),) = value.items()
    if form == "tuple" and isinstance(data, (list, tuple)):
        return tuple(_from_plain(v) for v in data)
    if form == "mapping" and isinstance(data, (list, tuple)):
        return {_from_plain(k): _from_plain(v) for k, v in data}
    if form == "array" and isinstance(data, np.ndarray):
        return np.array(data)
    if form == "described" and isinstance(data, str):
        return Described(data)
    if form != "plain":
        raise ValueError(
            f"a setting must be plain, a tuple, a mapping, an array or described, got {form!r}"
        )
    return Plain.from_dict(data)
