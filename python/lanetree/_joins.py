"""Rows of joins: which probes are null, and what columns a join of a kind has."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _native
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


class Probes(_columns.Rows):
    """Columns of probes in host memory, of the rows in which nothing is missing."""

    __slots__ = ()

    def __init__(self, valid: ArrayLike | None, nulls: str | None, *given: tuple[ArrayLike, np.dtype[Any], str]) -> None:
        """As for rows of queries, in one dimension; `valid` says which there are, of those that are not missing."""
        super().__init__(nulls, *given, valid=valid)
        if len(self.shape) > 1:
            raise ValueError(f"{given[0][2]} have {len(self.shape)} dimensions, where one is needed")

    def join(self, how: str, counts: npt.NDArray[Any], *columns: npt.NDArray[Any]) -> Any:
        """The rows of a join, from how many matches each of these rows has, or whether it has one, and the columns of all matches."""
        counts = self.fill(counts)
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


def bitmap(valid: ArrayLike | None, size: int, device: Device, on: _native.Stream | None) -> Any:
    """Which of a device's probes there are, as the native memory of a bitmap; None for all."""
    if valid is None:
        return None
    words = (size + 31) // 32
    if not _arrays.on_device(valid):
        bits = np.zeros(4 * words, np.uint8)
        packed = np.packbits(_columns.mask_of(valid, size), bitorder="little")
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
