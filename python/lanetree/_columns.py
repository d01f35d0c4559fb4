"""Columns of builds, in one memory, and nulls in columns of keys."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _native, errors
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
    device: str | Device | None, stream: Any, *given: tuple[ArrayLike | None, np.dtype[Any] | int | None, str]
) -> tuple[Device, _native.Stream | None, list[Column]]:
    """The columns of a build, the device of the index, by default the first one's, and the stream in whose order they are read.

    Each is given with the dtype that it must have, or the place of a column that has the same one. None is the numbers of rows.
    """
    first = given[0][0]
    on_gpu = _arrays.on_device(first)
    if device is None and on_gpu:
        device = first.device if isinstance(first, Array) else f"cuda:{_arrays._ordinal(first)}"
    place = Device(device)
    on = _arrays.producer_stream(first, place, stream) if on_gpu else None
    made: list[Column] = []
    for array, dtype, what in given:
        if isinstance(dtype, int):
            dtype = made[dtype].dtype
        if array is None:
            array = np.arange(len(made[-1].raw), dtype=np.int64)
            array = _arrays.asarray(array, place) if on_gpu else array
        if _arrays.on_device(array) != on_gpu:
            raise TypeError(f"{given[0][2]} and {what[4:]} are in different memories: put both on the device, or both in host memory")
        if on_gpu:
            column = _arrays.to_device(array, dtype, what, place, on)
            made.append(Column(column._memory, dtype or column.dtype))
            continue
        elements = _arrays.host(array, dtype, what)
        if elements.ndim != 1:
            raise ValueError(f"{what} have {elements.ndim} dimensions, where one is needed")
        made.append(Column(_arrays.flat(elements), elements.dtype))
    return place, on, made


def _with_validity(array: ArrayLike, dtype: np.dtype[Any] | None, what: str) -> tuple[ArrayLike, npt.NDArray[np.bool_] | None]:
    """A column, and which elements are there, unless all are; an element is missing if it is null in Arrow, or None in a list."""
    if isinstance(getattr(array, "dtype", None), np.dtype) and array.dtype.kind in "iu":
        # A Series of pandas has none then, and gives no column of Arrow without pyarrow.
        return array, None
    if hasattr(array, "__arrow_c_array__") or hasattr(array, "__arrow_c_stream__"):
        return _arrays.from_arrow(array, what)
    if isinstance(array, (list, tuple)) and any(item is None for item in array):
        some = next((item for item in array if item is not None), np.zeros((), dtype or np.int64)[()])
        valid = np.array([item is not None for item in array], np.bool_)
        return [some if item is None else item for item in array], valid
    return array, None


def without_nulls(nulls: str, *given: tuple[ArrayLike | None, str]) -> list[Any]:
    """The columns of a build, with their names; with nulls="skip" without the rows of which one is null.

    A column that is None becomes the numbers of the rows that are left, if any were left out.
    """
    if nulls not in ("error", "skip"):
        raise ValueError(f"nulls is {nulls!r}, where 'error' or 'skip' is needed")
    if nulls == "error":
        return [array for array, _ in given]
    made: list[Any] = []
    masks: list[npt.NDArray[np.bool_]] = []
    for array, what in given:
        array, valid = _with_validity(array, None, what)
        if array is not None and not _arrays.on_device(array):
            array = _arrays.host(array, None, what)
        masks += [] if valid is None else [valid]
        made.append(array)
    if not masks:
        return made
    for array, (_, what) in zip(made, given):
        if array is not None and len(array) != masks[0].size:
            raise errors.LengthMismatch(f"{what} have {len(array)} elements, but the column has {masks[0].size}: give one of each per row")
    rows = np.flatnonzero(np.logical_and.reduce(masks))
    return [rows if array is None else array[rows] for array in made]


def null_key(nulls: str, dtype: np.dtype[Any]) -> Any:
    """The key that stands for nulls: the lowest of the dtype for "first", and the highest for "last"; of floats a NaN."""
    bits = 8 * dtype.itemsize
    if dtype.kind == "f":
        word = 2**bits - 1 if nulls == "first" else 2 ** (bits - 1) - 1
        return np.array(word, f"u{dtype.itemsize}").view(dtype)[()]
    info = np.iinfo(np.int64 if dtype.kind in "mM" else dtype)
    return np.array(info.min if nulls == "first" else info.max, info.dtype).view(dtype)[()]


def with_null_keys(keys: ArrayLike, dtype: np.dtype[Any] | None, what: str, nulls: str, is_new: bool) -> npt.NDArray[Any]:
    """Keys in host memory, in which the key that stands for nulls has their places. No other one may be that key, if they are new."""
    if keys is None and dtype is not None:
        return np.asarray(null_key(nulls, dtype))
    keys, valid = _with_validity(keys, dtype, what)
    array = _arrays.host(keys, dtype, what)
    if array.dtype.kind in "mM":
        # NaT is null, and is what a null of Arrow is, too.
        valid = ~np.isnat(array) if valid is None else valid & ~np.isnat(array)
    _arrays.word_of(array.dtype, what[4:])
    null, words = null_key(nulls, array.dtype), array.view(f"u{array.dtype.itemsize}")
    word = np.asarray(null).view(words.dtype)[()]
    if is_new:
        taken = np.flatnonzero(words == word if valid is None else (words == word) & valid)
        if taken.size:
            raise ValueError(f"{what[4:]}[{taken[0]}] is {null}, which stands for nulls here: choose the other one of nulls='first' and 'last', or 'skip'")
    if valid is None or bool(valid.all()):
        return array
    array = np.array(array)
    array.view(words.dtype)[~valid] = word
    return array
