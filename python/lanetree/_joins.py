"""Rows of joins: which probes are null, and what columns a join of a kind has."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _native, errors
from ._arrays import Array, ArrayLike
from ._device import Device

#: Which rows a join has, as in SQL.
How = Literal["inner", "left", "semi", "anti"]
#: What is taken of two pairs that are equally near.
Ties = Literal["backward", "forward", "both"]
_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)


def check(how: str) -> None:
    if how not in ("inner", "left", "semi", "anti"):
        raise ValueError(f"how is {how!r}, where 'inner', 'left', 'semi' or 'anti' is needed")


class Probes:
    """Columns of probes in host memory, of the rows that are not null."""

    __slots__ = ("columns", "size", "_numbers")
    columns: list[npt.NDArray[Any]]
    size: int
    #: The numbers of the rows that are not null, unless all are.
    _numbers: npt.NDArray[np.int64] | None

    def __init__(self, valid: ArrayLike | None, nulls: str | None, *given: tuple[ArrayLike, np.dtype[Any], str]) -> None:
        """Each column is given with its dtype and its name. With `nulls`, null elements of columns are keys; otherwise they are left out."""
        columns: list[Any] = []
        masks = []
        for array, dtype, what in given:
            if isinstance(array, np.ma.MaskedArray):
                masks.append(~np.ma.getmaskarray(array))
                array = array.data
            if nulls is not None:
                columns.append(_columns.with_null_keys(array, dtype, what, nulls, False))
            else:
                array, mask = _columns._with_validity(array, dtype, what)
                masks += [] if mask is None else [mask]
                columns.append(_arrays.host(array, dtype, what))
        columns = [np.atleast_1d(column) for column in columns]
        self.size = columns[0].size
        for column, (_, _, what) in zip(columns, given):
            if column.ndim != 1:
                raise ValueError(f"{what} have {column.ndim} dimensions, where one is needed")
            if column.size != self.size:
                kind = errors.BoundLengths if what == "the highs" else errors.LengthMismatch
                raise kind(f"{what} have {column.size} elements, but {given[0][2]} have {self.size}: give one of each per row")
        if valid is not None:
            masks.append(_mask(valid, self.size))
        present = np.logical_and.reduce(masks) if masks else None
        self._numbers = None
        if present is not None and not present.all():
            self._numbers = np.flatnonzero(present)
            columns = [column[self._numbers] for column in columns]
        self.columns = [_arrays.flat(column) for column in columns]

    def join(self, how: str, counts: npt.NDArray[Any], *columns: npt.NDArray[Any]) -> Any:
        """The rows of a join, from how many matches each of these rows has, or whether it has one, and the columns of all matches."""
        if self._numbers is not None:
            given, counts = counts, np.zeros(self.size, counts.dtype)
            counts[self._numbers] = given
        has = counts if counts.dtype == np.bool_ else counts > 0
        if how in ("semi", "anti"):
            return np.flatnonzero(has if how == "semi" else ~has)
        if how == "inner":
            left = np.flatnonzero(has) if counts is has else np.repeat(np.arange(self.size), counts)
            return left, *columns
        left, found = np.arange(self.size), has
        if counts is not has:
            rows = np.maximum(counts, 1)
            left, found = np.repeat(left, rows), np.repeat(has, rows)
        made = [np.zeros(left.size, column.dtype) for column in columns]
        for to, column in zip(made, columns):
            to[found] = column
        return left, *made, found


def _mask(valid: Any, size: int) -> npt.NDArray[np.bool_]:
    """Which probes there are, as an array of bool in host memory."""
    if _arrays.on_device(valid):
        raise TypeError("valid is on a device, but the probes are not: put both into one memory")
    mask = np.asarray(valid)
    if mask.dtype != np.bool_:
        raise TypeError(f"valid has dtype {mask.dtype}, where bool is needed")
    if mask.shape != (size,):
        raise ValueError(f"valid has shape {mask.shape} for {size} probes: give one element per probe")
    return mask


def bitmap(valid: ArrayLike | None, size: int, device: Device, on: _native.Stream | None) -> Any:
    """Which of a device's probes there are, as the native memory of a bitmap; None for all."""
    if valid is None:
        return None
    words = (size + 31) // 32
    if not _arrays.on_device(valid):
        bits = np.zeros(4 * words, np.uint8)
        packed = np.packbits(_mask(valid, size), bitorder="little")
        bits[: packed.size] = packed
        return _native.Memory.upload(device._native, bits.view(np.uint32))
    taken = _arrays.to_device(valid, None, "valid", device, on)
    if taken.dtype.kind not in "iu" or taken.dtype.itemsize != 4:
        raise TypeError(f"valid has dtype {taken.dtype}: on a device it is a bitmap of uint32, of which bit i % 32 of word i // 32 is for probe i")
    if taken.size < words:
        raise ValueError(f"valid has {taken.size} words for {size} probes: {words} are needed")
    return taken._memory


def on_device(made: tuple[Any, ...], device: Device, *dtypes: np.dtype[Any]) -> Any:
    """A join's columns on a device, of which those that it does not have are None: numbers of probes, columns of these dtypes, and
    whether there is a match."""
    left, *columns, found = made
    arrays = [Array(left, _INT64, device)]
    arrays += [Array(memory, dtype, device) for memory, dtype in zip(columns, dtypes) if memory is not None]
    if found is not None:
        arrays.append(Array(found, _BOOL, device, len(left)))
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
