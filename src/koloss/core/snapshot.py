"""Snapshots: declared state as plain data, sealed by a digest, and files that hold it.

A class marked `kept` says what its state is: the fields of a dataclass or of a named tuple, elsewhere the attributes annotated in the
class. One walk writes them by name, with arrays, containers, generators and whatever has a form of its own, and keeps what is shared
shared. What can be made again is left out (`Cached`, or not annotated), and `_restored` makes it once an object has been read.

Nothing of a snapshot is run: classes are found by name among those that are kept, and filled without their constructors. Exactly what is
declared must be there, of the type that is declared, every number finite unless it is declared `Extended`. A digest shows damage, not
intent, and values that are legal one by one are not compared with each other: a snapshot that somebody has changed and sealed again may
make a learner that plays oddly.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import io
import json
import math
import os
import re
import stat
import sys
import uuid
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache as remembered
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from koloss.core.arrays import shown, to_numpy
from koloss.core.device import DeviceFeatures
from koloss.core.files import clear_parts, locked, naming, replacing
from koloss.core.plain import Plain
from koloss.core.random import generator_from_dict, generator_to_dict
from koloss.errors import KolossError, SnapshotError, SnapshotInUse

FORMAT = 6
"""Format of the snapshots that are written here; no other is read."""

ARRAY = "__array__"
"""Key of a reference to an array in the JSON part of a file."""

LARGEST, MOST, LONGEST, DEEPEST = 1e152, 2**62, 10**6, 100
"""Largest float and integer, largest side of an array without numbers, and how deep values may be in each other."""

T = TypeVar("T")

# What is declared.

Cached: TypeAlias = Any
"""What a snapshot leaves out: it is made again when it is asked for, or by `_restored`."""

Extended: TypeAlias = float
"""A number that may be infinite."""

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
ExtendedVector: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

KEPT: dict[str, type] = {}
"""Classes whose objects may be in a snapshot, by name."""


def kept(kind: type[T]) -> type[T]:
    """Enter a class among those whose objects may be in a snapshot."""
    if KEPT.setdefault(kind.__name__, kind).__module__ != kind.__module__:
        raise TypeError(f"there are two classes of the name {kind.__name__}")
    KEPT[kind.__name__] = kind
    return kind


SCALARS: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "Extended": (int, float),
    "str": (str,),
    "Literal": (str,),
    "list": (list,),
    "tuple": (tuple,),
    "dict": (dict,),
    "deque": (deque,),
    "Sequence": (list, tuple, np.ndarray),
}

ARRAYS: dict[str, tuple[str, int | None]] = {
    "Floats": ("f", None),
    "Vector": ("f", 1),
    "Matrix": ("f", 2),
    "ExtendedVector": ("f", 1),
    "Bools": ("b", None),
    "Rows": ("i", None),
}
"""Kind and number of axes of an array, by the name of its type."""


class Declared(NamedTuple):
    """The type of an attribute."""

    said: str
    kinds: tuple[type, ...]  # classes that a value may be of
    arrays: tuple[tuple[str, int | None], ...]  # kinds and numbers of axes of arrays that it may be
    anything: bool  # where the type is no class

    @classmethod
    def of(cls, said: str, known: Mapping[str, Any]) -> Declared:
        """From the text of an annotation, in a module with these names."""
        bare = said
        while "[" in bare:  # what containers hold is checked when it is used
            bare = re.sub(r"\[[^][]*\]", "", bare)
        kinds: list[type] = []
        arrays, anything = [], False
        for name in map(str.strip, bare.split("|")):
            thing = known.get(name.split(".")[0])
            for part in name.split(".")[1:]:
                thing = getattr(thing, part, None)
            if name in ARRAYS and not isinstance(thing, type):
                arrays.append(ARRAYS[name])
            elif name in SCALARS:
                kinds += SCALARS[name]
            elif isinstance(thing, type) and thing is not Any:
                kinds.append(thing)
            else:
                anything = True
        return cls(said, tuple(kinds), tuple(arrays), anything)

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type; a description stands for anything."""
        if (
            self.anything
            or type(value) is Described
            or (isinstance(value, self.kinds) and type(value) is not bool)
        ):
            return True
        if type(value) is np.ndarray:
            form = value.dtype.kind, value.ndim
            return any(form == (kind, axes or form[1]) for kind, axes in self.arrays)
        return type(value) is bool and bool in self.kinds


@remembered
def declared(kind: type) -> dict[str, Declared]:
    """What a snapshot has of an object: its attributes, and their types."""
    types: dict[str, Declared] = {}
    for one in reversed(kind.__mro__):
        for name, said in inspect.get_annotations(one).items():
            text = getattr(said, "__forward_arg__", None) or str(said)
            types[name] = Declared.of(text, vars(sys.modules[one.__module__]))
    named = [one.name for one in fields(kind)] if is_dataclass(kind) else list(types)
    computed = {name for name in named if isinstance(getattr(kind, name, None), property)}
    return {
        name: types[name]
        for name in named
        if name not in computed and not types[name].said.startswith(("Cached", "ClassVar"))
    }


# Forms of their own.


@dataclass(frozen=True)
class Described:
    """In the place of an object that a snapshot cannot hold: its description."""

    text: str

    def __repr__(self) -> str:
        return self.text


Form: TypeAlias = tuple[type, Callable[[Any], Any], Callable[[Any], Any]]

FORMS: dict[str, Form] = {
    "plain": (Plain, lambda thing: thing.to_dict(arrays=True), Plain.from_dict),
    "rng": (np.random.Generator, generator_to_dict, generator_from_dict),
    "placed": (DeviceFeatures, DeviceFeatures.to_dict, DeviceFeatures.from_dict),
    "described": (Described, str, lambda text: Described(_text(text))),
}
"""What is written in a form of its own: how it becomes plain data, and how that becomes it again."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a description must be text, got {shown(value)}")
    return value


# Writing.


def state_of(thing: Any) -> dict[str, Any]:
    """Plain data of all that is declared of an object; arrays are copies."""
    return _Writer().attributes(thing)


def _declared_of(thing: Any) -> dict[str, Declared]:
    kind: Any = type(thing)
    return declared(kind)


class _Writer:
    """Everything that can be shared is counted as it comes, and written once."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}  # by their ids
        self.met: list[Any] = []  # so that the ids stay theirs

    def attributes(self, thing: Any) -> dict[str, Any]:
        names = _declared_of(thing)
        return {name: self.value(getattr(thing, name)) for name in names if hasattr(thing, name)}

    def value(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if kind is tuple:
            return {"tuple": [self.value(one) for one in value]}
        if (place := self.places.get(id(value))) is not None:
            return {"same": place}
        self.places[id(value)] = len(self.met)
        self.met.append(value)
        if kind is np.ndarray:
            return value.copy(order="K")
        if kind is list:
            return [self.value(one) for one in value]
        if kind is deque:
            return {"deque": [self.value(one) for one in value]}
        if isinstance(value, dict):
            return {"dict": [[self.value(key), self.value(one)] for key, one in value.items()]}
        if KEPT.get(kind.__name__) is kind:
            if isinstance(value, tuple):
                return {kind.__name__: [self.value(one) for one in value]}
            return {kind.__name__: self.attributes(value)}
        for name, (family, write, _) in FORMS.items():
            if isinstance(value, family):
                return {name: write(value)}
        if hasattr(value, "__array_namespace__") or hasattr(value, "__dlpack__"):
            return to_numpy(value).astype(np.float64)
        return {"described": repr(value)}


# Reading.


def fill(thing: T, data: Any) -> T:
    """Give an object the state that `state_of` has written; a `SnapshotError` where it is something else."""
    reader = _Reader()
    with suspicion():
        reader.attributes(thing, data, "learner", 0)
    return thing


@contextmanager
def suspicion() -> Iterator[None]:
    """Whatever goes wrong in here is put down to the snapshot."""
    try:
        yield
    except KolossError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise SnapshotError(f"`state` must be intact, got one that fails: {what}") from error


class _Reader:
    """Values made of plain data, each checked as it is made."""

    def __init__(self) -> None:
        self.met: list[Any] = []  # what may be shared, in the order in which it was written

    def attributes(self, thing: Any, data: Any, place: str, depth: int) -> None:
        names = _declared_of(thing)
        if not isinstance(data, Mapping):
            _refuse(place, f"must hold what a {type(thing).__name__} has", data)
        if unknown := data.keys() - names.keys():
            _refuse(place, "must have no other keys than those of its kind", sorted(unknown))
        for name, type_ in names.items():
            where = f"{place}.{name}"
            if name not in data:
                _refuse(where, "must be there", None)
            value = self.value(data[name], where, depth + 1, "Extended" in type_.said)
            if not type_.fits(value):
                _refuse(where, f"must be of type {type_.said}", value)
            object.__setattr__(thing, name, value)
        for one in fields(thing) if is_dataclass(thing) else ():
            if one.name not in names:
                object.__setattr__(thing, one.name, one.default)
        if hasattr(thing, "_restored"):
            thing._restored()

    def value(self, data: Any, place: str, depth: int, extended: bool = False) -> Any:
        if depth > DEEPEST:
            _refuse(place, f"must be at most {DEEPEST} deep", "more")
        kind = type(data)
        if data is None or kind in (bool, str):
            return data
        if kind in (int, float):
            most = MOST if kind is int else math.inf if extended else LARGEST
            if not -most <= data <= most:  # NaN is not
                _refuse(place, "must be a number that is finite", data)
            return data
        if isinstance(data, np.ndarray):
            return self.enter(_checked(data, place, extended))
        if kind in (list, tuple):  # which is how others may have read a list
            made: list[Any] = self.enter([])
            made.extend(self.items(data, place, depth))
            return made
        if not isinstance(data, Mapping) or len(data) != 1:
            _refuse(place, "must be plain data", data)
        ((name, inner),) = data.items()
        return self.tagged(name, inner, place, depth, extended)

    def tagged(self, name: str, inner: Any, place: str, depth: int, extended: bool) -> Any:
        """What a name says that it is."""
        if name == "tuple":
            return tuple(self.items(inner, place, depth))
        if name == "same":
            if type(inner) is not int or not 0 <= inner < len(self.met):
                _refuse(place, "must be what has come before", inner)
            return self.met[inner]
        if name == "deque":
            queue: deque[Any] = self.enter(deque())
            queue.extend(self.items(inner, place, depth))
            return queue
        if name == "dict":
            table: dict[Any, Any] = self.enter({})
            for pair in _listed(inner, place):
                key, value = self.items(pair, place, depth)
                table[key] = value
            return table
        if name in FORMS:
            at = len(self.met)
            self.met.append(None)
            self.met[at] = FORMS[name][2](inner)
            return self.met[at]
        kind = KEPT.get(name)
        if kind is None:
            _refuse(place, "must be of a class that is kept", name)
        if issubclass(kind, tuple):
            return self.record(kind, inner, place, depth)
        thing = self.enter(kind.__new__(kind))
        self.attributes(thing, inner, place, depth)
        return thing

    def record(self, kind: Any, inner: Any, place: str, depth: int) -> Any:
        """A named tuple."""
        at, types = len(self.met), declared(kind)
        self.met.append(None)
        values = self.items(inner, place, depth)
        for (name, type_), value in zip(types.items(), values, strict=True):
            if not type_.fits(value):
                _refuse(f"{place}.{name}", f"must be of type {type_.said}", value)
        self.met[at] = kind._make(values)
        return self.met[at]

    def items(self, data: Any, place: str, depth: int) -> list[Any]:
        return [
            self.value(one, f"{place}[{k}]", depth + 1)
            for k, one in enumerate(_listed(data, place))
        ]

    def enter(self, value: T) -> T:
        self.met.append(value)
        return value


def _listed(data: Any, place: str) -> Any:
    if not isinstance(data, (list, tuple)):
        _refuse(place, "must be a list", data)
    return data


def _checked(data: NDArray[Any], place: str, extended: bool) -> NDArray[Any]:
    """A copy of an array of numbers or truth values."""
    if data.dtype.kind not in "fiub" or not data.dtype.isnative:
        _refuse(place, "must hold numbers", data.dtype)
    if data.size == 0 and max(data.shape) > LONGEST:
        _refuse(place, f"must have sides of at most {LONGEST}", data.shape)
    if data.dtype.kind == "f" and data.size:
        low, high = float(data.min()), float(data.max())
        most = math.inf if extended else LARGEST
        if not (-most <= low and high <= most):  # NaN is not
            _refuse(place, "must hold numbers that are finite", [low, high])
    return data.copy(order="K")


def _refuse(place: str, rule: str, got: Any) -> NoReturn:
    raise SnapshotError(f"`{place}` in `state` {rule}, got {shown(got)}")


# Seals.


def seal(kind: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot: the state with its kind, format and digest."""
    sealed = {"kind": kind, "version": FORMAT, **state}
    return {**sealed, "digest": _digest(sealed)}


def unseal(kind: str, snapshot: Any) -> dict[str, Any]:
    """The state in a snapshot, after kind, format and digest have been checked."""
    if not isinstance(snapshot, Mapping) or "kind" not in snapshot or "version" not in snapshot:
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got {type(snapshot).__name__}")
    version = snapshot["version"]
    if type(version) is not int or version != FORMAT:
        newer = ": it needs a newer koloss" if type(version) is int and version > FORMAT else ""
        raise SnapshotError(f"`state` must be of format {FORMAT}, got {shown(version)}{newer}")
    theirs = snapshot["kind"]
    if not isinstance(theirs, str) or theirs != kind:
        named = isinstance(theirs, str) and theirs.isidentifier()
        got = theirs if named else shown(theirs)
        raise SnapshotError(f"`state` must be a snapshot of {kind}, got one of {got}")
    state = {name: value for name, value in snapshot.items() if name != "digest"}
    try:
        intact = str(snapshot.get("digest")) == _digest(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"`state` must be plain data, got some that is not: {error}") from error
    if not intact:
        raise SnapshotError(
            "`state` must be intact, got a snapshot whose digest does not match: it is damaged"
        )
    del state["kind"], state["version"]
    return state


def _digest(state: Mapping[str, Any]) -> str:
    """SHA-256 over the JSON part and the bytes of all arrays."""
    arrays: dict[str, Any] = {}
    plain = _split(dict(state), arrays)
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        digest.update(f"{key}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _split(value: Any, arrays: dict[str, Any]) -> Any:
    """JSON data with each array replaced by a reference to `arrays`."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("`state` must be plain data, got an array of objects")
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {ARRAY: key}
    if isinstance(value, dict):
        if ARRAY in value or not all(isinstance(key, str) for key in value):
            rule = f"must have keys that are text, and none that is {ARRAY!r}"
            raise TypeError(f"`state` {rule}, got {shown(list(value))}")
        return {k: _split(value[k], arrays) for k in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_split(v, arrays) for v in value]
    return value


def _join(value: Any, arrays: dict[str, Any]) -> Any:
    """What `_split` has taken apart; each array is used once."""
    if isinstance(value, dict):
        if set(value) == {ARRAY}:
            return arrays.pop(value[ARRAY])
        return {k: _join(v, arrays) for k, v in value.items()}
    return [_join(v, arrays) for v in value] if isinstance(value, list) else value


# Bytes: an .npz file of arrays, and everything else as JSON.


def state_to_bytes(state: Mapping[str, Any]) -> bytes:
    """A snapshot as the bytes of a file, without a file."""
    file = io.BytesIO()
    np.savez(file, **_members(state))
    return file.getvalue()


def state_from_bytes(content: bytes) -> dict[str, Any]:
    """The snapshot that `state_to_bytes` has written; a `SnapshotError` where the bytes are something else."""
    try:
        return _assembled(_read(io.BytesIO(content), len(content)))
    except Exception as error:  # whatever damaged bytes make of themselves
        raise SnapshotError(f"`content` must be a snapshot's bytes, got others: {error}") from error


def _members(state: Mapping[str, Any], **texts: str) -> dict[str, Any]:
    """The arrays of a file: those of a snapshot, and texts."""
    arrays: dict[str, Any] = {}
    texts = {"json": json.dumps(_split(dict(state), arrays)), **texts}
    encoded = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
    return {**encoded, **arrays}


def _assembled(arrays: dict[str, Any]) -> dict[str, Any]:
    """The snapshot of which these are the arrays and the JSON."""
    text = arrays.pop("json").tobytes()
    state: dict[str, Any] = _join(json.loads(text, object_pairs_hook=_without_twins), arrays)
    if arrays or not isinstance(state, dict):
        raise ValueError("it has arrays that belong nowhere")
    return state


# Files: each has an id of its own, new whenever it is written.


_latest: dict[str, set[str | None]] = {}
"""Ids of the file that this process last read from or wrote to a path; None for files from before there were ids."""


def save_state(
    path: str | os.PathLike[str], state: Mapping[str, Any], *, overwrite: bool = False
) -> None:
    """Write a snapshot to one .npz file (arrays, and everything else as JSON); never half a file.

    A file is replaced only by the learner that it is of, and by the process that has written it or loaded it last: two processes
    that go on from one snapshot make the same decisions, and each would undo what the other has saved. Of two that save at the
    same time, one succeeds.

    Parameters
    ----------
    path : path
    state : mapping
        What `state()` of a learner has given.
    overwrite : bool
        Replace whatever is there.

    Raises
    ------
    SnapshotInUse
        Where there is another file than the one that this process last loaded or wrote, or one of another learner: nothing has
        been written.
    OSError
        As the operating system says, where the folder is missing or cannot be written to, or the disk is full: the former file
        is still there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import koloss as kl
    >>> learner = kl.BanditExpWeights(
    ...     kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100, rng=0
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "learner.npz"
    ...     kl.save_state(path, learner.state())
    ...     again = kl.BanditExpWeights.from_state(kl.load_state(path))
    >>> again.ask().index == learner.ask().index
    True
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"`state` must be a snapshot, got {type(state).__name__}")
    identity, owner = uuid.uuid4().hex, str(state.get("identity", ""))
    members = _members(state, id=identity + owner)
    path = Path(os.path.realpath(path))
    with _alone(path) as alone:
        if not overwrite:
            _check_known(path, owner)
        if alone:
            clear_parts(path)
        # Either file may be there if this is interrupted, and both are ours.
        _latest.setdefault(_key(path), set()).add(identity)
        with replacing(path, private=True) as file:
            np.savez(file, **members)
        _latest[_key(path)] = {identity}


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a snapshot that `save_state` has written.

    Raises
    ------
    SnapshotError
        Where the file is damaged, or is something else. Nothing is expanded that is larger than the file.
    OSError
        As the operating system says, where the file is missing (`FileNotFoundError`) or cannot be read.
    """
    refusal = f"`path` must be a snapshot written by save_state, got {path}"
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SnapshotError(f"{refusal}: it is not a file")
    with open(path, "rb") as file:
        content = file.read()
    try:
        arrays = _read(io.BytesIO(content), len(content))
        identity, _ = _identity(arrays.pop("id", None))
        state = _assembled(arrays)
    except Exception as error:  # whatever a damaged file makes of itself
        raise SnapshotError(f"{refusal}: {error}") from error
    _latest[_key(path)] = {identity}
    return state


MEMBER = re.compile(r"(json|id|array\d{1,9})\.npy")
"""Names of what is in a file."""


def _read(file: IO[bytes], size: int, only: str | None = None) -> dict[str, Any]:
    """Arrays of a file by name, or `only` one where it is there; none is larger than the file."""
    with zipfile.ZipFile(file) as members:
        known = members.infolist()
        names = [info.filename for info in known]
        if len(set(names)) < len(names) or not all(map(MEMBER.fullmatch, names)):
            raise ValueError(f"it has other members: {shown(names)}")
        if "json.npy" not in names:
            raise ValueError("it has no member json.npy")
        for info in known:
            stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
            if not stored or info.file_size != info.compress_size:
                raise ValueError(f"its member {info.filename} is compressed")
        if sum(info.file_size for info in known) > size:
            raise ValueError("its members are larger than the file")
        wanted = [info for info in known if only is None or info.filename == f"{only}.npy"]
        return {info.filename[:-4]: _array(members.read(info)) for info in wanted}


def _array(content: bytes) -> Any:
    """The array of a .npy file, which must be exactly as long as its header says."""
    begin = 10 + int.from_bytes(content[8:10], "little")
    shape, order, dtype = _header(content[:begin])
    fits = math.prod(shape) * dtype.itemsize == len(content) - begin
    if dtype.hasobject or not fits or min(shape, default=0) < 0 or max(shape, default=0) > 2**40:
        raise ValueError(f"an array of {len(content)} bytes has shape {shape} and dtype {dtype}")
    return np.ndarray(shape, dtype, bytearray(content), begin, order=order)


@lru_cache(maxsize=256)
def _header(content: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], Any]:
    """Shape, order and dtype of an array; those of a snapshot have few different ones."""
    file = io.BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version than 1.0")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    return shape, "F" if fortran else "C", dtype


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"a key comes twice among {shown([key for key, _ in pairs])}")
    return values


def _identity(array: Any) -> tuple[str | None, str]:
    """Ids of a file and of its learner."""
    if array is None:
        return None, ""
    text: str = array.tobytes().decode("ascii")
    if not re.fullmatch("[0-9a-f]{32}([0-9a-f]{32})?", text):
        raise ValueError(f"its id is {text!r}")
    return text[:32], text[32:]


def _key(path: str | os.PathLike[str]) -> str:
    return os.path.normcase(os.path.realpath(path))


def _check_known(path: Path, owner: str) -> None:
    """Refuse to replace a file that this process has neither loaded nor written, or that is of another learner."""
    advice = (
        "one process owns a learner; load the file and go on from there, choose another path, "
        "or give `overwrite=True` to lose what it holds"
    )
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                identity, theirs = _identity(_read(file, size, only="id").get("id"))
            except Exception as error:  # whatever else it is, it is not ours
                got = f"{path}, which is not a snapshot"
                raise SnapshotInUse(
                    f"`path` must be free or a snapshot, got {got}; {advice}"
                ) from error
    except FileNotFoundError:
        return
    known = _latest.get(_key(path))
    if known is None or identity not in known:
        got = "which another has written since" if known else "which another has written"
        rule = "must be free, or the file that this process last loaded or wrote there"
        raise SnapshotInUse(f"`path` {rule}, got {path}, {got}; {advice}")
    if theirs and theirs != owner:
        raise SnapshotInUse(
            f"`path` must be free, or of this learner, got {path}, which is of another; {advice}"
        )


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """One process at a time saves to a path; whether that is certain, or its file system knows no locks."""
    with ExitStack() as stack:
        try:
            guard = path.with_name(f".{path.name}.lock")
            with naming(path, guard):
                stack.enter_context(locked(guard, remove=True))
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
            yield False
        else:
            yield True
