"""Features that stay where they are, on a GPU or in any array library: products with them are made there.

Only what the caller asks for comes to the host: some rows, or a number for each row.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import Array, namespace, take, to_numpy

if TYPE_CHECKING:
    from koloss.core.fused import Fused

Floats = NDArray[np.float64]

ROWS = 65_536
"""Rows whose products are made at a time."""

LARGEST = 2**27
"""Most numbers of a product for several weights at once."""

LIBRARIES = ("torch", "cupy", "jax.numpy", "array_api_strict")
"""Array libraries that features may be of, beside NumPy."""


class DeviceFeatures:
    """An (N, m) array of another library than NumPy, with sums in double precision.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> features = DeviceFeatures(xp.asarray([[1.0, 2.0], [3.0, 4.0]]))
    >>> (features @ np.ones(2)).tolist(), features[1].tolist()
    ([3.0, 7.0], [3.0, 4.0])
    """

    __array_ufunc__ = None  # products with arrays of NumPy are made here
    ndim, dtype = 2, np.dtype(np.float64)  # as they come to the host

    def __init__(self, array: Array) -> None:
        self.array = array
        self.xp = namespace(array)
        self.device = compat.device(array)
        self.shape: tuple[int, int] = tuple(int(n) for n in array.shape)  # type: ignore[assignment]
        self._fused: Fused | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return to_numpy(self.array).astype(np.float64 if dtype is None else dtype, order="F")

    def __getitem__(self, rows: Any) -> Any:
        """Some rows, brought to the host; or some columns of all, which stay."""
        if isinstance(rows, tuple):
            return DeviceFeatures(self.array[rows])
        if isinstance(rows, slice):
            chosen = self.array[rows, :]
        else:
            index = np.asarray(rows)
            chosen = take(self.array, np.flatnonzero(index) if index.dtype == bool else index.ravel())  # fmt: skip
            if index.ndim == 0:
                chosen = chosen[0, :]
        return to_numpy(chosen).astype(np.float64)

    def __matmul__(self, other: Floats) -> Floats:
        """Products of all rows with a vector, or with the columns of a matrix, brought to the host."""
        return to_numpy(self.product(other)).astype(np.float64, copy=False)

    def __rmatmul__(self, weights: Floats) -> Floats:
        """Sums of all rows with these weights, brought to the host."""
        vector = self.vector(weights)
        parts: Any = sum(vector[b] @ phi for b, phi in self._blocks())
        return to_numpy(parts)

    def quadratic(self, matrix: Floats | None) -> Floats:
        """φ'matrix φ of every row φ, or |φ|², brought to the host."""
        if matrix is None:
            return to_numpy(self.squared_lengths())
        C, xp = self.vector(matrix), self.xp
        return to_numpy(xp.concat([xp.sum((phi @ C) * phi, axis=1) for _, phi in self._blocks()]))

    def transformed(self, matrix: Floats) -> DeviceFeatures:
        """φ'matrix of every row φ, which stays on the device."""
        array = self.product(matrix)
        return DeviceFeatures(self.xp.astype(array, self.array.dtype, copy=False))

    def placed(self, features: Floats) -> DeviceFeatures:
        """Others at the same place."""
        return DeviceFeatures(on_device(features, self.xp, self.device, self.array.dtype))

    # On the device.

    def vector(self, values: Any) -> Array:
        """Numbers of the host in double precision on the device."""
        values = np.array(values, dtype=np.float64)  # one that nobody else has
        return self.xp.asarray(values, device=self.device)

    def product(self, other: Any) -> Array:
        """Products of all rows with a vector, or with the columns of a matrix."""
        vectors = self.vector(other)
        return self.xp.concat([rows @ vectors for _, rows in self._blocks()])

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """All rows in double precision, some at a time."""
        for start in range(0, len(self), ROWS):
            block = slice(start, min(start + ROWS, len(self)))
            yield block, self.xp.astype(self.array[block, :], self.xp.float64, copy=False)

    def covariance(self, weights: Array) -> Floats:
        """Σ weights φφ', brought to the host."""
        total: Any = sum((phi * weights[b, None]).T @ phi for b, phi in self._blocks())
        return np.asfortranarray(to_numpy((total + total.T) / 2))

    def squared_lengths(self, matrix: Floats | None = None) -> Array:
        """|φ'matrix|² of every row φ, or |φ|²."""
        root = None if matrix is None else self.vector(matrix)
        whites = (phi if root is None else phi @ root for _, phi in self._blocks())
        return self.xp.concat([self.xp.sum(white * white, axis=1) for white in whites])

    def largest(self, values: Array) -> float:
        """The largest of some numbers on the device."""
        return float(self.xp.max(values))

    # Where they are.

    @property
    def place(self) -> dict[str, str]:
        """Library, device and floating type as plain data."""
        name = self.xp.__name__.removeprefix("array_api_compat.")
        library = next(known for known in LIBRARIES if name.startswith(known.split(".")[0]))
        kind = "float32" if self.array.dtype == self.xp.float32 else "float64"
        return {"library": library, "device": str(self.device), "type": kind}

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the numbers, and where they are."""
        return {"array": np.asarray(self), **self.place}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DeviceFeatures | NDArray[Any]:
        """Features at the place where they were; on the host, with a word, where there is no such place."""
        values, place = data["array"], {name: data[name] for name in ("library", "device", "type")}
        if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype != np.float64:
            raise TypeError(f"features must be a matrix of floats, got {type(values).__name__}")
        if not np.isfinite(values).all() or place["library"] not in LIBRARIES:
            raise ValueError("features must be finite, and of a library that is known")
        array = like_place(values, place)
        if array is not None:
            return cls(array)
        message = f"there is no {place['library']} with a device {place['device']!r} here: the game goes on in NumPy"
        warnings.warn(message, UserWarning, stacklevel=2)
        kind = np.float32 if place["type"] == "float32" else np.float64
        return values.astype(kind, order="F")

    @property
    def fused(self) -> Fused | None:
        """Kernels that make a refresh in one pass, where there are any for such an array."""
        if self._fused is None and _has_kernels(self.array):
            from koloss.core.fused import Fused

            self._fused = Fused(self.array)
            self.array = self._fused.features  # the same numbers, once
        return self._fused


def _has_kernels(array: Array) -> bool:
    """Whether an array is a torch tensor of single precision on a GPU, of few columns, and Triton is there."""
    if not compat.is_torch_array(array):
        return False
    import torch

    if array.dtype != torch.float32 or array.shape[1] > 128:
        return False
    try:
        from triton import knobs
    except ImportError:  # pragma: no cover - torch brings it along where there is a GPU
        return False
    interpreted = bool(knobs.runtime.interpret)
    return array.device.type == "cuda" or interpreted


def like_place(features: Floats, place: dict[str, str]) -> Array | None:
    """Features at the place where they were, as `DeviceFeatures.place` tells; None where there is no such place here."""
    import importlib

    try:
        library = importlib.import_module(place["library"])
        xp = namespace(library.asarray([0.0]))
        kind = getattr(xp, place["type"])
        return on_device(features, xp, _device_of(xp, place["device"]), kind)
    except (ImportError, RuntimeError, ValueError, AssertionError, AttributeError):
        return None


def _device_of(xp: Any, name: str) -> Any:
    """The device of a name, as the library has it."""
    own = compat.device(xp.asarray([0.0]))
    return own if str(own) == name else name


def on_device(features: Floats, xp: Any, device: Any, kind: Any) -> Array:
    """Features in another library, on a device, a block of rows at a time: there are never two copies of all."""
    N = len(features)
    parts = [
        xp.astype(
            xp.asarray(np.ascontiguousarray(features[k : k + ROWS]), device=device),
            kind,
            copy=False,
        )
        for k in range(0, N, ROWS)
    ]
    return parts[0] if len(parts) == 1 else xp.concat(parts)
