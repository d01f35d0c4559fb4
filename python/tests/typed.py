"""A program with types, as users write it: mypy checks it strictly, and a test runs it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt

import lanetree


def values_of(index: lanetree.Index, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    values, found = index.get(keys)
    return values[found]


def ranks(index: lanetree.Index, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return index.searchsorted(keys, "right")


def is_there(keys: lanetree.Set, asked: list[int]) -> npt.NDArray[np.bool_]:
    return keys.contains(asked)


def last_quotes(quotes: lanetree.GroupedIndex, at: npt.NDArray[np.datetime64], by: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    return quotes.asof(at, by=by, tolerance=np.timedelta64(5, "s")).values


def joined(index: lanetree.Index, probes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    left, values = index.join(probes)
    without = index.join(probes, "anti")
    matches = index.range_join(probes, probes + 1)
    all_left, all_values, found = index.join(probes, "left")
    assert without.size + left.size == probes.size == all_left.size and found.sum() == all_values[found].size and matches.keys.size >= left.size
    return left, values


def in_one_range(index: lanetree.Index, low: int, high: int) -> npt.NDArray[np.int64]:
    pairs = index.range([low], [high])
    return pairs.keys[pairs.offsets[0] : pairs.offsets[1]]


def on_a_device(keys: lanetree.Array) -> npt.NDArray[np.int64]:
    index = lanetree.Index(keys)
    values, found = index.get(keys)
    assert isinstance(found.numpy(), np.ndarray)
    return values.numpy()


def changed(index: lanetree.Index, path: Path) -> int:
    report = index.insert(np.array([7]), np.array([0.5]))
    index.save(path)
    with lanetree.Index.load(path, "cpu") as again:
        assert again == index and 7 in again and again[5:].size <= len(index)
    return report.inserted + report.replaced


def words(names: lanetree.StringIndex) -> list[str]:
    found: list[str] = names.prefix(["a"]).keys
    return found


def intervals(networks: lanetree.IntervalIndex, addresses: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    rows = networks.stab(addresses)
    assert networks.count(addresses).sum() == rows.rows.size
    return networks.most_specific(addresses).to_numpy(missing=-1)


def frames(quotes: lanetree.FrameIndex, trades: object, path: Path) -> int:
    made = quotes.asof(trades, direction="nearest", tolerance=5)
    report = quotes.append(quotes.range(1, 2, inclusive="left"))
    quotes.save(path)
    with lanetree.FrameIndex.load(path, "cpu") as again:
        assert again == quotes and len(again) == len(quotes.frame) and 1 in again and len(made) == len(quotes.loc[1])
    return report.inserted


def several(index: lanetree.MultiIndex, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets, values = index.get(keys)
    return values[offsets[:-1]] if index.first(keys).found.all() else np.zeros(0, np.int64)


def main(path: Path) -> None:
    index = lanetree.Index(np.array([1, 5]), np.array([0.25, 1.5]), "cpu")
    assert values_of(index, np.array([5, 6])).tolist() == [1.5] and ranks(index, np.array([5])).tolist() == [2]
    assert is_there(lanetree.Set([3], "cpu"), [3, 4]).tolist() == [True, False]
    at, by = np.array([3, 9], "M8[s]"), np.array([1, 1], np.int32)
    assert last_quotes(lanetree.GroupedIndex(by, at, device="cpu"), at, by).tolist() == [0, 1]
    assert [part.tolist() for part in joined(index, np.array([1, 2]))] == [[0], [0.25]] and in_one_range(index, 2, 6).tolist() == [5]
    assert changed(index, path) == 1 and words(lanetree.StringIndex(["ab", "b"], device="cpu")) == ["ab"]
    assert intervals(lanetree.IntervalIndex(np.array([2], np.uint32), np.array([4], np.uint32), device="cpu"), np.array([3, 5], np.uint32)).tolist() == [0, -1]
    if importlib.util.find_spec("pandas") is not None and importlib.util.find_spec("pyarrow") is not None:
        pandas = importlib.import_module("pandas")
        table = pandas.DataFrame({"at": [1, 3]})
        assert frames(lanetree.FrameIndex(table, on="at", device="cpu"), table, path) == 1
    assert several(lanetree.MultiIndex([1, 1], [5, 6], "cpu"), np.array([1])).tolist() == [5]
