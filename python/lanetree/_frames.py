"""Frames of pandas, polars, pyarrow and DuckDB: which library a table is of, and joins as tables.

None of these libraries is needed: what a frame is, its module says, which is there if the frame is.
"""

from __future__ import annotations

import sys
from typing import Any, Hashable, Iterable

import numpy as np
import numpy.typing as npt

from . import _missing
from ._frame import Frame, Rows, Suffixes
from ._frame_arrow import ArrowFrame, DuckFrame
from ._frame_pandas import PandasFrame
from ._frame_polars import PolarsFrame


def frame_of(data: Any, side: str) -> Frame:
    """A table of any of the libraries, or an error that says what is one."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    pyarrow, duckdb = sys.modules.get("pyarrow"), sys.modules.get("duckdb")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return PandasFrame(data, side)
    if pandas is not None and isinstance(data, pandas.Series):
        if data.name is None:
            raise ValueError(f"{side} is a Series without a name: give it one by .rename(name)")
        return PandasFrame(data.to_frame(), side)
    if polars is not None and isinstance(data, polars.DataFrame):
        return PolarsFrame(data, side)
    if polars is not None and isinstance(data, polars.LazyFrame):
        raise TypeError(f"{side} is a LazyFrame, which has no rows yet: pass {side}.collect()")
    if pyarrow is not None and isinstance(data, (pyarrow.Table, pyarrow.RecordBatch)):
        return ArrowFrame(data, side)
    if duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation):
        return DuckFrame(data, side)
    raise TypeError(
        f"{side} is a {type(data).__module__}.{type(data).__name__}: pass a DataFrame of pandas or polars, a Table or RecordBatch of"
        " pyarrow, or a relation of DuckDB"
    )


def frames_of(left: Any, right: Any) -> tuple[Frame, Frame]:
    """Two tables, the right one in the form of the left one's library."""
    one, other = frame_of(left, "left"), frame_of(right, "right")
    return one, in_form_of(one, other)


def column_frame(column: Any, like: Frame, name: str) -> Frame:
    """A column, which an argument of this name has, as a table of its own: that of its library, or of another one's, if it has none."""
    pandas, polars, pyarrow = (sys.modules.get(library) for library in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(column, pandas.Series):
        return PandasFrame(column.to_frame(name), name)
    if polars is not None and isinstance(column, polars.Series):
        return PolarsFrame(polars.DataFrame({name: column}), name)
    if pyarrow is not None and isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)):
        return ArrowFrame(pyarrow.table({name: column}), name)
    if isinstance(like, PandasFrame) or pandas is not None and _missing.is_pandas(column):
        return PandasFrame(sys.modules["pandas"].DataFrame({name: column}), name)
    if isinstance(like, PolarsFrame):
        return PolarsFrame(sys.modules["polars"].DataFrame({name: column}), name)
    return ArrowFrame(sys.modules["pyarrow"].table({name: sys.modules["pyarrow"].array(column)}), name)


def in_form_of(other: Frame, frame: Frame) -> Frame:
    """A table in the form of another one's library."""
    base = ArrowFrame if isinstance(other, ArrowFrame) else type(other)
    return frame if isinstance(frame, base) else _converted(frame, other)


def with_column(frame: Frame, at: int, name: str, column: Any) -> Frame:
    """A table with one more column at a place."""
    if name in frame.names:
        raise ValueError(f"{frame.side} has a column {name!r}, which the result has for an array: rename it")
    new = in_form_of(frame, column_frame(column, frame, name))
    if isinstance(frame, PandasFrame):
        new = new.of(new.data.set_axis(frame.index, axis=0))
    made, numbers = frame.of(frame.beside(new.data, frame.data, ([name], frame.names))), list(range(1, len(frame.names) + 1))
    return frame.of(made.only([*numbers[:at], 0, *numbers[at:]]).data)


def _converted(frame: Frame, like: Frame) -> Frame:
    """A table in the form of another one's library."""
    data = frame.data
    if isinstance(like, PandasFrame):
        pandas = sys.modules["pandas"]
        made = data.to_pandas() if isinstance(frame, ArrowFrame) else pandas.DataFrame.from_arrow(data) if hasattr(pandas.DataFrame, "from_arrow") else data.to_pandas()
        return PandasFrame(made, frame.side)
    if isinstance(like, PolarsFrame):
        polars = sys.modules["polars"]
        return PolarsFrame(polars.from_pandas(data) if isinstance(frame, PandasFrame) else polars.from_arrow(data), frame.side)
    pyarrow = sys.modules["pyarrow"]
    if isinstance(frame, PandasFrame):
        return ArrowFrame(pyarrow.Table.from_pandas(data, preserve_index=False), frame.side)
    return ArrowFrame(pyarrow.table(data), frame.side)


def selected(frame: Frame, is_kept: npt.NDArray[np.bool_]) -> Any:
    """Some rows of a table, as they are, as one of its library."""
    return frame.given(frame.take(np.flatnonzero(is_kept)))


def joined(
    left: Frame,
    right: Frame,
    rows: tuple[Rows | None, Rows],
    drop: Iterable[Hashable],
    suffixes: Suffixes,
    keeps_index: bool = False,
) -> Any:
    """The rows of a join as one table of the left side's library.

    The numbers of left rows are None for all of them in order. Columns of `drop` are left out of the right side. Names that both sides
    have get the suffixes. `keeps_index`: of a frame of pandas the result has the left one's index, and otherwise numbers.
    """
    dropped = set(drop)
    keep = [number for number, name in enumerate(right.names) if name not in dropped]
    names = _with_suffixes(left.names, [right.names[number] for number in keep], suffixes)
    taken = left.data if rows[0] is None else left.take(rows[0])
    if isinstance(left, PandasFrame) and not keeps_index:
        taken = left.numbered(taken)
    return left.given(left.beside_rows(taken, right, keep, rows[1], names))


def _with_suffixes(left: list[Hashable], right: list[Hashable], suffixes: Suffixes) -> tuple[list[Hashable], list[Hashable]]:
    """The names of a join's columns, by pandas' rules."""
    if isinstance(suffixes, (str, bytes, dict, set, frozenset)) or not hasattr(suffixes, "__len__"):
        raise TypeError(f"suffixes is {suffixes!r}: pass a pair, such as ('_x', '_y')")
    if len(suffixes) != 2:
        raise ValueError(f"suffixes has {len(suffixes)} elements: pass a pair, such as ('_x', '_y')")
    both = set(left) & set(right)
    if not both:
        return left, right
    shown = ", ".join(repr(name) for name in left if name in both)
    if not any(suffixes):
        raise ValueError(f"suffixes={tuple(suffixes)!r}, but both sides have columns {shown}: give one side a suffix, or rename them")
    made = []
    for names, others, suffix in ((left, right, suffixes[0]), (right, left, suffixes[1])):
        new = [name if suffix is None or name not in both else f"{name}{suffix}" for name in names]
        # Names that were there twice stay so; no others become equal.
        twice = [now for now, was in zip(new, names) if new.count(now) > 1 and names.count(was) == 1]
        twice += [now for now in new if now in others and now not in both]
        if twice:
            raise ValueError(f"suffixes={tuple(suffixes)!r} make several columns {twice[0]!r}: choose others, or rename columns")
        made.append(new)
    return made[0], made[1]
