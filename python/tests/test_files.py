"""Indexes saved and loaded."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

import lanetree

from test_index import KEYS, draw


@pytest.mark.parametrize("key", [*KEYS, "datetime64[ns]", "timedelta64[s]"])
@pytest.mark.parametrize("value", ["uint32", "int64", "float64", "float32"])
def test_what_is_saved_is_loaded(device: str, tmp_path: pathlib.Path, key: str, value: str) -> None:
    rng = np.random.default_rng(1)
    index = lanetree.Index(draw(rng, key, 300), draw(rng, value, 300), device)
    path = tmp_path / "index"
    index.save(path)
    index.save(str(path))
    again = lanetree.Index.load(path, device, key_dtype=key if key[0] in "dt" else None, value_dtype=value)
    assert (again.key_dtype, again.value_dtype, again.device) == (index.key_dtype, index.value_dtype, index.device)
    assert all(np.array_equal(a, b) for a, b in zip(again.items(), index.items()))
    assert os.listdir(tmp_path) == ["index"]
    numbers = lanetree.Set.load(path, device, key_dtype=index.key_dtype)
    assert np.array_equal(numbers.keys(), index.keys())
    numbers.save(path)
    assert np.array_equal(lanetree.Set.load(path, "cpu", key_dtype=index.key_dtype).keys(), index.keys())
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
