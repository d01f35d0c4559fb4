"""Byte strings as keys: :class:`StringIndex`."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
import uuid
from typing import Any, Callable, Iterable, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _missing, _native, _progress, _wide, errors
from ._arrays import ArrayLike, Found
from ._device import Device
from ._held import Pairs
from ._options import INSERT, REMOVE, UPDATE, Inclusive, Side, closed_of, is_right, limit_of
from ._progress import Progress
from ._results import UpdateReport

#: Objects that are 4 or 16 bytes, in whose order they are.
_BYTES: dict[type, Callable[[Any], bytes]] = {
    uuid.UUID: lambda it: bytes(it.bytes),
    ipaddress.IPv4Address: lambda it: bytes(it.packed),
    ipaddress.IPv6Address: lambda it: bytes(it.packed),
}
Strings = Union[Sequence[str], Sequence[bytes], Iterable[str], Iterable[bytes], Any]


class StringRanges(NamedTuple):
    """The pairs of a batch of ranges of strings, in compressed sparse rows."""

    offsets: npt.NDArray[np.int64]
    keys: list[Any]
    values: npt.NDArray[Any]


class StringIndex(Pairs):
    """An ordered index of byte strings with one value each: an adaptive radix tree (CuART).

    Parameters
    ----------
    keys : sequence of str or bytes
        Strings in any order, of any length; str is encoded as UTF-8, whose order is that of its code points. An array of NumPy of
        dtype S or U, a list, or a column of strings, binaries, categories or dictionaries of pandas, polars or pyarrow. UUIDs and IP
        addresses are their bytes. Of equal keys the last one's value is kept.
    values : array_like, optional
        A value for each key, uint32, uint64, int32, int64, float32, float64, datetime64 or timedelta64; by default their row
        numbers, int64.
    device : str, Device or None
        As for :class:`Device`.
    nulls : {"error", "skip"}, default "error"
        What becomes of pairs of which the key or the value is missing, as for :class:`Index`.
    progress : bool or callable, optional
        As for :class:`Index`.

    Raises
    ------
    TypeError
        For keys of str and of bytes in one index, and dtypes of values that indexes do not have.
    lanetree.errors.LengthMismatch
        Unless there is one value per key.

    Notes
    -----
    Queries and changes are in host memory, whatever the device. What is said of threads at :class:`Index` is true here, too.

    Examples
    --------
    >>> index = lanetree.StringIndex(["car", "cart", "dog"], np.array([1, 2, 3]), device="cpu")
    >>> index.get(["cart", "cat"])
    Found(values=array([2, 0]), found=array([ True, False]))
    >>> index.prefix(["car"]).keys
    ['car', 'cart']
    """

    __slots__ = ("_is_text", "value_dtype")
    _index: _native.Strings
    #: Whether keys are str, not bytes; None in an index that had no key yet.
    _is_text: bool | None

    def __init__(
        self,
        keys: Strings,
        values: ArrayLike | None = None,
        device: str | Device | None = None,
        *,
        nulls: _columns.Nulls = "error",
        progress: Progress = None,
    ) -> None:
        _columns.check_nulls(nulls)
        strings, self._is_text, valid = _packed(keys, None, "the keys")
        values = np.arange(strings.size, dtype=np.int64) if values is None else values
        array, mask = _arrays.nullable(values, None, "the values", True)
        array = _missing.widened(array)
        _arrays.word_of(array.dtype, "values")
        rows = _columns.kept(nulls, [valid, mask], [(strings.size, "the keys"), (array.size, "the values")])
        array = _arrays.flat(array if rows is None else array[rows])
        offsets, data = strings.take(rows)
        self.device, self.value_dtype = Device(device), array.dtype
        if array.size != offsets.size - 1:
            raise errors.LengthMismatch(f"{offsets.size - 1} keys but {array.size} values: give one value per key")
        with _progress.waiting(progress, array.size, "building an index of"):
            self._index = _native.Strings(self.device._native, (offsets, data), array, array.dtype.itemsize)

    def _queries(self, *given: tuple[Strings, str]) -> tuple[_columns.Present, list[Packed]]:
        """Columns of strings, with their names, of the rows in which nothing is missing."""
        columns = [_packed(keys, self._is_text, what) for keys, what in given]
        _columns.check_sizes(*((column[0].size, what) for column, (_, what) in zip(columns, given)))
        present = _columns.Present((columns[0][0].size,), [valid for _, _, valid in columns])
        return present, [strings.take(present.numbers) for strings, _, _ in columns]

    def get(self, queries: Strings, *, default: Any = 0) -> Found:
        """The value of each of `queries`, and whether it is present.

        Parameters
        ----------
        queries : sequence of str or bytes
        default : scalar, default 0
            The value of keys that are absent.

        Returns
        -------
        Found
            ``(values, found)``: also an array of Arrow whose validity is `found`.
        """
        present, [strings] = self._queries((queries, "the queries"))
        values, found = np.empty(strings.size, self.value_dtype), np.empty(strings.size, np.bool_)
        miss = _arrays.word(default, self.value_dtype)
        self._index.get(strings, (values, found, miss))
        return Found(present.fill(values, _arrays.of_word(miss, self.value_dtype)), present.fill(found, False))

    def contains(self, queries: Strings) -> npt.NDArray[np.bool_]:
        """Whether each of `queries` is present."""
        found: npt.NDArray[np.bool_] = self.get(queries)[1]
        return found

    def searchsorted(self, queries: Strings, side: Side = "left") -> npt.NDArray[np.int64]:
        """The rank of each of `queries`, as :meth:`Index.searchsorted`. After changes the first such call restores the order."""
        upper = is_right(side)
        strings, _, valid = _packed(queries, self._is_text, "the queries")
        _missing.refuse(valid, "the queries", "a null has no rank, so drop them")
        ranks = np.empty(strings.size, np.int64)
        self._index.rank(strings, upper, ranks)
        return ranks

    def _places(self, queries: Strings, what: str) -> tuple[npt.NDArray[np.int64], _missing.Valid]:
        """Numbers in the order of the keys, odd for those that are present and even for those between them, and which queries there are.

        `what` is how errors call the queries.
        """
        strings, _, valid = _packed(queries, self._is_text, what)
        sides = np.empty((2, strings.size), np.int64)
        for ranks, upper in zip(sides, (False, True)):
            self._index.rank(strings, upper, ranks)
        return sides.sum(axis=0), valid

    def predecessor(self, queries: Strings) -> tuple[list[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """The last pair whose key is not above each of `queries`: keys, values, and whether there is one."""
        return self._neighbor(queries, True)

    def successor(self, queries: Strings) -> tuple[list[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """The first pair whose key is not below each of `queries`: keys, values, and whether there is one."""
        return self._neighbor(queries, False)

    def _neighbor(self, queries: Strings, predecessor: bool) -> tuple[list[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        present, [packed] = self._queries((queries, "the queries"))
        offsets, data, values, found = self._index.neighbor(packed, predecessor)
        near = _unpacked(present.spread(offsets), data, self._is_text)
        return near, present.fill(values.view(self.value_dtype)), present.fill(found, False)

    def range(
        self, starts: Strings, ends: Strings, *, inclusive: Inclusive = "both", limit: int | None = None
    ) -> StringRanges:
        """The pairs of each range, in lexicographic order of their bytes; otherwise like :meth:`Index.range`."""
        present, [first, last] = self._queries((starts, "the starts"), (ends, "the ends"))
        return self._ranges(self._index.range(first, last, closed_of(inclusive), limit_of(limit)), present)

    def prefix(self, prefixes: Strings) -> StringRanges:
        """The pairs whose keys begin with each of `prefixes`."""
        present, [packed] = self._queries((prefixes, "the prefixes"))
        return self._ranges(self._index.range(packed, None, (True, True), limit_of(None)), present)

    def _ranges(self, found: tuple[Any, ...], present: _columns.Present | None = None) -> StringRanges:
        rows, offsets, data, values = found
        rows = rows if present is None else present.spread(rows)
        return StringRanges(rows, _unpacked(offsets, data, self._is_text), values.view(self.value_dtype))

    def items(self) -> tuple[list[Any], npt.NDArray[Any]]:
        """All pairs, in order of their keys: a list and an array."""
        _, keys, values = self._ranges(self._index.range(None, None, (True, True), limit_of(None)))
        return keys, values

    def keys(self) -> list[Any]:
        """All keys, in order."""
        return self.items()[0]

    def values(self) -> npt.NDArray[Any]:
        """All values, in the order of their keys."""
        return self.items()[1]

    def insert(self, keys: Strings, values: ArrayLike) -> UpdateReport:
        """Insert pairs; the value of a key that is present is replaced. Of equal keys the last one's value is kept."""
        return self._change(INSERT, keys, values)

    def update(self, keys: Strings, values: ArrayLike) -> UpdateReport:
        """Replace the values of the keys that are present."""
        return self._change(UPDATE, keys, values)

    def remove(self, keys: Strings) -> UpdateReport:
        """Remove the keys that are present."""
        return self._change(REMOVE, keys, None)

    def _change(self, kind: int, keys: Strings, values: ArrayLike | None) -> UpdateReport:
        raw = None if values is None else _arrays.flat(_arrays.host(values, self.value_dtype, "the values", True))
        strings, is_text, valid = _packed(keys, self._is_text, "the keys")
        _missing.refuse(valid, "the keys")
        report = UpdateReport(*self._index.apply(kind, strings, raw))
        self._is_text = is_text
        return report

    @property
    def key_dtype(self) -> np.dtype[Any]:
        """``object``, as keys are strings of Python."""
        return np.dtype(object)

    def _file_columns(self) -> dict[str, npt.NDArray[Any]]:
        keys, values = self.items()
        (offsets, data), text, _ = _packed(keys, self._is_text, "the keys")
        return {"offsets": offsets, "bytes": data, "is_text": np.array(-1 if text is None else int(text)), "values": values}

    @classmethod
    def _of_file(cls, columns: dict[str, npt.NDArray[Any]]) -> tuple[Any, ...]:
        is_text = columns["is_text"] > 0
        return _unpacked(columns["offsets"], columns["bytes"], bool(is_text)), columns["values"]

    def _has(self, key: Any) -> bool:
        return bool(self.contains([key])[0])

    def _end(self, is_last: bool) -> tuple[Any, ...] | None:
        keys, values = self.items()
        at = len(keys) - 1 if is_last else 0
        return (keys[at], values[at]) if keys else None

    def _between(self, start: Any, stop: Any) -> tuple[Any, ...]:
        (keys, values), ranks = self.items(), [0, len(self)]
        if start is not None:
            ranks[0] = int(self.searchsorted([start], "left")[0])
        if stop is not None:
            ranks[1] = int(self.searchsorted([stop], "right")[0])
        return keys[slice(*ranks)], values[slice(*ranks)]

    def map(self, column: Strings) -> Any:
        """The value of each key of a column of strings, as :meth:`Index.map` has it."""
        return _arrays.column_like(self.get(column), column)

    def __getitem__(self, key: Any) -> Any:
        """The value of one key, or a KeyError; an index of the pairs of a slice of keys, both bounds inclusive: ``index["a":"b"]``."""
        if isinstance(key, slice):
            return self._slice(key)
        values, found = self.get([key])
        if not found[0]:
            raise KeyError(key)
        return values[0]

    def _contents(self) -> str:
        return f"{len(self):,} pairs, {'bytes' if self._is_text is False else 'str'} -> {self.value_dtype}"


class Packed(NamedTuple):
    """Strings as native calls take them."""

    offsets: npt.NDArray[np.uint64]
    data: npt.NDArray[np.uint8]

    @property
    def size(self) -> int:
        """How many strings there are."""
        return self.offsets.size - 1

    def take(self, rows: npt.NDArray[np.int64] | None) -> "Packed":
        """Some of the strings, in their order; None for all."""
        if rows is None:
            return self
        lengths = np.diff(self.offsets)
        is_kept = np.zeros(lengths.size, np.bool_)
        is_kept[rows] = True
        return _packed_of(lengths[rows], self.data[np.repeat(is_kept, lengths.astype(np.int64))])


def _packed_of(lengths: Any, data: npt.NDArray[np.uint8]) -> Packed:
    offsets = np.zeros(len(lengths) + 1, np.uint64)
    np.cumsum(lengths, out=offsets[1:])
    return Packed(offsets, data)


def _packed(keys: Any, is_text: bool | None, what: str) -> tuple[Packed, bool | None, _missing.Valid]:
    """Strings, whether they are text, which is not known of none, and which are there."""
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"{what} are one string, where a sequence of strings is needed: put it into a list")
    valid: _missing.Valid = None
    if isinstance(keys, np.ma.MaskedArray):
        valid, keys = ~np.ma.getmaskarray(keys), keys.data
    elif _missing.is_pandas(keys):
        valid = ~np.asarray(keys.isna(), np.bool_)
        in_arrow = hasattr(keys.dtype, "pyarrow_dtype") or getattr(keys.dtype, "storage", None) == "pyarrow"
        keys = getattr(keys, "array", keys).__arrow_array__() if in_arrow else keys.tolist()
    elif _is_polars(keys):
        polars = sys.modules["polars"]
        if isinstance(keys.dtype, (polars.Categorical, polars.Enum, polars.Null)):
            keys = keys.cast(polars.String)
    if isinstance(keys, np.ndarray):
        if keys.dtype.kind not in "SUOT" and keys.dtype != _wide.BYTES or keys.ndim != 1:
            raise TypeError(f"{what} are an array of {keys.dtype} and {keys.ndim} dimensions, which is no sequence of strings")
        absent = getattr(keys.dtype, "na_object", None)
        keys = [None if string is absent else string for string in keys.tolist()]
    elif _missing.is_arrow(keys):
        return _from_arrow(keys, is_text, what)
    strings: list[Any] = list(keys) if valid is None else [string if has else None for string, has in zip(keys, valid)]
    strings = [_BYTES[type(string)](string) if type(string) in _BYTES else string for string in strings]
    kinds = {type(string) for string in strings}
    if not kinds <= {str} and not kinds <= {bytes}:
        valid = np.array([not _missing.is_missing(string) for string in strings], np.bool_)
        kinds = {type(string) for string, has in zip(strings, valid) if has}
    if not kinds <= {str} and not kinds <= {bytes}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"{what} are {names}, where all are str, or all are bytes")
    text = str in kinds if kinds else is_text
    if text is not None:
        _check_text(text, is_text, what)
    if valid is not None:
        strings = [string if has else "" if text else b"" for string, has in zip(strings, valid)]
    encoded = [string.encode() for string in strings] if text else strings
    data = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)[: sum(map(len, encoded))]
    return _packed_of([len(string) for string in encoded], data), text, None if valid is None or valid.all() else valid


def _unpacked(offsets: npt.NDArray[Any], data: npt.NDArray[Any], is_text: bool | None) -> list[Any]:
    """Strings as objects of Python."""
    joined, bounds = data.tobytes(), offsets.tolist()
    strings: list[Any] = [joined[start:end] for start, end in zip(bounds, bounds[1:])]
    return [string.decode() for string in strings] if is_text else strings


def _is_polars(keys: object) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(keys, polars.Series)


def _check_text(text: bool, is_text: bool | None, what: str) -> None:
    if is_text is not None and text != is_text:
        raise TypeError(f"{what} are {'str' if text else 'bytes'} in an index of {'str' if is_text else 'bytes'}: encode or decode them")


def _plain(column: Any) -> Any:
    """A column of pyarrow as one of strings of any length, if it is one of a dictionary, of a fixed size, or of UUIDs."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)):
        return column
    column = _missing.storage(column)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pyarrow.binary()) if pyarrow.types.is_fixed_size_binary(column.type) else column


def _from_arrow(keys: Any, is_text: bool | None, what: str) -> tuple[Packed, bool | None, _missing.Valid]:
    """Strings of Arrow: their bytes are copied, and no object is made of any."""
    lengths, parts, text = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)], is_text
    chunks = _missing.arrow_chunks(_plain(keys))
    for chunk in chunks:
        kind = ""
        with contextlib.suppress(TypeError):
            kind = chunk.kind
        if kind not in ("text", "bytes"):
            dtype = getattr(keys, "type", getattr(keys, "dtype", kind))
            raise TypeError(f"{what} are a column of {dtype}, which has no strings: use an Index, or convert it to strings")
        text = kind == "text"
        _check_text(text, is_text, what)
        ends, data = chunk.strings()
        lengths.append(np.diff(ends))
        parts.append(data)
    return _packed_of(np.concatenate(lengths), np.concatenate(parts)), text, _missing.arrow_validity(chunks)
