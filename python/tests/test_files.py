"""Indexes saved and loaded."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

import lanetree
from lanetree import _native

from test_index import KEYS, draw


@pytest.mark.parametrize("key", [*KEYS, "datetime64[ns]", "timedelta64[s]"])
@pytest.mark.parametrize("value", ["uint32", "int64", "float64", "float32"])
def test_what_is_saved_is_loaded(device: str, tmp_path: pathlib.Path, key: str, value: str) -> None:
    rng = np.random.default_rng(1)
    index = lanetree.Index(draw(rng, key, 300), draw(rng, value, 300), device)
    path = tmp_path / "index"
    index.save(path)
    index.save(str(path))
    again = lanetree.Index.load(path, device)
    assert (again.key_dtype, again.value_dtype, again.device) == (index.key_dtype, index.value_dtype, index.device)
    assert all(np.array_equal(a, b) for a, b in zip(again.items(), index.items()))
    assert os.listdir(tmp_path) == ["index"]
    numbers = lanetree.Set.load(path, device)
    assert np.array_equal(numbers.keys(), index.keys())
    numbers.save(path)
    again_numbers = lanetree.Set.load(path, "cpu")
    assert again_numbers.key_dtype == index.key_dtype and np.array_equal(again_numbers.keys(), index.keys())
    with pytest.raises(TypeError, match="use Set.load"):
        lanetree.Index.load(path, device)


def test_dtypes_of_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "index"
    lanetree.Index([1.5, -2.5], np.array([-1, 2]), "cpu").save(path)
    again = lanetree.Index.load(path, "cpu")
    assert again.keys().tolist() == [-2.5, 1.5] and again.values().tolist() == [2, -1]
    with pytest.raises(TypeError, match="keys of float64, which are not seen as int64"):
        lanetree.Index.load(path, "cpu", key_dtype=np.int64)
    with pytest.raises(TypeError, match="values of int64, which are not seen as int32"):
        lanetree.Index.load(path, "cpu", value_dtype=np.int32)
    lanetree.Index(np.array([-1, 1]), device="cpu").save(path)
    with pytest.raises(TypeError, match="keys of int64, which are not seen as uint64"):
        lanetree.Index.load(path, "cpu", key_dtype=np.uint64)
    # Other dtypes than those that were saved, of the same words.
    again = lanetree.Index.load(path, "cpu", key_dtype="M8[s]", value_dtype=np.float64)
    assert (again.key_dtype, again.value_dtype) == (np.dtype("M8[s]"), np.dtype("f8"))
    # A file without the package's note, as the library for Rust writes it.
    for note in ("", "mine", "numpy <i8 <f4"):
        _native.write_file(str(path), "i64", np.array([3, 4]), np.array([5, 6]), 8, False, note)
        if note.startswith("numpy"):
            with pytest.raises(TypeError, match="values of int64, which are not seen as float32"):
                lanetree.Index.load(path, "cpu")
            continue
        again = lanetree.Index.load(path, "cpu")
        assert again.value_dtype == np.int64 and again.items()[1].tolist() == [5, 6]
    _native.write_file(str(path), "i64", np.array([3]), np.array([5]), 8, False, "numpy <i8 <q77")
    with pytest.raises(lanetree.errors.Damaged, match="which NumPy does not know"):
        lanetree.Index.load(path, "cpu")
    with pytest.raises(lanetree.errors.NoteTooLong):
        _native.write_file(str(path), "i64", np.array([3]), np.array([5]), 8, False, "x" * 65)
    lanetree.Index(np.array([]), device="cpu").save(path)
    assert len(lanetree.Index.load(path, "cpu")) == 0


def test_errors_of_files(tmp_path: pathlib.Path) -> None:
    path, index = tmp_path / "index", lanetree.Index([1, 2], device="cpu")
    with pytest.raises(FileNotFoundError, match="opening the file") as missing:
        lanetree.Index.load(path, "cpu")
    assert isinstance(missing.value, lanetree.errors.NotFound) and isinstance(missing.value, lanetree.Error)
    with pytest.raises(OSError) as no_folder:
        index.save(tmp_path / "no" / "index")
    assert isinstance(no_folder.value, lanetree.errors.Io)
    index.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x07" + whole[4097:])
    with pytest.raises(lanetree.errors.Damaged, match="the keys, at byte 4096 of the file"):
        lanetree.Index.load(path, "cpu")
    path.write_bytes(whole[:8] + b"\x02" + whole[9:])
    with pytest.raises(lanetree.errors.Unsupported, match="version 2"):
        lanetree.Index.load(path, "cpu")
    index.close()
    with pytest.raises(RuntimeError, match="closed"):
        index.save(path)


@pytest.mark.parametrize("key", ["uint32", "float64", "datetime64[ns]"])
def test_multi_indexes_are_saved_and_loaded(device: str, tmp_path: pathlib.Path, key: str) -> None:
    rng = np.random.default_rng(2)
    path = tmp_path / "index"
    index = lanetree.MultiIndex(draw(rng, key, 300, 40), np.arange(300.0), device)
    index.save(path)
    again = lanetree.MultiIndex.load(path, device)
    assert (again.key_dtype, again.value_dtype, again.device) == (index.key_dtype, index.value_dtype, index.device)
    assert all(np.array_equal(a, b) for a, b in zip(again.items(), index.items()))
    for kind in (lanetree.Index, lanetree.Set):
        with pytest.raises(lanetree.errors.Several, match="use MultiIndex.load"):
            kind.load(path, device)
    # An index's file is one of a multi-map, too; a set's has no values.
    one = lanetree.Index(draw(rng, key, 30), device=device)
    one.save(path)
    assert all(np.array_equal(a, b) for a, b in zip(lanetree.MultiIndex.load(path, device).items(), one.items()))
    lanetree.Set(one.keys(), device).save(path)
    with pytest.raises(TypeError, match="use Set.load"):
        lanetree.MultiIndex.load(path, device)
