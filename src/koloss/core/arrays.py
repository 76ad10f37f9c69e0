"""Arrays of any kind that follows the array API standard, and the checks at the library's edge.

A public function asks `namespace` once for `xp`, the module of the arrays it was given, and calls only
that. Lists and numbers become NumPy arrays; integers become float64; everything else keeps its kind, its
device and its floating type.
"""

from __future__ import annotations

import contextlib
import math
import operator
import reprlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import array_api_compat as compat
import numpy as np

Array: TypeAlias = Any
"""An array of NumPy, torch, CuPy, JAX or any other library that follows the array API standard."""

Namespace: TypeAlias = Any

_NUMPY: Namespace = compat.array_namespace(np.empty(0))

Word = TypeVar("Word", bound=str)

MOST = float(np.finfo(np.float64).max)
"""Largest number of 64 bits."""

LARGEST = 1e152
"""Largest coordinate of an action: its square, times any number of them, is still a number."""

SIZES = (1e-80, 1e80)
"""What loss ranges, norms and rates must lie between, and sup K(a, a): their products in a bound are still numbers."""


def namespace(*arrays: Any) -> Namespace:
    """Module that the arrays belong to; NumPy's where there is none among them."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # asked for in loops
        return _NUMPY
    given = [a for a in arrays if compat.is_array_api_obj(a)]
    return compat.array_namespace(*(given or [np.empty(0)]))


def as_array(
    name: str, value: Any, *, ndim: int, like: Array | None = None, largest: float = math.inf
) -> Array:
    """Finite floating array with `ndim` axes and no entry above `largest`, or an error that names the argument."""
    if type(value) is np.ndarray and _is_within(value, ndim, min(largest, MOST)):
        return value if like is None else matching(value, like)  # asked for in loops
    if not compat.is_array_api_obj(value):
        try:
            given = np.asarray(value)
            if value is None or given.dtype.kind not in "biufcO":
                raise TypeError
            value = given if given.dtype.kind in "fc" else given.astype(np.float64)
        except (OverflowError, TypeError, ValueError) as error:
            message = f"`{name}` must be an array of numbers, got {shown(value)}"
            raise TypeError(message) from error
    xp = namespace(value)
    if xp.isdtype(value.dtype, ("integral", "bool")):
        value = xp.astype(value, xp.float64)
    if not xp.isdtype(value.dtype, "real floating"):
        raise TypeError(f"`{name}` must hold real numbers, got dtype {value.dtype}")
    if value.ndim != ndim:
        column = (value.ndim, ndim) == (1, 2)
        hint = "; for scalar points pass a column, x[:, None]" if column else ""
        raise ValueError(f"`{name}` must be {ndim}-D, got ndim={value.ndim}{hint}")
    limit = min(largest, float(xp.finfo(value.dtype).max))
    # By the extremes, which need no array of their own; a NaN among the entries is both, and not within the limit.
    if 0 not in value.shape and not -limit <= float(xp.min(value)) <= float(xp.max(value)) <= limit:
        if bool(xp.all(xp.isfinite(value))):
            size = float(xp.max(xp.abs(value)))
            raise ValueError(f"`{name}` must be at most {limit:g} in size, got {size:.6g}")
        raise ValueError(f"`{name}` must be finite, got NaN or infinity among its entries")
    return value if like is None else matching(value, like)


def _is_within(value: np.ndarray[Any, Any], ndim: int, limit: float) -> bool:
    """Whether it has entries of 64 bits and none above a limit: where one is no number, so are the smallest and the largest."""
    if value.dtype != np.float64 or value.ndim != ndim or value.size == 0:
        return False
    return bool(
        -limit <= np.minimum.reduce(value, axis=None)
        and np.maximum.reduce(value, axis=None) <= limit
    )


def as_points(
    name: str, value: Any, *, dimension: int | None = None, largest: float = math.inf
) -> Array:
    """Non-empty (points, coordinates) array, checked against the dimension where one is given."""
    value = as_array(name, value, ndim=2, largest=largest)
    if value.shape[0] == 0 or value.shape[1] == 0:
        raise ValueError(f"`{name}` must not be empty, got shape {tuple(value.shape)}")
    if dimension is not None and value.shape[1] != dimension:
        raise ValueError(f"`{name}` must have {dimension} columns, got {value.shape[1]}")
    return value


def as_vector(
    name: str,
    value: Any,
    *,
    length: int | None = None,
    like: Array | None = None,
    largest: float = math.inf,
) -> Array:
    """Finite vector, checked against the length where one is given."""
    value = as_array(name, value, ndim=1, like=like, largest=largest)
    if length is not None and value.shape[0] != length:
        raise ValueError(f"`{name}` must have length {length}, got {value.shape[0]}")
    return value


def as_quadratic_form(matrix: Any, vector: Any) -> tuple[Any, Any]:
    """B and b of x'Bx + b'x as NumPy arrays of 64 bits, B symmetric: exactly, where it was given so to rounding."""
    matrix = to_numpy(as_points("matrix", matrix))
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"`matrix` must be square, got shape {matrix.shape}")
    vector = to_numpy(as_vector("vector", vector, length=len(matrix)))
    matrix, vector = (x.astype(np.float64, copy=False) for x in (matrix, vector))
    if (matrix != matrix.T).any():
        size = np.abs(matrix).max()
        skew = float(np.abs(matrix / size - matrix.T / size).max())
        if skew > 1e-8:
            rule = f"must be symmetric, got entries that differ by {skew:.6g} of the largest"
            raise ValueError(f"`matrix` {rule}")
        matrix = matrix / 2 + matrix.T / 2
    return matrix, vector


def as_distribution(name: str, value: Any, *, length: int, like: Array | None = None) -> Array:
    """Non-negative weights that sum to one (to rounding), normalised exactly."""
    value = as_vector(name, value, length=length, like=like)
    xp = namespace(value)
    smallest, largest = float(xp.min(value)), float(xp.max(value))
    if smallest < 0:
        raise ValueError(f"`{name}` must be non-negative, got a weight of {smallest:.6g}")
    if largest > 1e30:  # the sum of such may be beyond every float of single precision
        raise ValueError(f"`{name}` must sum to 1, got a weight of {largest:.6g}")
    total = float(xp.sum(value))
    if not math.isclose(total, 1.0, rel_tol=1e-6):
        raise ValueError(f"`{name}` must sum to 1, got a sum of {total:.6g}")
    return value / total


def as_float(
    name: str, value: Any, *, positive: bool = False, minimum: float | None = None
) -> float:
    """Finite number within its range."""
    if isinstance(value, (bool, np.bool_, complex, np.complexfloating, str, bytes)):
        raise TypeError(f"`{name}` must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond every float
        number = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{name}` must be a number, got {shown(value)}") from error
    if not math.isfinite(number):
        raise ValueError(f"`{name}` must be finite, got {number}")
    if positive and number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number:.6g}")
    if minimum is not None and number < minimum:
        raise ValueError(f"`{name}` must be at least {minimum:.6g}, got {number:.6g}")
    return number


def as_count(name: str, value: Any, *, minimum: int = 1) -> int:
    """How many numbers or draws are asked for: no more than a billion."""
    return as_int(name, value, minimum=minimum, maximum=10**9)


def as_size(
    name: str, value: Any, *, smallest: float = SIZES[0], largest: float = SIZES[1]
) -> float:
    """Positive number that is neither so small nor so large that what is made of it is no number any more."""
    number = as_float(name, value, positive=True)
    if not smallest <= number <= largest:
        rule = f"must be between {smallest:g} and {largest:g}".replace("e+", "e")
        raise ValueError(f"`{name}` {rule}, got {number:.6g}")
    return number


def as_int(name: str, value: Any, *, minimum: int, maximum: int = 2**53) -> int:
    """Whole number between its minimum and its maximum, beyond which floating point numbers are not whole."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(f"`{name}` must be an integer, got {shown(value)}") from error
    if number < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}, got {_digits(number)}")
    if number > maximum:
        raise ValueError(f"`{name}` must be at most {maximum}, got {_digits(number)}")
    return number


def shown(value: Any) -> str:
    """A value as short text."""
    try:
        return reprlib.repr(value)
    except ValueError:  # of whole numbers with thousands of digits Python writes none
        return f"a {type(value).__name__} with a number too large to be written"


def _digits(number: int) -> str:
    """A whole number as text; one with hundreds of digits by its power of two."""
    sign = "-" if number < 0 else ""
    return (
        str(number) if abs(number) < 2**200 else f"{sign}2**{abs(number).bit_length() - 1} or more"
    )


def as_flag(name: str, value: Any, other: str = "") -> bool:
    """True or False, and nothing that merely counts as one of them; `other` is what else would do."""
    if not isinstance(value, bool):
        rule = f"must be True, False or {other}" if other else "must be True or False"
        raise TypeError(f"`{name}` {rule}, got {shown(value)}")
    return value


def as_interval(name: str, value: Any) -> tuple[float, float]:
    """Two finite numbers, the lower one first, neither too large nor too close together."""
    low, high = to_numpy(as_vector(name, value, length=2)).tolist()
    pair = f"({low:.6g}, {high:.6g})"
    if low >= high:
        raise ValueError(f"`{name}` must be (low, high) with low < high, got {pair}")
    if max(-low, high) > SIZES[1] or high - low < SIZES[0]:
        rule = f"must be at most {SIZES[1]:.6g} in size and {SIZES[0]:.6g} wide or more"
        raise ValueError(f"`{name}` {rule}, got {pair}")
    return low, high


def one_of(name: str, value: Word, allowed: Sequence[str]) -> Word:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:  # type: ignore[redundant-expr]
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


@contextlib.contextmanager
def within_floats(names: str) -> Iterator[None]:
    """Make overflows, and what follows from them, an error that names the arguments; also a decorator."""
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except (FloatingPointError, OverflowError, np.linalg.LinAlgError) as error:
        rule = (
            "must be of moderate size: what follows from them is beyond the floating point numbers"
        )
        raise ValueError(f"{names} {rule} ({error})") from error


def matching(value: Any, like: Array) -> Array:
    """`value` in the namespace, floating type and device of `like`."""
    if type(value) is type(like) is np.ndarray and value.dtype == like.dtype:
        return value
    xp, device = namespace(like), compat.device(like)
    if namespace(value) is xp:
        value = xp.astype(value, like.dtype, copy=False)
        return value if compat.device(value) == device else compat.to_device(value, device)
    value = to_numpy(value)
    if not value.flags.writeable:  # some libraries would share its memory, and write to it
        value = value.copy()
    return xp.asarray(value, dtype=like.dtype, device=device)


def to_numpy(value: Array) -> np.ndarray[Any, np.dtype[Any]]:
    """The same numbers as a NumPy array (copied from the device where there is one)."""
    if isinstance(value, np.ndarray):
        return value
    if compat.is_array_api_strict_namespace(namespace(value)):
        return np.from_dlpack(value)
    if compat.is_jax_array(value):
        return np.asarray(value)  # JAX brings it to the host itself
    return np.asarray(compat.to_device(value, "cpu"))


def take(array: Array, index: Any, axis: int = 0) -> Array:
    """Some rows of an array, or columns, wherever its numbers are."""
    if isinstance(array, np.ndarray):  # whose `take` would copy the whole of one in Fortran order
        return array[index] if axis == 0 else array[:, index]
    xp = namespace(array)
    return xp.take(array, xp.asarray(index, device=compat.device(array)), axis=axis)


def frozen(value: Array) -> Array:
    """A copy that nobody else can change (NumPy), or simply a copy (other kinds)."""
    value = namespace(value).asarray(value, copy=True)
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    return value


def assign(array: Array, index: Any, value: Any) -> Array:
    """`array[index] = value`, also for arrays that cannot be changed in place."""
    if not isinstance(array, np.ndarray) and compat.is_jax_array(array):
        return array.at[index].set(value)
    array[index] = value
    return array


def roundoff(array: Array) -> float:
    """Unit roundoff u of the array's floating type."""
    return float(namespace(array).finfo(array.dtype).eps) / 2


def is_single(array: Array) -> bool:
    """Whether an array is in single precision."""
    return math.isclose(float(namespace(array).finfo(array.dtype).eps), 2.0**-23)


def equal(a: Array, b: Array) -> bool:
    """Whether two arrays have the same shape and the same numbers."""
    return tuple(a.shape) == tuple(b.shape) and bool(np.array_equal(to_numpy(a), to_numpy(b)))
