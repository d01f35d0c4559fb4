"""Joins of frames by intervals: :func:`interval_join`, :func:`range_join`."""

from __future__ import annotations

from typing import Any, Hashable, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _frames, _joins, _keys, _merge
from ._entries import Groups, Order, Spans
from ._frame import Frame, Rows, Suffixes
from ._joins import How
from ._keys import Key
from ._merge import Names
from ._options import Inclusive, closed_of


def interval_join(
    left: Any,
    right: Any,
    left_on: Names = None,
    right_on: Names = None,
    how: How = "inner",
    *,
    on: Names = None,
    closed: Inclusive = "both",
    by: Names = None,
    left_by: Names = None,
    right_by: Names = None,
    suffixes: Suffixes = ("_x", "_y"),
) -> Any:
    """Join each row of `left` with the rows of `right` whose intervals contain its point, or overlap its interval.

    Parameters
    ----------
    left, right : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
        Frames, in any order, as for :func:`merge_asof`.
    left_on, right_on : label or array_like, or pair of these
        The columns of each side: a pair has the lower and the upper bounds of intervals, and one column alone has points. Not both
        sides have points. An array or a Series has an element for each row. A missing bound is none: the interval is open to that
        side. A missing point is in no interval.
    how : {"inner", "left", "semi", "anti"}, default "inner"
        "inner": pairs of rows. "left": these, and the rows of `left` without a match, with nulls. "semi", "anti": the rows of `left`
        that have a match, or have none, as they are, each once.
    on : pair of labels, optional
        The bounds, if their columns have the same names on both sides.
    closed : {"both", "left", "right", "neither"}, default "both"
        Which bounds belong to the intervals, of both sides. Intervals that touch overlap if both have the bound. One that ends before it
        starts contains nothing and overlaps nothing, nor one of which both bounds are equal, unless both belong to it.
    by, left_by, right_by : label or list of labels, optional
        Columns that have to be equal, as for :func:`merge_asof`.
    suffixes : pair of str or None, default ("_x", "_y")
        As for :func:`merge_asof`.

    Returns
    -------
    DataFrame, Table, RecordBatch or DuckDBPyRelation
        Of `left`'s library: a row for each pair, in the order of `left`, and of one row of `left` in the order of `right`.

    Raises
    ------
    KeyError
        For a column that is not there.
    ValueError
        For arguments that exclude each other, and columns that cannot be compared exactly.
    TypeError
        For what is no frame.

    See Also
    --------
    IntervalIndex : Intervals that are kept and asked many times.

    Notes
    -----
    No index is built: both sides are sorted, and the time is that of the sorts and of the pairs that there are.

    Examples
    --------
    >>> import pandas
    >>> shifts = pandas.DataFrame({"name": ["Eve", "Bob"], "start": [8, 14], "end": [14, None]})
    >>> jobs = pandas.DataFrame({"job": ["a", "b"], "begin": [9, 13], "done": [10, 15]})
    >>> lanetree.interval_join(jobs, shifts, ("begin", "done"), ("start", "end"), closed="left")[["job", "name"]]
      job name
    0   a  Eve
    1   b  Eve
    2   b  Bob
    >>> lanetree.interval_join(jobs, shifts, "done", ("start", "end"), "anti", closed="neither")
    Empty DataFrame
    Columns: [job, begin, done]
    Index: []
    """
    names = _merge.columns_pair(on, left_on, right_on, "on", is_paired=False)
    arguments = ("left_on", "right_on") if on is None else ("on", "on")
    for columns, argument in zip(names, arguments):
        if len(columns) not in (1, 2):
            raise ValueError(f"{argument} has {len(columns)} columns, {columns}: give two, (the lower bound, the upper bound), or one of points")
    if len(names[0]) == len(names[1]) == 1:
        raise ValueError(f"{' and '.join(dict.fromkeys(arguments))} name points alone: give the two bounds of one side; merge joins rows of equal points")
    return _joined(left, right, names, arguments, how, closed, (by, left_by, right_by), suffixes)


def range_join(
    left: Any,
    right: Any,
    on: tuple[Hashable, Hashable, Hashable],
    closed: Inclusive = "both",
    by: Names = None,
    left_by: Names = None,
    right_by: Names = None,
    suffixes: Suffixes = ("_x", "_y"),
    how: How = "inner",
) -> Any:
    """Join each row of `left` with the rows of `right` between whose bounds it is.

    With ``on=(column, low, high)`` it is ``interval_join(left, right, column, (low, high))``.

    Parameters
    ----------
    left, right : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
        Frames, as for :func:`merge_asof`.
    on : tuple of three labels
        The column of `left`, and the columns of `right` that have the lower and the upper bounds. A missing bound is none: the range is
        open to that side. A missing element of `left` is in no range.
    closed, by, left_by, right_by, suffixes, how : optional
        As for :func:`interval_join`.

    Returns
    -------
    DataFrame, Table, RecordBatch or DuckDBPyRelation
        As of :func:`interval_join`.

    Raises
    ------
    KeyError, ValueError, TypeError
        As for :func:`interval_join`.

    Examples
    --------
    >>> import pandas
    >>> events = pandas.DataFrame({"at": [5, 12, 30]})
    >>> windows = pandas.DataFrame({"low": [0, 10, None], "high": [10, 20, 6], "name": ["a", "b", "c"]})
    >>> lanetree.range_join(events, windows, on=("at", "low", "high"))
       at   low  high name
    0   5   0.0    10    a
    1   5   NaN     6    c
    2  12  10.0    20    b
    """
    if not isinstance(on, (tuple, list)) or len(on) != 3:
        raise ValueError(f"on is {on!r}: give three columns, (that of left, the lower bound, the upper bound)")
    names = _merge.listed(on)
    return _joined(left, right, (names[:1], names[1:]), ("on", "on"), how, closed, (by, left_by, right_by), suffixes)


class _Side(NamedTuple):
    """The intervals of a table's rows, or their points, of which low and high are one."""

    low: Key
    high: Key
    #: The rows that have a point, or any number between their bounds.
    rows: Rows
    #: The group of each row, or None.
    groups: Groups

    def open_lows(self) -> npt.NDArray[np.bool_] | None:
        """Of these rows which have no lower bound; None if all have one."""
        is_open = None if self.low.valid is None else ~self.low.valid[self.rows]
        return is_open if is_open is not None and is_open.any() else None


class _Pieces(NamedTuple):
    """Pairs of rows of two tables: of one table pieces of some order of its rows, one piece for each row of the other table."""

    #: Whether the pieces are of the left table.
    is_of_left: bool
    rows: Rows
    spans: Spans

    def pairs(self) -> tuple[Rows, Rows]:
        """The rows of the left and of the right table."""
        rows, others = self.rows[self.spans.places()], np.repeat(np.arange(self.spans.counts.size), self.spans.counts)
        return (rows, others) if self.is_of_left else (others, rows)

    def mark(self, has_match: npt.NDArray[np.bool_]) -> None:
        """Says of the rows of the left table which are in a pair, without making the pairs."""
        starts, counts = self.spans
        if not self.is_of_left:
            has_match |= counts > 0
            return
        size = self.rows.size + 1
        begun = np.bincount(starts, minlength=size) - np.bincount(starts + counts, minlength=size)
        has_match[self.rows[np.cumsum(begun[:-1]) > 0]] = True


def _joined(
    left: Any,
    right: Any,
    names: tuple[list[Hashable], list[Hashable]],
    arguments: tuple[str, str],
    how: How,
    closed: Inclusive,
    by: tuple[Names, Names, Names],
    suffixes: Suffixes,
) -> Any:
    """The join of intervals with intervals, or with points, as columns of a side are two or one."""
    _joins.check(how)
    bounds = closed_of(closed, "closed")
    frames = one, other = _frames.frames_of(left, right)
    groups = _merge.columns_pair(*by, "by")
    keys = [[frame.key(name, argument) for name in listed] for frame, listed, argument in zip(frames, names, arguments)]
    blank = [[_is_blank(frame, key) for key in listed] for frame, listed in zip(frames, keys)]
    like = next((key for side, is_blank in zip(keys, blank) for key, is_none in zip(side, is_blank) if not is_none), None)
    pairs = _merge.keys_of(frames, groups, "by")
    codes = _keys.encode(pairs, one.encode) if pairs else None
    sides = [
        _side([_blank_as(like, key) if is_none else key for key, is_none in zip(listed, is_blank)], bounds, of)
        for listed, is_blank, of in zip(keys, blank, codes or (None, None))
    ]
    pieces = _pieces(sides[0], sides[1], (len(names[0]) == 1, len(names[1]) == 1), bounds)
    if how in ("semi", "anti"):
        has_match = np.zeros(one.size, np.bool_)
        for some in pieces:
            some.mark(has_match)
        return _frames.selected(one, has_match == (how == "semi"))
    rows, found = (np.concatenate(parts) for parts in zip(*(some.pairs() for some in pieces)))
    # Of one row of the left table the pieces of a single order have the right table's rows in order.
    in_order = np.argsort(rows, kind="stable") if len(pieces) == 1 and pieces[0].is_of_left else np.lexsort((found, rows))
    rows, found = rows[in_order], found[in_order]
    if how == "left":
        is_alone = np.ones(one.size, np.bool_)
        is_alone[rows] = False
        alone = np.flatnonzero(is_alone)
        places = np.searchsorted(rows, alone)
        rows, found = np.insert(rows, places, alone), np.insert(found, places, -1)
    return _frames.joined(_merge.with_arrays(one, groups), other, (rows, found), _merge.same(groups), suffixes)


def _is_blank(frame: Frame, key: Key) -> bool:
    """Whether a column has no numbers and nothing in it is there: it may have any dtype."""
    return key.words is None and not frame.there(key.column).any()


def _blank_as(like: Key | None, key: Key) -> Key:
    """A column in which nothing is there, as one of the kind of another column."""
    kind = Key("integer", np.zeros(0, np.int64), None, None, None, "") if like is None or like.words is None else like
    assert kind.words is not None
    return kind._replace(words=np.zeros(key.size, kind.words.dtype), valid=np.zeros(key.size, np.bool_), column=key.column, what=key.what)


def _side(keys: list[Key], closed: tuple[bool, bool], groups: Groups) -> _Side:
    """The intervals, or the points, of a table."""
    low, high = keys[0], keys[-1]
    if len(keys) == 1:
        return _Side(low, high, np.arange(low.size) if low.valid is None else np.flatnonzero(low.valid), groups)
    first, last, _ = _keys.numbers(low, high, is_exact=False)
    has_any = first <= last if all(closed) else first < last
    for valid in (low.valid, high.valid):
        if valid is not None:
            has_any |= ~valid
    return _Side(low, high, np.flatnonzero(has_any), groups)


def _pieces(left: _Side, right: _Side, is_point: tuple[bool, bool], closed: tuple[bool, bool]) -> list[_Pieces]:
    """All pairs of intervals that overlap, or of a point with an interval that contains it."""
    if is_point[0]:
        return [_Pieces(True, *_starting_in(left, right, closed))]
    if is_point[1]:
        return [_Pieces(False, *_starting_in(right, left, closed))]
    # Of two intervals that overlap the one that starts later, or at the same place, starts within the other one.
    return [_Pieces(is_left, *_starting_in(*sides, (is_left, all(closed)))) for is_left, sides in ((True, (left, right)), (False, (right, left)))]


def _starting_in(inner: _Side, outer: _Side, closed: tuple[bool, bool]) -> tuple[Rows, Spans]:
    """The rows of one side, in an order in which those that start between the bounds of a row of the other side are one piece, and the
    pieces."""
    numbers, lows, _ = _keys.numbers(inner.low, outer.low, is_exact=False)
    others, highs, _ = _keys.numbers(inner.low, outer.high, is_exact=False)
    is_open, rows = inner.open_lows(), inner.rows
    order = Order(None if inner.groups is None else inner.groups[rows], numbers[rows], is_open)
    by_number, below = rows[order.by_number], 0 if is_open is None else int(np.count_nonzero(is_open))
    starts = below + np.searchsorted(numbers[by_number[below:]], lows, "left" if closed[0] else "right")
    ends = below + np.searchsorted(others[by_number[below:]], highs, "right" if closed[1] else "left")
    if outer.low.valid is not None:
        # What has no start starts where what has none does.
        starts = np.where(outer.low.valid, starts, 0 if closed[0] else below)
    if outer.high.valid is not None:
        ends = np.where(outer.high.valid, ends, by_number.size)
    starts, ends = order.places(outer.groups, starts), order.places(outer.groups, ends)
    counts = np.zeros(starts.size, np.int64)
    counts[outer.rows] = np.maximum(ends - starts, 0)[outer.rows]
    return rows[order.rows], Spans(starts, counts)
