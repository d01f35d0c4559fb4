"""A frame that is kept and asked many times: :class:`FrameIndex`."""

from __future__ import annotations

import importlib
import json
from typing import Any, Hashable, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _asof, _frames, _keys, _merge, _missing, errors
from ._device import Device
from ._entries import Entries, Groups, Spans
from ._frame import Frame, Rows, Suffixes
from ._frame_arrow import ArrowFrame, DuckFrame
from ._frame_pandas import PandasFrame
from ._held import Held, is_there
from ._merge import Names
from ._multi import ChangeReport
from ._options import Direction, Inclusive, closed_of
from ._strings import StringIndex


class _Table(NamedTuple):
    """A table and its index. A change makes another one."""

    frame: Frame
    on: Hashable
    by: list[Hashable]
    #: The dtype of the numbers or times by which rows are ordered; object for strings.
    dtype: np.dtype[Any]
    #: The strings by which rows are ordered, whose ranks are the numbers of the entries; None for numbers.
    strings: StringIndex | None
    #: A row of each group: the columns `by` alone. None without these.
    groups: Frame | None
    entries: Entries
    #: The frame and the groups in the form of other libraries, once they were asked for.
    forms: dict[type[Frame], tuple[Frame, Frame | None]]

    @classmethod
    def of(cls, frame: Frame, on: Hashable, by: list[Hashable], device: Device) -> "_Table":
        """The index of a table."""
        key, column = frame.key(on, "on"), frame.column(on, "on")
        what, strings = key.what, None
        if key.kind in ("text", "bytes"):
            there = frame.there(column)
            _keys.refuse_missing(key if there.all() else key._replace(valid=there))
            dtype, strings = np.dtype(object), StringIndex(column, device=device)
        else:
            if key.kind == "bool":
                raise ValueError(f"{what} are booleans: an index is ordered by integers, floats, times, durations or strings")
            _asof.refuse_unordered(key)
            dtype = _arrays.nullable(column, None, what)[0].dtype
            if dtype.kind not in "mM":
                dtype = np.dtype("f8" if dtype.kind == "f" else "u8" if dtype == np.uint64 else "i8")
        numbers, _ = _numbers(strings, dtype, column, what)
        numbered: Groups = None
        groups: Frame | None = None
        if by:
            for name in by:
                frame.check_name(name, "by")
            keys = [frame.key(name, "by") for name in by]
            none = frame.take(np.zeros(0, np.int64))
            codes = _keys.encode([(key, frame.of(none).key(name, "by")) for key, name in zip(keys, by)], frame.encode)
            # The first row of each group; groups are numbered without gaps.
            firsts = np.full(codes.below, -1)
            firsts[codes.left[::-1]] = np.arange(frame.size)[::-1]
            is_group = firsts >= 0
            numbered = (np.cumsum(is_group) - 1).astype(np.uint32)[codes.left]
            groups = frame.of(frame.only([frame.names.index(name) for name in by]).take(firsts[is_group]))
        return cls(frame, on, by, dtype, strings, groups, Entries(numbered, numbers, 1 if groups is None else groups.size + 1, device), {})

    def form(self, like: Frame) -> tuple[Frame, Frame | None]:
        """The frame and its groups in the form of another one's library."""
        kind = type(like)
        if kind not in self.forms:
            groups = None if self.groups is None else _frames.in_form_of(like, self.groups)
            self.forms[kind] = _frames.in_form_of(like, self.frame), groups
        return self.forms[kind]

    def numbers(self, column: Any, what: str) -> tuple[npt.NDArray[Any], _missing.Valid]:
        """Keys as the numbers of the entries have them, and which there are."""
        return _numbers(self.strings, self.dtype, column, what)

    def numbers_there(self, column: Any, what: str) -> npt.NDArray[Any]:
        """The same of keys of which none may be missing."""
        numbers, valid = self.numbers(column, what)
        _missing.refuse(valid, what, "drop these rows")
        return numbers

    def groups_of(self, like: Frame, keys: list[_keys.Key]) -> Groups:
        """The number of the group that each row of some columns is in, which are of a library; that of none for no group."""
        groups = self.form(like)[1]
        if groups is None:
            return None
        codes = _keys.encode([(key, groups.key(name, "by")) for key, name in zip(keys, self.by)], like.encode)
        numbers = np.full(codes.below, groups.size, np.uint32)
        numbers[codes.right] = np.arange(groups.size)
        return numbers[codes.left]

    def groups_of_arrays(self, by: Any, like: Frame, size: int) -> Groups:
        """The same of arrays: one, or one for each of the columns `by`."""
        if len(self.by) > 1 and not (isinstance(by, (list, tuple)) and len(by) == len(self.by)):
            raise ValueError(f"by is {by!r}: give a list of {len(self.by)} arrays, for {', '.join(map(repr, self.by))}")
        arrays = by if len(self.by) > 1 else [by]
        frames = [_frames.in_form_of(like, _frames.column_frame(array, like, "by")) for array in arrays]
        for frame in frames:
            if frame.size != size:
                raise ValueError(f"by has {frame.size} elements for {size} keys: give one for each")
        return self.groups_of(like, [frame.key("by", "by") for frame in frames])

    def equal(self, keys: Any, by: Any, like: Frame, what: str) -> Spans:
        """Where the rows of each key are, in its group or, without `by`, in all groups one after another."""
        numbers, valid = self.numbers(keys, what)
        if self.groups is None or by is not None:
            groups = None if self.groups is None else self.groups_of_arrays(by, like, numbers.size)
        else:
            count = self.groups.size
            groups, numbers = np.tile(np.arange(count, dtype=np.uint32), numbers.size), np.repeat(numbers, count)
            valid = None if valid is None else np.repeat(valid, count)
        starts, counts = self.entries.equal(groups, numbers)
        return Spans(starts, counts if valid is None else np.where(valid, counts, 0))

    def check_by(self, by: Any) -> None:
        """An error for groups of a table that has none."""
        if by is not None and not self.by:
            raise ValueError("by is given, but the index has no groups: build it with by=")


def _numbers(strings: StringIndex | None, dtype: np.dtype[Any], column: Any, what: str) -> tuple[npt.NDArray[Any], _missing.Valid]:
    """Keys as numbers in their order, and which there are."""
    if strings is not None:
        return strings._places(column, what)
    made, valid = _arrays.nullable(column, dtype, what)
    made = _arrays.flat(made)
    if made.dtype.kind == "f":
        valid = _keys.both(valid, ~np.isnan(made))
    return made.view(np.int64) if made.dtype.kind in "mM" else made, valid


class FrameIndex(Held):
    """A frame with an index over one of its columns, kept on a device and asked many times.

    Parameters
    ----------
    frame : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
        The table, of pandas, polars, pyarrow or DuckDB. It is not changed, and later changes of the caller's do not reach the index.
    on : label
        The column by which rows are ordered: integers, floats, times, times with a time zone, durations or strings, of which none is
        missing. Keys may be there several times.
    by : label or list of labels, optional
        Columns that say in which group a row is, as for :func:`merge_asof`.
    device : str, Device or None
        As for :class:`Index`. The index is there; the frame stays in host memory.

    Raises
    ------
    KeyError
        For a column that is not there.
    ValueError
        For a column of keys that has no order, or of which an element is missing.
    TypeError
        For what is no frame.

    Notes
    -----
    Rows come back as frames of the library of the table, with all of its columns; of pandas with their labels. Keys that are asked for
    are cast as queries of :class:`Index` are: exactly, or there is an error. Floats are compared in 64 bits, and both zeros are one key.

    A change rebuilds the index, whatever its size, and takes effect as a whole: a thread that asks meanwhile has the table as it
    was. Many small changes are better made as few large ones.

    Examples
    --------
    >>> import pandas
    >>> quotes = pandas.DataFrame({"at": [1, 3, 4], "stock": ["A", "B", "A"], "bid": [10.0, 20.0, 11.0]})
    >>> index = lanetree.FrameIndex(quotes, on="at", by="stock", device="cpu")
    >>> index.asof(pandas.DataFrame({"at": [5, 2], "stock": ["A", "B"]}))
       at stock   bid
    0   5     A  11.0
    1   2     B   NaN
    >>> index.range(2, 4)
       at stock   bid
    1   3     B  20.0
    2   4     A  11.0
    >>> index.loc[3]
       at stock   bid
    1   3     B  20.0
    """

    __slots__ = ("_table",)
    _table: _Table

    def __init__(self, frame: Any, on: Hashable, by: Names = None, device: str | Device | None = None) -> None:
        self.device = Device(device)
        self._hold(_Table.of(_frames.frame_of(frame, "frame").kept(), on, _merge.listed(by), self.device))

    def _hold(self, table: _Table) -> None:
        self._table, self._index = table, table.entries.index._index

    @property
    def on(self) -> Hashable:
        """The name of the column by which rows are ordered."""
        return self._table.on

    @property
    def by(self) -> list[Hashable]:
        """The names of the columns that say in which group a row is."""
        return list(self._table.by)

    @property
    def key_dtype(self) -> np.dtype[Any]:
        """The dtype in which keys are compared; object for strings."""
        return self._table.dtype

    @property
    def frame(self) -> Any:
        """The table, in the order of its rows, as its library has it."""
        frame = self._table.frame.kept()
        return frame.given(frame.data)

    def to_pandas(self) -> Any:
        """The table as a DataFrame of pandas."""
        importlib.import_module("pandas")
        return _frames.in_form_of(PandasFrame(None, ""), self._table.frame).kept().data

    def to_arrow(self) -> Any:
        """The table as a Table of pyarrow, without the index of a DataFrame."""
        pyarrow = importlib.import_module("pyarrow")
        return _frames.in_form_of(ArrowFrame(pyarrow.table({}), ""), self._table.frame).data

    def __len__(self) -> int:
        """The number of rows."""
        return self._table.frame.size

    def asof(
        self,
        frame: Any,
        *,
        on: Hashable | None = None,
        by: Names = None,
        direction: Direction = "backward",
        tolerance: Any = None,
        allow_exact_matches: bool = True,
        suffixes: Suffixes = ("_x", "_y"),
    ) -> Any:
        """Each row of `frame` with the row of the table that is nearest: ``merge_asof(frame, table, on=..., by=...)``.

        Parameters
        ----------
        frame : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
            A frame of any of the libraries, in any order.
        on : label, optional
            Its column of keys, by default the one that is called as that of the table.
        by : label or list of labels, optional
            Its columns that say in which group a row is, by default those that are called as those of the table.
        direction, tolerance, allow_exact_matches, suffixes : optional
            As for :func:`merge_asof`. Strings have no distances, so neither "nearest" nor a tolerance.

        Returns
        -------
        DataFrame, Table, RecordBatch or DuckDBPyRelation
            As of :func:`merge_asof`, of the library of `frame`.
        """
        _asof.check(direction, allow_exact_matches=allow_exact_matches)
        table, one = self._table, _frames.frame_of(frame, "frame")
        table.check_by(by)
        name, names = table.on if on is None else on, table.by if by is None else _merge.listed(by)
        if len(names) != len(table.by):
            raise ValueError(f"by has {len(names)} names, and the index {len(table.by)}: give the same number")
        what = f"{one.side}[{name!r}]"
        limit = None
        if table.strings is not None and (direction == "nearest" or tolerance is not None):
            given = "direction='nearest'" if direction == "nearest" else f"tolerance={tolerance!r}"
            raise errors.OptionValue(f"{given}, but {table.on!r} has strings, which have no distances: leave it out")
        if tolerance is not None:
            unit = np.datetime_data(table.dtype)[0] if table.dtype.kind in "mM" else None
            limit = _asof.limit(tolerance, np.dtype("i8") if unit else table.dtype, unit, what)
        numbers = table.numbers_there(one.column(name, "on"), what)
        groups = table.groups_of(one, [one.key(column, "by") for column in names])
        rows = table.entries.asof(groups, numbers, direction, not allow_exact_matches, limit)
        return _frames.joined(one, table.form(one)[0], (None, rows), _merge.same(([name, *names], [table.on, *table.by])), suffixes)

    def lookup(self, keys: Any, column: Hashable, *, by: Any = None) -> Any:
        """The value of each key in a column of the table, as :func:`lookup` has it.

        Parameters
        ----------
        keys : Series, Array, ChunkedArray or array_like
            A column of pandas, polars or pyarrow, or an array of NumPy or a list. One that is missing is not there.
        column : label
            The column of values.
        by : array_like, or list of these
            The group of each key, if the index has groups: an array, or, of several columns, a list of one for each.

        Returns
        -------
        Series, Array or ChunkedArray
            The values, null for keys that are not there: of the library of `keys`, with the index and the name of a Series; for arrays
            of NumPy and lists of that of the table.

        Raises
        ------
        ValueError
            For a key that the table has several times.
        """
        table = self._table
        table.frame.check_name(column, "column")
        table.check_by(by)
        if table.by and by is None:
            raise ValueError(f"by is not given, but the index has groups of {', '.join(map(repr, table.by))}: give the group of each key")
        one = _frames.column_frame(keys, table.frame, "keys")
        starts, counts = table.equal(keys, by, one, "the keys")
        several = np.flatnonzero(counts > 1)
        if several.size:
            raise ValueError(f"the key in row {several[0]} is there {counts[several[0]]} times: use loc, range or merge, which have all rows")
        at = table.entries.rows[starts] if table.frame.size else starts
        return table.form(one)[0].series(column, np.where(counts > 0, at, -1), keys)

    def range(self, low: Any, high: Any, *, inclusive: Inclusive = "both", by: Any = None) -> Any:
        """The rows whose keys are between two bounds.

        Parameters
        ----------
        low, high : scalar or None
            The bounds; None is no bound.
        inclusive : {"both", "left", "right", "neither"}, default "both"
            Which bounds belong to the range, as in :meth:`pandas.Series.between`.
        by : scalar or tuple, optional
            The group, for rows of one group alone: the value of the column `by`, or a tuple with a value for each of several.

        Returns
        -------
        DataFrame, Table, RecordBatch or DuckDBPyRelation
            The rows, of the table's library: in the order of their keys, and of equal keys in that of the table.
        """
        closed, table = closed_of(inclusive), self._table
        table.check_by(by)
        first, last = (None if bound is None else table.numbers_there([bound], name) for bound, name in ((low, "low"), (high, "high")))
        groups: Groups = None
        if by is not None:
            values = [[value] for value in by] if isinstance(by, tuple) else [by]
            groups = table.groups_of_arrays(values if len(table.by) > 1 else values[0] if isinstance(by, tuple) else values, table.frame, 1)
        elif table.groups is not None:
            groups = np.arange(table.groups.size, dtype=np.uint32)
        places = table.entries.between(groups, first, last, closed).places()
        return self._rows(table, places, groups is not None and by is None)

    @staticmethod
    def _rows(table: _Table, places: Rows, is_mixed: bool) -> Any:
        """Rows as a frame, by their places; in the order of their keys, if they are those of groups one after another."""
        rows = table.entries.rows[places]
        if is_mixed:
            rows = rows[np.lexsort((rows, table.entries.numbers_at(places)))]
        return table.frame.given(table.frame.take(rows))

    @property
    def loc(self) -> "_Loc":
        """The rows of keys, of all groups: ``index.loc[key]``, ``index.loc[[key, key]]`` in the order of the keys, and
        ``index.loc[low:high]``, both bounds inclusive. A KeyError for a key that is not there."""
        return _Loc(self)

    def append(self, frame: Any) -> ChangeReport:
        """Append rows, which get the next numbers: all of them, or, where there is an error, none.

        Parameters
        ----------
        frame : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
            Rows with the columns of the table, in any order, whose dtypes become those of the table.

        Returns
        -------
        ChangeReport

        Raises
        ------
        KeyError
            For a column that is not in both.
        ValueError
            For a column whose dtype would become another one, and keys that are missing.
        """
        self._index.stats()
        table = self._table
        other = _frames.in_form_of(table.frame, _frames.frame_of(frame, "frame"))
        self._hold(_Table.of(table.frame.of(table.frame.stacked(other)), table.on, table.by, self.device))
        return ChangeReport(other.size, 0, 0)

    def remove(self, keys: Any, *, by: Any = None) -> ChangeReport:
        """Remove all rows of some keys.

        Parameters
        ----------
        keys : array_like
            Keys; those that are not there, or missing, are counted as unmatched.
        by : array_like, or list of these, optional
            The group of each key, as for :meth:`lookup`, for rows of that group alone.

        Returns
        -------
        ChangeReport
        """
        self._index.stats()
        table = self._table
        table.check_by(by)
        spans = table.equal(keys, by, _frames.column_frame(keys, table.frame, "keys"), "the keys")
        is_kept = np.ones(table.frame.size, np.bool_)
        is_kept[table.entries.rows[spans.places()]] = False
        size = len(keys)
        matched = int((spans.counts.reshape(size, -1).sum(axis=1) > 0).sum()) if spans.counts.size else 0
        removed = table.frame.size - int(is_kept.sum())
        if removed:
            self._hold(_Table.of(table.frame.of(table.frame.take(np.flatnonzero(is_kept))), table.on, table.by, self.device))
        return ChangeReport(0, removed, size - matched)

    def __contains__(self, key: object) -> bool:
        """Whether a row has a key. What cannot be a key is not there."""
        table = self._table
        return is_there(key, lambda key: bool(table.equal([key], None, table.frame, "the key").counts.sum() > 0))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("rows of a FrameIndex are not iterated: use frame, to_pandas() or to_arrow()")

    def __eq__(self, other: object) -> bool:
        """Whether the other one has the same frame, of the same library, and the same columns of keys and groups."""
        if not isinstance(other, FrameIndex):
            return NotImplemented
        one, two = self._table, other._table
        return type(one.frame) is type(two.frame) and (one.on, one.by) == (two.on, two.by) and bool(one.frame.data.equals(two.frame.data))

    __hash__ = None

    def _parts(self) -> tuple[Any, ...]:
        frame = self._table.frame
        return (frame.data if isinstance(frame, DuckFrame) else frame.given(frame.data),)

    def _options(self) -> dict[str, Any]:
        return {"on": self.on, "by": self.by}

    def _file_columns(self) -> dict[str, npt.NDArray[Any]]:
        pyarrow = importlib.import_module("pyarrow")
        frame = self._table.frame
        data = frame.data if isinstance(frame, ArrowFrame) else pyarrow.Table.from_pandas(frame.data) if isinstance(frame, PandasFrame) else frame.data.to_arrow()
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, data.schema) as writer:
            writer.write_table(data)
        about = type(frame).__name__.removesuffix("Frame").lower(), json.dumps([self.on, self.by])
        return {"frame": np.frombuffer(sink.getvalue(), np.uint8), "about": np.array(about)}

    @classmethod
    def _of_file(cls, columns: dict[str, npt.NDArray[Any]]) -> tuple[Any, ...]:
        pyarrow = importlib.import_module("pyarrow")
        library, names = columns["about"].tolist()
        data = pyarrow.ipc.open_stream(pyarrow.py_buffer(columns["frame"])).read_all()
        if library == "pandas":
            data = data.to_pandas()
        elif library == "polars":
            data = importlib.import_module("polars").from_arrow(data)
        return (data, *json.loads(names))

    def _contents(self) -> str:
        table = self._table
        groups = "" if table.groups is None else f" in {table.groups.size:,} groups by {', '.join(map(repr, table.by))}"
        return f"{len(self):,} rows on {table.on!r}{groups}, {table.dtype}"


class _Loc:
    """Rows of a table by key."""

    __slots__ = ("_of",)

    def __init__(self, of: FrameIndex) -> None:
        self._of = of

    def __getitem__(self, keys: Any) -> Any:
        table = self._of._table
        if isinstance(keys, slice):
            if keys.step is not None:
                raise ValueError(f"a slice of keys has no step, but {keys.step!r} was passed")
            return self._of.range(keys.start, keys.stop)
        is_one = isinstance(keys, (str, bytes)) or np.ndim(keys) == 0
        asked = [keys] if is_one else keys
        spans = table.equal(asked, None, _frames.column_frame(asked, table.frame, "keys"), "the keys")
        counts = spans.counts.reshape(len(asked), -1).sum(axis=1) if spans.counts.size else np.zeros(len(asked), np.int64)
        absent = np.flatnonzero(counts == 0)
        if absent.size:
            raise KeyError(keys if is_one else list(asked)[absent[0]])
        return self._of._rows(table, spans.places(), False)
