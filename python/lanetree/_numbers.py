"""What all indexes over numbers have: :class:`Numbers`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _files, _native
from ._arrays import Array, ArrayLike, Output
from ._held import _BOOL, _INT64, Sorted
from ._options import Inclusive, Side, closed_of, is_right, limit_of
from ._progress import Progress


class Numbers(Sorted):
    """An index over numbers or times, with values or without."""

    __slots__ = ("_numbers",)
    #: DLPack's numbers of the types of keys, values and hits, for arrays that are taken in a look-up's own native call; None where none
    #: are.
    _numbers: tuple[int, int, int] | None
    #: The dtype of values, or None.
    _value: np.dtype[Any] | None
    #: Whether a key may have several values.
    _has_several = False

    def _find(self, keys: Any, found: Any, on: _native.Stream | None) -> None:
        """Whether there is each of some keys, as the first one of some columns."""
        raise NotImplementedError

    def _count(self, bounds: Any, closed: tuple[bool, bool], counts: Any, on: _native.Stream | None) -> None:
        """How many keys or pairs each range has."""
        raise NotImplementedError

    def _raw_pairs(self) -> tuple[Any, ...]:
        """All pairs as the native call has them: how many there are, keys, and values, if there are any."""
        raise NotImplementedError

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
        return self._results(self._find, queries, ((_BOOL, 0),), None if out is None else (out,), stream, progress, "contains")[0]

    def searchsorted(
        self,
        queries: ArrayLike,
        side: Side = "left",
        *,
        out: Any = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Output:
        """The rank of each of `queries`, with the meaning of :func:`numpy.searchsorted` over the sorted keys.

        Of a :class:`MultiIndex` this counts pairs.

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
        upper = is_right(side)
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
        """How many keys each range has; of a :class:`MultiIndex` how many pairs.

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
        closed = closed_of(inclusive)
        count = lambda bounds, counts, on: self._count(bounds, closed, counts, on)
        return self._counts(count, (starts, "the starts"), (ends, "the ends"), stream=stream)

    def _range(
        self, starts: ArrayLike, ends: ArrayLike, inclusive: Inclusive, limit: int | None, stream: Any
    ) -> list[Any]:
        closed, most = closed_of(inclusive), limit_of(limit)
        find = lambda bounds, on: self._index.range(bounds, closed, most, on)
        return self._ranges(find, (self.key_dtype, self._value), (starts, "the starts"), (ends, "the ends"), stream=stream)

    def _pairs(self) -> tuple[Any, Any]:
        _, keys, values = self._raw_pairs()
        return keys.view(self.key_dtype), values

    def keys(self) -> npt.NDArray[Any]:
        """All keys, in ascending order; of a :class:`MultiIndex` that of every pair."""
        keys: npt.NDArray[Any] = self._pairs()[0]
        return keys

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save all pairs to a file, in place of one that is there; :meth:`load` makes an index of it.

        The file is written under another name in the same folder, synced, and renamed: after a crash the path has the old file or the
        new one. It has sorted pairs with checksums, which every index of the Rust library over the same types loads, too, and the
        dtypes. That of a :class:`MultiIndex` is one of a multi-map: its own :meth:`load` alone makes an index of it.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        lanetree.errors.Io
            An ``OSError``; the path has the old file.
        """
        keys, values = self._pairs()
        _files.write_pairs(path, (keys, self.key_dtype), (values, self._value), self._has_several, self.nulls)
