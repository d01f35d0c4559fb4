"""As-of joins of frames: :func:`merge_asof`."""

from __future__ import annotations

import datetime
from typing import Any, Hashable, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _entries, _frames, _keys, _merge, _missing
from ._device import Device
from ._frame import Column, Frame, Rows, Suffixes
from ._frame_pandas import PandasFrame
from ._keys import Codes, Key
from ._merge import Names
from ._options import Direction


def merge_asof(
    left: Any,
    right: Any,
    on: Hashable | None = None,
    left_on: Hashable | None = None,
    right_on: Hashable | None = None,
    left_index: bool = False,
    right_index: bool = False,
    by: Names = None,
    left_by: Names = None,
    right_by: Names = None,
    suffixes: Suffixes = ("_x", "_y"),
    tolerance: Any = None,
    allow_exact_matches: bool = True,
    direction: Direction = "backward",
    *,
    device: str | Device | None = None,
) -> Any:
    """Join each row of `left` with the row of `right` that is nearest in time, or by another number: :func:`pandas.merge_asof`.

    The arguments, the rows, their order, dtypes, index and names are pandas'. Tables need not be sorted: the result has the order of
    `left`. No index is built, unless the join is done on a GPU; build a :class:`GroupedIndex` to ask the same table many times.

    Parameters
    ----------
    left, right : DataFrame, Series, Table, RecordBatch or DuckDBPyRelation
        Frames of pandas, polars, pyarrow or DuckDB, also of two libraries. The result is one of `left`'s library.
    on : label
        The column of times or numbers, in both tables: integers, floats, times, times with a time zone, or durations. By default the
        only column that both have.
    left_on, right_on : label or array_like
        The same, if the names differ; or an array, a Series or a column of pyarrow with an element for each row. If both are arrays,
        the result begins with a column ``key_0`` of the left one.
    left_index, right_index : bool, default False
        Use the index of a frame of pandas in place of a column.
    by, left_by, right_by : label or list of labels, optional
        Columns that have to be equal: of any dtype that the library compares. They are encoded over both tables together, so
        categoricals and dictionaries may differ. What is missing is equal to what is missing.
    suffixes : pair of str or None, default ("_x", "_y")
        What is appended to names that both tables have, on the left and on the right side.
    tolerance : int, float or timedelta, optional
        The largest distance, inclusive: a number for numbers, and a ``timedelta``, ``Timedelta`` or ``timedelta64`` for times.
    allow_exact_matches : bool, default True
        Whether a row of equal time matches.
    direction : {"backward", "forward", "nearest"}, default "backward"
        The last row that is not later, the first that is not earlier, or the nearer one of both; of two that are equally near, the
        earlier one. Of rows of equal time it is the last one backward, and the first one forward.
    device : str or Device, optional
        Where it is done: by default on the CPU, as the frames are in its memory.

    Returns
    -------
    DataFrame, Table, RecordBatch or DuckDBPyRelation
        All rows of `left`, each with the columns of its match, which are null without one.

    Raises
    ------
    KeyError
        For a column that is not there.
    ValueError
        Where pandas has a ``MergeError`` or a ``ValueError``: for arguments that exclude each other, columns that cannot be compared
        exactly, and missing elements in the column of times. Its demand that tables are sorted is the exception.
    TypeError
        For what is no frame.

    Notes
    -----
    Beyond pandas, columns of different dtypes are compared where that is exact: integers of any width, floats of 32 and 64 bits, times
    of different units, and instants in different time zones.

    Examples
    --------
    >>> import pandas
    >>> quotes = pandas.DataFrame({"at": [1, 3, 4], "stock": ["A", "B", "A"], "bid": [10.0, 20.0, 11.0]})
    >>> trades = pandas.DataFrame({"at": [5, 2], "stock": ["A", "B"]})
    >>> lanetree.merge_asof(trades, quotes, on="at", by="stock")
       at stock   bid
    0   5     A  11.0
    1   2     B   NaN
    """
    check(direction, allow_exact_matches=allow_exact_matches, left_index=left_index, right_index=right_index)
    given = asked(left, right, (on, left_on, right_on), (left_index, right_index), (by, left_by, right_by), tolerance)
    one, other = given.frames
    place = Device("cpu" if device is None else device)
    rows = _asof(given.words, given.codes, direction, not allow_exact_matches, given.limit, place)
    if isinstance(one, PandasFrame) and isinstance(other, PandasFrame):
        # A level of the index by which tables are joined becomes a column, as in pandas.
        one = _with_levels(one, other, given.drop, left_index or right_index)
    return _frames.joined(one, other, (None, rows), given.drop, suffixes, left_index or right_index)


class Asked(NamedTuple):
    """What a join of two frames by the nearest number is asked."""

    frames: tuple[Frame, Frame]
    #: The column by which each is ordered, in one dtype.
    words: tuple[npt.NDArray[Any], npt.NDArray[Any]]
    #: The groups of both; None without.
    codes: Codes | None
    #: The largest distance, as native calls take it.
    limit: Any
    #: Columns that the result has from the left side alone.
    drop: list[Hashable]


def asked(
    left: Any, right: Any, on: tuple[Any, Any, Any], index: tuple[bool, bool], by: tuple[Names, Names, Names], tolerance: Any
) -> Asked:
    """The columns of both frames, from the arguments for both sides, the left one and the right one."""
    frames = _frames.frames_of(left, right)
    times, names = _ordered_by(frames, on, index)
    groups = _merge.columns_pair(*by, "by")
    arguments = ("by", "by") if by[0] is not None else ("left_by", "right_by")
    pairs = [(_key(frames[0], one, arguments[0]), _key(frames[1], other, arguments[1])) for one, other in zip(*groups)]
    for key in times:
        refuse_unordered(key)
    words, others, unit = _keys.numbers(*times)
    most = None if tolerance is None else limit(tolerance, words.dtype, unit, times[0].what)
    codes = _keys.encode(pairs, frames[0].encode) if pairs else None
    # The index is an array, where the other side has one. Those of groups are before the others.
    sides = [
        [*listed, *(own or [Column(frame.index)])] if isinstance(frame, PandasFrame) else [*listed, *own]
        for frame, listed, own in zip(frames, groups, names)
    ]
    left_frame = frames[0] if all(index) else _merge.with_arrays(frames[0], (sides[0], sides[1]))
    return Asked((left_frame, frames[1]), (words, others), codes, most, [*_merge.same(names), *_merge.same(groups)])


def check(direction: str, **flags: Any) -> None:
    """An error for options that an as-of join does not have."""
    if direction not in ("backward", "forward", "nearest"):
        raise ValueError(f"direction is {direction!r}, where 'backward', 'forward' or 'nearest' is needed")
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise ValueError(f"{name} is {flag!r}, where True or False is needed")


def _key(frame: Frame, name: Hashable, argument: str) -> Key:
    """The column of a name as a key, or, as in pandas, the level of the index."""
    level = frame.level_key(name) if isinstance(frame, PandasFrame) else None
    return frame.key(name, argument) if level is None else level


def _with_levels(one: PandasFrame, other: PandasFrame, names: list[Hashable], keeps_index: bool) -> PandasFrame:
    levels = [name for name in names if name not in one.names and name in one.index.names]
    if keeps_index or not levels:
        return one
    data = one.data.copy(deep=False)
    for number, name in enumerate(levels):
        data.insert(number, name, one.index.get_level_values(name))
    return PandasFrame(data, one.side)


def _ordered_by(
    frames: tuple[Frame, Frame], given: tuple[Hashable, Hashable, Hashable], index: tuple[bool, bool]
) -> tuple[tuple[Key, Key], tuple[list[Hashable], list[Hashable]]]:
    """The columns that an as-of join is ordered by, and their names."""
    on, sides = given[0], ("left", "right")
    for side, frame, is_index, name in zip(sides, frames, index, given[1:]):
        if is_index and not isinstance(frame, PandasFrame):
            raise ValueError(f"{side}_index=True, but {side} is no frame of pandas and has no index: give {side}_on")
        if is_index and on is not None:
            raise ValueError(f"on={on!r} and {side}_index=True are both given: give left_on or right_on for the other side")
        if is_index and name is not None:
            raise ValueError(f"{side}_on={name!r} and {side}_index=True are both given: give one of them")
    if on is None and not any(index) and given[1] is None and given[2] is None:
        common = _merge.common(*frames)
        if len(common) > 1:
            raise ValueError(f"left and right have columns {', '.join(map(repr, common))} in common: give on")
        on = common[0]
    if on is not None and (given[1] is not None or given[2] is not None):
        raise ValueError("on and left_on or right_on are both given: give on, or the other two")
    keys: list[Key] = []
    names: list[list[Hashable]] = []
    for side, frame, is_index, name in zip(sides, frames, index, given[1:]):
        argument = f"{side}_on" if on is None else "on"
        listed = _merge.listed(name) if on is None else _merge.names_of_both(on, "on")
        names.append(listed)
        if is_index and isinstance(frame, PandasFrame):
            keys.append(frame.index_key())
            continue
        if not listed:
            raise ValueError(f"{argument} is not given: give on, {argument}" + (f" or {side}_index=True" if isinstance(frame, PandasFrame) else ""))
        if len(listed) > 1:
            raise ValueError(f"{argument} has {len(listed)} columns: an as-of join is ordered by one; columns that have to be equal are for by")
        keys.append(_key(frame, listed[0], argument))
    return (keys[0], keys[1]), (names[0], names[1])


def refuse_unordered(key: Key) -> None:
    """An error unless a column has an order by which distances are measured, and nothing in it is missing."""
    if key.words is None:
        raise ValueError(f"{key.what} are {_keys.name_of(key)}: an as-of join is ordered by integers, floats, times or durations")
    _keys.refuse_missing(key)


def limit(tolerance: Any, dtype: np.dtype[Any], unit: str | None, what: str) -> Any:
    """A tolerance for numbers of a dtype, or for times in a unit, as native calls take it: in ticks, or a number."""
    is_time = isinstance(tolerance, (datetime.timedelta, np.timedelta64))
    if (unit is not None) != is_time:
        needed = "a number" if unit is None else "a timedelta, such as pandas.Timedelta('1s') or numpy.timedelta64(1, 's')"
        raise ValueError(f"tolerance is {tolerance!r} for {what}: pass {needed}")
    if dtype.kind == "f":
        # Whole numbers, too.
        if not isinstance(tolerance, (int, float, np.integer, np.floating)) or tolerance != tolerance:
            raise ValueError(f"tolerance is {tolerance!r} for {what}: pass a number")
    elif unit is None and not isinstance(tolerance, (int, np.integer)):
        raise ValueError(f"tolerance is {tolerance!r} for {what}: pass an integer")
    most = _missing.tolerance(tolerance, dtype if unit is None else np.dtype(f"m8[{unit}]"))
    return float(most) if dtype.kind == "f" else most


def _asof(
    words: tuple[npt.NDArray[Any], npt.NDArray[Any]], codes: Codes | None, direction: Direction, is_strict: bool, most: Any, place: Device
) -> Rows:
    """The row of the right table that each row of the left one finds, or -1."""
    left, right = words
    by, others, groups = (None, None, 1) if codes is None else codes
    if place.kind == "cpu":
        return _entries.merged((by, left), (others, right), groups, direction, is_strict, most)
    return _entries.Entries(others, right, groups, place).asof(by, left, direction, is_strict, most)
