"""Keys in groups: :class:`GroupedIndex`."""

from __future__ import annotations

from typing import Any, Iterator, Literal, overload

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _joins, _native, _progress
from ._arrays import ArrayLike, Found, Output
from ._device import Device
from ._columns import Nulls, Rows
from ._held import Held, is_there, objects, whole_number
from ._joins import How, Probes, Ties
from ._neighbors import Neighbors
from ._options import INSERT, REMOVE, UPDATE, Direction
from ._progress import Progress
from ._results import UpdateReport


class GroupedIndex(Held):
    """An index of keys in groups, for as-of look-ups within a group: the last quote of the same stock, say.

    Parameters
    ----------
    by : array_like
        The group of each key: a number, uint32, uint64, int32, int64, datetime64 or timedelta64. Names get their numbers from one
        dictionary for all tables, as below: numbers that were made for each table alone mean different names.
    keys : array_like
        A key for each, in any order: of the same dtypes, as that of the groups or another one, or float32 or float64, in the order that
        :class:`Index` has. Of pairs with equal groups and keys the last one's value is kept.
    values : array_like, optional
        A value for each, as for :class:`Index`; by default their row numbers, int64.
    device, fill, nulls, stream, progress
        As for :class:`Index`.

    Raises
    ------
    TypeError
        For groups that are floats, and for dtypes that indexes do not have.
    ValueError
        Unless there is one group for each key.
    lanetree.errors.LengthMismatch
        Unless there is one value for each key.

    Notes
    -----
    A pair takes 8 bytes for group and key if both have 32 bits, else 16. What is said of arrays and threads at :class:`Index` is true
    here, too.

    Examples
    --------
    >>> quotes = lanetree.GroupedIndex(np.array([7, 7, 9]), np.array([100, 160, 120]), device="cpu")
    >>> quotes.asof(np.array([159, 500, 119]), by=np.array([7, 9, 9]))
    Found(values=array([0, 2, 0]), found=array([ True,  True, False]))

    Names of groups: an index of the names numbers those of both tables. One that is not in it is in no group.

    >>> stocks, asked = np.array(["B", "A", "B"]), np.array(["A", "B", "C"])
    >>> numbers = lanetree.StringIndex(stocks, device="cpu")
    >>> quotes = lanetree.GroupedIndex(numbers.get(stocks).values, np.array([100, 120, 160]), device="cpu")
    >>> by, is_known = numbers.get(asked)
    >>> quotes.asof(np.array([130, 130, 130]), by=np.ma.array(by, mask=~is_known))
    Found(values=array([1, 0, 0]), found=array([ True,  True, False]))
    """

    __slots__ = ("by_dtype", "key_dtype", "value_dtype", "fill")
    _index: _native.Groups

    def __init__(
        self,
        by: ArrayLike,
        keys: ArrayLike,
        values: ArrayLike | None = None,
        device: str | Device | None = None,
        *,
        fill: float = 1.0,
        nulls: Nulls = "error",
        stream: Any = None,
        progress: Progress = None,
    ) -> None:
        _columns.check_nulls(nulls)
        self.fill = float(fill)
        given = (by, None, "the groups (by)"), (keys, None, "the keys"), (values, None, "the values")
        self.device, on, columns = _columns.columns(device, stream, nulls, *given, keys=2)
        raw, dtypes = [column.raw for column in columns], [column.dtype for column in columns]
        self.by_dtype, self.key_dtype, self.value_dtype = dtypes
        names = [_arrays.word_of(dtype, what) for dtype, what in zip(dtypes, ("groups (by)", "keys in groups", "values"))]
        if names[0][0] == "f":
            raise TypeError(f"groups (by) of dtype {self.by_dtype} are not supported: convert them to integers")
        sizes = self.by_dtype.itemsize, self.value_dtype.itemsize
        with _progress.waiting(progress, len(raw[1]), "building an index of"):
            self._index = _native.Groups(self.device._native, sizes[0], names[1], sizes[1], (raw[0], raw[1]), raw[2], self.fill, on)

    def get(self, keys: ArrayLike, *, by: ArrayLike, default: Any = 0, stream: Any = None, progress: Progress = None) -> Found:
        """The value of each of `keys` in its group, and whether it is there.

        Parameters
        ----------
        keys, by : array_like
            Keys and groups, of the index's dtypes; any shape in host memory, one dimension on a device. Where one is missing, nothing
            is found.
        default, stream, progress : optional
            As in :meth:`Index.get`.

        Returns
        -------
        Found
            ``(values, found)``
        """
        return self._get(keys, by, None, default, stream, progress)

    def asof(
        self,
        at: ArrayLike,
        *,
        by: ArrayLike,
        direction: Direction = "backward",
        tolerance: Any = None,
        allow_exact_matches: bool = True,
        ties: Literal["backward", "forward"] = "backward",
        default: Any = 0,
        stream: Any = None,
        progress: Progress = None,
    ) -> Found:
        """The value of the nearest key of the same group on one side of each of `at`, as :func:`pandas.merge_asof` matches rows.

        Parameters
        ----------
        at : array_like
            Keys, of the index's dtype; any shape in host memory, one dimension on a device.
        by : array_like
            The group of each, of the index's dtype.
        direction, tolerance, allow_exact_matches, ties, default, stream, progress : optional
            As in :meth:`Index.asof`.

        Returns
        -------
        Found
            ``(values, found)``

        Raises
        ------
        lanetree.errors.OptionValue
            For "nearest" and a tolerance of queries on a device, if keys are floats.
        """
        how = Neighbors.of(self.key_dtype, direction, ties, allow_exact_matches, tolerance, _arrays.on_device(at))
        return self._get(at, by, how, default, stream, progress)

    @overload
    def asof_join(
        self, at: ArrayLike, how: Literal["inner", "left"] = ..., *, by: ArrayLike, direction: Direction = ..., tolerance: Any = ..., allow_exact_matches: bool = ..., ties: Ties = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> tuple[Output, ...]: ...
    @overload
    def asof_join(
        self, at: ArrayLike, how: Literal["semi", "anti"], *, by: ArrayLike, direction: Direction = ..., tolerance: Any = ..., allow_exact_matches: bool = ..., ties: Ties = ..., valid: ArrayLike | None = ..., stream: Any = ..., progress: Progress = ...
    ) -> Output: ...
    def asof_join(
        self,
        at: ArrayLike,
        how: How = "left",
        *,
        by: ArrayLike,
        direction: Direction = "backward",
        tolerance: Any = None,
        allow_exact_matches: bool = True,
        ties: Ties = "backward",
        valid: ArrayLike | None = None,
        stream: Any = None,
        progress: Progress = None,
    ) -> Any:
        """Joins rows of probes with the index as of them, within their groups; otherwise like :meth:`Index.asof_join`.

        Parameters
        ----------
        at, by : array_like
            Keys and groups, of the index's dtypes, in one dimension. A probe of which one is null matches nothing.
        how, direction, tolerance, allow_exact_matches, ties, valid, stream, progress : optional
            As in :meth:`Index.asof_join`.

        Returns
        -------
        (left, values, found), (left, values) or left
            As of :meth:`Index.join`.

        Raises
        ------
        lanetree.errors.OptionValue
            As of :meth:`Index.asof_join`.

        Examples
        --------
        >>> quotes = lanetree.GroupedIndex(np.array([7, 7, 9]), np.array([100, 160, 120]), device="cpu")
        >>> quotes.asof_join(np.array([159, 500, 119]), "inner", by=np.array([7, 9, 9]))
        (array([0, 1]), array([0, 2]))
        """
        _joins.check(how)
        on_gpu = _arrays.on_device(at)
        options = Neighbors.of(self.key_dtype, direction, ties, allow_exact_matches, tolerance, on_gpu)
        if on_gpu:
            given, on = self._on(at, by, stream)
            made = self._index.join(given, options.native, (how, _joins.bitmap(valid, len(given[1]), self.device, on)), on)
            return _joins.on_device(made, self.device, self.value_dtype)
        probes = Probes(valid, None, (by, self.by_dtype, "the groups (by)"), (at, self.key_dtype, "the keys (at)"))
        group, raw = probes.columns
        if ties == "both" and direction == "nearest":
            with _progress.waiting(progress, probes.size, "joining"):
                if options.most is not None:
                    look = lambda by, near, values, found: self._index.get((group, raw), by, near, (values, found, 0))
                    return probes.join(how, *options.both(look, raw, self.value_dtype))
                offsets, _, rows = self._index.asof_rows((group, raw), options.native)
            return probes.join(how, np.diff(offsets), rows.view(self.value_dtype))
        if ties == "both":
            options = options._replace(native=(direction, "backward", *options.native[2:]))
        values, found = self._get(raw, group, options, 0, None, progress)
        return probes.join(how, found, values[found])

    def _on(self, keys: ArrayLike, by: ArrayLike, stream: Any) -> tuple[tuple[_native.Memory, _native.Memory], _native.Stream | None]:
        """Groups and keys on a device as native calls take them, and the stream of the call."""
        column, on = _arrays.on_stream(keys, self.key_dtype, "the keys", self.device, stream)
        return (_arrays.to_device(by, self.by_dtype, "the groups (by)", self.device, on)._memory, column._memory), on

    def _get(
        self,
        keys: ArrayLike,
        by: ArrayLike,
        how: Neighbors | None,
        default: Any,
        stream: Any,
        progress: Progress,
    ) -> Found:
        miss, native = _arrays.word(default, self.value_dtype), None if how is None else how.native
        if _arrays.on_device(keys):
            given, on = self._on(keys, by, stream)
            values, found = (_arrays.empty(self.device, len(given[1]), dtype) for dtype in (self.value_dtype, np.dtype(np.bool_)))
            self._index.get(given, native, None, (values._memory, found._memory, miss), on)
            return Found(values, found)
        rows = Rows(None, (keys, self.key_dtype, "the keys"), (by, self.by_dtype, "the groups (by)"))
        raw, group = rows.columns
        outputs = np.empty(raw.size, self.value_dtype), np.empty(raw.size, np.bool_)

        def search(groups: Any, keys: Any, values: Any, found: Any) -> None:
            if how is None or how.most is None:
                self._index.get((groups, keys), native, None, (values, found, miss))
                return
            find = lambda by, near, values, found: self._index.get((groups, keys), by, near, (values, found, miss))
            how.measured(find, keys, (values, found), miss)

        if progress:
            _progress.in_pieces(search, (group, raw, *outputs), progress, "look-ups in groups")
        else:
            search(group, raw, *outputs)
        defaults = _arrays.of_word(miss, self.value_dtype), False
        return Found(*(rows.fill(array, default).reshape(rows.shape)[()] for array, default in zip(outputs, defaults)))

    def insert(self, by: ArrayLike, keys: ArrayLike, values: ArrayLike, *, stream: Any = None) -> UpdateReport:
        """Insert pairs into groups; otherwise like :meth:`Index.insert`."""
        return self._change(INSERT, by, keys, values, stream)

    def update(self, by: ArrayLike, keys: ArrayLike, values: ArrayLike, *, stream: Any = None) -> UpdateReport:
        """Replace the values of the keys that are present in their groups; otherwise like :meth:`Index.insert`."""
        return self._change(UPDATE, by, keys, values, stream)

    def remove(self, by: ArrayLike, keys: ArrayLike, *, stream: Any = None) -> UpdateReport:
        """Remove the keys that are present in their groups; otherwise like :meth:`Index.insert`."""
        return self._change(REMOVE, by, keys, None, stream)

    def _change(self, kind: int, by: ArrayLike, keys: ArrayLike, values: ArrayLike | None, stream: Any) -> UpdateReport:
        given: Any = None
        if _arrays.on_device(keys):
            columns, on = self._on(keys, by, stream)
            if values is not None:
                given = _arrays.to_device(values, self.value_dtype, "the values", self.device, on)._memory
            return UpdateReport(*self._index.apply(kind, columns, given, on))
        raw = _arrays.flat(_arrays.host(keys, self.key_dtype, "the keys"))
        group = _arrays.flat(_arrays.host(by, self.by_dtype, "the groups (by)"))
        if values is not None:
            given = _arrays.flat(_arrays.host(values, self.value_dtype, "the values", True))
        return UpdateReport(*self._index.apply(kind, (group, raw), given))

    def items(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Groups, keys and values of all pairs, by group, then by key; three arrays in host memory. Negative groups come last."""
        by, keys, values = self._index.pairs()
        return by.view(self.by_dtype), keys.view(self.key_dtype), values.view(self.value_dtype)

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """The pairs, as ``(group, key, value)``, in the order of :meth:`items`. Copies all of them first."""
        return iter(zip(*map(objects, self.items())))

    def __contains__(self, pair: object) -> bool:
        """Whether a group has a key: ``(group, key) in index``. What cannot be a pair of these is not there."""
        if not isinstance(pair, tuple) or len(pair) != 2:
            return False
        by, key = (whole_number(part, dtype) for part, dtype in zip(pair, (self.by_dtype, self.key_dtype)))
        return is_there(key, lambda key: is_there(by, lambda by: bool(self.get(key, by=by).found)))

    def _file_columns(self) -> dict[str, npt.NDArray[Any]]:
        return dict(zip(("by", "keys", "values"), self.items()))

    def _options(self) -> dict[str, Any]:
        return {"fill": self.fill}

    def _contents(self) -> str:
        return f"{len(self):,} pairs, {self.by_dtype}, {self.key_dtype} -> {self.value_dtype}"
