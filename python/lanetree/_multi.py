"""Keys with any number of values: :class:`MultiIndex`."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from . import _arrays, _files, _native, _progress
from ._arrays import ArrayLike, Found, Output
from ._columns import KeyNulls
from ._device import Device
from ._held import _BOOL, _INT64, restored
from ._joins import How
from ._pairs import NumberPairs
from ._progress import Progress


class ValueRows(NamedTuple):
    """The values of a batch of keys, in compressed sparse rows: the values of key ``i`` are ``offsets[i]:offsets[i + 1]``."""

    offsets: Output
    values: Output


class ChangeReport(NamedTuple):
    """What a batch of changes did, in numbers of pairs."""

    #: Pairs that were inserted.
    inserted: int
    #: Pairs that were removed.
    removed: int
    #: Elements of the batch that found nothing to remove.
    unmatched: int


def _report(done: tuple[int, int, int, int, str]) -> ChangeReport:
    inserted, _, removed, unmatched, _ = done
    return ChangeReport(inserted, removed, unmatched)


class MultiIndex(NumberPairs[tuple[Output, ...]]):
    """An ordered index of keys with any number of values each, in the order in which they were inserted.

    Parameters
    ----------
    keys, values, device, key_dtype, nulls, stream, progress
        As for :class:`Index`; no pair replaces another.

    Notes
    -----
    A batch of changes makes the whole index anew, whatever its size: many small changes are better made as few large ones.

    Examples
    --------
    >>> index = lanetree.MultiIndex(np.array([5, 3, 5]), np.array([50, 30, 51]), device="cpu")
    >>> index.get(np.array([5, 4, 3]))
    ValueRows(offsets=array([0, 2, 2, 3]), values=array([50, 51, 30]))
    """

    __slots__ = ("_value",)
    _index: _native.Multi
    _value: np.dtype[Any]
    _has_several = True

    def __init__(
        self,
        keys: ArrayLike,
        values: ArrayLike | None = None,
        device: str | Device | None = None,
        *,
        key_dtype: npt.DTypeLike | None = None,
        nulls: KeyNulls = "error",
        stream: Any = None,
        progress: Progress = None,
    ) -> None:
        on, (own_keys, own_values) = self._take(nulls, key_dtype, device, stream, keys, values)
        self._value, self._numbers = own_values.dtype, None
        word = _arrays.word_of(self.key_dtype, "keys")
        _arrays.word_of(self._value, "values")
        with _progress.waiting(progress, len(own_keys.raw), "building an index of"):
            self._index = _native.Multi(
                self.device._native, word, own_keys.raw, own_values.raw, self._value.itemsize, on
            )

    def get(self, queries: ArrayLike, *, stream: Any = None) -> ValueRows:
        """All values of each of `queries`, in the order in which they were inserted; none of a key that is absent.

        Parameters
        ----------
        queries : array_like
            Keys, of the index's dtype, in one dimension.
        stream : optional
            As in :meth:`Index.contains`. The call waits, to learn how many values there are.

        Returns
        -------
        ValueRows
            ``(offsets, values)``
        """
        find = lambda queries, on: self._index.get(queries[0], on)
        return ValueRows(*self._ranges(find, (None, self._value), (queries, "the queries"), stream=stream))

    def count(self, queries: ArrayLike, *, stream: Any = None) -> Output:
        """How many values each of `queries` has: int64, of the shape of the queries; otherwise like :meth:`Index.contains`."""
        count = lambda queries, counts, on: self._index.count(queries, counts[0], on)
        return self._results(count, queries, ((_INT64, 0),), None, stream)[0]

    def _find(self, keys: Any, found: Any, on: _native.Stream | None) -> None:
        self._index.one(keys, False, (None, found[0], 0), on)

    def _count(self, bounds: Any, closed: tuple[bool, bool], counts: Any, on: _native.Stream | None) -> None:
        self._index.count_range(bounds, closed, counts, on)

    @overload
    def first(self) -> tuple[Any, Any]: ...
    @overload
    def first(self, queries: ArrayLike, *, default: Any = ..., stream: Any = ...) -> Found: ...
    def first(self, queries: ArrayLike | None = None, *, default: Any = 0, stream: Any = None) -> Any:
        """The value of each of `queries` that was inserted first, and whether there is one; otherwise like :meth:`Index.get`.

        Without queries, the first pair of the index: its key and value.

        Parameters
        ----------
        queries : array_like, optional
            Keys, of the index's dtype; any shape in host memory, one dimension on a device.
        default : scalar, default 0
            The value of keys that are absent.
        stream : optional
            As in :meth:`Index.contains`.

        Returns
        -------
        Found
            ``(values, found)``
        """
        return self._pair_at_end(False) if queries is None else self._one(queries, False, default, stream)

    @overload
    def last(self) -> tuple[Any, Any]: ...
    @overload
    def last(self, queries: ArrayLike, *, default: Any = ..., stream: Any = ...) -> Found: ...
    def last(self, queries: ArrayLike | None = None, *, default: Any = 0, stream: Any = None) -> Any:
        """The value of each of `queries` that was inserted last, and whether there is one; otherwise like :meth:`first`."""
        return self._pair_at_end(True) if queries is None else self._one(queries, True, default, stream)

    def _one(self, queries: ArrayLike, is_last: bool, default: Any, stream: Any) -> Found:
        miss = _arrays.word(default, self._value)
        find = lambda keys, made, on: self._index.one(keys, is_last, (*made, miss), on)
        return Found(*self._results(find, queries, ((self._value, miss), (_BOOL, 0)), None, stream))

    def _matches(self, keys: npt.NDArray[Any], how: How, progress: Progress) -> tuple[npt.NDArray[Any], ...]:
        if how in ("semi", "anti"):
            return (self.contains(keys),)
        offsets, values = self.get(keys)
        return np.diff(offsets), values

    def _rows_between(self, bounds: Any, how: How, by: tuple[tuple[bool, bool], int | None]) -> tuple[npt.NDArray[Any], ...]:
        offsets, _, values = self._index.rows_between(bounds, by, how in ("inner", "left"))
        return np.diff(offsets), values.view(self._value)

    def _raw_pairs(self) -> tuple[Any, ...]:
        return self._index.pairs()

    def insert(self, keys: ArrayLike, values: ArrayLike, *, stream: Any = None) -> ChangeReport:
        """Insert pairs: each value goes after those that its key has. All or nothing.

        Parameters
        ----------
        keys, values : array_like
            Of the index's dtypes.
        stream : optional
            As in :meth:`Index.contains`. The call returns when the index is changed.

        Returns
        -------
        ChangeReport
        """
        raw, given, on = self._pairs_on(keys, values, self._value, stream)
        return _report(self._index.insert(raw, given, on))

    def remove(self, keys: ArrayLike, values: ArrayLike | None = None, *, stream: Any = None) -> ChangeReport:
        """Remove all pairs of each key, or, with `values`, the first pair of each key with an equal value. All or nothing."""
        if values is not None and _arrays.on_device(keys):
            raise ValueError("pairs to remove are arrays in host memory")
        raw, given, on = self._pairs_on(keys, values, self._value, stream, is_new=False)
        return _report(self._index.remove(raw, given, on))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: str | Device | None = None,
        *,
        key_dtype: npt.DTypeLike | None = None,
        value_dtype: npt.DTypeLike | None = None,
    ) -> "MultiIndex":
        """An index over the pairs of a file, of a multi-map or of an index; otherwise like :meth:`Index.load`."""
        keys, values, _, nulls = _files.read_pairs(path, key_dtype, value_dtype)
        if values is None:
            raise TypeError("the file is a set's, without values: use Set.load")
        return restored(cls, (keys, values), Device(device), {}, nulls)

    def __getitem__(self, key: Any) -> Any:
        """All values of one key, or a KeyError; an index of the pairs of a slice of keys, both bounds inclusive, as of :meth:`range`."""
        if isinstance(key, slice):
            return self._slice(key)
        values: npt.NDArray[Any] = self.get([key]).values
        if values.size == 0:
            raise KeyError(key)
        return values

    def _contents(self) -> str:
        return f"{len(self):,} pairs of {self.stats()['keys']:,} keys, {self.key_dtype} -> {self._value}"
