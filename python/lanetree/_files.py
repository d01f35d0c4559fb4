"""Files of sorted pairs, those of NumPy (``.npz``) for indexes of several columns, and which class the file of a path is of."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _native, _wide, errors

if TYPE_CHECKING:
    from ._device import Device

#: How a file of an index's sorted pairs begins, and how an archive does.
_PAIRS, _ARCHIVE = b"LANETREE", b"PK\x03\x04"
#: The entry of an archive that says of which class it is, and its version.
_KIND, _VERSION = "lanetree", "1"
#: The entry of what dtypes note of the columns, time zones, say, in their order; "" for nothing.
_NOTES = "notes"
#: The dtypes of keys, by their native names.
_KEY_OF = {name: np.dtype(dtype.replace("void128", "V16")) for dtype, name in _arrays._KEYS.items()}


def write(path: str | os.PathLike[str], kind: str, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Writes columns to a file, in place of one that is there, once they are on disk."""
    # A link stays one.
    to = os.path.realpath(path)
    folder, name = os.path.split(to)
    made = os.path.join(folder, f".{name}.{os.getpid()}.{id(columns)}")
    try:
        try:
            with open(made, "xb") as file:
                # The archive does not keep what dtypes know besides.
                notes = np.array([_wide.note_of(column.dtype) or "" for column in columns.values()])
                plain = {name: column.view(np.dtype(column.dtype.str)) for name, column in columns.items()}
                np.savez(file, allow_pickle=False, **{_KIND: np.array([kind, _VERSION]), _NOTES: notes}, **plain)
                file.flush()
                os.fsync(file.fileno())
            if os.path.exists(to):
                os.chmod(made, os.stat(to).st_mode & 0o7777)
            os.replace(made, to)
        except BaseException:
            if os.path.exists(made):
                os.remove(made)
            raise
        held = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(held)
        finally:
            os.close(held)
    except OSError as error:
        raise errors.Io(f"saving an index to {os.fspath(path)!r}: {error}") from error


def _begin(path: str | os.PathLike[str]) -> bytes:
    """How the file of a path begins."""
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except FileNotFoundError as error:
        raise errors.NotFound(f"opening the file {os.fspath(path)!r}: {error.strerror}") from error
    except OSError as error:
        raise errors.Io(f"opening the file {os.fspath(path)!r}: {error.strerror}") from error


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    """The class of which an archive is, and its columns."""
    begin, name = _begin(path), os.fspath(path)
    if begin == _PAIRS:
        raise TypeError(f"{name!r} is a file of sorted pairs, of an Index, a Set or a MultiIndex: use lanetree.load")
    if begin[:4] != _ARCHIVE:
        raise errors.Damaged(f"{name!r} is no file of an index: it begins with {begin!r}")
    try:
        with np.load(name, allow_pickle=False) as archive:
            columns = {entry: archive[entry] for entry in archive.files}
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError) as error:
        raise errors.Damaged(f"{name!r}: {error}") from error
    kind = columns.pop(_KIND, None)
    if kind is None or kind.shape != (2,):
        raise errors.Damaged(f"{name!r} is an archive of NumPy, but not one that an index has saved: it has no entry {_KIND!r}")
    if kind[1] != _VERSION:
        raise errors.Unsupported(f"{name!r} is of version {kind[1]}, where {_VERSION} is known: load it with a newer lanetree")
    notes = columns.pop(_NOTES, np.array([""] * len(columns)))
    made = ((name, column.view(_wide.noted(column.dtype, str(note) or None))) for (name, column), note in zip(columns.items(), notes))
    return str(kind[0]), dict(made)


def load(path: str | os.PathLike[str], device: str | Device | None = None) -> Any:
    """An index of any class from a file that its ``save`` has made.

    Parameters
    ----------
    path : path-like
    device : str, Device or None
        As for :class:`Index`.

    Returns
    -------
    Index, Set, MultiIndex, StringIndex, GroupedIndex, IntervalIndex or FrameIndex
        Of the class and dtypes that were saved. For other dtypes of the same words there is the ``load`` of the class.

    Raises
    ------
    lanetree.errors.NotFound, lanetree.errors.Io
        Both are an ``OSError``.
    lanetree.errors.Damaged, lanetree.errors.Unsupported
        For what is no such file, not whole, or newer.
    """
    import lanetree

    if _begin(path) == _PAIRS:
        _, values, has_several, _ = read_pairs(path, None, None)
        kind = lanetree.Set if values is None else lanetree.MultiIndex if has_several else lanetree.Index
        return kind.load(path, device)
    name, _ = read(path)
    if name not in ("StringIndex", "GroupedIndex", "IntervalIndex", "FrameIndex"):
        raise errors.Unsupported(f"{os.fspath(path)!r} is of a {name}, which this version does not have: load it with a newer lanetree")
    return getattr(lanetree, name).load(path, device)


def write_pairs(
    path: str | os.PathLike[str],
    keys: tuple[npt.NDArray[Any], np.dtype[Any]],
    values: tuple[npt.NDArray[Any] | None, np.dtype[Any] | None],
    has_several: bool,
    nulls: str | None,
) -> None:
    """Writes sorted pairs, given as columns and dtypes, to a file that the Rust library loads, too.

    The file notes the dtypes, whether keys may have several values, and where nulls are in the order, if they are keys.
    """
    names = [f"{dtype.str}{_noted(dtype)}" for dtype in (keys[1], values[1]) if dtype is not None]
    note = f"numpy {names[0]} {''.join(names[1:])}" + ("" if nulls is None else f" {nulls}")
    width = 0 if values[1] is None else values[1].itemsize
    _native.write_file(os.fspath(path), _arrays.word_of(keys[1], "keys"), keys[0], values[0], width, has_several, note)


def _noted(dtype: np.dtype[Any]) -> str:
    note = _wide.note_of(dtype)
    return "" if note is None else f"@{note}"


def _dtype_of(note: str) -> np.dtype[Any]:
    """A dtype, and what it notes itself, as a file's note has them."""
    name, _, of = note.partition("@")
    return _wide.noted(np.dtype(name), of or None)


def read_pairs(
    path: str | os.PathLike[str], key_dtype: npt.DTypeLike | None, value_dtype: npt.DTypeLike | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None, bool, str | None]:
    """Keys and values of a file, whether keys may occur several times, and where nulls are in the order, if they are keys.

    Dtypes are those asked for, or noted in the file.
    """
    key, keys, values, has_several, note = _native.read_file(os.fspath(path))
    noted, nulls = note.split(" "), None
    noted_key: np.dtype[Any] | None = None
    noted_value: np.dtype[Any] | None = None
    if len(noted) == 4 and noted[3] in ("first", "last"):
        nulls = noted.pop()
    if len(noted) == 3 and noted[0] == "numpy":
        try:
            noted_key, noted_value = _dtype_of(noted[1]), _dtype_of(noted[2]) if noted[2] else None
        except TypeError as error:
            raise errors.Damaged(f"the note of the file's dtypes is {note!r}, which NumPy does not know") from error
    keys = _seen_as("keys", keys, _KEY_OF[key], noted_key, key_dtype)
    if values is not None:
        values = _seen_as("values", values, np.dtype(f"i{values.itemsize}"), noted_value, value_dtype)
    return keys, values, has_several, nulls


def refuse_several(has_several: bool) -> None:
    if has_several:
        raise errors.Several("the file is of a multi-map, whose keys may have several values: use MultiIndex.load")


def _seen_as(what: str, words: npt.NDArray[Any], dtype: np.dtype[Any], *wanted: npt.DTypeLike | None) -> npt.NDArray[Any]:
    """A file's words, which are of a dtype, as that which the file notes, and that as what the caller asks for.

    Keys of floats stay what they are, since they are ordered as such, and times keep their unit: integers are what their numbers are.
    """
    is_signed = {"i": True, "m": True, "M": True, "u": False}
    for to in (np.dtype(it) for it in wanted if it is not None):
        is_other = dtype.kind in "mM" and to.kind != "i"
        if what == "keys":
            is_other |= "f" in (to.kind, dtype.kind) or is_signed.get(to.kind) != is_signed.get(dtype.kind)
        if to.itemsize != words.itemsize or (to != dtype and is_other):
            raise TypeError(f"the file has {what} of {dtype}, which are not seen as {to}: load them as {dtype}, and convert them")
        dtype = to
    _arrays.word_of(dtype, what)
    return words.view(dtype)
