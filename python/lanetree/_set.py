"""Keys without values: :class:`Set`."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt

from . import _files
from ._arrays import ArrayLike, Output
from ._columns import KeyNulls
from ._device import Device
from ._held import _BOOL, restored
from ._options import INSERT, REMOVE, Inclusive
from ._progress import Progress
from ._results import KeyRanges, KeyScans, UpdateReport
from ._tree import Tree


class Set(Tree):
    """An ordered set of keys: an index without values, in half of the memory.

    Parameters
    ----------
    keys, device, fill, is_sorted, key_dtype, nulls, stream, progress
        As for :class:`Index`. Equal keys count once.

    Examples
    --------
    >>> numbers = lanetree.Set(np.array([30, 10, 20, 10]), device="cpu")
    >>> 10 in numbers, len(numbers)
    (True, 3)
    """

    __slots__ = ()
    _value = None

    def __init__(
        self,
        keys: ArrayLike,
        device: str | Device | None = None,
        *,
        fill: float = 1.0,
        is_sorted: bool = False,
        key_dtype: npt.DTypeLike | None = None,
        nulls: KeyNulls = "error",
        stream: Any = None,
        progress: Progress = None,
    ) -> None:
        self._build(keys, None, False, device, fill, is_sorted, key_dtype, nulls, stream, progress)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: str | Device | None = None,
        *,
        fill: float = 1.0,
        key_dtype: npt.DTypeLike | None = None,
    ) -> "Set":
        """A set of the keys of a file, whose values are left out if it has any; otherwise like :meth:`Index.load`."""
        keys, _, has_several, nulls = _files.read_pairs(path, key_dtype, None)
        _files.refuse_several(has_several)
        return restored(cls, (keys,), Device(device), {"fill": fill, "is_sorted": True}, nulls)

    def predecessor(self, queries: ArrayLike, *, stream: Any = None) -> tuple[Output, Output]:
        """The last key that is not above each of `queries`, and whether there is one."""
        return self._neighbor(queries, True, stream)

    def successor(self, queries: ArrayLike, *, stream: Any = None) -> tuple[Output, Output]:
        """The first key that is not below each of `queries`, and whether there is one."""
        return self._neighbor(queries, False, stream)

    def _neighbor(self, queries: ArrayLike, predecessor: bool, stream: Any) -> tuple[Output, Output]:
        find = lambda queries, made, on: self._index.neighbor(queries, predecessor, made[0], (None, made[1], 0), on)
        near, found = self._results(find, queries, ((self.key_dtype, 0), (_BOOL, 0)), None, stream)
        return near, found

    def range(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        *,
        inclusive: Inclusive = "both",
        limit: int | None = None,
        stream: Any = None,
    ) -> KeyRanges:
        """The keys of each range; otherwise like :meth:`Index.range`."""
        return KeyRanges(*self._range(starts, ends, inclusive, limit, stream))

    def scan(self, starts: ArrayLike, limit: int, *, stream: Any = None) -> KeyScans:
        """The first keys that are not below each of `starts`; otherwise like :meth:`Index.scan`."""
        return KeyScans(*self._scan(starts, limit, stream))

    def insert(self, keys: ArrayLike, *, stream: Any = None) -> UpdateReport:
        """Insert keys; those that were there count as replaced. Otherwise like :meth:`Index.insert`."""
        return self._change(INSERT, keys, stream)

    def remove(self, keys: ArrayLike, *, stream: Any = None) -> UpdateReport:
        """Remove the keys that are present."""
        return self._change(REMOVE, keys, stream)

    def _change(self, kind: int, keys: ArrayLike, stream: Any) -> UpdateReport:
        raw, _, on = self._pairs_on(keys, None, None, stream)
        return UpdateReport(*self._index.apply(kind, raw, None, on))

    def _parts(self) -> tuple[Any, ...]:
        return (self.keys(),)

    def first(self) -> Any:
        """The first key: :meth:`min`."""
        return self.min()

    def last(self) -> Any:
        """The last key: :meth:`max`."""
        return self.max()

    def __getitem__(self, keys: slice) -> "Set":
        """A set of the keys of a slice, both bounds inclusive, as of :meth:`range`: ``keys[10:20]``."""
        if not isinstance(keys, slice):
            raise TypeError(f"a Set has no values for [{keys!r}]: write `key in keys`, or keys[start:stop] for a set of a range")
        return self._slice(keys)
