"""Joins of frames with the nearest rows: :func:`merge_nearest`."""

from __future__ import annotations

import operator
from typing import Any, Hashable, Literal

import numpy as np
import numpy.typing as npt

from . import _asof, _frames
from ._entries import Groups, Order, distances
from ._frame import Rows, Suffixes
from ._merge import Names


def merge_nearest(
    left: Any,
    right: Any,
    k: int,
    on: Hashable | None = None,
    left_on: Hashable | None = None,
    right_on: Hashable | None = None,
    by: Names = None,
    left_by: Names = None,
    right_by: Names = None,
    suffixes: Suffixes = ("_x", "_y"),
    tolerance: Any = None,
    allow_exact_matches: bool = True,
    how: Literal["inner", "left"] = "inner",
) -> Any:
    """Join each row of `left` with the `k` rows of `right` that are nearest in time, or by another number.

    Parameters
    ----------
    left, right : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
        Frames, in any order, as for :func:`merge_asof`.
    k : int
        The most rows of `right` for a row of `left`.
    on, left_on, right_on, by, left_by, right_by, suffixes, tolerance, allow_exact_matches : optional
        As for :func:`merge_asof`.
    how : {"inner", "left"}, default "inner"
        Whether a row of `left` without a match is left out, or is there once with nulls.

    Returns
    -------
    DataFrame, Table, RecordBatch or DuckDBPyRelation
        Of `left`'s library: a row for each pair, in the order of `left`, and of one row of `left` the nearest first. Of two that are
        equally near the one that is not later is first. Of rows of equal time the last one is first, if they are not later than the
        row of `left`, and the first one, if they are later: the first match is that of :func:`merge_asof` with "nearest".

    Raises
    ------
    KeyError, ValueError, TypeError
        As for :func:`merge_asof`.

    Notes
    -----
    Distances of integers and times are exact. Those of floats are differences in the dtype of the columns, as pandas takes them.

    Examples
    --------
    >>> import pandas
    >>> stations = pandas.DataFrame({"km": [0.0, 2.5, 9.0], "name": ["a", "b", "c"]})
    >>> lanetree.merge_nearest(pandas.DataFrame({"km": [2.0, 8.0]}), stations, 2, on="km", tolerance=5)
        km name
    0  2.0    b
    1  2.0    a
    2  8.0    c
    """
    _asof.check("nearest", allow_exact_matches=allow_exact_matches)
    if how not in ("inner", "left"):
        raise ValueError(f"how is {how!r}, where 'inner' or 'left' is needed")
    try:
        most = operator.index(k)
    except TypeError as error:
        raise TypeError(f"k is {k!r}, where an integer is needed") from error
    if most < 1:
        raise ValueError(f"k is {most}, where at least 1 is needed")
    given = _asof.asked(left, right, (on, left_on, right_on), (False, False), (by, left_by, right_by), tolerance)
    groups = (None, None) if given.codes is None else given.codes[:2]
    found = nearest((groups[0], given.words[0]), (groups[1], given.words[1]), most, not allow_exact_matches, given.limit)
    is_row = found >= 0
    if how == "left":
        is_row[:, 0] |= ~is_row.any(axis=1)
    rows = np.repeat(np.arange(len(found)), is_row.sum(axis=1))
    return _frames.joined(*given.frames, (rows, found[is_row]), given.drop, suffixes)


def nearest(
    left: tuple[Groups, npt.NDArray[Any]], right: tuple[Groups, npt.NDArray[Any]], k: int, is_strict: bool, limit: Any
) -> Rows:
    """For each row of the left table, given as groups and numbers, a line of up to `k` rows of the right one, the nearest first, and then -1."""
    (groups, numbers), (others, keys) = left, right
    if not keys.size:
        return np.full((numbers.size, 1), -1)
    order = Order(others, keys)
    ordered, by_number = keys[order.rows], keys[order.by_number]
    upto = np.searchsorted(by_number, numbers, "right")
    below = np.searchsorted(by_number, numbers, "left") if is_strict else upto
    first, end = (order.places(groups, np.full(numbers.size, rank)) for rank in (0, keys.size))
    # The next candidates on both sides.
    back, ahead = order.places(groups, below) - 1, order.places(groups, upto)
    made: list[Rows] = []
    while len(made) < k:
        has_back, has_ahead = back >= first, ahead < end
        behind = distances(ordered[np.where(has_back, back, 0)], numbers)
        before = distances(numbers, ordered[np.where(has_ahead, ahead, 0)])
        if limit is not None:
            has_back &= ~(behind > behind.dtype.type(limit))
            has_ahead &= ~(before > before.dtype.type(limit))
        takes_back = has_back & (~has_ahead | (behind <= before))
        takes_ahead = has_ahead & ~takes_back
        takes = takes_back | takes_ahead
        if made and not takes.any():
            break
        made.append(np.where(takes, order.rows[np.where(takes, np.where(takes_back, back, ahead), 0)], -1))
        back -= takes_back
        ahead += takes_ahead
    return np.stack(made, axis=1)
