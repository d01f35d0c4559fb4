"""Byte strings as keys: :class:`StringIndex`."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _native, _progress, errors
from ._arrays import ArrayLike, Found
from ._device import Device
from ._held import Held
from ._index import Inclusive, UpdateReport, _closed, _limit, _unpickled
from ._progress import Progress

Strings = Union[Sequence[str], Sequence[bytes], Iterable[str], Iterable[bytes], Any]


class StringRanges(NamedTuple):
    """The pairs of a batch of ranges of strings, in compressed sparse rows."""

    offsets: Any
    keys: list[Any]
    values: Any


class StringIndex(Held):
    """An ordered index of byte strings with one value each: an adaptive radix tree (CuART).

    Parameters
    ----------
    keys : sequence of str or bytes
        Strings in any order, of any length; str is encoded as UTF-8, whose order is that of its code points. An array of NumPy of
        dtype S or U, or a list. Of equal keys the last one's value is kept.
    values : array_like, optional
        A value for each key, uint32, uint64, int32, int64, float32, float64, datetime64 or timedelta64; by default their row
        numbers, int64.
    device : str, Device or None
        As for :class:`Device`.
    nulls : {"error", "skip"}, default "error"
        What becomes of pairs of which the key or the value is null: None in a list, or in columns of Arrow.
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

    def __init__(
        self,
        keys: Strings,
        values: ArrayLike | None = None,
        device: str | Device | None = None,
        *,
        nulls: _columns.Nulls = "error",
        progress: Progress = None,
    ) -> None:
        keys, values = _without_nulls(nulls, keys, values)
        offsets, data, self._is_text = _packed(keys, None)
        if values is None:
            values = np.arange(offsets.size - 1, dtype=np.int64)
        array = _arrays.flat(_arrays.host(values, None, "the values"))
        _arrays.word_of(array.dtype, "values")
        self.device, self.value_dtype = Device(device), array.dtype
        if array.size != offsets.size - 1:
            raise errors.LengthMismatch(f"{offsets.size - 1} keys but {array.size} values: give one value per key")
        with _progress.waiting(progress, array.size, "building an index of"):
            self._index = _native.Strings(self.device._native, offsets, data, array, array.dtype.itemsize)

    def _keys(self, keys: Strings) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        offsets, data, _ = _packed(keys, self._is_text)
        return offsets, data

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
        offsets, data = self._keys(queries)
        values, found = np.empty(offsets.size - 1, self.value_dtype), np.empty(offsets.size - 1, np.bool_)
        miss = _arrays.from_python(default, self.value_dtype, "the default")
        word = int(np.asarray(miss).reshape(1).view(f"u{self.value_dtype.itemsize}")[0])
        self._index.get(offsets, data, values, found, word)
        return Found(values, found)

    def contains(self, queries: Strings) -> npt.NDArray[np.bool_]:
        """Whether each of `queries` is present."""
        found: npt.NDArray[np.bool_] = self.get(queries)[1]
        return found

    def searchsorted(self, queries: Strings, side: str = "left") -> npt.NDArray[np.int64]:
        """The rank of each of `queries`, as :meth:`Index.searchsorted`. After changes the first such call restores the order."""
        if side not in ("left", "right"):
            raise ValueError(f"side is {side!r}, where 'left' or 'right' is needed")
        offsets, data = self._keys(queries)
        ranks = np.empty(offsets.size - 1, np.int64)
        self._index.rank(offsets, data, side == "right", ranks)
        return ranks

    def predecessor(self, queries: Strings) -> tuple[list[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """The last pair whose key is not above each of `queries`: keys, values, and whether there is one."""
        return self._neighbor(queries, True)

    def successor(self, queries: Strings) -> tuple[list[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """The first pair whose key is not below each of `queries`: keys, values, and whether there is one."""
        return self._neighbor(queries, False)

    def _neighbor(self, queries: Strings, predecessor: bool) -> tuple[list[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        offsets, data, values, found = self._index.neighbor(*self._keys(queries), predecessor)
        return self._unpacked(offsets, data), values.view(self.value_dtype), found

    def range(
        self, starts: Strings, ends: Strings, *, inclusive: Inclusive = "both", limit: int | None = None
    ) -> StringRanges:
        """The pairs of each range, in lexicographic order of their bytes; otherwise like :meth:`Index.range`."""
        return self._ranges(self._index.range(self._keys(starts), self._keys(ends), _closed(inclusive), _limit(limit)))

    def prefix(self, prefixes: Strings) -> StringRanges:
        """The pairs whose keys begin with each of `prefixes`."""
        return self._ranges(self._index.range(self._keys(prefixes), None, (True, True), _limit(None)))

    def _ranges(self, found: tuple[Any, ...]) -> StringRanges:
        rows, offsets, data, values = found
        return StringRanges(rows, self._unpacked(offsets, data), values.view(self.value_dtype))

    def _unpacked(self, offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> list[Any]:
        joined, bounds = data.tobytes(), offsets.tolist()
        strings: list[Any] = [joined[start:end] for start, end in zip(bounds, bounds[1:])]
        return [string.decode() for string in strings] if self._is_text else strings

    def items(self) -> tuple[list[Any], npt.NDArray[Any]]:
        """All pairs, in order of their keys: a list and an array."""
        _, keys, values = self._ranges(self._index.range(None, None, (True, True), _limit(None)))
        return keys, values

    def keys(self) -> list[Any]:
        """All keys, in order."""
        return self.items()[0]

    def values(self) -> npt.NDArray[Any]:
        """All values, in the order of their keys."""
        return self.items()[1]

    def insert(self, keys: Strings, values: ArrayLike) -> UpdateReport:
        """Insert pairs; the value of a key that is present is replaced. Of equal keys the last one's value is kept."""
        return self._change(0, keys, values)

    def update(self, keys: Strings, values: ArrayLike) -> UpdateReport:
        """Replace the values of the keys that are present."""
        return self._change(1, keys, values)

    def remove(self, keys: Strings) -> UpdateReport:
        """Remove the keys that are present."""
        return self._change(2, keys, None)

    def _change(self, kind: int, keys: Strings, values: ArrayLike | None) -> UpdateReport:
        raw = None if values is None else _arrays.flat(_arrays.host(values, self.value_dtype, "the values"))
        return UpdateReport(*self._index.apply(kind, *self._keys(keys), raw))

    def __contains__(self, key: str | bytes) -> bool:
        return bool(self.contains([key])[0])

    def __getitem__(self, key: str | bytes) -> Any:
        """The value of one key, or a KeyError."""
        values, found = self.get([key])
        if not found[0]:
            raise KeyError(key)
        return values[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (StringIndex, self.items(), self.device.name)

    def to(self, device: str | Device) -> "StringIndex":
        """A copy of the index on another device."""
        return StringIndex(*self.items(), device)

    def _contents(self) -> str:
        return f"{len(self):,} pairs, {'str' if self._is_text else 'bytes'} -> {self.value_dtype}"


def _packed(keys: Strings, is_text: bool | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], bool]:
    """Strings as offsets and bytes, and whether they are text."""
    if isinstance(keys, (str, bytes)):
        raise TypeError("one string, where a sequence of strings is needed: put it into a list")
    if isinstance(keys, np.ndarray):
        if keys.dtype.kind not in "SUOT" or keys.ndim != 1:
            raise TypeError(f"an array of {keys.dtype} and {keys.ndim} dimensions is no sequence of strings")
        keys = keys.tolist()
    elif hasattr(keys, "__arrow_c_array__") or hasattr(keys, "__arrow_c_stream__"):
        return _from_arrow(keys, is_text)
    strings = list(keys)
    kinds = {type(string) for string in strings}
    if not kinds <= {str} and not kinds <= {bytes}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"keys of {names}, where all are str, or all are bytes")
    text = str in kinds if kinds else bool(is_text)
    if kinds:
        _check_text(text, is_text)
    encoded = [string.encode() for string in strings] if text else strings
    offsets = np.zeros(len(encoded) + 1, np.uint64)
    np.cumsum([len(string) for string in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded) or b"\0", np.uint8)[: int(offsets[-1])], text


def _without_nulls(nulls: str, keys: Strings, values: ArrayLike | None) -> list[Any]:
    """Keys and values; with nulls="skip" without the pairs of which one is null."""
    if nulls != "skip" or isinstance(keys, (str, bytes)) or not hasattr(keys, "__iter__"):
        return _columns.without_nulls("error" if nulls == "skip" else nulls, (keys, "the keys"), (values, "the values"))
    strings = keys.to_pylist() if hasattr(keys, "to_pylist") else list(keys)
    size = len(strings)
    rows = np.array([i for i, string in enumerate(strings) if string is not None], np.int64)
    if values is None:
        return [[strings[i] for i in rows], rows if rows.size < size else None]
    numbers, values = _columns.without_nulls("skip", (np.arange(size), "the keys"), (values, "the values"))
    kept = np.isin(numbers, rows)
    return [[strings[i] for i in numbers[kept]], _arrays.host(values, None, "the values")[kept] if values is not None else None]


def _check_text(text: bool, is_text: bool | None) -> None:
    if is_text is not None and text != is_text:
        raise TypeError("keys of str in an index of bytes, or the other way round: encode or decode them")


def _from_arrow(keys: Any, is_text: bool | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], bool]:
    """Strings of Arrow: their bytes are copied, and no object is made of any."""
    offsets, parts, text, end = [np.zeros(1, np.uint64)], [np.empty(0, np.uint8)], bool(is_text), 0
    for chunk in _arrays.arrow_chunks(keys):
        if chunk.kind not in ("text", "bytes"):
            raise TypeError(f"a column of Arrow of {chunk.kind} has no strings")
        if chunk.null_count:
            raise ValueError(f"the keys have {chunk.null_count} nulls: drop them")
        text = chunk.kind == "text"
        _check_text(text, is_text)
        ends, data = chunk.strings()
        offsets.append(ends[1:] + np.uint64(end))
        parts.append(data)
        end += data.size
    return np.concatenate(offsets), np.concatenate(parts), text
