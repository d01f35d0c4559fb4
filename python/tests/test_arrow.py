"""Columns of Arrow, and of what is made of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

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
    column = lanetree._missing.from_arrow(array.slice(10, 3), "it")[0]
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
    with pytest.raises(TypeError, match="the queries have a time zone, UTC, but the index has times without one"):
        index.get(pa.array([1], pa.timestamp("us", "UTC")))


def test_columns_whose_dlpack_refuses_them() -> None:
    """Some versions of pyarrow raise an error where others say that an array with nulls is in host memory."""

    class Column:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __arrow_c_array__(self, schema: object = None) -> object:
            return self.array.__arrow_c_array__(schema)

        def __dlpack_device__(self) -> tuple[int, int]:
            raise pa.ArrowTypeError("Can only use DLPack on arrays with no nulls.")

    keys, values = pa.array([5, None, 3], pa.int64()), np.array([50, 60, 30])
    index = lanetree.Index(Column(keys), values, nulls="skip", device="cpu")
    assert (len(index), index[5], index[3]) == (2, 50, 30)
    assert index.contains(np.array([5, 4])).tolist() == [True, False]
    assert np.asarray(index.searchsorted(Column(pa.array([5, 4, 3])))).tolist() == [1, 1, 0]


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
    assert index.get(keys).found.tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match="the queries have 1 nulls, the first one in row 1: a null has no rank"):
        index.searchsorted(keys)
    with pytest.raises(ValueError, match="nulls is 'drop', where"):
        lanetree.Index(keys, device="cpu", nulls="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'error', 'skip' or 'open'"):
        lanetree.IntervalIndex(keys, keys, device="cpu", nulls="first")  # type: ignore[arg-type]


ARROW = ["uint32", "uint64", "int32", "int64", "float32", "float64", "timestamp", "duration"]


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("kind", ARROW)
def test_nulls_are_keys(device: str, kind: str, nulls: Any, tmp_path: Path) -> None:
    made = getattr(pa, kind)("us") if kind in ("timestamp", "duration") else getattr(pa, kind)()
    signed = kind not in ("uint32", "uint64")
    plain = [7, None, 3, -5 if signed else 5, None, 9]
    keys = pa.array([None if key is None else int(key) for key in plain], pa.int64()).cast(made)
    # Of equal keys the last one's value is kept, of nulls, too. In this order a null is below or above all.
    last = {key: row for row, key in enumerate(plain)}
    order = sorted(last, key=lambda key: ((key is None) != (nulls == "first"), key or 0))
    index = lanetree.Index(keys, device=device, nulls=nulls)
    assert index.values().tolist() == [last[key] for key in order] and len(index) == 5 and index.nulls == nulls
    asked = [None, 3, 4, None, 100]
    queries = pa.array(asked, pa.int64()).cast(made)
    values, found = index.get(queries, default=-1)
    assert values.tolist() == [last.get(key, -1) for key in asked] and found.tolist() == [key in last for key in asked]
    assert index.contains(queries).tolist() == found.tolist()
    at = 0 if nulls == "first" else 4
    assert index.searchsorted(queries)[[0, 3]].tolist() == [at, at] and index.searchsorted(queries, "right")[0] == at + 1
    assert index.searchsorted(queries)[1] == order.index(3)
    # A chunked column, a scalar, and the key that stands for nulls in arrays that have none.
    chunked = pa.chunked_array([queries.slice(0, 2), queries.slice(2)])
    assert index.get(chunked, default=-1)[0].tolist() == values.tolist()
    null = np.array([index.null_key])
    assert None in index and index[None] == 4 and index.get(null)[0].tolist() == [4]
    assert index.keys()[at].tobytes() == null.tobytes() and null.dtype == index.key_dtype
    left, rows = index.join(queries)
    assert left.tolist() == [0, 1, 3] and rows.tolist() == [4, 2, 4]
    # What is made of the index holds its null, too.
    index.save(tmp_path / "pairs")
    number = np.random.default_rng(1).integers(0, 99)
    for other in (pickle.loads(pickle.dumps(index)), index.to("cpu"), lanetree.Index.load(tmp_path / "pairs", device), index | index):
        assert other.nulls == nulls and other.get(queries, default=-1)[0].tolist() == values.tolist()
        assert other.remove(queries.slice(0, 1)).removed == 1 and None not in other
        assert other.insert(queries.slice(0, 1), pa.array([number])).inserted == 1 and other[None] == number
    assert index[None] == 4
    with pytest.raises(TypeError, match="nulls are"):
        index | lanetree.Index(keys, device=device, nulls="skip")
    with pytest.raises(ValueError, match="the values have 1 nulls"):
        lanetree.Index(keys.slice(0, 3), pa.array([1, None, 2]), device=device, nulls=nulls)
    numbers, multi = lanetree.Set(keys, device, nulls=nulls), lanetree.MultiIndex(keys, device=device, nulls=nulls)
    assert numbers.contains(queries).tolist() == found.tolist() and pickle.loads(pickle.dumps(numbers)).nulls == nulls
    assert multi.count(queries).tolist() == [2, 1, 0, 2, 0] and multi.get(queries).values.tolist() == [1, 4, 2, 1, 4]
    multi.save(tmp_path / "multi")
    assert lanetree.MultiIndex.load(tmp_path / "multi", device).count(queries)[0] == 2 and multi.copy()[None].tolist() == [1, 4]
    assert multi.insert(queries.slice(0, 1), [8]).inserted == 1 and multi[None].tolist() == [1, 4, 8]


def test_the_key_of_nulls_is_no_others() -> None:
    for nulls, key in (("first", 0), ("last", 2**32 - 1)):
        keys = pa.array([5, None, key], pa.uint32())
        with pytest.raises(ValueError, match=rf"keys\[2\] is {key}, which stands for nulls"):
            lanetree.Index(keys, device="cpu", nulls=nulls)  # type: ignore[arg-type]
        index = lanetree.Index(keys.slice(0, 2), device="cpu", nulls=nulls)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=rf"keys\[0\] is {key}, which stands for nulls"):
            index.insert(keys.slice(2), [1])
        assert len(index) == 2
    # Lists with None, as a whole and alone; NaT, which is null; and no NaN is.
    assert lanetree.Index([3, None, 1], device="cpu", nulls="last").get([None, 3])[0].tolist() == [1, 0]
    assert lanetree.Index([None], device="cpu", nulls="first").get([None, 3])[1].tolist() == [True, False]
    times = np.array(["2020-01-01", "NaT"], "M8[s]")
    index = lanetree.Index(times, device="cpu", nulls="last")
    assert index.get(times[::-1])[0].tolist() == [1, 0] and index.values().tolist() == [0, 1]
    floats = lanetree.Index(np.array([np.nan, -np.nan, 1.0]), device="cpu", nulls="first")
    assert floats.null_key != floats.null_key and len(floats) == 3 and None not in floats and np.nan in floats
    assert lanetree.Index([1], device="cpu").null_key is None


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_strings(kind: str) -> None:
    words = pa.array(["skipped", "dog", "car", "", "cärt"], getattr(pa, kind)()).slice(1)
    index = lanetree.StringIndex(words, device="cpu")
    assert index.keys() == ["", "car", "cärt", "dog"] and index.values().tolist() == [2, 1, 3, 0]
    assert index.contains(pa.chunked_array([words.slice(0, 1), pa.array(["x"], words.type)])).tolist() == [True, False]
    raw = lanetree.StringIndex(pa.array([b"b", b"a\xff"], pa.binary()), device="cpu")
    assert raw.keys() == [b"a\xff", b"b"]
    with pytest.raises(TypeError, match="the queries are str in an index of bytes: encode or decode them"):
        raw.get(words)
    assert index.get(pa.array(["car", None])).found.tolist() == [True, False]
    with pytest.raises(ValueError, match="1 nulls"):
        index.insert(pa.array(["a", None]), [1, 2])
    with pytest.raises(TypeError, match="the queries are a column of int64, which has no strings: use an Index"):
        index.get(pa.array([1]))


def test_other_types_are_refused() -> None:
    index = lanetree.Index([1], device="cpu")
    for column, why in ((["a"], "strings .string.*: use a StringIndex"), ([[1]], "list<.*convert them"), ([1.5], "double|float64"), ([{"a": 1}], "struct")):
        with pytest.raises(TypeError, match=f"the queries .*{why}"):
            index.get(pa.array(column))


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


@pytest.mark.parametrize("kind", ["uint32", "int64", "float32", "datetime64[us]"])
def test_results_are_columns_with_nulls(device: str, kind: str) -> None:
    values = np.arange(1, 21).astype("int64").astype(kind)
    index = lanetree.Index(np.arange(0, 40, 2), values, device=device)
    result = index.get(np.arange(35))
    column = pa.array(result)
    assert column.type == pa.from_numpy_dtype(values.dtype) and column.null_count == 17
    assert column.to_pylist() == pa.array([values[i // 2] if i % 2 == 0 else None for i in range(35)], column.type).to_pylist()
    # The values are not copied, and live as long as the column.
    assert column.buffers()[1].address == result.values.ctypes.data
    del result
    assert column.drop_null()[0].as_py() == pa.array(values[:1])[0].as_py()
    assert pa.array(index.asof(np.array([-1, 5]))).null_count == 1
    assert pa.array(index.get(7)).to_pylist() == [None] and len(pa.array(index.get(np.zeros(0, np.int64)))) == 0
    with pytest.raises(ValueError, match="one dimension"):
        pa.array(index.get([[1, 2]]))
    # A capsule that nobody takes.
    capsules = index.get([1, 2]).__arrow_c_array__()
    del capsules


def test_results_of_other_classes_are_columns() -> None:
    assert pa.array(lanetree.StringIndex(["a"], [5], device="cpu").get(["a", "b"])).to_pylist() == [5, None]
    assert pa.array(lanetree.MultiIndex([1, 1], [5, 6], device="cpu").first([1, 2])).to_pylist() == [5, None]
    assert pa.array(lanetree.IntervalIndex([1], [2], [5], device="cpu").most_specific([1, 3])).to_pylist() == [5, None]
    polars = pytest.importorskip("polars")
    assert polars.Series(pa.array(lanetree.Index([1], [5], device="cpu").get([1, 2]))).to_list() == [5, None]


def test_nulls_of_intervals_and_strings() -> None:
    starts, ends = pa.array([1, None, 5, 7]), pa.array([2, 3, None, 8])
    with pytest.raises(ValueError, match="the starts have 1 nulls"):
        lanetree.IntervalIndex(starts, ends, device="cpu")
    assert sorted(lanetree.IntervalIndex(starts, ends, device="cpu", nulls="skip")) == [(1, 2, 0), (7, 8, 3)]
    words = pa.array(["b", None, "a", "c"])
    index = lanetree.StringIndex(words, device="cpu", nulls="skip")
    assert index.keys() == ["a", "b", "c"] and index.values().tolist() == [2, 0, 3]
    index = lanetree.StringIndex(words, pa.array([1, 2, None, 4]), device="cpu", nulls="skip")
    assert index.keys() == ["b", "c"] and index.values().tolist() == [1, 4]
    assert lanetree.StringIndex(["a", None], [1, 2], device="cpu", nulls="skip").keys() == ["a"]
    assert lanetree.StringIndex(["b", "a"], device="cpu", nulls="skip").values().tolist() == [1, 0]
    with pytest.raises(ValueError, match="nulls is 'drop'"):
        lanetree.StringIndex(["a"], device="cpu", nulls="drop")  # type: ignore[arg-type]
    with pytest.raises(lanetree.errors.LengthMismatch):
        lanetree.Index(pa.array([1, None]), [1, 2, 3], device="cpu", nulls="skip")
