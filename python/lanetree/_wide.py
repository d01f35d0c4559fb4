"""Keys of 16 bytes: UUIDs, IPv6 addresses, decimals, and bytes of any meaning.

NumPy has them as ``V16``, which indexes compare byte by byte. A dtype notes what they are: "uuid", "ipv6", "decimal128,digits,scale", or
nothing. The bytes of a decimal are its number of units plus 2^127, the most significant first: so their order is that of the numbers.
"""

from __future__ import annotations

import decimal
import ipaddress
import uuid
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

#: The dtype, which is equal to those with notes.
BYTES = np.dtype("V16")
#: Where a dtype's metadata has its note.
_NOTE = "lanetree"
#: The most digits of a decimal.
_DIGITS = 38
#: What is added to a decimal's number of units.
_MIDDLE = 2**127
#: What this rounds is an error, and no decimal of 128 bits is.
_EXACT = decimal.Context(prec=100, Emax=300, Emin=-300, traps=[decimal.InvalidOperation, decimal.Overflow, decimal.Inexact])
#: What there are objects of, by note: what they are called, their class, and their bytes.
_CLASSES: dict[str, tuple[str, type, Callable[[Any], bytes]]] = {
    "uuid": ("UUIDs", uuid.UUID, lambda it: bytes(it.bytes)),
    "ipv6": ("IPv6 addresses", ipaddress.IPv6Address, lambda it: bytes(it.packed)),
}
_DECIMAL, _PLAIN = "decimal128", "byte strings of 16 bytes"


def note_of(dtype: np.dtype[Any]) -> str | None:
    """What a dtype knows besides: the time zone of instants, or what 16 bytes are."""
    return None if dtype.metadata is None else dtype.metadata.get(_NOTE)


def noted(dtype: np.dtype[Any], note: str | None) -> np.dtype[Any]:
    """The dtype with such a note, or with none."""
    return np.dtype(dtype.str) if note is None else np.dtype(dtype.str, metadata={_NOTE: note})


def comparable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Elements as NumPy compares them in their order."""
    return array.view("S16") if array.dtype == BYTES else array


def words(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Elements as NumPy compares them bit by bit."""
    return array.view("S16" if array.dtype == BYTES else f"u{array.itemsize}")


def decimal_dtype(digits: int, scale: int) -> np.dtype[Any]:
    """The dtype of decimals."""
    return noted(BYTES, f"{_DECIMAL},{digits},{scale}")


def scale_of(dtype: np.dtype[Any]) -> int | None:
    """How many digits decimals have after the point; None for what are no decimals."""
    note = note_of(dtype) if dtype == BYTES else None
    return int(note.split(",")[2]) if note is not None and note.startswith(_DECIMAL) else None


def name_of(dtype: np.dtype[Any]) -> str:
    """What elements are called in errors."""
    if dtype != BYTES:
        return f"elements of dtype {dtype}"
    scale, note = scale_of(dtype), note_of(dtype)
    if scale is not None:
        return f"decimals with {scale} digits after the point"
    return _CLASSES[note][0] if note in _CLASSES else _PLAIN


def dtype_of(items: list[Any]) -> np.dtype[Any] | None:
    """The dtype of objects among which there is one of 16 bytes."""
    for note, (_, kind, _) in _CLASSES.items():
        if any(isinstance(item, kind) for item in items):
            return noted(BYTES, note)
    scales = [-exponent if isinstance(exponent, int) else 0 for exponent in (item.as_tuple().exponent for item in items if isinstance(item, decimal.Decimal))]
    if any(scale > _DIGITS for scale in scales):
        raise ValueError(f"a decimal has {max(scales)} digits after the point, where keys have {_DIGITS} at most: round it")
    return decimal_dtype(_DIGITS, max([0, *scales])) if scales else None


def of_objects(items: list[Any], dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Objects of Python, at least one, and none of which is missing, as keys: exactly, or an error. Strings are parsed."""
    scale, note = scale_of(dtype), note_of(dtype) or ""

    def bytes_of(item: Any) -> bytes:
        if isinstance(item, np.void) and is_same(item.dtype, dtype):
            return item.tobytes()
        return _bytes(item, note, what) if scale is None else _decimal(item, scale, what)

    return np.array(np.frombuffer(b"".join(map(bytes_of, items)), dtype))


def _bytes(item: Any, note: str, what: str) -> bytes:
    name, kind, bytes_of = _CLASSES.get(note, (_PLAIN, None, None))
    if kind is not None and isinstance(item, str):
        try:
            item = kind(item)
        except ValueError as error:
            raise ValueError(f"{what}: {item!r}, where {name} are needed: {error}") from error
    if isinstance(item, ipaddress.IPv6Address) and item.scope_id is not None:
        raise ValueError(f"{what}: {item} has a scope, which keys have not: remove it")
    if kind is not None and bytes_of is not None and isinstance(item, kind):
        return bytes_of(item)
    if kind is None and type(item) in (uuid.UUID, ipaddress.IPv6Address):
        return bytes(item.int.to_bytes(16, "big") if isinstance(item, uuid.UUID) else item.packed)
    if not isinstance(item, (bytes, bytearray)):
        raise TypeError(f"{what}: {item!r}, where {name} are needed: convert it")
    if len(item) != 16:
        raise ValueError(f"{what}: {item!r} has {len(item)} bytes, where 16 are needed")
    return bytes(item)


def _decimal(item: Any, scale: int, what: str) -> bytes:
    try:
        number = decimal.Decimal(item) if isinstance(item, (str, decimal.Decimal)) else int(item) if isinstance(item, (int, np.integer)) else None
        units = None if number is None else _EXACT.scaleb(decimal.Decimal(number), scale)
        whole = None if units is None else int(units)
    except (decimal.DecimalException, ValueError, OverflowError) as error:
        raise ValueError(f"{what}: {item!r} is no decimal of at most 38 digits") from error
    if units is None or whole is None or isinstance(item, (bool, np.bool_)):
        raise TypeError(f"{what}: {item!r} is no decimal: convert it")
    if whole != units:
        raise ValueError(f"{what}: {item} has more than {scale} digits after the point, which the keys have: round it")
    if abs(whole) >= 10**_DIGITS:
        raise OverflowError(f"{what}: {item} is out of the range of decimals of {_DIGITS} digits, {scale} of them after the point")
    return (whole + _MIDDLE).to_bytes(16, "big")


def distance(limit: Any, dtype: np.dtype[Any], what: str) -> int:
    """A distance between keys in their units, which need not be above 0."""
    if scale_of(dtype) is None and not isinstance(limit, (int, np.integer)):
        raise TypeError(f"a {what} of {limit!r} for {name_of(dtype)}: pass an integer")
    count = int.from_bytes(_decimal(limit, scale_of(dtype) or 0, f"the {what}"), "big") - _MIDDLE
    if count >= 2**64:
        raise OverflowError(f"a {what} of {limit} is {count} units of the keys, where at most 2^64 - 1 are measured: leave it out")
    return count


def to_objects(keys: npt.NDArray[Any]) -> list[Any]:
    """Keys as objects of Python: UUIDs, addresses, decimals or bytes."""
    scale, note, items = scale_of(keys.dtype), note_of(keys.dtype), keys.tolist()
    if scale is not None:
        return [_EXACT.scaleb(decimal.Decimal(int.from_bytes(item, "big") - _MIDDLE), -scale) for item in items]
    if note == "uuid":
        return [uuid.UUID(bytes=item) for item in items]
    return [ipaddress.IPv6Address(item) for item in items] if note == "ipv6" else items


def shown(keys: npt.NDArray[Any], at: int) -> Any:
    """A key as errors show it."""
    return to_objects(keys[at : at + 1])[0] if keys.dtype == BYTES else keys[at]


def shaped(column: npt.NDArray[Any], shape: tuple[int, ...]) -> Any:
    """Results in the shape of the queries: of one query an object."""
    return to_objects(column)[0] if not shape and column.dtype == BYTES else column.reshape(shape)[()]


def is_same(given: np.dtype[Any], needed: np.dtype[Any]) -> bool:
    """Whether equal bytes are equal keys of both dtypes: bytes of no meaning are what the others are, but no decimals."""
    if given != needed or given != BYTES:
        return False
    notes, scale = {note_of(given), note_of(needed)}, scale_of(given)
    return len(notes) == 1 or scale == scale_of(needed) and (scale is not None or None in notes)


def cast(array: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Keys as those of a dtype, of which one is of 16 bytes: exactly, or an error. What is not valid has any key."""
    given, needed = scale_of(array.dtype), scale_of(dtype)
    if is_same(array.dtype, dtype):
        return array.view(dtype)
    if needed is not None and (given is not None or array.dtype.kind in "iu"):
        there = np.ones(array.shape, np.bool_) if valid is None else valid
        made = np.zeros(array.shape, dtype)
        if there.any():
            made[there] = of_objects(to_objects(array[there]) if given is not None else array[there].tolist(), dtype, what)
        return made
    raise TypeError(f"{what} are {name_of(array.dtype)}, where {name_of(dtype)} are needed: convert them")


def moved(keys: npt.NDArray[Any], is_up: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The next keys above or below, and where there is one."""
    high, low = keys.view(">u8").reshape(-1, 2).T.astype(np.uint64)
    low += np.uint64(1) if is_up else np.uint64(2**64 - 1)
    edge = np.uint64(0 if is_up else 2**64 - 1)
    high[low == edge] += np.uint64(1) if is_up else np.uint64(2**64 - 1)
    return _joined(high, low, keys.dtype), ~((low == edge) & (high == edge))


def _joined(high: npt.NDArray[Any], low: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.stack([high, low], 1).astype(">u8").reshape(-1).view(dtype)


def of_arrow(raw: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    """Elements of Arrow's memory of a type of 16 bytes as keys."""
    if not kind.startswith(_DECIMAL):
        return raw.view(noted(BYTES, kind if kind in _CLASSES else None))
    low, high = raw.view("<u8").reshape(-1, 2).T
    return _joined(high ^ np.uint64(2**63), low, noted(BYTES, kind))


def to_arrow(keys: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    """Keys in Arrow's memory, and the type that the native code exports them as."""
    note = note_of(keys.dtype)
    if note is None or not note.startswith(_DECIMAL):
        return keys, "uuid" if note == "uuid" else "|V16"
    high, low = keys.view(">u8").reshape(-1, 2).T.astype(np.uint64)
    return np.stack([low, high ^ np.uint64(2**63)], 1).astype("<u8").reshape(-1).view(BYTES), note
