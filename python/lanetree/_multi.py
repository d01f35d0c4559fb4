"""Keys with any number of values: :class:`MultiIndex`."""

from __future__ import annotations

import os
from typing import Any, Iterator, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _joins, _native, _progress
from ._arrays import Array, ArrayLike, Found
from ._device import Device
from ._columns import KeyNulls
from ._held import Keyed
from ._joins import How, Probes
from ._index import Inclusive, Ranges, _closed, _distance, _limit, _note, _read, _restore, _unpickled
from ._progress import Progress


class ValueRows(NamedTuple):
    """The values of a batch of keys, in compressed sparse rows: the values of key ``i`` are ``offsets[i]:offsets[i + 1]``."""

    offsets: Any
    values: Any


class ChangeReport(NamedTuple):
    """What a batch of changes did, in numbers of pairs."""

    #: Pairs that were inserted.
    inserted: int
    #: Pairs that were removed.
    removed: int
    #: Elements of the batch that found nothing to remove.
    unmatched: int


class MultiIndex(Keyed):
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

    __slots__ = ("value_dtype",)
    _index: _native.Multi

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
        self.value_dtype = own_values.dtype
        word = _arrays.word_of(self.key_dtype, "keys")
        _arrays.word_of(self.value_dtype, "values")
        with _progress.waiting(progress, len(own_keys.raw), "building an index of"):
            self._index = _native.Multi(
                self.device._native, word, own_keys.raw, own_values.raw, self.value_dtype.itemsize, on
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
        if _arrays.on_device(queries):
            column, on = self._on(queries, stream, "the queries")
            offsets, _, values = self._index.get(column._memory, on)
            return ValueRows(Array(offsets, np.dtype(np.int64), self.device), Array(values, self.value_dtype, self.device))
        rows = self._rows((queries, "the queries"))
        offsets, _, values = self._index.get(rows.columns[0])
        return ValueRows(rows.spread(offsets), values.view(self.value_dtype))

    def count(self, queries: ArrayLike, *, stream: Any = None) -> Any:
        """How many values each of `queries` has: int64, of the shape of the queries; otherwise like :meth:`Index.contains`."""
        if _arrays.on_device(queries):
            column, on = self._on(queries, stream, "the queries")
            counts = _arrays.empty(self.device, column.size, np.dtype(np.int64))
            self._index.count(column._memory, counts._memory, on)
            return counts
        raw, shape, missing = self._queries(queries)
        out = np.empty(raw.size, np.int64)
        self._index.count(raw, out)
        _arrays.erase(missing, (out, 0))
        return out.reshape(shape)[()]

    def contains(self, queries: ArrayLike, *, stream: Any = None) -> Any:
        """Whether each of `queries` is a key of the index; otherwise like :meth:`Index.contains`."""
        return self._one(queries, False, False, 0, stream)[1]

    def first(self, queries: ArrayLike, *, default: Any = 0, stream: Any = None) -> Any:
        """The value of each of `queries` that was inserted first, and whether there is one; otherwise like :meth:`Index.get`.

        Parameters
        ----------
        queries : array_like
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
        return self._one(queries, False, True, default, stream)

    def last(self, queries: ArrayLike, *, default: Any = 0, stream: Any = None) -> Any:
        """The value of each of `queries` that was inserted last, and whether there is one; otherwise like :meth:`first`."""
        return self._one(queries, True, True, default, stream)

    def _one(self, queries: ArrayLike, is_last: bool, has_values: bool, default: Any, stream: Any) -> Found:
        miss, is_there = _arrays.word(default, self.value_dtype), np.dtype(np.bool_)
        values: Any = None
        if _arrays.on_device(queries):
            column, on = self._on(queries, stream)
            values = _arrays.empty(self.device, column.size, self.value_dtype) if has_values else None
            found = _arrays.empty(self.device, column.size, is_there)
            self._index.one(column._memory, is_last, values._memory if has_values else None, found._memory, miss, on)
            return Found(values, found)
        raw, shape, missing = self._queries(queries)
        values = np.empty(raw.size, self.value_dtype) if has_values else None
        hits = np.empty(raw.size, is_there)
        self._index.one(raw, is_last, values, hits, miss)
        _arrays.erase(missing, (hits, 0), *[(values, miss)][:has_values])
        return Found(values.reshape(shape)[()] if has_values else None, hits.reshape(shape)[()])

    def searchsorted(self, queries: ArrayLike, side: Literal["left", "right"] = "left", *, stream: Any = None) -> Any:
        """How many pairs have keys below each of `queries`, or for "right" not above; otherwise like :meth:`Index.searchsorted`."""
        if side not in ("left", "right"):
            raise ValueError(f"side is {side!r}, where 'left' or 'right' is needed")
        if _arrays.on_device(queries):
            column, on = self._on(queries, stream)
            ranks = _arrays.empty(self.device, column.size, np.dtype(np.int64))
            self._index.rank(column._memory, side == "right", ranks._memory, on)
            return ranks
        raw, shape = self._ranked(queries)
        out = np.empty(raw.size, np.int64)
        self._index.rank(raw, side == "right", out)
        return out.reshape(shape)[()]

    def predecessor(self, queries: ArrayLike, *, default: Any = 0, stream: Any = None) -> tuple[Any, Any, Any]:
        """The last pair whose key is not above each of `queries`, of equal keys the one that was inserted last.

        Otherwise like :meth:`Index.predecessor`.
        """
        return self._neighbor(queries, True, default, stream)

    def successor(self, queries: ArrayLike, *, default: Any = 0, stream: Any = None) -> tuple[Any, Any, Any]:
        """The first pair whose key is not below each of `queries`; otherwise like :meth:`predecessor`."""
        return self._neighbor(queries, False, default, stream)

    def _neighbor(self, queries: ArrayLike, predecessor: bool, default: Any, stream: Any) -> tuple[Any, Any, Any]:
        miss, dtypes = _arrays.word(default, self.value_dtype), (self.key_dtype, self.value_dtype, np.dtype(np.bool_))
        if _arrays.on_device(queries):
            column, on = self._on(queries, stream)
            keys, values, found = (_arrays.empty(self.device, column.size, dtype) for dtype in dtypes)
            self._index.neighbor(column._memory, predecessor, keys._memory, values._memory, found._memory, miss, on)
            return keys, values, found
        raw, shape, missing = self._queries(queries)
        near, host_values, hits = (np.empty(raw.size, dtype) for dtype in dtypes)
        self._index.neighbor(raw, predecessor, near, host_values, hits, miss)
        _arrays.erase(missing, (near, 0), (host_values, miss), (hits, 0))
        return near.reshape(shape)[()], host_values.reshape(shape)[()], hits.reshape(shape)[()]

    def range(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        *,
        inclusive: Inclusive = "both",
        limit: int | None = None,
        stream: Any = None,
    ) -> Ranges:
        """The pairs of each range; otherwise like :meth:`Index.range`."""
        closed, most = _closed(inclusive), _limit(limit)
        if _arrays.on_device(starts):
            first, on = self._on(starts, stream, "the starts")
            last = _arrays.to_device(ends, self.key_dtype, "the ends", self.device, on)
            offsets, keys, values = self._index.range(first._memory, last._memory, closed, most, on)
            columns = (offsets, np.dtype(np.int64)), (keys, self.key_dtype), (values, self.value_dtype)
            return Ranges(*(Array(memory, dtype, self.device) for memory, dtype in columns))
        rows = self._rows((starts, "the starts"), (ends, "the ends"))
        lows, highs = rows.columns
        offsets, keys, values = self._index.range(lows, highs, closed, most)
        return Ranges(rows.spread(offsets), keys.view(self.key_dtype), values.view(self.value_dtype))

    def count_range(self, starts: ArrayLike, ends: ArrayLike, *, inclusive: Inclusive = "both", stream: Any = None) -> Any:
        """How many pairs each range has; otherwise like :meth:`Index.count_range`."""
        closed = _closed(inclusive)
        if _arrays.on_device(starts):
            first, on = self._on(starts, stream, "the starts")
            last = _arrays.to_device(ends, self.key_dtype, "the ends", self.device, on)
            counts = _arrays.empty(self.device, first.size, np.dtype(np.int64))
            self._index.count_range(first._memory, last._memory, closed, counts._memory, on)
            return counts
        rows = self._rows((starts, "the starts"), (ends, "the ends"))
        lows, highs = rows.columns
        out = np.empty(lows.size, np.int64)
        self._index.count_range(lows, highs, closed, out)
        return rows.fill(out).reshape(rows.shape)[()]

    def join(
        self,
        probes: ArrayLike,
        how: How = "inner",
        *,
        valid: ArrayLike | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Any:
        """Joins rows of probes with the index, by key.

        Parameters
        ----------
        probes : array_like
            Keys, of the index's dtype, in one dimension, some of which may be null, as in :meth:`Index.join`.
        how : {"inner", "left", "semi", "anti"}, default "inner"
        valid : array_like, optional
            As in :meth:`Index.join`.
        stream : optional
            As in :meth:`Index.contains`. The call waits, to learn how many matches there are.
        progress : bool or callable, optional
            As for a build: the call is one piece.

        Returns
        -------
        (left, values) : arrays
            For "inner": a row for each pair of a probe with a value of its key, in the order of the probes. For "left" in addition one
            for each probe that is absent, at its place, and whether there is a value, which is 0 if not: ``(left, values, found)``.
        left : array of int64
            For "semi" the probes that are present, for "anti" those that are not.
        """
        _joins.check(how)
        with _progress.waiting(progress, len(probes) if progress else 0, "joining"):
            return self._joined(probes, how, valid, stream)

    def _joined(self, probes: ArrayLike, how: How, valid: ArrayLike | None, stream: Any) -> Any:
        if _arrays.on_device(probes):
            column, on = self._on(probes, stream, "the probes")
            given = _joins.bitmap(valid, column.size, self.device, on)
            return _joins.on_device(self._index.join(column._memory, how, given, on), self.device, self.value_dtype)
        rows = Probes(valid, self.nulls, (probes, self.key_dtype, "the probes"))
        if how in ("semi", "anti"):
            return rows.join(how, self.contains(rows.columns[0]))
        offsets, values = self.get(rows.columns[0])
        return rows.join(how, np.diff(offsets), values)

    def range_join(
        self,
        lows: ArrayLike,
        highs: ArrayLike,
        how: How = "inner",
        *,
        inclusive: Inclusive = "both",
        valid: ArrayLike | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Any:
        """Joins ranges with the pairs whose keys are in them: a row for each value, in the order of the keys, and of one key in that in
        which its values were inserted. The columns are named as in :meth:`join`; otherwise like :meth:`Index.range_join`.
        """
        return self._join_between(lows, highs, how, (_closed(inclusive), None), valid, stream, progress)

    def band_join(
        self,
        probes: ArrayLike,
        distance: Any,
        how: How = "inner",
        *,
        valid: ArrayLike | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Any:
        """Joins probes with the pairs whose keys are at most `distance` away, as :meth:`Index.band_join`; otherwise like :meth:`range_join`."""
        far = _distance(distance, self.key_dtype)
        return self._join_between(probes, probes, how, ((True, True), far), valid, stream, progress)

    def _join_between(
        self,
        lows: ArrayLike,
        highs: ArrayLike,
        how: How,
        by: tuple[tuple[bool, bool], int | None],
        valid: ArrayLike | None,
        stream: Any,
        progress: Progress,
    ) -> Any:
        _joins.check(how)
        with _progress.waiting(progress, len(lows) if progress else 0, "joining"):
            if _arrays.on_device(lows):
                first, on = self._on(lows, stream, "the lows")
                last = first if highs is lows else _arrays.to_device(highs, self.key_dtype, "the highs", self.device, on)
                given = _joins.bitmap(valid, first.size, self.device, on)
                made = self._index.join_between(first._memory, last._memory, *by, how, given, on)
                return _joins.on_device(made, self.device, self.value_dtype)
            columns = [(lows, self.key_dtype, "the lows"), (highs, self.key_dtype, "the highs")]
            rows = Probes(valid, self.nulls, *columns[: 1 if highs is lows else 2])
            has_rows = how in ("inner", "left")
            offsets, _, values = self._index.rows_between(rows.columns[0], rows.columns[-1], *by, has_rows)
            return rows.join(how, np.diff(offsets), values.view(self.value_dtype))

    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All pairs, in ascending order of their keys: two arrays in host memory."""
        _, keys, values = self._index.pairs()
        return keys.view(self.key_dtype), values.view(self.value_dtype)

    def keys(self) -> npt.NDArray[Any]:
        """The key of every pair, in ascending order."""
        return self.items()[0]

    def values(self) -> npt.NDArray[Any]:
        """All values, in the order of their keys."""
        return self.items()[1]

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
        if _arrays.on_device(keys):
            column, on = self._on(keys, stream, "the keys")
            given = _arrays.to_device(values, self.value_dtype, "the values", self.device, on)
            return ChangeReport(*self._index.insert(column._memory, given._memory, on))
        raw = _arrays.flat(_arrays.host(values, self.value_dtype, "the values", True))
        return ChangeReport(*self._index.insert(self._keys(keys), raw))

    def remove(self, keys: ArrayLike, values: ArrayLike | None = None, *, stream: Any = None) -> ChangeReport:
        """Remove all pairs of each key, or, with `values`, the first pair of each key with an equal value. All or nothing."""
        if _arrays.on_device(keys):
            if values is not None:
                raise ValueError("pairs to remove are arrays in host memory")
            column, on = self._on(keys, stream, "the keys")
            return ChangeReport(*self._index.remove(column._memory, None, on))
        raw = None if values is None else _arrays.flat(_arrays.host(values, self.value_dtype, "the values", True))
        return ChangeReport(*self._index.remove(self._keys(keys, False), raw))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save all pairs to a file, in place of one that is there; otherwise like :meth:`Index.save`.

        The file is one of a multi-map: :meth:`load` alone makes an index of it.
        """
        keys, values = self.items()
        note = _note(self.key_dtype, self.value_dtype, self.nulls)
        name = _arrays.word_of(self.key_dtype, "keys")
        _native.write_file(os.fspath(path), name, keys, values, self.value_dtype.itemsize, True, note)

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
        keys, values, _, nulls = _read(path, key_dtype, value_dtype)
        if values is None:
            raise TypeError("the file is a set's, without values: use Set.load")
        return _restore(cls, (keys, values), Device(device), None, nulls)

    def __contains__(self, key: object) -> bool:
        return bool(self.contains(key))

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """All values of one key, or a KeyError."""
        values: npt.NDArray[Any] = self.get([key]).values
        if values.size == 0:
            raise KeyError(key)
        return values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys().tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (MultiIndex, self.items(), self.device.name, None, self.nulls)

    def to(self, device: str | Device) -> "MultiIndex":
        """A copy of the index on another device."""
        return _restore(MultiIndex, self.items(), device, None, self.nulls)

    def _contents(self) -> str:
        return f"{len(self):,} pairs of {self.stats()['keys']:,} keys, {self.key_dtype} -> {self.value_dtype}"
