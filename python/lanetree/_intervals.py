"""Intervals: :class:`IntervalIndex`."""

from __future__ import annotations

from typing import Any, Iterator, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _missing, _native, _progress, _wide, errors
from ._arrays import Array, ArrayLike, Found, Output
from ._device import Device
from ._held import Given, Keyed, is_there, objects, whole_number
from ._options import Inclusive, closed_of
from ._progress import Progress


class IntervalRows(NamedTuple):
    """The intervals of a batch of probes, in compressed sparse rows: the intervals of probe ``i`` are ``offsets[i]:offsets[i + 1]``."""

    offsets: Output
    #: Of a probe the most specific one first: the one that starts last, of these the one that ends first.
    rows: Output


def _open_bounds(bounds: ArrayLike, dtype: np.dtype[Any] | None, what: str, is_end: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Bounds in which the lowest or highest key has the place of what is missing, of floats an infinity, and where that is."""
    if _arrays.on_device(bounds):
        raise ValueError(f"nulls='open', but {what} are on a device, where nothing is null: leave nulls out, or copy them to host memory")
    made, valid = _arrays.nullable(bounds, dtype, what)
    made = _missing.widened(made)
    is_open = np.zeros(made.shape, np.bool_) if valid is None else ~valid
    if made.dtype.kind == "f":
        return np.where(is_open, np.array(np.inf if is_end else -np.inf, made.dtype), made).view(_missing.Whole), is_open
    if made.dtype == _wide.BYTES:
        return np.where(is_open, _columns.null_key("last" if is_end else "first", made.dtype), made).view(made.dtype).view(_missing.Whole), is_open
    numbers = made.view(np.int64) if made.dtype.kind in "mM" else made
    return np.where(is_open, _extreme(made.dtype, is_end), numbers).view(made.dtype).view(_missing.Whole), is_open


def _extreme(dtype: np.dtype[Any], is_end: bool) -> Any:
    """The number of the lowest or highest key, of times that is not NaT."""
    info = np.iinfo(np.int64 if dtype.kind in "mM" else dtype)
    return np.array(info.max if is_end else info.min + (dtype.kind in "mM"), info.dtype)


def _moved(bounds: npt.NDArray[Any], is_up: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The next keys of the dtype above or below bounds, and where there is one."""
    if bounds.dtype.kind == "f":
        made = np.nextafter(bounds, np.array(np.inf if is_up else -np.inf, bounds.dtype))
        return made, made != bounds
    if bounds.dtype == _wide.BYTES:
        return _wide.moved(bounds, is_up)
    numbers = bounds.view(np.int64) if bounds.dtype.kind in "mM" else bounds
    step = numbers.dtype.type(1)
    return (numbers + step if is_up else numbers - step).view(bounds.dtype), numbers != _extreme(bounds.dtype, is_up)


class IntervalIndex(Keyed):
    """An index of intervals: which of them contain a point or overlap a range.

    Parameters
    ----------
    starts, ends : array_like
        The bounds of each interval, in one dimension and any order: uint32, uint64, int32, int64, float32, float64,
        datetime64 or timedelta64, or in host memory UUIDs, IPv6 addresses, decimals or 16 bytes (V16).
    rows : array_like, optional
        A number for each interval, of the same dtypes, but not of 16 bytes; by default their row numbers, int64.
    device : str, Device or None
        As for :class:`Index`.
    key_dtype : dtype, optional
        For bounds in lists: what they become.
    closed : {"both", "left", "right", "neither"}, default "both"
        Which bounds belong to the intervals, as in :class:`pandas.IntervalIndex`. The index has the inclusive bounds that are equal to
        these: of integers and times the next ones of their dtype, of floats the next floats; and not the intervals that contain nothing.
        For bounds in host memory, unless it is "both".
    nulls : {"error", "skip", "open"}, default "error"
        What becomes of intervals of which a bound or the row is null, as for :class:`Index`. With "open" a bound that is null is none:
        the interval has no start, or no end.
    stream : int or object with ``__cuda_stream__``, optional
        For arrays on a device: the stream in whose order they are read; by default the producer's current one.
    progress : bool or callable, optional
        As for :class:`Index`.

    Raises
    ------
    lanetree.errors.ReversedRange
        For an interval whose end is below its start.
    ValueError
        Unless there are one end and one row for each start.

    Notes
    -----
    The index does not change: build it anew. A build waits for the device. What is said of arrays and threads at :class:`Index` is
    true here, too.

    Examples
    --------
    >>> networks = lanetree.IntervalIndex(np.array([0, 64, 80]), np.array([255, 127, 95]), device="cpu")
    >>> networks.stab(np.array([90, 130]))
    IntervalRows(offsets=array([0, 3, 4]), rows=array([2, 1, 0, 0]))
    >>> networks.most_specific(np.array([100, 300]))
    Found(values=array([1, 0]), found=array([ True, False]))
    """

    __slots__ = ("row_dtype",)
    _index: _native.Intervals

    def __init__(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        rows: ArrayLike | None = None,
        device: str | Device | None = None,
        *,
        key_dtype: npt.DTypeLike | None = None,
        closed: Inclusive = "both",
        nulls: Literal["error", "skip", "open"] = "error",
        stream: Any = None,
        progress: Progress = None,
    ) -> None:
        _columns.check_nulls(nulls, "open")
        wanted = None if key_dtype is None else np.dtype(key_dtype)
        has_start, has_end = closed_of(closed, "closed")
        is_open = [np.zeros(0, np.bool_)] * 2
        if nulls == "open":
            starts, is_open[0] = _open_bounds(starts, wanted, "the starts", False)
            ends, is_open[1] = _open_bounds(ends, starts.dtype, "the ends", True)
        # The ends have the dtype of the starts.
        given = (starts, wanted, "the starts"), (ends, 0, "the ends"), (rows, None, "the rows")
        self.device, on, (first, last, numbers) = _columns.columns(device, stream, nulls, *given, keys=2)
        self.key_dtype, self.row_dtype, self.nulls = first.dtype, numbers.dtype, None
        is_here, is_closed = isinstance(first.raw, np.ndarray), has_start and has_end
        if not is_here and not is_closed:
            raise ValueError(f"closed={closed!r}, but the bounds are on a device: move them there, or copy them to host memory")
        if is_here and (self.key_dtype.kind in "fV" or not is_closed) and len(first.raw) == len(last.raw):
            # The native code would name words, not numbers.
            reversed_ = np.flatnonzero(_wide.comparable(last.raw) < _wide.comparable(first.raw))
            if reversed_.size:
                i = int(reversed_[0])
                raise errors.ReversedRange(f"range {i} starts at {_wide.shown(first.raw, i)} and ends at {_wide.shown(last.raw, i)}: swap its bounds")
        if not is_closed and len(first.raw) == len(last.raw) == len(numbers.raw):
            bounds, has_any = [first.raw, last.raw], np.ones(len(first.raw), np.bool_)
            for at, is_inclusive in enumerate((has_start, has_end)):
                if not is_inclusive:
                    moved, has_next = _moved(bounds[at], at == 0)
                    stays = is_open[at] if nulls == "open" else np.zeros(len(moved), np.bool_)
                    bounds[at], has_any = np.where(stays, bounds[at], moved).view(first.dtype), has_any & (has_next | stays)
            has_any &= _wide.comparable(bounds[0]) <= _wide.comparable(bounds[1])
            first, last, numbers = (
                _columns.Column(raw[has_any], dtype) for raw, dtype in zip((*bounds, numbers.raw), (first.dtype, last.dtype, numbers.dtype))
            )
        word = _arrays.word_of(self.key_dtype, "bounds")
        _arrays.word_of(self.row_dtype, "rows")
        with _progress.waiting(progress, len(first.raw), "building an index of"):
            self._index = _native.Intervals(
                self.device._native, word, (first.raw, last.raw), numbers.raw, self.row_dtype.itemsize, on
            )

    def most_specific(self, points: ArrayLike, *, default: Any = 0, stream: Any = None) -> Found:
        """The row of the most specific interval around each of `points`, and whether there is one.

        The most specific one is that which starts last; of these, that which ends first.

        Parameters
        ----------
        points : array_like
            Keys, of the bounds' dtype; any shape in host memory, one dimension on a device.
        default : scalar, default 0
            The row where there is none.
        stream : optional
            As in :meth:`Index.contains`.

        Returns
        -------
        Found
            ``(rows, found)``, as the values of :meth:`Index.get`.
        """
        miss = _arrays.word(default, self.row_dtype)
        if _arrays.on_device(points):
            column, on = self._on(points, stream, "the points")
            rows, found, _ = self._index.most_specific(column._memory, miss, on)
            return Found(Array(rows, self.row_dtype, self.device), Array(found, np.dtype(np.bool_), self.device, column.size))
        raw, shape, missing = self._queries(points, "the points")
        rows, found, _ = self._index.most_specific(raw, miss)
        _arrays.erase(missing, (rows, miss), (found, 0))
        return Found(rows.view(self.row_dtype).reshape(shape)[()], found.reshape(shape)[()])

    def stab(self, points: ArrayLike, *, stream: Any = None) -> IntervalRows:
        """All intervals that contain each of `points`, the most specific one first.

        Parameters
        ----------
        points : array_like
            Keys, of the bounds' dtype, in one dimension.
        stream : optional
            As in :meth:`Index.contains`. The call waits, to learn how many intervals there are.

        Returns
        -------
        IntervalRows
            ``(offsets, rows)``
        """
        return self._find(stream, (points, "the points"))

    def overlap(self, lows: ArrayLike, highs: ArrayLike, *, stream: Any = None) -> IntervalRows:
        """All intervals that overlap each of the ranges, whose bounds are inclusive; otherwise like :meth:`stab`."""
        return self._find(stream, (lows, "the lows"), (highs, "the highs"))

    def _find(self, stream: Any, *probes: Given) -> IntervalRows:
        find = lambda probes, on: self._index.find(probes[0], (*probes, None)[1], on)
        return IntervalRows(*self._ranges(find, (None, self.row_dtype), *probes, stream=stream))

    def count(self, points: ArrayLike, *, stream: Any = None) -> Output:
        """How many intervals contain each of `points`: int64. Takes two searches per point, however many there are."""
        return self._count(stream, (points, "the points"))

    def count_overlap(self, lows: ArrayLike, highs: ArrayLike, *, stream: Any = None) -> Output:
        """How many intervals overlap each of the ranges, whose bounds are inclusive: int64."""
        return self._count(stream, (lows, "the lows"), (highs, "the highs"))

    def _count(self, stream: Any, *probes: Given) -> Output:
        count = lambda probes, counts, on: self._index.count(probes[0], (*probes, None)[1], counts, on)
        return self._counts(count, *probes, stream=stream)

    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """All intervals: starts, ends and rows, three arrays in host memory, the most specific interval first."""
        starts, ends, rows = self._index.intervals()
        return starts.view(self.key_dtype), ends.view(self.key_dtype), rows.view(self.row_dtype)

    def _file_columns(self) -> dict[str, npt.NDArray[Any]]:
        return dict(zip(("starts", "ends", "rows"), self.items()))

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """The intervals, as ``(start, end, row)``, the most specific one first. Copies all of them first."""
        return iter(zip(*map(objects, self.items())))

    def map(self, column: ArrayLike) -> Any:
        """The row of the most specific interval around each point of a column, as :meth:`Index.map` has it."""
        return _arrays.column_like(self.most_specific(column), column)

    def __contains__(self, point: object) -> bool:
        """Whether an interval contains a point. What cannot be a point is in none. A number or a time between two of the bounds' dtype
        may be in one, and is an error."""
        point = whole_number(point, self.key_dtype)
        if self.key_dtype.kind in "iu" and isinstance(point, (float, np.floating)):
            raise ValueError(f"{point!r} is between two numbers of {self.key_dtype}, which the bounds are: build the index over floats")
        return is_there(point, lambda point: bool(self.count(point) > 0), (TypeError, OverflowError))

    def _contents(self) -> str:
        return f"{len(self):,} intervals, {self.key_dtype} -> {self.row_dtype}"
