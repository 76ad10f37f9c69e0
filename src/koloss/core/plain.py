"""Whatever has a "kind" (a kernel, a loss, a set of actions) as plain data and back.

A kind is a class: its name is written as "kind", and beside it the arguments of its constructor, which the class
keeps as attributes of the same names. A class registers itself by being derived: there is no table to extend.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, Self

from koloss.core.arrays import shown, to_numpy


class Plain:
    """What can be made plain data, and from it again."""

    def parts(self) -> dict[str, Any]:
        """Constructor arguments by name."""
        return {name: getattr(self, name) for name in _parameters(type(self))}  # type: ignore[arg-type]

    def to_dict(self, *, arrays: bool = False) -> dict[str, Any]:
        """Plain data, from which `from_dict` makes the same again; `arrays` are NumPy's, or lists."""
        parts = self.parts().items()
        return {"kind": type(self).__name__} | {name: _plain(part, arrays) for name, part in parts}

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """Classes of this family that can be made, those of the user included, by name."""
        descendants = [cls]
        for kind in descendants:  # which grows
            descendants += kind.__subclasses__()
        complete = (k for k in descendants if k is not Plain and not inspect.isabstract(k))
        return {kind.__name__: kind for kind in complete}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """What plain data describes: the name of a class as "kind", and its parameters.

        Capitals, hyphens and underscores in a kind do not matter.

        Examples
        --------
        >>> import koloss as kl
        >>> kl.Kernel.from_dict({"kind": "gaussian", "bandwidth": 0.3})
        Gaussian(bandwidth=0.3)
        >>> kl.ActionSet.from_dict({"kind": "positive-ball", "dimension": 2})
        PositiveBall(dimension=2, radius=1.0, lower=(0.0, 0.0))
        """
        kinds = cls.kinds()
        name = data.get("kind") if isinstance(data, Mapping) else data
        kind = None
        if isinstance(data, Mapping) and isinstance(name, str):
            folded = {_folded(known): kind for known, kind in kinds.items()}
            kind = kinds.get(name) or folded.get(_folded(name))
        if kind is None:
            raise ValueError(f"`kind` must be one of {', '.join(sorted(kinds))}, got {shown(name)}")
        parts = {
            name: Plain.from_dict(part) if isinstance(part, Mapping) else part
            for name, part in data.items()
            if name != "kind"
        }
        return kind.from_parts(parts)

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> Self:
        """What these parts make, as `parts` gives them: by default the constructor called with them."""
        known = _parameters(cls)  # type: ignore[arg-type]
        takes = f"{cls.__name__}, which takes {', '.join(known) or 'none'}"
        for key in parts:
            if key not in known:
                raise ValueError(f"`{key}` is not a parameter of {takes}")
        for key, parameter in known.items():
            if parameter.default is parameter.empty and key not in parts:
                raise ValueError(f"`{key}` is missing among the parameters of {takes}")
        try:
            return cls(**parts)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error}, in {cls.__name__}") from error


@cache
def _parameters(kind: type[Plain]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(kind).parameters)


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _plain(value: Any, arrays: bool) -> Any:
    if isinstance(value, Plain):
        return value.to_dict(arrays=arrays)
    if hasattr(value, "shape"):
        return to_numpy(value) if arrays else to_numpy(value).tolist()
    return [_plain(part, arrays) for part in value] if isinstance(value, tuple) else value
