"""Columns of builds, in one memory, and nulls in columns of keys."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _missing, _native, _wide, errors
from ._arrays import Array, ArrayLike
from ._device import Device

#: What becomes of rows that have nulls.
Nulls = Literal["error", "skip"]
#: The same of indexes that can hold a null as a key.
KeyNulls = Literal["error", "skip", "first", "last"]


class Column(NamedTuple):
    """A column as native calls take it."""

    raw: Any
    dtype: np.dtype[Any]


def columns(
    device: str | Device | None, stream: Any, nulls: str, *given: tuple[ArrayLike | None, np.dtype[Any] | int | None, str], keys: int = 1
) -> tuple[Device, _native.Stream | None, list[Column]]:
    """The columns of a build, the device of the index, by default the first one's, and the stream in whose order they are read.

    Each is given with the dtype that it must have, or the place of a column that has the same one. None is the numbers of rows. The
    first ones are keys. In host memory `nulls` says what becomes of rows in which an element is missing.
    """
    first = given[0][0]
    on_gpu = _arrays.on_device(first)
    if device is None and on_gpu:
        device = first.device if isinstance(first, Array) else f"cuda:{_arrays._ordinal(first)}"
    place = Device(device)
    on = _arrays.producer_stream(first, place, stream) if on_gpu else None
    made: list[Column] = []
    masks: list[_missing.Valid] = []
    for array, dtype, what in given:
        if isinstance(dtype, int):
            dtype = made[dtype].dtype
        if array is None and made:
            array = np.arange(len(made[-1].raw), dtype=np.int64)
            array = _arrays.asarray(array, place) if on_gpu else array
        if _arrays.on_device(array) != on_gpu:
            raise TypeError(f"{given[0][2]} and {what[4:]} are in different memories: put both on the device, or both in host memory")
        if on_gpu:
            column = _arrays.to_device(array, dtype, what, place, on)
            made.append(Column(column._memory, dtype or column.dtype))
            continue
        is_key = len(made) < keys
        elements, valid = _arrays.nullable(array, dtype, what, not is_key)
        elements = _missing.widened(elements)
        if elements.ndim != 1:
            raise ValueError(f"{what} have {elements.ndim} dimensions, where one is needed")
        if is_key and nulls in ("first", "last"):
            elements, valid = with_null_keys(elements, valid, what, nulls, True), None
        made.append(Column(_arrays.flat(elements), elements.dtype))
        masks.append(valid)
    if on_gpu:
        return place, on, made
    rows = kept(nulls, masks, [(len(column.raw), what) for column, (_, _, what) in zip(made, given)])
    return place, on, made if rows is None else [Column(column.raw[rows], column.dtype) for column in made]


def check_nulls(nulls: str, *also: str) -> None:
    """An error unless this says what becomes of rows in which an element is missing; some indexes have more ways than others."""
    if nulls not in ("error", "skip", *also):
        names = [repr(name) for name in ("error", "skip", *also)]
        raise ValueError(f"nulls is {nulls!r}, where {', '.join(names[:-1])} or {names[-1]} is needed")


def kept(nulls: str, masks: list[_missing.Valid], columns: list[tuple[int, str]]) -> npt.NDArray[np.int64] | None:
    """The rows of a build of which no element is missing, unless none is: an error if they may not be left out.

    Columns are given as their sizes and names.
    """
    if all(mask is None for mask in masks):
        return None
    for mask, (_, what) in zip(masks, columns):
        if nulls != "skip":
            _missing.refuse(mask, what, "drop these rows, or build the index with nulls='skip'")
    check_sizes(*columns)
    return np.flatnonzero(np.logical_and.reduce([mask for mask in masks if mask is not None]))


def null_word(nulls: str, dtype: np.dtype[Any]) -> int:
    """The bits of the key that stands for nulls: the lowest of the dtype for "first", and the highest for "last"; of floats a NaN."""
    if dtype.kind == "f":
        return int((1 << 8 * dtype.itemsize - (nulls == "last")) - 1)
    if dtype == _wide.BYTES:
        return 0 if nulls == "first" else 2**128 - 1
    info = np.iinfo(np.int64 if dtype.kind in "mM" else dtype)
    return int(info.min if nulls == "first" else info.max) % (1 << 8 * dtype.itemsize)


def null_key(nulls: str, dtype: np.dtype[Any]) -> Any:
    """The key of :func:`null_word`."""
    return _arrays.of_word(null_word(nulls, dtype), dtype)


def with_null_keys(array: npt.NDArray[Any], valid: _missing.Valid, what: str, nulls: str, is_new: bool) -> npt.NDArray[Any]:
    """Keys in which the key that stands for nulls has the place of what is missing. No other one may be that key, if they are new."""
    _arrays.word_of(array.dtype, what[4:])
    null, words = null_key(nulls, array.dtype), _wide.words(array)
    word = np.asarray(null).view(words.dtype)[()]
    if is_new:
        taken = np.flatnonzero(words == word if valid is None else (words == word) & valid)
        if taken.size:
            raise ValueError(f"{what[4:]}[{taken[0]}] is {_wide.shown(array, int(taken[0]))}, which stands for nulls here: choose the other one of nulls='first' and 'last', or 'skip'")
    if valid is None:
        return array
    array = np.array(array)
    array.view(words.dtype)[~valid] = word
    return array


def keys_of(
    nulls: str | None, array: ArrayLike, dtype: np.dtype[Any], what: str, is_new: bool = False
) -> tuple[npt.NDArray[Any], _missing.Valid]:
    """Keys in host memory for an index in which nulls are the first or last key, or none, and which elements are there."""
    if nulls is None and type(array) is np.ndarray and array.dtype == dtype and dtype.kind not in "mMV":
        # What most calls have.
        return array, None
    made, valid = _arrays.nullable(array, dtype, what)
    return (made, valid) if nulls is None else (with_null_keys(made, valid, what, nulls, is_new), None)


def mask_of(valid: Any, size: int) -> npt.NDArray[np.bool_]:
    """Which probes there are, as an array of bool in host memory."""
    if _arrays.on_device(valid):
        raise TypeError("valid is on a device, but the probes are not: put both into one memory")
    if np.ma.is_masked(valid):
        raise ValueError("valid has masked elements: fill them with False")
    mask = np.asarray(valid)
    if mask.dtype != np.bool_:
        raise TypeError(f"valid has dtype {mask.dtype}, where bool is needed")
    if mask.shape != (size,):
        raise ValueError(f"valid has shape {mask.shape} for {size} probes: give one element per probe")
    return mask


class Present:
    """Which rows of queries there are: those in which nothing is missing. Native calls take these; the others find nothing."""

    __slots__ = ("shape", "size", "numbers")
    #: The shape of all rows, and how many they are.
    shape: tuple[int, ...]
    size: int
    #: The numbers of those that there are, unless they are all.
    numbers: npt.NDArray[np.int64] | None

    def __init__(self, shape: tuple[int, ...], masks: list[_missing.Valid]) -> None:
        self.shape, self.size, self.numbers = shape, math.prod(shape), None
        given = [mask.reshape(-1) for mask in masks if mask is not None]
        if given:
            present = np.logical_and.reduce(given)
            self.numbers = None if present.all() else np.flatnonzero(present)

    def fill(self, found: npt.NDArray[Any], default: Any = 0) -> npt.NDArray[Any]:
        """A column of results for all rows, from that for these."""
        if self.numbers is None:
            return found
        made = np.full((self.size, *found.shape[1:]), default, found.dtype)
        made[self.numbers] = found
        return made

    def spread(self, offsets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Offsets for all rows, from those for these: the others have no results."""
        return offsets if self.numbers is None else np.append(np.zeros(1, offsets.dtype), np.cumsum(self.fill(np.diff(offsets))))


class Rows(Present):
    """Columns of queries in host memory, of the rows in which nothing is missing."""

    __slots__ = ("columns",)
    columns: list[npt.NDArray[Any]]

    def __init__(self, nulls: str | None, *given: tuple[ArrayLike, np.dtype[Any], str], valid: ArrayLike | None = None) -> None:
        """Each column is given with its dtype and its name. `nulls` is "first" or "last" if nulls are keys of the index; `valid` says
        which rows there are, of those in which nothing is missing."""
        columns, masks = zip(*(keys_of(nulls, *column) for column in given))
        size = columns[0].size
        if any(column.size != size for column in columns):
            check_sizes(*((column.size, what) for column, (_, _, what) in zip(columns, given)))
        super().__init__(columns[0].shape, [*masks] if valid is None else [*masks, mask_of(valid, size)])
        self.columns = [_arrays.flat(column) for column in columns]
        if self.numbers is not None:
            self.columns = [column[self.numbers] for column in self.columns]


def check_sizes(*columns: tuple[int, str]) -> None:
    """An error unless columns, given as their sizes and names, have as many elements as the first one."""
    for size, what in columns:
        if size != columns[0][0]:
            kind = errors.BoundLengths if what in ("the highs", "the ends") else errors.LengthMismatch
            raise kind(f"{what} have {size} elements, but {columns[0][1]} have {columns[0][0]}: give one of each per row")
