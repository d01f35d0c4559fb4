"""What an index with one value per key has in common with a set: :class:`Tree`."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _arrays, _missing, _native, _progress, _wide, errors
from ._arrays import Array, ArrayLike
from ._device import Device
from ._held import _BOOL, _INT64
from ._numbers import Numbers
from ._progress import Progress

_Self = TypeVar("_Self", bound="Tree")


class Tree(Numbers):
    """An index of distinct keys, with values or without."""

    __slots__ = ("fill",)
    _index: _native.Tree
    fill: float

    def _build(
        self,
        keys: ArrayLike,
        values: ArrayLike | None,
        has_values: bool,
        device: str | Device | None,
        fill: float,
        is_sorted: bool,
        key_dtype: npt.DTypeLike | None,
        nulls: str,
        stream: Any,
        progress: Progress,
    ) -> np.dtype[Any] | None:
        """Builds the index, and returns the dtype of values."""
        on, columns = self._take(nulls, key_dtype, device, stream, keys, *[values][:has_values])
        raw_keys = columns[0].raw
        self.fill = float(fill)
        word = _arrays.word_of(self.key_dtype, "keys")
        raw_values, dtype = columns[1] if has_values else (None, None)
        if dtype is not None:
            _arrays.word_of(dtype, "values")
        self._numbers = None
        if self.device.kind == "cuda" and self.key_dtype != _wide.BYTES:
            key, value, hit = (0 if it is None else _arrays.number_of(it) for it in (self.key_dtype, dtype, _BOOL))
            self._numbers = key, value, hit
        if is_sorted and word[0] in "fb" and isinstance(raw_keys, np.ndarray):
            # The native code would name words, not keys.
            keys = _wide.comparable(raw_keys)
            below = np.flatnonzero(keys[1:] < keys[:-1])
            if below.size:
                i = int(below[0]) + 1
                raise errors.NotSorted(
                    f"keys[{i}] = {_wide.shown(raw_keys, i)} is below keys[{i - 1}] = {_wide.shown(raw_keys, i - 1)}: sort the pairs, or use the build that sorts them"
                )
            is_sorted = False
        width = 0 if dtype is None else dtype.itemsize
        with _progress.waiting(progress, len(raw_keys), "building an index of"):
            self._index = _native.Tree(self.device._native, word, raw_keys, raw_values, width, self.fill, is_sorted, on)
        return dtype

    @classmethod
    def _like(cls: type[_Self], other: _Self, tree: _native.Tree) -> _Self:
        self = cls.__new__(cls)
        self._index, self._numbers, self.key_dtype, self.nulls = tree, other._numbers, other.key_dtype, other.nulls
        self.device, self.fill = other.device, other.fill
        if other._value is not None:
            self._value = other._value
        return self

    def _find(self, keys: Any, found: Any, on: _native.Stream | None) -> None:
        self._index.get(keys, (None, found[0], 0), on)

    def _count(self, bounds: Any, closed: tuple[bool, bool], counts: Any, on: _native.Stream | None) -> None:
        if isinstance(counts, np.ndarray):
            np.maximum(self._widths(bounds[0], bounds[1], closed), 0, out=counts)
        else:
            self._index.count(bounds, closed, counts, on)

    def _widths(self, starts: npt.NDArray[Any], ends: npt.NDArray[Any], closed: tuple[bool, bool]) -> npt.NDArray[Any]:
        """How many keys each range has; below 0 for some that end before they start."""
        lower, upper = np.empty(starts.size, _INT64), np.empty(ends.size, _INT64)
        self._index.rank(starts, not closed[0], lower)
        self._index.rank(ends, closed[1], upper)
        return upper - lower

    def _raw_pairs(self) -> tuple[Any, ...]:
        return self._index.pairs(False)

    def _scan(self, starts: ArrayLike, limit: int, stream: Any) -> list[Any]:
        if not 0 <= limit < 2**32:
            raise ValueError(f"a limit of {limit} pairs is not possible: choose 0 to 2^32 - 1")
        if _arrays.on_device(starts):
            column, on = self._on(starts, stream, "the starts")
            found = zip(self._index.scan(column._memory, limit, on), (np.dtype(np.uint32), self.key_dtype, self._value))
            return [Array(memory, dtype, self.device) for memory, dtype in found if memory is not None]  # type: ignore[arg-type]
        rows = self._rows((starts, "the starts"))
        counts, *near = self._index.scan(rows.columns[0], limit)
        shape, dtypes = (len(counts), limit), (self.key_dtype, self._value)
        return [rows.fill(counts), *(rows.fill(it.view(of).reshape(shape)) for it, of in zip(near, dtypes) if it is not None)]

    def _combined(self: _Self, other: _Self, how: str) -> _Self:
        if type(other) is not type(self):
            raise TypeError(f"a {type(self).__name__} and a {type(other).__name__} cannot be combined: use two of one kind")
        if self.nulls != other.nulls:
            raise TypeError(f"nulls are {self.nulls!r} here and {other.nulls!r} there: build one index anew")
        if self.key_dtype.kind == "M":
            _missing.check_zones(other.key_dtype, self.key_dtype, "the keys of the other index")
        if self.key_dtype == _wide.BYTES and not _wide.is_same(other.key_dtype, self.key_dtype):
            raise TypeError(f"the keys are {_wide.name_of(self.key_dtype)} here and {_wide.name_of(other.key_dtype)} there: build one index anew")
        if (self.key_dtype, self._value) != (other.key_dtype, other._value):
            raise TypeError(
                f"the dtypes differ: {self.key_dtype} and {self._value}, {other.key_dtype} and {other._value}; build one index anew"
            )
        return self._like(self, _native.combine(self._index, other._index, how))

    def union(self: _Self, other: _Self) -> _Self:
        """A new index with the keys of both; of a key that is in both, `other`'s value. Neither changes. Also ``a | b``."""
        return self._combined(other, "union")

    def intersection(self: _Self, other: _Self) -> _Self:
        """A new index with what is in this one and whose keys are in `other`, too. Also ``a & b``."""
        return self._combined(other, "intersection")

    def difference(self: _Self, other: _Self) -> _Self:
        """A new index with what is in this one and whose keys are not in `other`. Also ``a - b``."""
        return self._combined(other, "difference")

    def __or__(self: _Self, other: _Self) -> _Self:
        return self.union(other) if isinstance(other, Tree) else NotImplemented

    def __and__(self: _Self, other: _Self) -> _Self:
        return self.intersection(other) if isinstance(other, Tree) else NotImplemented

    def __sub__(self: _Self, other: _Self) -> _Self:
        return self.difference(other) if isinstance(other, Tree) else NotImplemented

    def _options(self) -> dict[str, Any]:
        return {"fill": self.fill, "is_sorted": True}

    def compact(self) -> int:
        """Lay the index out anew, without memory that changes have left unused, and return by how many bytes it is smaller.

        Meanwhile there are both layouts and a copy of the pairs.

        Raises
        ------
        lanetree.errors.OutOfMemory
            The index is as it was.
        """
        return self._index.compact()

    def _contents(self) -> str:
        values = "" if self._value is None else f" -> {self._value}"
        noun = "keys" if self._value is None else "pairs"
        return f"{len(self):,} {noun}, {self.key_dtype}{values}"
