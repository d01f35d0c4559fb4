"""Joins of frames by equal keys: :func:`merge`, :func:`lookup`."""

from __future__ import annotations

from typing import Any, Hashable

import numpy as np

from . import _frames, _joins, _keys, _native
from ._frame import Column, Frame, Suffixes, is_column
from ._joins import How
from ._keys import Key

#: One column or several, by name.
Names = Any


def listed(names: Names) -> list[Hashable]:
    """Names of columns, and arrays in their place, as a list. A tuple is one name in pandas only where it is no list of names."""
    if names is None:
        return []
    return [Column(name) if is_column(name) else name for name in (names if isinstance(names, (list, tuple)) else [names])]


def names_of_both(names: Names, argument: str) -> list[Hashable]:
    """Names of columns that both sides have."""
    made = listed(names)
    if any(isinstance(name, Column) for name in made):
        raise ValueError(f"{argument} has an array, where columns of both sides are named: give left_{argument} and right_{argument}")
    return made


def with_arrays(left: Frame, names: tuple[list[Hashable], list[Hashable]]) -> Frame:
    """The left frame of a join with a column for each key that is an array on both sides, at its place among the keys, as pandas has it."""
    for number, (name, other) in enumerate(zip(*names)):
        if isinstance(name, Column) and isinstance(other, Column):
            left = _frames.with_column(left, number, f"key_{number}", name.data)
    return left


def columns_pair(both: Names, left: Names, right: Names, argument: str, is_paired: bool = True) -> tuple[list[Hashable], list[Hashable]]:
    """The names of columns on both sides, from one argument for both or one for each; of the same number, if they are compared in pairs."""
    if both is not None:
        if left is not None or right is not None:
            raise ValueError(f"{argument} and left_{argument} or right_{argument} are both given: give {argument}, or the other two")
        return (names_of_both(both, argument),) * 2
    if (left is None) != (right is None):
        given, lacking = ("left", "right") if right is None else ("right", "left")
        raise ValueError(f"{given}_{argument} is given without {lacking}_{argument}: give both, or {argument} if the names are the same")
    names = listed(left), listed(right)
    if is_paired and len(names[0]) != len(names[1]):
        raise ValueError(f"left_{argument} has {len(names[0])} names, and right_{argument} {len(names[1])}: give the same number")
    return names


def common(left: Frame, right: Frame) -> list[Hashable]:
    names = [name for name in left.names if name in right.names]
    if not names:
        raise ValueError("left and right have no column of the same name: give on, or left_on and right_on")
    return names


def keys_of(frames: tuple[Frame, Frame], names: tuple[list[Hashable], list[Hashable]], argument: str) -> list[tuple[Key, Key]]:
    """Pairs of columns as keys."""
    left, right = (
        [frame.key(name, argument if names[0] == names[1] else f"{side}_{argument}") for name in listed]
        for side, frame, listed in zip(("left", "right"), frames, names)
    )
    return list(zip(left, right))


def same(names: tuple[list[Hashable], list[Hashable]]) -> list[Hashable]:
    """Columns of keys that are called alike on both sides: a join has them once, from the left one."""
    return [left for left, right in zip(*names) if left == right]


def merge(
    left: Any,
    right: Any,
    how: How = "inner",
    on: Names = None,
    left_on: Names = None,
    right_on: Names = None,
    suffixes: Suffixes = ("_x", "_y"),
) -> Any:
    """Join rows of `left` and `right` whose keys are equal: :func:`pandas.merge`.

    Rows and names are pandas': in the order of `left`, and of one row of `left` in the order of `right`.

    Parameters
    ----------
    left, right : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
        Frames, as for :func:`merge_asof`.
    how : {"inner", "left", "semi", "anti"}, default "inner"
        "inner": pairs of rows. "left": these, and the rows of `left` without a match, with nulls. "semi", "anti": the rows of `left`
        that have a match, or have none, as they are, each once.
    on : label or list of labels
        The columns of keys, in both tables; by default all that both have. Their dtypes may differ where comparing is exact. What is
        missing is equal to what is missing, as pandas has it.
    left_on, right_on : label or array_like, or list of these
        The same, if the names differ; an array or a Series has an element for each row. Keys that are arrays on both sides are columns
        ``key_0`` and so on of the result.
    suffixes : pair of str or None, default ("_x", "_y")
        As for :func:`merge_asof`.

    Returns
    -------
    DataFrame, Table, RecordBatch or DuckDBPyRelation
        Of `left`'s library. Columns of keys that are called alike are there once, as `left` has them.

    Raises
    ------
    KeyError
        For a column that is not there.
    ValueError
        For arguments that exclude each other, and columns that cannot be compared exactly.
    TypeError
        For what is no frame.

    Examples
    --------
    >>> import pandas
    >>> orders = pandas.DataFrame({"customer": ["Eve", "Bob", "Eve"], "item": [1, 2, 3]})
    >>> customers = pandas.DataFrame({"customer": ["Eve", "Dan"], "city": ["Riga", "Oslo"]})
    >>> lanetree.merge(orders, customers, on="customer")
      customer  item  city
    0      Eve     1  Riga
    1      Eve     3  Riga
    >>> lanetree.merge(orders, customers, "anti", on="customer")
      customer  item
    1      Bob     2
    """
    _joins.check(how)
    frames = _frames.frames_of(left, right)
    one, other = frames
    names = columns_pair(on, left_on, right_on, "on")
    if not names[0]:
        names = (common(one, other),) * 2
    codes = _keys.encode(keys_of(frames, names, "on"), one.encode)
    if how in ("semi", "anti"):
        is_there = np.zeros(codes.below, np.bool_)
        is_there[codes.right] = True
        return _frames.selected(one, is_there[codes.left] == (how == "semi"))
    one = with_arrays(one, names)
    rows, found = _native.equal_rows(codes.left, codes.right, codes.below, how == "left")
    # A row for each row of the left side, if no key is there twice on the right one.
    is_all = how == "left" and rows.size == one.size
    return _frames.joined(one, other, (None if is_all else rows, found), same(names), suffixes)


def lookup(keys: Any, frame: Any, on: Hashable, column: Hashable) -> Any:
    """The value of each of `keys` in a table: ``keys.map(frame.set_index(on)[column])`` in pandas.

    Parameters
    ----------
    keys : Series, Array, ChunkedArray or array_like
        A column of pandas, polars or pyarrow, or an array of NumPy or a list.
    frame : DataFrame, Table, RecordBatch or DuckDBPyRelation
        The table, of any of the libraries.
    on : label
        Its column of keys, each of which is there once.
    column : label
        Its column of values.

    Returns
    -------
    Series, Array or ChunkedArray
        The values, null for keys that are not there: of the library of `keys`, with the index and the name of a Series; for arrays of
        NumPy and lists of that of `frame`.

    Raises
    ------
    KeyError
        For a column that is not there.
    ValueError
        For a key that is there several times, and columns that cannot be compared exactly.

    Examples
    --------
    >>> import pandas
    >>> cities = pandas.DataFrame({"code": ["RIX", "OSL"], "city": ["Riga", "Oslo"]})
    >>> lanetree.lookup(pandas.Series(["OSL", "XXX", "RIX"], name="from"), cities, "code", "city")
    0    Oslo
    1     NaN
    2    Riga
    Name: from, dtype: str
    """
    table = _frames.frame_of(frame, "frame")
    one = _frames.column_frame(keys, table, "keys")
    other = _frames.in_form_of(one, table)
    other.check_name(column, "column")
    codes = _keys.encode([(one.key(one.names[0], "keys"), other.key(on, "on"))], one.encode)
    counts = np.bincount(codes.right, minlength=codes.below)
    several = np.flatnonzero(counts[codes.right] > 1)
    if several.size:
        raise ValueError(
            f"on={on!r}: the key in row {several[0]} is there {counts[codes.right[several[0]]]} times: keep one row of each, or use merge"
        )
    rows = np.full(codes.below, -1)
    rows[codes.right] = np.arange(other.size)
    return other.series(column, rows[codes.left], keys)
