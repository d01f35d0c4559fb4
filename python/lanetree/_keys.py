"""Columns of frames as keys: compared exactly, whatever their dtypes, and encoded over two tables together."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _missing, _native

#: Ticks of a second, by the unit of times.
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Seconds of the units that are longer than one.
_SECONDS = {"D": 24 * 60 * 60, "h": 60 * 60, "m": 60}
#: Integers up to here are floats without rounding.
_EXACT = 2**53
#: Codes are the numbers themselves, less the smallest one, if so few are unused for each row.
_SPARSE = 4
_INT64 = np.iinfo(np.int64)
#: What kinds of keys are called in errors.
_NAMES = {
    "integer": "integers",
    "float": "floats",
    "bool": "booleans",
    "naive": "times without a time zone",
    "aware": "times with a time zone",
    "duration": "durations",
    "clock": "times of the day",
    "text": "strings",
    "bytes": "byte strings",
}


class Key(NamedTuple):
    """A column as keys."""

    #: What its elements are: one of the names above, or another type, in the words of the library that it is from.
    kind: str
    #: The elements as numbers of any width, or None where only their library compares them. What is missing has any number.
    words: npt.NDArray[Any] | None
    #: Which elements are there. A NaN is missing.
    valid: _missing.Valid
    #: What a tick of times is.
    unit: str | None
    #: The column as its library has it.
    column: Any
    #: What errors call it, with its dtype.
    what: str

    @property
    def size(self) -> int:
        return len(self.column if self.words is None else self.words)


def name_of(key: Key) -> str:
    """What a kind of keys is called in errors."""
    return _NAMES.get(key.kind, key.kind)


def number_key(words: npt.NDArray[Any], valid: _missing.Valid, column: Any, what: str) -> Key:
    """The key of a column of numbers, booleans or times of NumPy."""
    kind, unit = {"i": "integer", "u": "integer", "f": "float", "b": "bool", "M": "naive", "m": "duration"}[words.dtype.kind], None
    if words.dtype.kind in "mM":
        unit, multiple = np.datetime_data(words.dtype)
        if unit not in _TICKS and unit not in _SECONDS or multiple != 1:
            raise ValueError(f"{what} have units that are no seconds or parts of them: convert them by astype")
        valid = both(valid, ~np.isnat(words))
        words = words.view(np.int64)
    elif words.dtype.kind == "f":
        valid = both(valid, ~np.isnan(words))
    elif words.dtype.kind == "b":
        words = words.view(np.uint8)
    return Key(kind, words, valid, unit, column, what)


def both(valid: _missing.Valid, also: npt.NDArray[np.bool_]) -> _missing.Valid:
    """Which elements are there, of what says so in two ways."""
    made = also if valid is None else valid & also
    return None if made.all() else made


def refuse_missing(key: Key) -> None:
    """An error if an element is missing, which an ordered column may not have."""
    if key.valid is not None:
        rows = np.flatnonzero(~key.valid)
        raise ValueError(f"{key.what} have {rows.size} missing elements, the first one in row {rows[0]}: drop these rows")


def numbers(left: Key, right: Key, is_exact: bool = True) -> tuple[npt.NDArray[Any], npt.NDArray[Any], str | None]:
    """Keys of two columns as arrays of one dtype (int64, uint64, float32 or float64) that compare as they do, and the unit of times.

    Integers and floats are refused if `is_exact`, and otherwise compared where that is exact.
    """
    if left.words is None and left.kind == right.kind:
        raise ValueError(f"{left.what} are {name_of(left)}: only numbers and times are ordered here")
    if left.words is None or right.words is None or left.kind != right.kind and {left.kind, right.kind} != {"integer", "float"}:
        raise _differ(left, right)
    words, unit = (left.words, right.words), left.unit
    if left.kind != right.kind:
        if is_exact or any(_is_beyond(key) for key in (left, right) if key.kind == "integer"):
            raise _differ(left, right)
        return words[0].astype(np.float64), words[1].astype(np.float64), None
    if unit is not None and left.unit != right.unit:
        unit = min(left.unit or "", right.unit or "", key=lambda unit: _ticks_of(unit, "ns")[0])
        words = _in_ticks(left, unit), _in_ticks(right, unit)
    dtype = np.result_type(words[0], words[1])
    if left.kind == "float":
        dtype = np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    elif words[0].dtype != np.uint64 and words[1].dtype != np.uint64:
        dtype = np.dtype(np.int64)
    elif words[0].dtype.kind == words[1].dtype.kind:
        dtype = np.dtype(np.uint64)
    else:
        for key in (left, right):
            if key.words is not None and key.words.dtype == np.uint64 and key.size and int(key.words.max()) > _INT64.max:
                raise ValueError(f"{key.what} go up to {key.words.max()}, which int64, of the other side, does not hold: convert both to one dtype")
        dtype = np.dtype(np.int64)
    return words[0].astype(dtype, copy=False), words[1].astype(dtype, copy=False), unit


def ordered_words(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers in the order of numbers; of floats both zeros are one."""
    if numbers.dtype.kind != "f":
        return np.ascontiguousarray(numbers)
    bits = (numbers.astype(np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)


def _is_beyond(key: Key) -> bool:
    """Whether there are integers that a float may not hold."""
    words = key.words
    return words is not None and words.size > 0 and not (-_EXACT <= int(words.min()) and int(words.max()) <= _EXACT)


def _differ(left: Key, right: Key) -> ValueError:
    if {left.kind, right.kind} == {"naive", "aware"}:
        aware, naive = (left, right) if left.kind == "aware" else (right, left)
        return ValueError(
            f"{naive.what} are times without a time zone, and {aware.what} are in one: give the first ones theirs by tz_localize"
            " (polars: dt.replace_time_zone; pyarrow: assume_timezone)"
        )
    names = [name_of(key) for key in (left, right)]
    return ValueError(f"{left.what} are {names[0]}, and {right.what} are {names[1]}: convert one of them, so that both are of one kind")


def _ticks_of(unit: str, to: str) -> tuple[int, int]:
    """How many units of the second kind there are in one of the first, or the other way round: one of the two is 1."""
    ticks, of = (_TICKS.get(unit, 1), _SECONDS.get(unit, 1)), (_TICKS.get(to, 1), _SECONDS.get(to, 1))
    there, back = of[0] * ticks[1], of[1] * ticks[0]
    return max(there // back, 1), max(back // there, 1)


def _in_ticks(key: Key, unit: str) -> npt.NDArray[np.int64]:
    """Times in a finer unit, or an error that names the first one that is out of its range."""
    assert key.words is not None and key.unit is not None
    times, words = _ticks_of(key.unit, unit)[0], key.words.astype(np.int64, copy=False)
    if times > 1:
        most = _INT64.max // times
        far = (words > most) | (words < -most)
        if key.valid is not None:
            far &= key.valid
        if far.any():
            row = int(np.flatnonzero(far)[0])
            raise ValueError(f"{key.what}: the time in row {row} is out of the range of units of {unit}, which the other side has: convert that one")
    return words if times == 1 else words * times


#: Codes of two columns, equal where the elements are, and how many there are. What is missing has -1, or that number.
Coded = tuple[npt.NDArray[Any], npt.NDArray[Any], int]
#: What encodes two columns of one library.
Encode = Callable[[Any, Any], Coded]


class Codes(NamedTuple):
    """Numbers from 0 on for the keys of two tables: equal where the keys are, over both."""

    left: npt.NDArray[np.uint32]
    right: npt.NDArray[np.uint32]
    #: All are below this.
    below: int


def encode(pairs: list[tuple[Key, Key]], of_library: Encode) -> Codes:
    """Codes of keys of one or several columns. What is missing is equal to all that is missing, as pandas has it."""
    made: list[Coded] = [_encode(*pair, of_library) for pair in pairs]
    left, right, count = made[0]
    for more_left, more_right, more in made[1:]:
        # Their product may be a number of more than 64 bits.
        if count * more > _INT64.max:
            left, right, count = _dense(left, right)
        left, right, count = _product(left, more_left, more), _product(right, more_right, more), count * more
        if count > _SPARSE * (left.size + right.size) + 2**16:
            left, right, count = _dense(left, right)
    if count > _SPARSE * (left.size + right.size) + 2**16:
        left, right, count = _dense(left, right)
    return Codes(left.astype(np.uint32, copy=False), right.astype(np.uint32, copy=False), max(count, 1))


def _product(codes: npt.NDArray[Any], more: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Codes of pairs of codes, of which the second ones are below a number."""
    made: npt.NDArray[Any] = codes.astype(np.int64) * count + more
    return made


def _encode(left: Key, right: Key, of_library: Encode) -> Coded:
    """Codes of a pair of columns."""
    if left.words is None and right.words is None and left.kind == right.kind:
        codes, others, count = of_library(left.column, right.column)
        codes, others = (np.where(side < 0, np.int64(count), side) if side.dtype.kind == "i" else side for side in (codes, others))
    else:
        words = numbers(left, right, is_exact=False)[:2]
        if words[0].dtype.kind == "f":
            # One zero, as the words are bits.
            words = tuple((side + 0.0).view(f"i{side.itemsize}") for side in words)  # type: ignore[assignment]
        valid = left.valid, right.valid
        codes, others, count = _codes_of_words(*words, valid)
        codes, others = (side if there is None else np.where(there, side, np.int64(count)) for side, there in zip((codes, others), valid))
    return codes, others, count + 1


def _codes_of_words(
    left: npt.NDArray[Any], right: npt.NDArray[Any], valid: tuple[_missing.Valid, _missing.Valid]
) -> Coded:
    present = [side if there is None else side[there] for side, there in zip((left, right), valid)]
    bounds = [(int(side.min()), int(side.max())) for side in present if side.size]
    if not bounds:
        return np.zeros(left.size, np.int64), np.zeros(right.size, np.int64), 1
    least, most = min(bound[0] for bound in bounds), max(bound[1] for bound in bounds)
    if most - least < _SPARSE * (left.size + right.size) + 2**16:
        made = [np.empty(side.size, np.uint32) for side in (left, right)]
        for side, codes in zip((left, right), made):
            # The lower half of a difference is right, even of one that wraps around. What is missing has any.
            np.subtract(side, side.dtype.type(least), out=codes, casting="unsafe")
        return made[0], made[1], most - least + 1
    return _dense(left, right)


def _dense(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Coded:
    """Codes of numbers of any size."""
    codes, count = _native.encode_words([np.ascontiguousarray(side, np.int64).view(np.uint64) for side in (left, right)])
    return codes[: left.size], codes[left.size :], count
