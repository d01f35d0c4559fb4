"""What indexes over numbers with values have, with one or with several per key: :class:`NumberPairs`."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from . import _arrays, _joins, _progress
from ._arrays import ArrayLike, Found, Output
from ._held import _BOOL
from ._joins import How, Probes
from ._numbers import Numbers
from ._neighbors import in_bands
from ._options import Inclusive, closed_of, distance_of, limit_of
from ._progress import Progress
from ._results import RangeMatches, Ranges

#: What an inner join by ranges gives.
_Matches = TypeVar("_Matches")


class NumberPairs(Numbers, Generic[_Matches]):
    """An index over numbers or times with values."""

    __slots__ = ()
    _index: Any
    _value: np.dtype[Any]

    @property
    def value_dtype(self) -> np.dtype[Any]:
        """The dtype of values."""
        return self._value

    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """All pairs, in ascending order of their keys: two arrays in host memory."""
        keys, values = self._pairs()
        return keys, values.view(self._value)

    def values(self) -> npt.NDArray[Any]:
        """All values, in the order of their keys."""
        return self.items()[1]

    def predecessor(
        self, queries: ArrayLike, *, default: Any = 0, stream: Any = None, progress: Progress = None
    ) -> tuple[Output, Output, Output]:
        """The last pair whose key is not above each of `queries`; of equal keys the one that was inserted last.

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
            The sum, the smallest or the largest value, or the first or last one in the order of :meth:`items`: of equal keys of a
            :class:`MultiIndex` in the order in which they were inserted. A NaN is above all numbers, and NaT below all times.

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
        >>> several = lanetree.MultiIndex(np.array([10, 10, 20]), np.array([1, 4, 2]), device="cpu")
        >>> several.aggregate(np.array([10, 15]), np.array([10, 40]), "max")
        Found(values=array([4, 2]), found=array([ True,  True]))
        """
        closed, kind = closed_of(inclusive), self._value.kind
        if kind == "M" and how == "sum":
            raise TypeError(f"points in time have no sum: the values are {self._value}")
        wide = self._value if kind in "mM" else np.dtype(f"{kind}8")
        number = "i" if kind in "mM" else kind
        find = lambda bounds, on: self._index.aggregate(bounds, closed, (how, number), on)
        found, values = self._each(find, (_BOOL, wide), (starts, "the starts"), (ends, "the ends"), stream=stream)
        return Found(values, found)

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
        """Joins rows of probes with the index, by key. Rows are in the order of the probes.

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
            As in :meth:`contains`. But for "left" of an :class:`Index` the call waits, to learn how many matches there are.
        progress : bool or callable, optional
            As in :meth:`Index.get`; of a :class:`MultiIndex` as for a build, since the call is one piece.

        Returns
        -------
        (left, values) : arrays
            For "inner": a row for each value of a probe's key: the number of the probe, int64, and the value. For "left" in addition one
            for each probe that is absent, at its place, and an array of bool: whether there is a value, which is 0 if not:
            ``(left, values, found)``.
        left : array of int64
            For "semi" the probes that are present, for "anti" those that are not.
        """
        _joins.check(how)
        with _progress.waiting(progress if self._has_several else None, len(probes) if progress else 0, "joining"):
            if _arrays.on_device(probes):
                asof = () if self._has_several else (None,)
                join = lambda keys, asked, on: self._index.join(keys[0], *asof, asked, on)
                return self._join_on(join, (self._value,), how, valid, stream, (probes, "the probes"))
            rows = Probes(valid, self.nulls, (probes, self.key_dtype, "the probes"))
            return rows.join(how, *self._matches(rows.columns[0], how, progress))

    def _matches(self, keys: npt.NDArray[Any], how: How, progress: Progress) -> tuple[npt.NDArray[Any], ...]:
        """How many matches each key has, or whether it has one, and the values of all of them, unless the kind of join has none."""
        raise NotImplementedError

    @overload
    def range_join(
        self, lows: ArrayLike, highs: ArrayLike, how: Literal["inner"] = ..., *, inclusive: Inclusive = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> _Matches: ...
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
            and any on a device. Of a :class:`MultiIndex` there are no keys, as in its :meth:`join`: ``(left, values)`` and
            ``(left, values, found)``, the values of one key in the order in which they were inserted.
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
        return self._join_between(lows, highs, how, (closed_of(inclusive), None), valid, stream, progress)

    @overload
    def band_join(
        self, probes: ArrayLike, distance: Any, how: Literal["inner"] = ..., *, valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> _Matches: ...
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
        distance : int, timedelta64, float or Decimal
            Not below 0, as the tolerance of :meth:`asof`. Of floats in host memory only.
        how, valid, stream, progress : optional
            As in :meth:`range_join`.
        """
        far = distance_of(distance, self.key_dtype, _arrays.on_device(probes))
        return self._join_between(probes, probes, how, ((True, True), far), valid, stream, progress)

    def _join_between(
        self,
        lows: ArrayLike,
        highs: ArrayLike,
        how: How,
        by: tuple[tuple[bool, bool], Any],
        valid: ArrayLike | None,
        stream: Any,
        progress: Progress,
    ) -> Any:
        _joins.check(how)
        with _progress.waiting(progress, len(lows) if progress else 0, "joining"):
            if _arrays.on_device(lows):
                join = lambda bounds, asked, on: self._index.join_between(bounds, by, asked, on)
                dtypes = (self.key_dtype, self._value)[self._has_several :]
                made = self._join_on(join, dtypes, how, valid, stream, (lows, "the lows"), (highs, "the highs"))
            else:
                columns = [(lows, self.key_dtype, "the lows"), (highs, self.key_dtype, "the highs")]
                rows = Probes(valid, self.nulls, *columns[: 1 if highs is lows else 2])
                if by[1] is not None and self.key_dtype.kind == "f":
                    counts, *found = in_bands(lambda bounds: self._index.range(bounds, by[0], limit_of(None)), rows.columns[0], by[1])
                    found[1] = found[1].view(self._value)
                    made = rows.join(how, counts, *found[self._has_several :])
                else:
                    made = rows.join(how, *self._rows_between((rows.columns[0], rows.columns[-1]), how, by))
        return made if self._has_several or how != "inner" else RangeMatches(*made)

    def _rows_between(self, bounds: Any, how: How, by: tuple[tuple[bool, bool], int | None]) -> tuple[npt.NDArray[Any], ...]:
        """How many matches each pair of bounds has, and the columns of all of them, unless the kind of join has none."""
        raise NotImplementedError
