"""Indexes over numbers: :class:`Index` and :class:`Set`."""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _joins, _missing, _native, _progress, errors
from ._arrays import Array, ArrayLike, Found, Output
from ._device import Device
from ._columns import KeyNulls
from ._held import Pairs, Sorted, restored
from ._joins import How, Probes, Ties
from ._progress import Progress

Inclusive = Literal["both", "left", "right", "neither"]
Direction = Literal["backward", "forward", "nearest"]
_CLOSED = {"both": (True, True), "left": (True, False), "right": (False, True), "neither": (False, False)}
_MOST = 2**64 - 1
_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
#: The dtypes of keys, by their native names.
_KEY_OF = {name: np.dtype(dtype) for dtype, name in _arrays._KEYS.items()}

#: Kinds of operations, for :meth:`Index.apply`.
INSERT, UPDATE, REMOVE = 0, 1, 2


class UpdateReport(NamedTuple):
    """What a batch of changes did, in numbers of distinct keys."""

    #: Keys that were not there, and are.
    inserted: int
    #: Keys that were there and were given a value.
    replaced: int
    #: Keys that were there, and are not.
    removed: int
    #: Keys that were there neither before nor after.
    unmatched: int
    #: ``"Unchanged"``, ``"InPlace"``, ``"Moved"`` or ``"Rebuilt"``.
    path: str


class Ranges(NamedTuple):
    """The pairs of a batch of ranges, in compressed sparse rows: the pairs of range ``i`` are ``offsets[i]:offsets[i + 1]``."""

    offsets: Output
    keys: Output
    values: Output


class KeyRanges(NamedTuple):
    """The keys of a batch of ranges in a set, in compressed sparse rows."""

    offsets: Output
    keys: Output


class Scans(NamedTuple):
    """The first pairs from each key on: row ``i`` has ``counts[i]`` of them; the rest of the row is 0."""

    counts: Output
    keys: Output
    values: Output


class RangeMatches(NamedTuple):
    """The matches of a join by ranges: a row for each pair of a probe and a pair of the index."""

    #: The number of the probe, int64, in ascending order.
    left: Output
    #: The pair's key; of a probe they ascend.
    keys: Output
    #: The pair's value.
    values: Output


class KeyScans(NamedTuple):
    """The first keys of a set from each key on."""

    counts: Output
    keys: Output


_Self = TypeVar("_Self", bound="_Tree")


class _Tree(Sorted):
    """What indexes with and without values have in common."""

    __slots__ = ("_numbers", "fill")
    _index: _native.Tree
    #: DLPack's numbers of the types of keys, values and hits, for arrays that are taken in a look-up's own native call; None where none
    #: are.
    _numbers: tuple[int, int, int] | None
    fill: float

    #: The dtype of values, or None.
    _value: np.dtype[Any] | None

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
        if self.device.kind == "cuda":
            key, value, hit = (0 if it is None else _arrays.number_of(it) for it in (self.key_dtype, dtype, _BOOL))
            self._numbers = key, value, hit
        if is_sorted and word[0] == "f" and isinstance(raw_keys, np.ndarray):
            # The native code would name words, not numbers.
            below = np.flatnonzero(raw_keys[1:] < raw_keys[:-1])
            if below.size:
                i = int(below[0]) + 1
                raise errors.NotSorted(
                    f"keys[{i}] = {raw_keys[i]} is below keys[{i - 1}] = {raw_keys[i - 1]}: sort the pairs, or use the build that sorts them"
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

    def contains(self, queries: ArrayLike, *, out: Any = None, stream: Any = None, progress: Progress = None) -> Output:
        """Whether each of `queries` is a key of the index.

        Parameters
        ----------
        queries : array_like
            Keys, of the index's dtype; any shape in host memory, one dimension on a device. A missing one is not found.
        out : array of bool, optional
            What takes the results, as in :meth:`Index.get`.
        stream : int or object with ``__cuda_stream__``, optional
            For queries on a device: the stream of the work; by default the producer's current one.
        progress : bool or callable, optional
            As in :meth:`Index.get`.

        Returns
        -------
        array of bool
            Of the shape of the queries; for queries on a device, an :class:`Array`. With `out`, that.
        """
        exchange = _arrays.exchanges.get(type(queries))
        if exchange is not None and stream is None and out is None and self._numbers is not None:
            key, _, hit = self._numbers
            made = _native.get_of(self._index, queries, None, (exchange, self.device._native, (key, 0, hit)), 0)
            if made is not None:
                return Array(made[1], _BOOL, self.device, made[2])  # type: ignore[return-value]
        find = lambda keys, found, on: self._index.get(keys, (None, found[0], 0), on)
        return self._results(find, queries, ((_BOOL, 0),), None if out is None else (out,), stream, progress, "contains")[0]

    def searchsorted(
        self,
        queries: ArrayLike,
        side: Literal["left", "right"] = "left",
        *,
        out: Any = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Output:
        """The rank of each of `queries`, with the meaning of :func:`numpy.searchsorted` over the sorted keys.

        Parameters
        ----------
        queries : array_like
            Keys, of the index's dtype, none of which is missing.
        side : {"left", "right"}, default "left"
            "left" counts the keys below a query, "right" those not above it.
        out : array of int64, optional
            What takes the results, as in :meth:`Index.get`.
        stream : optional
            As in :meth:`contains`.
        progress : bool or callable, optional
            As in :meth:`Index.get`.

        Returns
        -------
        array of int64
        """
        if side not in ("left", "right"):
            raise ValueError(f"side is {side!r}, where 'left' or 'right' is needed")
        upper = side == "right"
        exchange = _arrays.exchanges.get(type(queries))
        if exchange is not None and stream is None and out is None and self._numbers is not None:
            taken = _native.rank_of(self._index, queries, upper, (exchange, self.device._native, self._numbers))
            if taken is not None:
                return Array(taken, _INT64, self.device)  # type: ignore[return-value]
        find = lambda keys, ranks, on: self._index.rank(keys, upper, ranks[0], on)
        outputs = None if out is None else (out,)
        return self._results(find, queries, ((_INT64, 0),), outputs, stream, progress, "searchsorted", is_rank=True)[0]

    def lower_bound(self, queries: ArrayLike, *, stream: Any = None) -> Output:
        """How many keys are below each of `queries`: ``searchsorted(queries, "left")``."""
        return self.searchsorted(queries, "left", stream=stream)

    def upper_bound(self, queries: ArrayLike, *, stream: Any = None) -> Output:
        """How many keys are not above each of `queries`: ``searchsorted(queries, "right")``."""
        return self.searchsorted(queries, "right", stream=stream)

    def rank(self, queries: ArrayLike, *, stream: Any = None) -> Output:
        """How many keys are below each of `queries`; the same as :meth:`lower_bound`."""
        return self.searchsorted(queries, "left", stream=stream)

    def count_range(self, starts: ArrayLike, ends: ArrayLike, *, inclusive: Inclusive = "both", stream: Any = None) -> Output:
        """How many keys each range has.

        Parameters
        ----------
        starts, ends : array_like
            The bounds, of the index's dtype. A range that ends before it starts has none, nor one of which a bound is missing.
        inclusive : {"both", "left", "right", "neither"}, default "both"
            Which bounds belong to a range, as in :meth:`pandas.Series.between`.
        stream : optional
            As in :meth:`contains`.

        Returns
        -------
        array of int64
        """
        closed = _closed(inclusive)

        def count(bounds: Any, counts: Any, on: _native.Stream | None) -> None:
            if isinstance(counts, np.ndarray):
                np.maximum(self._widths(bounds[0], bounds[1], closed), 0, out=counts)
            else:
                self._index.count(bounds, closed, counts, on)

        return self._counts(count, (starts, "the starts"), (ends, "the ends"), stream=stream)

    def _widths(self, starts: npt.NDArray[Any], ends: npt.NDArray[Any], closed: tuple[bool, bool]) -> npt.NDArray[Any]:
        """How many keys each range has; below 0 for some that end before they start."""
        lower, upper = np.empty(starts.size, _INT64), np.empty(ends.size, _INT64)
        self._index.rank(starts, not closed[0], lower)
        self._index.rank(ends, closed[1], upper)
        return upper - lower

    def _range(
        self, starts: ArrayLike, ends: ArrayLike, inclusive: Inclusive, limit: int | None, stream: Any
    ) -> list[Any]:
        closed, most = _closed(inclusive), _limit(limit)
        find = lambda bounds, on: self._index.range(bounds, closed, most, on)
        return self._ranges(find, (self.key_dtype, self._value), (starts, "the starts"), (ends, "the ends"), stream=stream)

    def _pairs(self) -> tuple[Any, Any]:
        _, keys, values = self._index.pairs(False)
        return keys.view(self.key_dtype), values

    def keys(self) -> npt.NDArray[Any]:
        """All keys, in ascending order."""
        keys: npt.NDArray[Any] = self._pairs()[0]
        return keys

    def _combined(self: _Self, other: _Self, how: str) -> _Self:
        if type(other) is not type(self):
            raise TypeError(f"a {type(self).__name__} and a {type(other).__name__} cannot be combined: use two of one kind")
        if self.nulls != other.nulls:
            raise TypeError(f"nulls are {self.nulls!r} here and {other.nulls!r} there: build one index anew")
        if self.key_dtype.kind == "M":
            _missing.check_zones(other.key_dtype, self.key_dtype, "the keys of the other index")
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
        return self.union(other) if isinstance(other, _Tree) else NotImplemented

    def __and__(self: _Self, other: _Self) -> _Self:
        return self.intersection(other) if isinstance(other, _Tree) else NotImplemented

    def __sub__(self: _Self, other: _Self) -> _Self:
        return self.difference(other) if isinstance(other, _Tree) else NotImplemented

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save all pairs to a file, in place of one that is there; :meth:`load` makes an index of it.

        The file is written under another name in the same folder, synced, and renamed: after a crash the path has the old file or the
        new one. It has sorted pairs with checksums, which every index of the Rust library over the same types loads, too, and the
        dtypes.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        lanetree.errors.Io
            An ``OSError``; the path has the old file.
        """
        keys, values = self._pairs()
        key = _arrays.word_of(self.key_dtype, "keys")
        width = 0 if self._value is None else self._value.itemsize
        note = _note(self.key_dtype, self._value, self.nulls)
        _native.write_file(os.fspath(path), key, keys, values, width, False, note)

    def _contents(self) -> str:
        values = "" if self._value is None else f" -> {self._value}"
        noun = "keys" if self._value is None else "pairs"
        return f"{len(self):,} {noun}, {self.key_dtype}{values}"


class Index(_Tree, Pairs):
    """An ordered index of keys with one value each.

    Parameters
    ----------
    keys : array_like
        Keys in any order, in one dimension: uint32, uint64, int32, int64, float32, float64, datetime64 or timedelta64, or a column of a
        type that becomes one of these: narrower numbers, booleans, dates, instants in a time zone, dictionaries of numbers. Of
        equal keys the last one's value is kept. Floats are in the total order of IEEE 754: -0.0 is below 0.0, and NaNs are
        at both ends.
    values : array_like, optional
        A value for each key, of the same dtypes; by default their row numbers, int64.
    device : str, Device or None
        As for :class:`Device`. By default where the keys are if they are on a device, else the first GPU, else the CPU.
    fill : float, default 1.0
        The part of each bucket that the build is to fill. With 0.7, batches of inserts find room. Fewer slots are filled where keys
        are irregular: of random 64-bit keys 0.94 with 1, 0.59 with 0.7 (see ``stats``).
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

    @property
    def value_dtype(self) -> np.dtype[Any]:
        """The dtype of values."""
        return self._value

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

    def predecessor(
        self, queries: ArrayLike, *, default: Any = 0, stream: Any = None, progress: Progress = None
    ) -> tuple[Output, Output, Output]:
        """The last pair whose key is not above each of `queries`.

        Parameters
        ----------
        queries : array_like
            Keys, of the index's dtype.
        default : scalar, default 0
            The value where there is none.
        stream : optional
            As in :meth:`contains`.
        progress : bool or callable, optional
            As in :meth:`get`.

        Returns
        -------
        keys, values : array
            Where there is none, the key is 0 in host memory and any on a device, and the value is `default`.
        found : array of bool
        """
        return self._neighbor(queries, True, default, stream, progress)

    def successor(
        self, queries: ArrayLike, *, default: Any = 0, stream: Any = None, progress: Progress = None
    ) -> tuple[Output, Output, Output]:
        """The first pair whose key is not below each of `queries`; otherwise like :meth:`predecessor`."""
        return self._neighbor(queries, False, default, stream, progress)

    def _neighbor(
        self, queries: ArrayLike, predecessor: bool, default: Any, stream: Any, progress: Progress = None
    ) -> tuple[Output, Output, Output]:
        miss = _arrays.word(default, self._value)
        find = lambda keys, made, on: self._index.neighbor(keys, predecessor, made[0], (*made[1:], miss), on)
        outputs = (self.key_dtype, 0), (self._value, miss), (_BOOL, 0)
        near, values, found = self._results(find, queries, outputs, None, stream, progress, "neighbours")
        return near, values, found

    def asof(
        self,
        at: ArrayLike,
        *,
        direction: Direction = "backward",
        tolerance: Any = None,
        allow_exact_matches: bool = True,
        ties: Literal["backward", "forward"] = "backward",
        default: Any = 0,
        out: tuple[Any, Any] | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Found | Any:
        """The value of the nearest key on one side of each of `at`, as :func:`pandas.merge_asof` matches rows.

        :class:`GroupedIndex` does so within groups (`by`).

        Parameters
        ----------
        at : array_like
            Keys, of the index's dtype.
        direction : {"backward", "forward", "nearest"}, default "backward"
            The last key that is not above, the first that is not below, or the nearer of both. "nearest" is for floats in host memory
            only.
        tolerance : scalar, optional
            The largest distance of a match: in the units of the keys, or of datetimes a timedelta64, timedelta or Timedelta, which is
            exact whatever its unit. For floats in host memory only; their distances are differences in the keys' dtype. A NaN is near
            no key but itself.
        allow_exact_matches : bool, default True
            Whether a key that equals the query counts.
        ties : {"backward", "forward"}, default "backward"
            Which of two keys is taken that are equally near: the one below, or the one above.
        default : scalar, default 0
            The value where there is no match.
        out : (values, found), optional
            Arrays that take the results, as in :meth:`get`.
        stream : optional
            As in :meth:`contains`.
        progress : bool or callable, optional
            As in :meth:`get`.

        Returns
        -------
        Found
            ``(values, found)``, as of :meth:`get`.

        Raises
        ------
        lanetree.errors.OptionValue
            For distances of floats that are not measured.
        """
        is_float, on_gpu = self.key_dtype.kind == "f", _arrays.on_device(at)
        how, limit = self._asof(direction, ties, allow_exact_matches, tolerance, on_gpu)
        miss = _arrays.word(default, self._value)
        # How far floats are away is measured here: NumPy's arithmetic measures these.
        is_measured = is_float and (limit is not None or direction == "nearest")

        def search(keys: Any, made: Any, on: _native.Stream | None) -> None:
            if is_measured:
                self._measured(keys, made, how, np.inf if limit is None else limit, miss)
                return
            near = _arrays.empty(self.device, len(keys), self.key_dtype)._memory if on_gpu else None
            self._index.asof(keys, how, near, (*made, miss), on)

        found = self._results(search, at, ((self._value, miss), (_BOOL, 0)), out, stream, progress, "asof", name="the queries (at)")
        return Found(*found) if out is None else out

    def _measured(
        self, keys: npt.NDArray[Any], made: tuple[npt.NDArray[Any], npt.NDArray[Any]], how: tuple[str, str, bool, int | None], limit: Any, miss: int
    ) -> None:
        """Neighbours among floats that are at most so far away; for the nearest both are looked for."""
        (values, found), words = made, keys.view(f"u{keys.itemsize}")

        def one(way: str, values: npt.NDArray[Any], found: npt.NDArray[Any]) -> npt.NDArray[Any]:
            near = np.empty(keys.size, self.key_dtype)
            self._index.asof(keys, (way, *how[1:]), near, (values, found, miss), None)
            # From an infinity to itself, and from a NaN to itself, it is no distance.
            with np.errstate(invalid="ignore"):
                distance: npt.NDArray[Any] = keys - near if way == "backward" else near - keys
            distance[words == near.view(words.dtype)] = 0
            found &= distance <= limit
            return distance

        if how[0] != "nearest":
            one(how[0], values, found)
        else:
            ahead, is_ahead = np.empty_like(values), np.empty_like(found)
            behind, before = one("backward", values, found), one("forward", ahead, is_ahead)
            takes = is_ahead & (~found | (before <= behind if how[1] == "forward" else before < behind))
            values[takes] = ahead[takes]
            found |= is_ahead
        _arrays.erase(np.flatnonzero(~found), (values, miss))

    def _asof(self, direction: str, ties: str, exact: bool, tolerance: Any, on_gpu: bool) -> tuple[tuple[str, str, bool, int | None], Any]:
        """How neighbours are looked for, as native calls take it, and the tolerance."""
        limit = None if tolerance is None else _missing.tolerance(tolerance, self.key_dtype)
        if self.key_dtype.kind == "f":
            # The native code would measure words.
            if direction == "nearest" and (on_gpu or ties == "both"):
                why = "ties='both' is" if not on_gpu else "direction='nearest' with queries on a device is"
                raise errors.OptionValue(f"distances of floats are measured in host memory, one neighbour at a time, so {why} not for float keys")
            if limit is not None and on_gpu:
                raise errors.OptionValue("distances of floats on a device are not measured: use predecessor or successor, which give the keys")
            return (direction, ties, not exact, None), limit
        return (direction, ties, not exact, limit), limit

    @overload
    def asof_join(
        self, at: ArrayLike, how: Literal["inner", "left"] = ..., *, direction: Direction = ..., tolerance: Any = ..., allow_exact_matches: bool = ..., ties: Ties = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> tuple[Output, ...]: ...
    @overload
    def asof_join(
        self, at: ArrayLike, how: Literal["semi", "anti"], *, direction: Direction = ..., tolerance: Any = ..., allow_exact_matches: bool = ..., ties: Ties = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> Output: ...
    def asof_join(
        self,
        at: ArrayLike,
        how: How = "left",
        *,
        direction: Direction = "backward",
        tolerance: Any = None,
        allow_exact_matches: bool = True,
        ties: Ties = "backward",
        valid: ArrayLike | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Any:
        """Joins rows of probes with the index as of them: with the pairs that :meth:`asof` finds.

        :class:`GroupedIndex` does so within groups.

        Parameters
        ----------
        at : array_like
            Keys, of the index's dtype, in one dimension.
        how : {"left", "inner", "semi", "anti"}, default "left"
        direction, tolerance, allow_exact_matches
            As in :meth:`asof`.
        ties : {"backward", "forward", "both"}, default "backward"
            As in :meth:`asof`. With "both" a probe has a row for each of two pairs that are equally near, the row of the smaller key first.
            For probes in host memory.
        valid, stream, progress
            As in :meth:`join`.

        Returns
        -------
        (left, values, found), (left, values) or left
            As of :meth:`join`.

        Raises
        ------
        lanetree.errors.OptionValue
            For distances of floats that are not measured; for ``ties="both"`` of probes on a device.

        Examples
        --------
        >>> quotes = lanetree.Index(np.array([100, 160]), device="cpu")
        >>> quotes.asof_join(np.array([90, 130, 200]), "inner", direction="nearest", tolerance=30, ties="both")
        (array([0, 1, 1]), array([0, 0, 1]))
        """
        _joins.check(how)
        on_gpu = _arrays.on_device(at)
        options, _ = self._asof(direction, ties, allow_exact_matches, tolerance, on_gpu)
        if on_gpu:
            join = lambda probes, asked, on: self._index.join(probes[0], options, asked, on)
            return self._join_on(join, (self._value,), how, valid, stream, (at, "the probes (at)"))
        probes = Probes(valid, self.nulls, (at, self.key_dtype, "the probes (at)"))
        if ties == "both" and direction == "nearest":
            with _progress.waiting(progress, probes.size, "joining"):
                offsets, _, found = self._index.asof_rows(probes.columns[0], options)
            return probes.join(how, np.diff(offsets), found.view(self._value))
        one: Any = "backward" if ties == "both" else ties
        values, has = self.asof(
            probes.columns[0], direction=direction, tolerance=tolerance, allow_exact_matches=allow_exact_matches, ties=one, progress=progress
        )
        return probes.join(how, has, values[has])

    def k_nearest(
        self,
        at: ArrayLike,
        k: int,
        *,
        direction: Direction = "nearest",
        tolerance: Any = None,
        allow_exact_matches: bool = True,
        ties: Literal["backward", "forward"] = "backward",
        stream: Any = None,
    ) -> Ranges:
        """The pairs whose keys are nearest to each of `at`, at most `k` of each, the nearest first.

        With ``direction="backward"`` these are the last pairs at or below a query in descending order: a scan downwards. On one side
        they are copied as those of ranges are; with ``"nearest"`` a call makes `k` rounds of look-ups.

        Parameters
        ----------
        at : array_like
            Keys, of the index's dtype, in one dimension.
        k : int
            The most pairs of a query.
        direction : {"nearest", "backward", "forward"}, default "nearest"
            On both sides, at or below, or at or above. Not "nearest" for floats.
        tolerance : int or timedelta64, optional
            The largest distance of a pair, as in :meth:`asof`. Not for floats.
        allow_exact_matches : bool, default True
            Whether a key that equals the query counts.
        ties : {"backward", "forward"}, default "backward"
            Which of two that are equally near is first.
        stream : optional
            As in :meth:`contains`. The call waits, to learn how many pairs there are.

        Returns
        -------
        Ranges
            ``(offsets, keys, values)``: the pairs of query ``i`` are ``offsets[i]:offsets[i + 1]``.

        Raises
        ------
        lanetree.errors.OptionValue
            For distances of floats.

        Examples
        --------
        >>> index = lanetree.Index(np.array([10, 20, 30, 60]), device="cpu")
        >>> index.k_nearest(np.array([24]), 3).keys
        array([20, 30, 10])
        """
        most = _limit(k)
        if self.key_dtype.kind == "f" and direction == "nearest":
            raise errors.OptionValue("distances of floats are not measured by kernels, so direction='nearest' is not for float keys")
        # Nor are tolerances.
        options, _ = self._asof(direction, ties, allow_exact_matches, tolerance, True)
        find = lambda queries, on: self._index.k_nearest(queries[0], most, options, on)
        return Ranges(*self._ranges(find, (self.key_dtype, self._value), (at, "the queries (at)"), stream=stream))

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
        closed, most = _closed(inclusive), _limit(k)
        find = lambda bounds, on: self._index.range_last(bounds, closed, most, on)
        dtypes = self.key_dtype, self._value
        return Ranges(*self._ranges(find, dtypes, (starts, "the starts"), (ends, "the ends"), stream=stream))

    def aggregate(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        how: Literal["sum", "min", "max", "first", "last"],
        *,
        inclusive: Inclusive = "both",
        stream: Any = None,
    ) -> Found:
        """An aggregate of the values of each range, without making its pairs: what a range join followed by a group-by gives.

        For how many there are, use :meth:`count_range`.

        Parameters
        ----------
        starts, ends, inclusive, stream
            As in :meth:`count_range`. For sums of ranges on a device the call waits, to learn whether they overflow.
        how : {"sum", "min", "max", "first", "last"}
            The sum, the smallest or the largest value, or the value of the range's first or last key. A NaN is above all numbers, and
            NaT below all times.

        Returns
        -------
        Found
            ``(values, found)``: of integers as int64 or uint64, of floats as float64, of times as they are; 0 for a range without keys,
            which is not found. Sums of floats are made in 64 bits, in an order that is another one on a device than on the host.

        Raises
        ------
        lanetree.errors.SumOverflow
            For a sum of integers that 64 bits do not hold. It names the range.
        TypeError
            For the sum of points in time.

        Examples
        --------
        >>> index = lanetree.Index(np.array([10, 20, 30]), np.array([1, 2, -5]), device="cpu")
        >>> index.aggregate(np.array([10, 31]), np.array([20, 40]), "sum")
        Found(values=array([3, 0]), found=array([ True, False]))
        """
        closed, kind = _closed(inclusive), self._value.kind
        if kind == "M" and how == "sum":
            raise TypeError(f"points in time have no sum: the values are {self._value}")
        wide = self._value if kind in "mM" else np.dtype(f"{kind}8")
        number = "i" if kind in "mM" else kind
        find = lambda bounds, on: self._index.aggregate(bounds, closed, (how, number), on)
        found, values = self._each(find, (_BOOL, wide), (starts, "the starts"), (ends, "the ends"), stream=stream)
        return Found(values, found)

    def range(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        *,
        inclusive: Inclusive = "both",
        limit: int | None = None,
        stream: Any = None,
    ) -> Ranges:
        """The pairs of each range, in ascending order of their keys.

        Parameters
        ----------
        starts, ends, inclusive, stream
            As in :meth:`count_range`.
        limit : int, optional
            The most pairs of each range: its first ones.

        Returns
        -------
        Ranges
            ``(offsets, keys, values)``: the pairs of range ``i`` are ``offsets[i]:offsets[i + 1]``. For ranges on a device the
            call waits, to learn how many pairs there are.
        """
        return Ranges(*self._range(starts, ends, inclusive, limit, stream))

    def scan(self, starts: ArrayLike, limit: int, *, stream: Any = None) -> Scans:
        """The first pairs whose keys are not below each of `starts`, at most `limit` of each.

        Returns
        -------
        Scans
            ``(counts, keys, values)``; keys and values have a row of `limit` for each start. On a device these are flat.
        """
        return Scans(*_scan(self, starts, limit, stream))

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
        keys, values, has_several, nulls = _read(path, key_dtype, value_dtype)
        if values is None:
            raise TypeError("the file is a set's, without values: use Set.load")
        _refuse_several(has_several)
        return restored(cls, (keys, values), Device(device), {"fill": fill, "is_sorted": True}, nulls)

    @overload
    def join(
        self, probes: ArrayLike, how: Literal["inner", "left"] = ..., *, valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> tuple[Output, ...]: ...
    @overload
    def join(
        self, probes: ArrayLike, how: Literal["semi", "anti"], *, valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> Output: ...
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
            Keys, of the index's dtype, in one dimension. A missing probe matches nothing, unless nulls are keys of the index: it is in no
            row of "inner" and "semi", and in one of "left" and "anti".
        how : {"inner", "left", "semi", "anti"}, default "inner"
        valid : array_like, optional
            Which probes there are; the others are null, too. An array of bool in host memory, or for probes on a device a bitmap there,
            of uint32, as Arrow has them: bit ``i % 32`` of word ``i // 32`` is for probe ``i``.
        stream : optional
            As in :meth:`contains`. But for "left" the call waits, to learn how many matches there are.
        progress : bool or callable, optional
            As in :meth:`get`.

        Returns
        -------
        (left, values) : arrays
            For "inner": the number of each probe that is present, int64, and the value of its key. For "left": all probes,
            and in addition to the values, which are 0 of the others, an array of bool, as of :meth:`get`: ``(left, values, found)``.
        left : array of int64
            For "semi" the probes that are present, for "anti" those that are not.
        """
        _joins.check(how)
        if _arrays.on_device(probes):
            join = lambda keys, asked, on: self._index.join(keys[0], None, asked, on)
            return self._join_on(join, (self._value,), how, valid, stream, (probes, "the probes"))
        rows = Probes(valid, self.nulls, (probes, self.key_dtype, "the probes"))
        values, found = self.get(rows.columns[0], progress=progress)
        return rows.join(how, found, values[found])

    @overload
    def range_join(
        self, lows: ArrayLike, highs: ArrayLike, how: Literal["inner"] = ..., *, inclusive: Inclusive = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> RangeMatches: ...
    @overload
    def range_join(
        self, lows: ArrayLike, highs: ArrayLike, how: Literal["left"], *, inclusive: Inclusive = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> tuple[Output, ...]: ...
    @overload
    def range_join(
        self, lows: ArrayLike, highs: ArrayLike, how: Literal["semi", "anti"], *, inclusive: Inclusive = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> Output: ...
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
        """Joins ranges with the pairs whose keys are in them.

        Parameters
        ----------
        lows, highs : array_like
            The bounds of each probe, of the index's dtype, in one dimension. A range that ends before it starts has no matches, nor one
            of which a bound is missing, as in :meth:`join`.
        how : {"inner", "left", "semi", "anti"}, default "inner"
        inclusive : {"both", "left", "right", "neither"}, default "both"
            Which bounds belong to a range.
        valid : array_like, optional
            As in :meth:`join`.
        stream : optional
            As in :meth:`contains`. The call waits, to learn how many matches there are.
        progress : bool or callable, optional
            As for a build: the call is one piece.

        Returns
        -------
        RangeMatches
            For "inner": ``(left, keys, values)``, a row for each match, in the order of the probes and the keys.
        (left, keys, values, found) : arrays
            For "left": in addition a row for each probe without a match, at its place; its value is 0, and its key is 0 in host memory
            and any on a device.
        left : array of int64
            For "semi" the probes that have a match, for "anti" those that have none.

        Raises
        ------
        ValueError
            Unless there are as many highs as lows.

        Examples
        --------
        >>> index = lanetree.Index(np.array([10, 20, 30]), device="cpu")
        >>> left, keys, rows = index.range_join(np.array([10, 25]), np.array([20, 40]))
        >>> left, rows
        (array([0, 0, 1]), array([0, 1, 2]))
        >>> index.range_join(np.array([10, 31]), np.array([20, 40]), "anti")
        array([1])
        """
        return self._join_between(lows, highs, how, (_closed(inclusive), None), valid, stream, progress)

    @overload
    def band_join(
        self, probes: ArrayLike, distance: Any, how: Literal["inner"] = ..., *, valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> RangeMatches: ...
    @overload
    def band_join(
        self, probes: ArrayLike, distance: Any, how: Literal["left"], *, valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> tuple[Output, ...]: ...
    @overload
    def band_join(
        self, probes: ArrayLike, distance: Any, how: Literal["semi", "anti"], *, valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> Output: ...
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
        """Joins probes with the pairs whose keys are at most `distance` away; otherwise like :meth:`range_join`.

        Parameters
        ----------
        probes : array_like
            Keys, of the index's dtype, in one dimension. At the ends of the dtype nothing wraps around.
        distance : int or timedelta64
            Not below 0, as the tolerance of :meth:`asof`. Distances of floats are not measured: use :meth:`range_join`.
        how, valid, stream, progress : optional
            As in :meth:`range_join`.
        """
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
            made = self._joined_between(lows, highs, how, by, valid, stream)
        return RangeMatches(*made) if how == "inner" else made

    def _joined_between(
        self,
        lows: ArrayLike,
        highs: ArrayLike,
        how: How,
        by: tuple[tuple[bool, bool], int | None],
        valid: ArrayLike | None,
        stream: Any,
    ) -> Any:
        if _arrays.on_device(lows):
            join = lambda bounds, asked, on: self._index.join_between(bounds, by, asked, on)
            given = (lows, "the lows"), (highs, "the highs")
            return self._join_on(join, (self.key_dtype, self._value), how, valid, stream, *given)
        columns = [(lows, self.key_dtype, "the lows"), (highs, self.key_dtype, "the highs")]
        rows = Probes(valid, self.nulls, *columns[: 1 if highs is lows else 2])
        first_keys, last_keys = rows.columns[0], rows.columns[-1]
        closed, distance = by
        if how in ("semi", "anti"):
            # Which have a match is known without the matches.
            if distance is None:
                return rows.join(how, self._widths(first_keys, last_keys, closed) > 0)
            return rows.join(how, self.asof(first_keys, direction="nearest", tolerance=distance)[1])
        offsets, keys, values = self._index.rows_between((first_keys, last_keys), by)
        return rows.join(how, np.diff(offsets), keys.view(self.key_dtype), values.view(self._value))

    def values(self) -> npt.NDArray[Any]:
        """All values, in the order of their keys."""
        return self.items()[1]

    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All pairs, in ascending order of their keys: two arrays in host memory."""
        keys, values = self._pairs()
        return keys, values.view(self._value)

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


class Set(_Tree):
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
        keys, _, has_several, nulls = _read(path, key_dtype, None)
        _refuse_several(has_several)
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
        return KeyScans(*_scan(self, starts, limit, stream))

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


def _note(key: np.dtype[Any], value: np.dtype[Any] | None, nulls: str | None) -> str:
    """What a file notes: dtypes, and where nulls are in the order, if they are keys."""
    names = [f"{dtype.str}{_at_zone(dtype)}" for dtype in (key, value) if dtype is not None]
    return f"numpy {names[0]} {''.join(names[1:])}" + ("" if nulls is None else f" {nulls}")


def _at_zone(dtype: np.dtype[Any]) -> str:
    zone = _missing.zone_of(dtype)
    return "" if zone is None else f"@{zone}"


def _dtype_of(note: str) -> np.dtype[Any]:
    """A dtype, and its time zone, as a file's note has them."""
    name, _, zone = note.partition("@")
    return _missing.zoned(np.dtype(name), zone or None)


def _read(
    path: str | os.PathLike[str], key_dtype: npt.DTypeLike | None, value_dtype: npt.DTypeLike | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None, bool, str | None]:
    """Keys and values of a file, whether keys may occur several times, and where nulls are in the order, if they are keys.

    Dtypes are those asked for, or noted in the file.
    """
    key, keys, values, has_several, note = _native.read_file(os.fspath(path))
    noted, nulls = note.split(" "), None
    noted_key: np.dtype[Any] | None = None
    noted_value: np.dtype[Any] | None = None
    if len(noted) == 4 and noted[3] in ("first", "last"):
        nulls = noted.pop()
    if len(noted) == 3 and noted[0] == "numpy":
        try:
            noted_key, noted_value = _dtype_of(noted[1]), _dtype_of(noted[2]) if noted[2] else None
        except TypeError as error:
            raise errors.Damaged(f"the note of the file's dtypes is {note!r}, which NumPy does not know") from error
    keys = _seen_as("keys", keys, _KEY_OF[key], noted_key, key_dtype)
    if values is not None:
        values = _seen_as("values", values, np.dtype(f"i{values.itemsize}"), noted_value, value_dtype)
    return keys, values, has_several, nulls


def _refuse_several(has_several: bool) -> None:
    if has_several:
        raise errors.Several("the file is of a multi-map, whose keys may have several values: use MultiIndex.load")


def _seen_as(what: str, words: npt.NDArray[Any], dtype: np.dtype[Any], *wanted: npt.DTypeLike | None) -> npt.NDArray[Any]:
    """A file's words, which are of a dtype, as that which the file notes, and that as what the caller asks for.

    Keys of floats stay what they are, since they are ordered as such, and times keep their unit: integers are what their numbers are.
    """
    is_signed = {"i": True, "m": True, "M": True, "u": False}
    for to in (np.dtype(it) for it in wanted if it is not None):
        is_other = dtype.kind in "mM" and to.kind != "i"
        if what == "keys":
            is_other |= "f" in (to.kind, dtype.kind) or is_signed.get(to.kind) != is_signed[dtype.kind]
        if to.itemsize != words.itemsize or (to != dtype and is_other):
            raise TypeError(f"the file has {what} of {dtype}, which are not seen as {to}: load them as {dtype}, and convert them")
        dtype = to
    _arrays.word_of(dtype, what)
    return words.view(dtype)


def _closed(inclusive: str, name: str = "inclusive") -> tuple[bool, bool]:
    if inclusive not in _CLOSED:
        raise ValueError(f"{name} is {inclusive!r}, where 'both', 'left', 'right' or 'neither' is needed")
    return _CLOSED[inclusive]


def _limit(limit: int | None) -> int:
    if limit is None:
        return _MOST
    if not 0 <= limit <= _MOST:
        raise ValueError(f"a limit of {limit} pairs is not possible")
    return int(limit)


def _scan(index: _Tree, starts: ArrayLike, limit: int, stream: Any) -> list[Any]:
    if not 0 <= limit < 2**32:
        raise ValueError(f"a limit of {limit} pairs is not possible: choose 0 to 2^32 - 1")
    if _arrays.on_device(starts):
        column, on = index._on(starts, stream, "the starts")
        found = zip(index._index.scan(column._memory, limit, on), (np.dtype(np.uint32), index.key_dtype, index._value))
        return [Array(memory, dtype, index.device) for memory, dtype in found if memory is not None]  # type: ignore[arg-type]
    rows = index._rows((starts, "the starts"))
    counts, *near = index._index.scan(rows.columns[0], limit)
    shape, dtypes = (len(counts), limit), (index.key_dtype, index._value)
    return [rows.fill(counts), *(rows.fill(it.view(of).reshape(shape)) for it, of in zip(near, dtypes) if it is not None)]


def _distance(distance: Any, dtype: np.dtype[Any]) -> int:
    """The distance of a band join."""
    if dtype.kind == "f":
        raise errors.OptionValue("distances of floats are not measured: use range_join with bounds of your own")
    return int(_missing.tolerance(distance, dtype, "distance"))
