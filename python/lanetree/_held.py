"""What all indexes have in common: memory that is freed at once, sizes and pictures."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _missing, _native
from ._arrays import Array, ArrayLike
from ._device import Device

_Self = TypeVar("_Self", bound="Held")


class Held:
    """An index's native object, with the memory that it holds."""

    __slots__ = ("_index", "device", "__weakref__")
    _index: Any
    device: Device

    def _contents(self) -> str:
        """How many pairs there are, and of which dtypes, for people."""
        raise NotImplementedError

    def to(self: _Self, device: str | Device) -> _Self:
        """A copy of the index on another device."""
        raise NotImplementedError

    def copy(self: _Self) -> _Self:
        """A copy of the index on the same device."""
        return self.to(self.device)

    @property
    def nbytes(self) -> int:
        """Bytes of the device's memory that the index takes."""
        return int(self.stats()["bytes"])

    def stats(self) -> dict[str, int]:
        """The index's size, by part: how many of each, and their bytes."""
        found: dict[str, int] = self._index.stats()
        return found

    def describe(self) -> str:
        """The index's size, by part, as text."""
        stats = self.stats()
        size, total = max(stats["len"], 1), stats.pop("bytes")
        lines = [repr(self)]
        for name, value in stats.items():
            is_bytes = name.endswith("bytes")
            lines.append(f"  {name:<16}{value:>16,}" + (f" B {value / size:9.2f} B/key" if is_bytes else ""))
        return "\n".join([*lines, f"  {'in all':<16}{total:>16,} B {total / size:9.2f} B/key"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self) if self.closed else self.describe())}</pre>"

    def close(self) -> None:
        """Free the index's memory now. Later calls are errors."""
        self._index.close()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return bool(self._index.is_closed)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        name = f"lanetree.{type(self).__name__}"
        return f"<{name}, closed>" if self.closed else f"<{name} of {self._contents()}, on {self.device.name}>"


class Queries(NamedTuple):
    """Queries in host memory."""

    #: In one dimension; where one is missing, any.
    raw: npt.NDArray[Any]
    #: The shape of the results.
    shape: tuple[int, ...]
    #: The numbers of those that are missing, unless none is: they find nothing.
    missing: npt.NDArray[np.int64] | None


class Keyed(Held):
    """An index over keys of one dtype."""

    __slots__ = ("key_dtype", "nulls")
    key_dtype: np.dtype[Any]
    #: "first" or "last" if nulls are keys, else None.
    nulls: str | None

    @property
    def null_key(self) -> Any:
        """The key that stands for nulls, where they are keys (``nulls="first"`` or ``"last"``); None where they are not.

        It is the lowest or the highest one of the dtype: of datetimes, for "first", NaT, and of floats a NaN that no arithmetic makes.
        In arrays without nulls of their own, on a device, say, it is null, too.
        """
        return None if self.nulls is None else _columns.null_key(self.nulls, self.key_dtype)

    def _take(
        self, nulls: str, key_dtype: npt.DTypeLike | None, device: str | Device | None, stream: Any, keys: ArrayLike, *values: ArrayLike | None
    ) -> tuple[_native.Stream | None, list[_columns.Column]]:
        """The columns of a build of keys, with values or without, and the stream in whose order they are read."""
        _columns.check_nulls(nulls, "first", "last")
        self.nulls = nulls if nulls in ("first", "last") else None
        wanted = None if key_dtype is None else np.dtype(key_dtype)
        given = [(keys, wanted, "the keys"), *((column, None, "the values") for column in values)]
        self.device, on, columns = _columns.columns(device, stream, nulls, *given)
        self.key_dtype = columns[0].dtype
        return on, columns

    def _queries(self, keys: ArrayLike, what: str = "the queries") -> Queries:
        """Keys in host memory to look for."""
        array, valid = _columns.keys_of(self.nulls, keys, self.key_dtype, what)
        return Queries(_arrays.flat(array), array.shape, None if valid is None else np.flatnonzero(~valid))

    def _keys(self, keys: ArrayLike, is_new: bool = True) -> npt.NDArray[Any]:
        """Keys of a change, in host memory, none of which is missing."""
        array, valid = _columns.keys_of(self.nulls, keys, self.key_dtype, "the keys", is_new)
        _missing.refuse(valid, "the keys")
        return _arrays.flat(array)

    def _ranked(self, queries: ArrayLike) -> tuple[npt.NDArray[Any], tuple[int, ...]]:
        """Queries of ranks, in host memory, none of which is missing, and the shape of the results."""
        array, valid = _columns.keys_of(self.nulls, queries, self.key_dtype, "the queries")
        _missing.refuse(valid, "the queries", "a null has no rank, so drop them")
        return _arrays.flat(array), array.shape

    def _rows(self, *given: tuple[ArrayLike, str]) -> _columns.Rows:
        """Columns of queries, in host memory, with their names."""
        return _columns.Rows(self.nulls, *((array, self.key_dtype, what) for array, what in given))

    def _on(self, keys: ArrayLike, stream: Any, what: str = "the queries") -> tuple[Array, _native.Stream | None]:
        """Keys on a device, and the stream of the call."""
        return _arrays.on_stream(keys, self.key_dtype, what, self.device, stream)
