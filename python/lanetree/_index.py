"""Keys with one value each: :class:`Index`."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _arrays, _files, _native, _progress
from ._arrays import Array, ArrayLike, Found
from ._columns import KeyNulls
from ._device import Device
from ._held import _BOOL, Pairs, restored
from ._joins import How
from ._nearby import Nearby
from ._options import INSERT, REMOVE, UPDATE, Inclusive, closed_of, limit_of
from ._progress import Progress
from ._results import Ranges, Scans, UpdateReport
from ._tree import Tree


class Index(Tree, Nearby, Pairs):
    """An ordered index of keys with one value each.

    Parameters
    ----------
    keys : array_like
        Keys in any order, in one dimension: uint32, uint64, int32, int64, float32, float64, datetime64 or timedelta64, or a column of a
        type that becomes one of these: narrower numbers, booleans, dates, instants in a time zone, dictionaries of numbers. In host
        memory also UUIDs, IPv6 addresses, decimals and 16 bytes (V16). Of equal keys the last one's value is kept. Floats are in the total order of IEEE 754: -0.0 is below 0.0, and NaNs are
        at both ends.
    values : array_like, optional
        A value for each key, of the same dtypes, but not of 16 bytes; by default their row numbers, int64.
    device : str, Device or None
        As for :class:`Device`. By default where the keys are if they are on a device, else the first GPU, else the CPU.
    fill : float, default 1.0
        The part of each bucket that the build is to fill. With 0.7, batches of inserts find room. Fewer slots are filled where keys
        are irregular: of random 64-bit keys 0.94 with 1, 0.65 with 0.7 (see ``stats``).
    is_sorted : bool, default False
        Whether keys ascend already; it is checked.
    key_dtype : dtype, optional
        What keys in a list become, and those of an array by a safe cast.
    nulls : {"error", "skip", "first", "last"}, default "error"
        What becomes of pairs of which the key or the value is missing: None, ``pandas.NA``, NaT, what a masked array masks, a null of
        Arrow, polars or pandas, and in keys of pandas NaN. As queries and bounds these find nothing, unless null is a key. With
        "first" and "last" null is a key, below or above all others, of the build, of queries and of changes in host memory; the lowest
        or highest key of the dtype stands for it (:attr:`null_key`), and no other key may be that one.
    stream : int or object with ``__cuda_stream__``, optional
        For keys on a device: the stream in whose order they are read; by default the producer's current one.
    progress : bool or callable, optional
        True shows the time of a build that takes more than a second, by tqdm where it is installed. A function is called with 0 and the
        number of pairs before it, and with that number twice after it.

    Raises
    ------
    TypeError
        For dtypes that indexes do not have, and casts that are not safe.
    lanetree.errors.LengthMismatch
        Unless there is one value per key.
    lanetree.errors.OutOfMemory
        If the device has no room.

    Notes
    -----
    Arrays in host memory are used in place if they are contiguous and aligned, and copied otherwise. So are arrays on a device,
    except that one which does not begin at a multiple of 256 bytes is copied there, in the stream's order.

    Threads may query an index at the same time; a change waits for them. The GIL is released during calls; do not change an
    array while a call reads it.

    Examples
    --------
    >>> index = lanetree.Index(np.array([30, 10, 20]), np.array([3, 1, 2]), device="cpu")
    >>> index.get(np.array([10, 15]))
    Found(values=array([1, 0]), found=array([ True, False]))
    """

    __slots__ = ("_value",)
    _value: np.dtype[Any]

    def __init__(
        self,
        keys: ArrayLike,
        values: ArrayLike | None = None,
        device: str | Device | None = None,
        *,
        fill: float = 1.0,
        is_sorted: bool = False,
        key_dtype: npt.DTypeLike | None = None,
        nulls: KeyNulls = "error",
        stream: Any = None,
        progress: Progress = None,
    ) -> None:
        dtype = self._build(keys, values, True, device, fill, is_sorted, key_dtype, nulls, stream, progress)
        assert dtype is not None
        self._value = dtype

    def get(
        self,
        queries: ArrayLike,
        *,
        default: Any = 0,
        out: tuple[Any, Any] | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Found | Any:
        """The value of each of `queries`, and whether it is present.

        Parameters
        ----------
        queries : array_like
            Keys, of the index's dtype; any shape in host memory, one dimension on a device. A missing one is not found.
        default : scalar, default 0
            The value of keys that are absent.
        out : (values, found), optional
            Arrays that take the results: contiguous, of the values' dtype and of bool, in the memory of the queries.
        stream : optional
            As in :meth:`contains`.
        progress : bool or callable, optional
            For queries in host memory. True shows a bar if the call takes more than a second, by tqdm where it is installed; a
            function is called with how many queries are done, and with their number. The call is made in pieces, and a change by
            another thread may come between two of them.

        Returns
        -------
        Found
            ``(values, found)``, of the shape of the queries. For queries on a device, each an :class:`Array`; for others, both together
            are an array of Arrow whose validity is `found`. With `out`, that.
        """
        miss = _arrays.word(default, self._value)
        exchange = _arrays.exchanges.get(type(queries))
        if exchange is not None and stream is None and self._numbers is not None:
            # What takes longest in a call with few queries are calls from Python: this is one.
            taking = exchange, self.device._native, self._numbers
            if out is None or type(out[0]) is type(out[1]) is type(queries):
                made = _native.get_of(self._index, queries, out, taking, miss)
                if made is not None:
                    return out or Found(Array(made[0], self._value, self.device), Array(made[1], _BOOL, self.device, made[2]))  # type: ignore[arg-type]
        find = lambda keys, made, on: self._index.get(keys, (*made, miss), on)
        found = self._results(find, queries, ((self._value, miss), (_BOOL, 0)), out, stream, progress, "get")
        return Found(*found) if out is None else out

    def __getitem__(self, key: Any) -> Any:
        """The value of one key, or a KeyError; the values of an array of keys, all of which must be present; an index of the pairs of a
        slice of keys, both bounds inclusive, as of :meth:`range`: ``index[10:20]``."""
        if isinstance(key, slice):
            return self._slice(key)
        values, found = self.get(key)
        if isinstance(values, Array):
            raise TypeError("index[...] is for keys in host memory: use get for arrays on a device")
        if not np.all(found):
            missing = np.asarray(key)[~np.asarray(found)] if np.ndim(key) else key
            raise KeyError(missing if np.ndim(key) == 0 else missing.flat[0])
        return values

    def range_last(self, starts: ArrayLike, ends: ArrayLike, k: int, *, inclusive: Inclusive = "both", stream: Any = None) -> Ranges:
        """The last pairs of each range, at most `k` of each, in descending order of their keys.

        For the first pairs of ranges, use :meth:`range` with a limit.

        Parameters
        ----------
        starts, ends, inclusive, stream
            As in :meth:`range`.
        k : int
            The most pairs of a range.

        Returns
        -------
        Ranges
            As of :meth:`range`, but for the order.
        """
        closed, most = closed_of(inclusive), limit_of(k)
        find = lambda bounds, on: self._index.range_last(bounds, closed, most, on)
        dtypes = self.key_dtype, self._value
        return Ranges(*self._ranges(find, dtypes, (starts, "the starts"), (ends, "the ends"), stream=stream))

    def scan(self, starts: ArrayLike, limit: int, *, stream: Any = None) -> Scans:
        """The first pairs whose keys are not below each of `starts`, at most `limit` of each.

        Returns
        -------
        Scans
            ``(counts, keys, values)``; keys and values have a row of `limit` for each start. On a device these are flat.
        """
        return Scans(*self._scan(starts, limit, stream))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: str | Device | None = None,
        *,
        fill: float = 1.0,
        key_dtype: npt.DTypeLike | None = None,
        value_dtype: npt.DTypeLike | None = None,
    ) -> "Index":
        """An index over the pairs of a file that :meth:`save`, or an index of the Rust library, has made.

        Parameters
        ----------
        path : path-like
        device, fill
            As for :class:`Index`.
        key_dtype, value_dtype : dtype, optional
            Other dtypes of the same size to see keys of integers and values as. By default they are what was saved; in a file of the
            Rust library, which has words of 32 or 64 bits, values are int32 or int64. Integers are seen as times, and times as
            integers, but no unit becomes another one.

        Raises
        ------
        lanetree.errors.NotFound, lanetree.errors.Io
            Both are an ``OSError``.
        lanetree.errors.Damaged, lanetree.errors.Unsupported
            For what is no such file, not whole, or newer.
        TypeError
            For a set's file, and for dtypes of another size.
        """
        keys, values, has_several, nulls = _files.read_pairs(path, key_dtype, value_dtype)
        if values is None:
            raise TypeError("the file is a set's, without values: use Set.load")
        _files.refuse_several(has_several)
        return restored(cls, (keys, values), Device(device), {"fill": fill, "is_sorted": True}, nulls)

    def _matches(self, keys: npt.NDArray[Any], how: How, progress: Progress) -> tuple[npt.NDArray[Any], ...]:
        values, found = self.get(keys, progress=progress)
        return found, values[found]

    def _rows_between(self, bounds: Any, how: How, by: tuple[tuple[bool, bool], int | None]) -> tuple[npt.NDArray[Any], ...]:
        closed, distance = by
        if how in ("semi", "anti"):
            # Which have a match is known without the matches.
            if distance is None:
                return (self._widths(bounds[0], bounds[1], closed) > 0,)
            return (self.asof(bounds[0], direction="nearest", tolerance=distance)[1],)
        offsets, keys, values = self._index.rows_between(bounds, by)
        return np.diff(offsets), keys.view(self.key_dtype), values.view(self._value)

    def insert(self, keys: ArrayLike, values: ArrayLike, *, stream: Any = None, progress: Progress = None) -> UpdateReport:
        """Insert pairs; the value of a key that is present is replaced. Of equal keys the last one's value is kept.

        Parameters
        ----------
        keys, values : array_like
            Of the index's dtypes.
        stream : optional
            As in :meth:`contains`. The call returns when the index is changed.
        progress : bool or callable, optional
            As for a build: the call is one piece.

        Raises
        ------
        lanetree.errors.OutOfMemory
            The index is as it was.
        lanetree.errors.Lost
            The device failed half-way, and the index cannot be used any more.
        """
        return self._change(INSERT, keys, values, stream, progress)

    def update(self, keys: ArrayLike, values: ArrayLike, *, stream: Any = None, progress: Progress = None) -> UpdateReport:
        """Replace the values of the keys that are present; otherwise like :meth:`insert`."""
        return self._change(UPDATE, keys, values, stream, progress)

    def remove(self, keys: ArrayLike, *, stream: Any = None, progress: Progress = None) -> UpdateReport:
        """Remove the keys that are present; otherwise like :meth:`insert`."""
        return self._change(REMOVE, keys, None, stream, progress)

    def apply(
        self, kinds: ArrayLike, keys: ArrayLike, values: ArrayLike, *, stream: Any = None, progress: Progress = None
    ) -> UpdateReport:
        """Apply a batch of operations, with the effect of one after another.

        Parameters
        ----------
        kinds : array_like of uint32
            ``lanetree.INSERT``, ``UPDATE`` or ``REMOVE`` for each key.
        keys, values : array_like
            Of the index's dtypes; the values of removals are not read.
        stream, progress : optional
            As in :meth:`insert`.

        Returns
        -------
        UpdateReport
        """
        return self._change(kinds, keys, values, stream, progress)

    def _change(self, kinds: Any, keys: ArrayLike, values: ArrayLike | None, stream: Any, progress: Progress) -> UpdateReport:
        with _progress.waiting(progress, len(keys) if progress else 0, "changing an index by"):
            return self._changed(kinds, keys, values, stream)

    def _changed(self, kinds: Any, keys: ArrayLike, values: ArrayLike | None, stream: Any) -> UpdateReport:
        raw, raw_values, on = self._pairs_on(keys, values, self._value, stream)
        if not isinstance(kinds, int):
            if _arrays.on_device(keys):
                kinds = _arrays.to_device(kinds, np.dtype(np.uint32), "the kinds", self.device, on)._memory
            else:
                kinds = _arrays.flat(_arrays.host(kinds, np.dtype(np.uint32), "the kinds"))
                if kinds.size != raw.size:
                    raise ValueError(f"{kinds.size} kinds for {raw.size} keys: give one of each per operation")
        return UpdateReport(*self._index.apply(kinds, raw, raw_values, on))

    def map(self, column: ArrayLike) -> Any:
        """The value of each key of a column, as :meth:`pandas.Series.map` has it.

        Parameters
        ----------
        column : array_like
            Keys in host memory.

        Returns
        -------
        column
            Of the library of `column`, with its index and name: a Series of pandas or polars, an array of pyarrow, else an array of NumPy.
            What is not found is null, and for pandas and NumPy NaN or NaT, as in :meth:`Found.to_numpy`.
        """
        return _arrays.column_like(self.get(column), column)
