"""A table of any library behind one interface: :class:`Frame`. Each library has a module for its own."""

from __future__ import annotations

import copy
import functools
import sys
from typing import Any, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from . import _missing
from ._keys import Coded, Key

#: Numbers of rows; -1 stands for a row of nulls.
Rows = npt.NDArray[np.int64]
#: What is called what in two tables, by the names of columns that both have.
Suffixes = Sequence["str | None"]


class Column:
    """An array in place of the name of a column. It is called as no other one is."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __repr__(self) -> str:
        return f"<an array of {len(self.data)}>"


def is_column(data: Any) -> bool:
    """Whether this is an array or a column of a library, not a name."""
    if isinstance(data, (str, int, tuple)):
        return False
    pyarrow = sys.modules.get("pyarrow")
    is_arrow = pyarrow is not None and isinstance(data, (pyarrow.Array, pyarrow.ChunkedArray))
    polars = sys.modules.get("polars")
    return is_arrow or isinstance(data, np.ndarray) or _missing.is_pandas(data) or polars is not None and isinstance(data, polars.Series)


class Frame:
    """A table of one library."""

    #: The table in its library's own form.
    data: Any
    #: What errors call it: "left" or "right".
    side: str

    def __init__(self, data: Any, side: str) -> None:
        self.data, self.side = data, side

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.data)

    @functools.cached_property
    def names(self) -> list[Hashable]:
        """The names of the columns."""
        return list(self.data.columns)

    def column(self, name: Hashable, argument: str) -> Any:
        """The column of a name, which an argument has, or an error."""
        self.check_name(name, argument)
        return self.data[name]

    def key(self, name: Hashable, argument: str) -> Key:
        """The column of a name, which an argument has, as a key; or an array."""
        if isinstance(name, Column):
            if len(name.data) != self.size:
                raise ValueError(f"{argument} is an array of {len(name.data)} elements, and {self.side} has {self.size} rows: give one for each")
            from ._frames import column_frame, in_form_of

            frame = in_form_of(self, column_frame(name.data, self, argument))
            return frame.key_of(frame.column(argument, argument), argument)
        return self.key_of(self.column(name, argument), f"{self.side}[{name!r}]")

    def check_name(self, name: Hashable, argument: str) -> None:
        """An error unless there is one column of a name."""
        found = self.names.count(name)
        if found == 0:
            raise KeyError(f"{argument}={name!r}: {self.side} has no such column; it has {', '.join(map(repr, self.names[:20]))}")
        if found > 1:
            raise ValueError(f"{argument}={name!r}: {self.side} has {found} columns of this name: rename all but one of them")

    def key_of(self, column: Any, what: str) -> Key:
        """A column as a key."""
        raise NotImplementedError

    def encode(self, left: Any, right: Any) -> Coded:
        """Codes of two columns that are no numbers."""
        raise NotImplementedError

    def of(self, data: Any) -> "Frame":
        """Another table of the library, which is given as this one was."""
        made = copy.copy(self)
        made.data = data
        made.__dict__.pop("names", None)
        return made

    def kept(self) -> "Frame":
        """The table, without what the caller will change in it."""
        return self

    def there(self, column: Any) -> npt.NDArray[np.bool_]:
        """Which elements of a column there are."""
        raise NotImplementedError

    def stacked(self, other: "Frame") -> Any:
        """The rows of this table and those of another one of the library, if the columns keep their dtypes."""
        for side, names, others in ((other.side, other.names, self.names), ("the index", self.names, other.names)):
            for name in others:
                if names.count(name) != others.count(name):
                    raise KeyError(f"{side} has {names.count(name) or 'no'} column {name!r}, where {others.count(name)} is needed")
        if other.names != self.names:
            other = other.only([other.names.index(name) for name in self.names])
        try:
            made = self._stacked(other.data)
        except (TypeError, ValueError, getattr(getattr(sys.modules.get("polars"), "exceptions", None), "PolarsError", TypeError)) as error:
            raise ValueError(f"{other.side} does not go below the rows of the index: {error}") from error
        kept, new, now = (self._dtypes(data) for data in (self.data, other.data, made))
        for name, dtype, given, becomes in zip(self.names, kept, new, now):
            if becomes != dtype:
                raise ValueError(f"{other.side}[{name!r}] is {given}, where the index has {dtype}, and both would be {becomes}: convert it")
        return made

    def _stacked(self, data: Any) -> Any:
        """The rows of two tables of the library with the same names."""
        raise NotImplementedError

    @staticmethod
    def _dtypes(data: Any) -> list[Any]:
        return list(data.dtypes)

    def take(self, rows: Rows) -> Any:
        """Rows by their numbers, as a table of the library."""
        raise NotImplementedError

    def only(self, keep: list[int]) -> "Frame":
        """The table with these columns alone, by their numbers."""
        raise NotImplementedError

    def beside(self, left: Any, right: Any, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        """Two tables of the library as one, with these names."""
        raise NotImplementedError

    def beside_rows(self, left: Any, right: "Frame", keep: list[int], rows: Rows, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        """A table of the library, and rows of some columns of another one, as one."""
        return self.beside(left, right.only(keep).take(rows), names)

    def given(self, made: Any) -> Any:
        """A table of the library in the form in which the caller gave this one."""
        return made

    def series(self, name: Hashable, rows: Rows, like: Any) -> Any:
        """A column's elements by their rows, as one of the library; `like` is the column of keys for which they are."""
        raise NotImplementedError
