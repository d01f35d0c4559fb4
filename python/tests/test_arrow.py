"""Columns of Arrow, and of what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

import lanetree

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("kind", ["uint32", "uint64", "int32", "int64", "float32", "float64"])
def test_columns_are_used_in_place(kind: str) -> None:
    array = pa.array(range(100), getattr(pa, kind)())
    index = lanetree.Index(array, array, device="cpu")
    assert index.key_dtype == np.dtype(kind) and index.value_dtype == np.dtype(kind)
    # A slice has its own offset.
    assert index.get(array.slice(90, 5))[0].tolist() == [90, 91, 92, 93, 94]
    column = lanetree._arrays.from_arrow(array.slice(10, 3), "it")[0]
    assert column.tolist() == [10, 11, 12] and not column.flags.writeable
    assert column.ctypes.data == array.buffers()[1].address + 10 * column.itemsize
    chunked = pa.chunked_array([array.slice(0, 5), array.slice(7, 3)])
    assert index.get(chunked)[0].tolist() == [0, 1, 2, 3, 4, 7, 8, 9]
    assert lanetree.Index(array.slice(0, 0), device="cpu").get(array)[1].sum() == 0


def test_times() -> None:
    times = pa.array([3, 1, 2], pa.timestamp("us"))
    index = lanetree.Index(times, pa.array([1, 2, 3], pa.duration("s")), device="cpu")
    assert index.key_dtype == np.dtype("M8[us]") and index.value_dtype == np.dtype("m8[s]")
    assert index.contains(np.array([1], "M8[us]")).tolist() == [True]
    with pytest.raises(TypeError, match="Timestamp"):
        index.get(pa.array([1], pa.timestamp("us", "UTC")))


def test_nulls() -> None:
    keys, values = pa.array([1, None, 3, 4]), pa.array([10, 20, None, 40])
    with pytest.raises(ValueError, match="the keys have 1 nulls"):
        lanetree.Index(keys, values, device="cpu")
    with pytest.raises(ValueError, match="the values have 1 nulls"):
        lanetree.Index(pa.array([1, 2, 3, 4]), values, device="cpu")
    index = lanetree.Index(keys, values, device="cpu", nulls="skip")
    assert index.items()[0].tolist() == [1, 4] and index.items()[1].tolist() == [10, 40]
    assert lanetree.Index(keys, device="cpu", nulls="skip").values().tolist() == [0, 2, 3]
    assert lanetree.Set(keys, device="cpu", nulls="skip").keys().tolist() == [1, 3, 4]
    assert lanetree.MultiIndex(keys, values, device="cpu", nulls="skip").keys().tolist() == [1, 4]
    with pytest.raises(ValueError, match="nulls"):
        index.get(keys)
    with pytest.raises(ValueError, match="'error' or 'skip'"):
        lanetree.Index(keys, device="cpu", nulls="first")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_strings(kind: str) -> None:
    words = pa.array(["skipped", "dog", "car", "", "cärt"], getattr(pa, kind)()).slice(1)
    index = lanetree.StringIndex(words, device="cpu")
    assert index.keys() == ["", "car", "cärt", "dog"] and index.values().tolist() == [2, 1, 3, 0]
    assert index.contains(pa.chunked_array([words.slice(0, 1), pa.array(["x"], words.type)])).tolist() == [True, False]
    raw = lanetree.StringIndex(pa.array([b"b", b"a\xff"], pa.binary()), device="cpu")
    assert raw.keys() == [b"a\xff", b"b"]
    with pytest.raises(TypeError, match="other way round"):
        raw.get(words)
    with pytest.raises(ValueError, match="1 nulls"):
        index.get(pa.array(["a", None]))
    with pytest.raises(TypeError, match="no strings"):
        index.get(pa.array([1]))


def test_other_types_are_refused() -> None:
    index = lanetree.Index([1], device="cpu")
    for column in (pa.array([1], pa.int16()), pa.array([True]), pa.array(["a"]), pa.array([[1]])):
        with pytest.raises(TypeError):
            index.get(column)


def test_pandas_and_polars() -> None:
    index = lanetree.Index([1, 2, 3], [10, 20, 30], device="cpu")
    for name in ("pandas", "polars"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        assert index.get(library.Series([2, 9]))[0].tolist() == [20, 0]
        times = library.Series(np.array([5, 6], "M8[ns]"))
        assert lanetree.Index(times, device="cpu").key_dtype == np.dtype("M8[ns]")
