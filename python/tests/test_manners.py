"""What users of pandas, polars and Python's containers expect of results and indexes."""

from __future__ import annotations

import datetime
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanetree

from test_index import KEYS

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

INDEX = lanetree.Index(np.array([30, 10, 20]), np.array([3, 1, 2]), device="cpu")
ASKED = [20, 25, 10]


def test_a_result_is_a_pair_and_a_column() -> None:
    result = INDEX.get(np.array(ASKED))
    values, found = result
    assert values is result.values is result[0] and found is result.found is result[1]
    assert values.tolist() == [2, 0, 1] and found.tolist() == [True, False, True] and len(result) == 3
    assert np.array_equal(np.asarray(result), [2, np.nan, 1], equal_nan=True)
    assert pickle.loads(pickle.dumps(result)).values.tolist() == [2, 0, 1]
    expected = pandas.Series(ASKED).map({30: 3, 10: 1, 20: 2})
    pandas.testing.assert_series_equal(pandas.Series(result), expected)
    frame = pandas.DataFrame({"key": ASKED}, index=[5, 6, 7])
    frame["value"] = result
    assert frame["value"].dropna().to_dict() == {5: 2.0, 7: 1.0}
    assert polars.Series("value", result).to_list() == [2, None, 1] and polars.Series(result).dtype == polars.Int64
    assert polars.DataFrame({"value": polars.Series(result)})["value"].null_count() == 1
    assert pyarrow.array(result).to_pylist() == [2, None, 1]
    assert pandas.Series(INDEX.get([10, 20])).dtype == np.int64


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "datetime64[s]", "timedelta64[ns]"])
def test_what_is_missing_of_a_result(dtype: str) -> None:
    values = np.arange(1, 4).astype(dtype)
    result = lanetree.Index(np.array([1, 2, 3]), values, "cpu").get(np.array([[1, 9], [3, 2]]))
    made = result.to_numpy()
    assert made.shape == (2, 2) and made.dtype == (np.float64 if dtype in ("int32", "uint64") else dtype)
    assert (np.isnat(made) if made.dtype.kind in "mM" else np.isnan(made)).tolist() == [[False, True], [False, False]]
    filled = result.to_numpy(missing=values[1])
    assert filled.dtype == dtype and np.array_equal(filled, values[[[0, 1], [2, 1]]])
    with pytest.raises((TypeError, ValueError), match="missing"):
        result.to_numpy(missing="none")


def test_large_integers_become_no_floats() -> None:
    index = lanetree.Index(np.array([1, 2]), np.array([2**53 + 1, 5]), "cpu")
    with pytest.raises(OverflowError, match="up to 9007199254740993, which floats .*missing="):
        pandas.Series(index.get([1, 9]))
    assert pandas.Series(index.get([1, 2])).tolist() == [2**53 + 1, 5]
    assert index.get([1, 9]).to_numpy(missing=-1).tolist() == [2**53 + 1, -1]
    assert polars.Series(index.get([1, 9])).to_list() == [2**53 + 1, None]
    assert index.get(1).to_numpy() == 2**53 + 1 and np.isnan(index.get(9).to_numpy())
    with pytest.raises(TypeError, match="missing have dtype float64, .* but int64 is needed"):
        index.get([1, 9]).to_numpy(missing=np.nan)


def test_map_answers_in_kind() -> None:
    expected, names = [2, None, 1], lanetree.StringIndex(["b", "a"], [2, 1], device="cpu")
    series = pandas.Series(ASKED, index=list("xyz"), name="key")
    pandas.testing.assert_series_equal(INDEX.map(series), series.map({30: 3, 10: 1, 20: 2}))
    assert INDEX.map(pandas.Index(ASKED, name="key")).equals(pandas.Index([2, np.nan, 1]))
    ours = INDEX.map(polars.Series("key", ASKED))
    assert (ours.name, ours.to_list()) == ("key", expected)
    assert INDEX.map(pyarrow.array(ASKED)).to_pylist() == expected
    assert isinstance(INDEX.map(pyarrow.chunked_array([ASKED, [30]])), pyarrow.ChunkedArray)
    assert np.array_equal(INDEX.map(ASKED), [2, np.nan, 1], equal_nan=True)
    words = ["b", None, "c", "a"]
    assert names.map(polars.Series(words)).to_list() == [2, None, None, 1]
    assert names.map(pandas.Series(words)).fillna(0).tolist() == [2, 0, 0, 1]
    networks = lanetree.IntervalIndex([0, 64], [255, 127], device="cpu")
    assert networks.map(polars.Series([70, 300, 5, None])).to_list() == [1, None, 0, None]


def everything(device: str) -> list[Any]:
    keys = np.array([30, 10, 20])
    return [
        lanetree.Index(keys, np.array([0.5, -1.5, 2]), device, fill=0.7),
        lanetree.Set(keys, device),
        lanetree.MultiIndex(np.array([30, 10, 30]), device=device),
        lanetree.StringIndex(["b", "a", "cä"], device=device),
        lanetree.StringIndex([b"b", b"\xff"], np.array([1, 2], "M8[us]"), device=device),
        lanetree.GroupedIndex(np.array([1, 1, 2], np.int32), keys, device=device),
        lanetree.IntervalIndex(np.array([1.0, 2.0]), np.array([5.0, 3.0]), device=device),
    ]


def test_keys_are_columns() -> None:
    for kind in (lanetree.Index, lanetree.Set, lanetree.MultiIndex):
        index = kind([3, None, 1], device="cpu", nulls="last")
        assert pyarrow.array(index).to_pylist() == [1, 3, None] == polars.Series(index).to_list()
        assert pandas.Series(kind([3, 1], device="cpu")).tolist() == [1, 3]


def test_messages_say_which_argument_and_what_to_write() -> None:
    words, groups = lanetree.StringIndex(["a"], device="cpu"), lanetree.GroupedIndex([1], [2], device="cpu")
    for call, message in (
        (lambda: INDEX.get(pandas.Series([1, None])), r"the queries have dtype float64, .* convert them by astype\('Int64'\)"),
        (lambda: INDEX.asof("x"), r"the queries \(at\) are strings, as .*'x'.*, but int64 is needed"),
        (lambda: groups.asof([1], by=["x"]), r"the groups \(by\) are strings"),
        (lambda: words.range(["a"], [1]), "the ends are int, where all are str, or all are bytes"),
        (lambda: words.get("a"), "the queries are one string, where a sequence of strings is needed"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_sizes_and_equality(device: str) -> None:
    for index, again in zip(everything(device), everything("cpu")):
        assert index.size == len(index) and index.shape == (len(index),) and index.dtype == index.key_dtype
        assert index == again and index.copy() == index and not index != again and index != "other"
        assert pickle.loads(pickle.dumps(index)) == index
        with pytest.raises(TypeError, match="unhashable"):
            hash(index)
    kinds = everything(device)
    assert all(one != other for one in kinds for other in kinds if one is not other)
    index = lanetree.Index([1, 2], [5, 6], device)
    assert index != lanetree.Index([1, 2], [5, 7], device) and index != lanetree.Index([1, 3], [5, 6], device)
    assert index != lanetree.Index(np.array([1, 2], np.int32), [5, 6], device) and index != lanetree.Index([1], [5], device)
    # Bit by bit, as keys are.
    assert lanetree.Set([np.nan], device) == lanetree.Set([np.nan], device) and lanetree.Set([0.0], device) != lanetree.Set([-0.0], device)
    null = lanetree.Set([None, 1], device, key_dtype="int64", nulls="first")
    assert null != lanetree.Set(np.array([null.null_key, 1]), device) and null == null.copy()


@pytest.mark.parametrize("key", KEYS)
def test_ends_slices_and_order(device: str, key: str) -> None:
    keys = np.array([30, 10, 20, 40]).astype(key)
    index, numbers = lanetree.Index(keys, device=device), lanetree.Set(keys, device)
    multi = lanetree.MultiIndex(np.append(keys, keys[:2]), device=device)
    series = pandas.Series(np.arange(4), index=keys).sort_index()
    for one in (index, numbers, multi):
        assert one.min() == keys[1] and one.max() == keys[3] and type(one.min()) is type(keys[0])
        assert np.array_equal(np.asarray(one), one.keys()) and list(reversed(one)) == list(one)[::-1]
    assert index.first() == (keys[1], 1) and index.last() == (keys[3], 3)
    assert numbers.first() == keys[1] and numbers.last() == keys[3]
    assert multi.first() == (keys[1], 1) and multi.last() == (keys[3], 3) and multi.first(keys[:1]).values.tolist() == [0]
    for start, stop in ((0, 2), (2, 2), (3, 0), (None, 1), (2, None), (None, None)):
        bounds = slice(*(None if at is None else keys[at] for at in (start, stop)))
        made, expected = index[bounds], series.loc[bounds]
        assert type(made) is lanetree.Index and made.device == index.device
        assert made.keys().tolist() == expected.index.to_numpy().astype(key).tolist() and made.values().tolist() == expected.tolist()
        assert np.array_equal(numbers[bounds].keys(), made.keys())
        assert multi[bounds].size == sum(int(multi.count(key)) for key in made.keys())


def test_slices_that_are_none() -> None:
    with pytest.raises(ValueError, match="a slice of keys has no step, but -1 was passed"):
        INDEX[::-1]
    with pytest.raises(ValueError, match="the stop of a slice of keys is NaT"):
        INDEX[10 : pandas.NaT]
    with pytest.raises(TypeError, match="a Set has no values"):
        lanetree.Set([1], "cpu")[1]  # type: ignore[index]
    words = lanetree.StringIndex(["b", "a", "cä"], device="cpu")
    assert words["a":"b"].keys() == ["a", "b"] and words["b":].keys() == ["b", "cä"] and words["c":"a"].size == 0  # type: ignore[misc]
    assert words.first() == ("a", 1) and words.max() == "cä" and list(reversed(words)) == ["cä", "b", "a"]
    empty = words["x":"y"]  # type: ignore[misc]
    assert empty.get(["a", "b"]).found.tolist() == [False, False] and "a" not in empty
    assert empty.insert(["é"], [5]).inserted == 1 and empty.keys() == ["é"]


def test_ends_without_keys(device: str) -> None:
    empty = np.zeros(0, np.int64)
    for index in (lanetree.Index(empty, device=device), lanetree.MultiIndex(empty, device=device), lanetree.StringIndex([], device=device)):
        for call in (index.min, index.max, index.first, index.last):
            with pytest.raises(ValueError, match="has no keys, so there is no (first|last) one"):
                call()


@pytest.mark.parametrize("key", ["uint32", "int64", "float32", "datetime64[s]"])
@pytest.mark.parametrize("nulls", ["first", "last"])
def test_null_is_no_end(device: str, key: str, nulls: Any) -> None:
    keys = np.ma.array(np.array([3, 5, 4]).astype(key), mask=[False, False, True])
    for kind in (lanetree.Index, lanetree.Set, lanetree.MultiIndex):
        index = kind(keys, device=device, nulls=nulls)
        assert index.min() == keys[0] and index.max() == keys[1] and len(index) == 3
        assert index[keys[0] :].size == (3 if nulls == "last" else 2) and index[:].nulls == nulls and None in index[:]
        index.remove(keys[:2])
        assert len(index) == 1
        with pytest.raises(ValueError, match="has no keys"):
            index.min()
        with pytest.raises(ValueError, match="has no keys"):
            index.max()


def test_what_cannot_be_a_key_is_in_no_index() -> None:
    indexes = everything("cpu")
    for index in (indexes[0], indexes[1], indexes[2], indexes[3], indexes[6]):
        for key in ("x", b"x", None, (1, 2), 10**30, 0.5, datetime.date(2020, 1, 1), object(), {}, pandas.NaT, 1j):
            assert key not in index, (index, key)
        for several in ([10], np.array([10]), pandas.Series([10]), polars.Series([10]), range(2)):
            with pytest.raises(TypeError, match="`in` is for one key.*contains"):
                several in index
    grouped, networks = indexes[5], lanetree.IntervalIndex([0, 64], [255, 127], device="cpu")
    assert (1, 10) in grouped and (1.0, np.int8(30)) in grouped and (2, 10) not in grouped and ("x", 10) not in grouped
    assert 5 not in grouped and (1, None) not in grouped and (1, 2, 3) not in grouped and list(grouped) == [(1, 10, 1), (1, 30, 0), (2, 20, 2)]
    assert 255 in networks and 255.0 in networks and 256 not in networks and 10**30 not in networks and "5" not in networks
    with pytest.raises(ValueError, match="5.5 is between two numbers of int64"):
        5.5 in networks
    with pytest.raises(RuntimeError, match="closed"):
        indexes[0].close()
        10 in indexes[0]
    assert 10 in INDEX and 10.0 in INDEX and np.float32(10) in INDEX and np.int8(10) in INDEX and (True in INDEX) == (1 in INDEX) and 10.5 not in INDEX
    days = lanetree.Set(np.array(["2020-01-02"], "M8[D]"), "cpu")
    assert datetime.date(2020, 1, 2) in days and datetime.datetime(2020, 1, 2, 1) not in days and 18263 not in days


def test_every_class_is_saved_and_loaded(device: str, tmp_path: Path) -> None:
    path = tmp_path / "index"
    for index in everything(device):
        index.save(path)
        path.chmod(0o640)
        index.save(str(path))
        for again in (type(index).load(path, device), lanetree.load(path, device)):
            assert type(again) is type(index) and again == index and again.device == index.device
        assert path.stat().st_mode & 0o777 == 0o640 and [file.name for file in tmp_path.iterdir()] == ["index"]
    with np.load(path) as archive:
        assert archive["starts"].tolist() == [2.0, 1.0]
    for wrong in (lanetree.GroupedIndex, lanetree.StringIndex):
        with pytest.raises(TypeError, match="is a file of class IntervalIndex: use IntervalIndex.load"):
            wrong.load(path, device)
    for words in ([], np.array([], "U1")):
        lanetree.StringIndex(words, device=device).save(path)
        assert lanetree.load(path, device).insert(["a"], [1]).inserted == 1
    link = tmp_path / "link"
    link.symlink_to(path)
    INDEX.save(path)
    everything("cpu")[3].save(link)
    assert link.is_symlink() and lanetree.load(path, "cpu") == everything("cpu")[3]


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "index"
    for load in (lanetree.load, lanetree.StringIndex.load):
        with pytest.raises(FileNotFoundError, match="opening the file .*index"):
            load(path, "cpu")
    index = everything("cpu")[5]
    with pytest.raises(lanetree.errors.Io, match="saving an index to .*no/index"):
        index.save(tmp_path / "no" / "index")
    index.save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"other", whole[:-30], whole.replace(index.items()[1].tobytes(), bytes(8 * len(index)))):
        assert damaged != whole
        path.write_bytes(damaged)
        with pytest.raises(lanetree.errors.Damaged, match="index"):
            lanetree.load(path, "cpu")
    np.savez(path, keys=[1])
    with pytest.raises(lanetree.errors.Damaged, match="has no entry 'lanetree'"):
        lanetree.load(f"{path}.npz", "cpu")
    for kind, version in (("IntervalIndex", "2"), ("Other", "1")):
        np.savez(f"{path}.npz", lanetree=[kind, version])
        with pytest.raises(lanetree.errors.Unsupported, match="newer lanetree"):
            lanetree.load(f"{path}.npz", "cpu")
    INDEX.save(path)
    with pytest.raises(TypeError, match="use lanetree.load"):
        lanetree.IntervalIndex.load(path, "cpu")


def test_the_doctor_says_what_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert lanetree.doctor()
    said = capfd.readouterr().out
    for text in (lanetree.__version__, np.__version__, pandas.__version__, "torch", "GPU", "index     on cpu: works", "default   <lanetree.Device"):
        assert text in said, text
    for arguments, code in ((["doctor"], 0), ([], 2), (["nurse"], 2)):
        assert subprocess.run([sys.executable, "-m", "lanetree", *arguments]).returncode == code
    out, err = capfd.readouterr()
    assert out.startswith("lanetree") and "invalid choice: 'nurse'" in err
