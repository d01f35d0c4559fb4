"""The nearest keys of an index: :class:`Nearby`."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from . import _arrays, _joins, _native, _progress
from ._arrays import ArrayLike, Found, Output
from ._held import _BOOL
from ._joins import How, Probes, Ties
from ._neighbors import Neighbors
from ._options import Direction, limit_of
from ._pairs import NumberPairs
from ._progress import Progress
from ._results import RangeMatches, Ranges


class Nearby(NumberPairs[RangeMatches]):
    """An index over numbers that finds what is near."""

    __slots__ = ()

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
        on_gpu = _arrays.on_device(at)
        how = Neighbors.of(self.key_dtype, direction, ties, allow_exact_matches, tolerance, on_gpu)
        miss = _arrays.word(default, self._value)

        def search(keys: Any, made: Any, on: _native.Stream | None) -> None:
            if how.most is not None:
                find = lambda by, near, values, found: self._index.asof(keys, by, near, (values, found, miss), None)
                how.measured(find, keys, made, miss)
                return
            near = _arrays.empty(self.device, len(keys), self.key_dtype)._memory if on_gpu else None
            self._index.asof(keys, how.native, near, (*made, miss), on)

        found = self._results(search, at, ((self._value, miss), (_BOOL, 0)), out, stream, progress, "asof", name="the queries (at)")
        return Found(*found) if out is None else out

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
        near = Neighbors.of(self.key_dtype, direction, ties, allow_exact_matches, tolerance, on_gpu)
        options = near.native
        if on_gpu:
            join = lambda probes, asked, on: self._index.join(probes[0], options, asked, on)
            return self._join_on(join, (self._value,), how, valid, stream, (at, "the probes (at)"))
        probes = Probes(valid, self.nulls, (at, self.key_dtype, "the probes (at)"))
        if ties == "both" and direction == "nearest":
            raw = probes.columns[0]
            with _progress.waiting(progress, probes.size, "joining"):
                if near.most is not None:
                    look = lambda by, keys, values, found: self._index.asof(raw, by, keys, (values, found, 0), None)
                    return probes.join(how, *near.both(look, raw, self._value))
                offsets, _, found = self._index.asof_rows(raw, options)
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
            On both sides, at or below, or at or above. "nearest" is for floats in host memory only.
        tolerance : scalar, optional
            The largest distance of a pair, as in :meth:`asof`.
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
            For distances of floats that are not measured.

        Examples
        --------
        >>> index = lanetree.Index(np.array([10, 20, 30, 60]), device="cpu")
        >>> index.k_nearest(np.array([24]), 3).keys
        array([20, 30, 10])
        """
        most = limit_of(k)
        near = Neighbors.of(self.key_dtype, direction, ties, allow_exact_matches, tolerance, _arrays.on_device(at))

        def find(queries: Any, on: _native.Stream | None) -> Any:
            if near.most is None:
                return self._index.k_nearest(queries[0], most, near.native, on)
            return near.rows(lambda how: self._index.k_nearest(queries[0], most, how), queries[0], most)

        return Ranges(*self._ranges(find, (self.key_dtype, self._value), (at, "the queries (at)"), stream=stream))
