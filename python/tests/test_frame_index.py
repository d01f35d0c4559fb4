"""An index over a frame gives what joins and selections of the frame give."""

from __future__ import annotations

import datetime
import doctest
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanetree
from lanetree.errors import OptionValue

from test_frames import DIRECTIONS, KINDS, TIMES, TYPES, limit_of, rows_of, same, tables

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("times", TIMES)
def test_asof_is_merge_asof(device: str, times: str) -> None:
    for seed, groups in itertools.product(range(3), ((), ("str",), ("category", "Int64"))):
        left, right = tables(700 + seed, times, groups, is_sorted=False)
        by = [f"by{number}" for number in range(len(groups))]
        index = lanetree.FrameIndex(right, on="at", by=by, device=device)
        assert len(index) == len(right) and index.by == by
        for direction, exact, number in itertools.product(DIRECTIONS, (True, False), (None, 0, 7)):
            options: Any = {"direction": direction, "allow_exact_matches": exact, "tolerance": limit_of(times, number)}
            # Few rows are looked for in the index, and many are merged with the table.
            for some in (left, left[:3]):
                same(index.asof(some, **options), lanetree.merge_asof(some, right, on="at", by=by or None, **options))


@pytest.mark.parametrize(("left_kind", "right_kind"), list(itertools.product(KINDS, KINDS)))
def test_each_kind_of_frame_is_answered_in_kind(left_kind: str, right_kind: str) -> None:
    for seed, groups in ((710, ("str", "int16")), (711, ()), (712, ("datetime64[us]",))):
        left, right = tables(seed, "datetime64[ns]", groups, is_sorted=False)
        by = [f"by{number}" for number in range(len(groups))]
        index = lanetree.FrameIndex(KINDS[right_kind](right), "at", by, "cpu")
        for _ in range(2):
            made = index.asof(KINDS[left_kind](left))
            assert type(made) is TYPES[left_kind]
            assert rows_of(made) == rows_of(lanetree.merge_asof(left, right, on="at", by=by or None))
        low, high = right["at"].iloc[[0, 1]].sort_values() if len(right) > 1 else (None, None)
        some = index.range(low, high)
        assert type(some) is type(index.frame) is TYPES[right_kind]
        expected = right if low is None else right[right["at"].between(low, high)]
        assert rows_of(some) == rows_of(expected.sort_values("at", kind="stable"))
        assert rows_of(index.frame) == rows_of(index.to_arrow().to_pandas()) == rows_of(right)
        assert len(index.to_pandas()) == len(right)


def test_ranges_and_rows_are_selections_of_the_frame(device: str) -> None:
    rng = np.random.default_rng(3)
    for times, groups in itertools.product(("int64", "uint64", "float64", "datetime64[s]", "in a time zone"), ((), ("str",), ("int16", "str"))):
        frame = tables(720, times, groups, is_sorted=False)[1]
        frame = frame.set_axis([f"row {row}" for row in range(len(frame))], axis=0)
        by = [f"by{number}" for number in range(len(groups))]
        index, ordered = lanetree.FrameIndex(frame, "at", by, device), frame.sort_values("at", kind="stable")
        for inclusive in ("both", "left", "right", "neither"):
            low, high = sorted(frame["at"].iloc[rng.integers(0, len(frame), 2)])
            is_in = ordered["at"].between(low, high, inclusive=inclusive)
            same(index.range(low, high, inclusive=inclusive), ordered[is_in])  # type: ignore[arg-type]
            same(index.range(None, high), ordered[ordered["at"] <= high])
            same(index.range(low, None, inclusive=inclusive), ordered[ordered["at"] >= low if inclusive in ("both", "left") else ordered["at"] > low])  # type: ignore[arg-type]
            same(index.range(high, low), ordered[(ordered["at"] >= high) & (ordered["at"] <= low)])
            if by:
                group = frame[by].iloc[rng.integers(0, len(frame))]
                is_own = (ordered[by] == group).all(axis=1)
                if not group.isna().any():
                    asked = tuple(group) if len(by) > 1 else group.iloc[0]
                    same(index.range(low, high, inclusive=inclusive, by=asked), ordered[is_in & is_own])  # type: ignore[arg-type]
        same(index.range(None, None), ordered)
        keys = frame["at"].iloc[rng.integers(0, len(frame), 3)].tolist()
        assert all(key in index for key in keys)
        for key in keys:
            assert index.loc[key].sort_index().equals(frame[frame["at"] == key].sort_index())
        assert sorted(index.loc[keys].index) == sorted(label for key in keys for label in frame.index[frame["at"] == key])
        same(index.loc[low:high], ordered[ordered["at"].between(low, high)])


def test_strings_are_keys(device: str) -> None:
    words = ["pear", "fig", "Δ", "", "fig", "apple"]
    frame = pandas.DataFrame({"name": words, "row": range(6)})
    for made in (frame, frame.astype({"name": "category"}), frame.astype({"name": object}), polars.from_pandas(frame), pyarrow.Table.from_pandas(frame)):
        index = lanetree.FrameIndex(made, "name", device=device)
        assert index.key_dtype == object and "fig" in index and "figs" not in index and 5 not in index
        assert list(index.range("b", "pear")["row"] if made is frame else [row["row"] for row in rows_of(index.range("b", "pear"))]) == [1, 4, 0]
        assert [row["row"] for row in rows_of(index.range("fig", "pear", inclusive="neither"))] == []
        assert [row["row"] for row in rows_of(index.loc[["Δ", "fig"]])] == [2, 1, 4]
        asked = pandas.DataFrame({"name": ["fig", "g", "", "ΔΔ"]})
        assert index.asof(asked)["row"].tolist() == [4, 4, 3, 2]
        assert index.asof(asked, direction="forward")["row"].fillna(-1).tolist() == [1, 0, 3, -1]
        assert index.lookup(pyarrow.array(["pear", "no"]), "row").to_pylist() == [0, None]
        with pytest.raises(OptionValue, match="direction='nearest', but 'name' has strings"):
            index.asof(asked, direction="nearest")
        with pytest.raises(OptionValue, match="tolerance=3, but 'name' has strings"):
            index.asof(asked, tolerance=3)
    with pytest.raises(ValueError, match=r"frame\['name'\].* have 1 missing elements, the first one in row 1: drop these rows"):
        lanetree.FrameIndex(pandas.DataFrame({"name": ["a", None]}), "name", device=device)


def test_lookup_is_map() -> None:
    frame = pandas.DataFrame({"k": [3, 1, 2], "g": ["a", "a", "b"], "v": [1.5, 2.5, 3.5]})
    index = lanetree.FrameIndex(frame, "k", device="cpu")
    keys = pandas.Series([2, 9, 3], index=list("xyz"), name="k")
    pandas.testing.assert_series_equal(index.lookup(keys, "v"), lanetree.lookup(keys, frame, "k", "v"))
    assert index.lookup(polars.Series("p", [1, None]), "v").to_list() == [2.5, None]
    assert index.lookup(pyarrow.array([1, 4]), "g").to_pylist() == ["a", None]
    assert index.lookup(np.array([1]), "v").tolist() == [2.5]
    grouped = lanetree.FrameIndex(frame, "k", "g", "cpu")
    assert grouped.lookup([3, 3, 2], "v", by=["a", "b", "b"]).fillna(0).tolist() == [1.5, 0, 3.5]
    two = lanetree.FrameIndex(frame, "k", ["g", "v"], "cpu")
    assert two.lookup([3, 3], "k", by=[["a", "a"], [1.5, 2.5]]).fillna(0).tolist() == [3, 0]
    with pytest.raises(ValueError, match="by is not given, but the index has groups of 'g'"):
        grouped.lookup([3], "v")
    with pytest.raises(ValueError, match="by has 1 elements for 2 keys"):
        grouped.lookup([3, 2], "v", by=["a"])
    with pytest.raises(ValueError, match="give a list of 2 arrays, for 'g', 'v'"):
        two.lookup([3], "v", by=["a"])
    with pytest.raises(ValueError, match="by is given, but the index has no groups"):
        index.lookup([3], "v", by=["a"])
    with pytest.raises(ValueError, match="the key in row 1 is there 2 times"):
        lanetree.FrameIndex(pandas.concat([frame, frame]), "k", device="cpu").lookup([9, 2], "v")
    with pytest.raises(KeyError, match="column='no'"):
        index.lookup([3], "no")


@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_those_of_the_frame(device: str, kind: str) -> None:
    left, right = tables(731, "datetime64[ns]", ("str",), is_sorted=False)
    assert len(right) >= 40
    first, rest = right[:15], right[15:].reset_index(drop=True)
    index = lanetree.FrameIndex(KINDS[kind](first), "at", "by0", device)
    assert tuple(index.append(rest[:10][list(rest.columns[::-1])])) == (10, 0, 0)
    assert tuple(index.append(KINDS[kind](rest[10:]))) == (len(rest) - 10, 0, 0)
    assert rows_of(index.frame) == rows_of(right) and rows_of(index.asof(left)) == rows_of(lanetree.merge_asof(left, right, on="at", by="by0"))
    gone = right["at"].iloc[[3, 30]].tolist()
    report = index.remove([*gone, datetime.datetime(1800, 1, 1)])
    stays = right[~right["at"].isin(gone)]
    assert tuple(report) == (0, len(right) - len(stays), 1) and len(index) == len(stays)
    assert rows_of(index.frame) == rows_of(stays) and rows_of(index.range(None, None)) == rows_of(stays.sort_values("at", kind="stable"))
    assert rows_of(index.asof(left)) == rows_of(lanetree.merge_asof(left, stays, on="at", by="by0"))
    one = stays.dropna(subset=["by0"]).iloc[:1]
    report = index.remove(one["at"], by=one["by0"])
    stays = stays[~((stays["at"] == one["at"].iloc[0]) & (stays["by0"] == one["by0"].iloc[0]))]
    assert report.removed > 0 and rows_of(index.frame) == rows_of(stays)
    assert index.remove(stays["at"]).removed == len(stays) and len(index) == 0
    assert rows_of(index.asof(left)) == rows_of(lanetree.merge_asof(left, stays[:0], on="at", by="by0")) and rows_of(index.range(None, None)) == []
    index.append(first)
    assert rows_of(index.frame) == rows_of(first)


def test_a_change_is_all_or_nothing() -> None:
    frame = pandas.DataFrame({"at": [2, 1], "v": [1, 2]}, index=["x", "y"])
    index = lanetree.FrameIndex(frame, "at", device="cpu")
    cases: list[tuple[Any, type[Exception], str]] = [
        (frame[["at"]], KeyError, "frame has no column 'v'"),
        (frame.assign(w=1), KeyError, "the index has no column 'w'"),
        (frame.assign(v=0.5), ValueError, r"frame\['v'\] is float64, where the index has int64, and both would be float64: convert it"),
        (frame.assign(at=[3.0, np.nan]), ValueError, r"frame\['at'\] is float64"),
        (polars.DataFrame({"at": ["a"], "v": [1]}), ValueError, r"frame\['at'\]"),
        ([1], TypeError, "frame is a builtins.list"),
    ]
    for given, kind, message in cases:
        with pytest.raises(kind, match=message):
            index.append(given)
        same(index.frame, frame)
    index.append(frame.astype({"v": "int8"}))
    same(index.frame, pandas.concat([frame, frame]))
    nulls = lanetree.FrameIndex(polars.DataFrame({"at": [1]}), "at", device="cpu")
    with pytest.raises(ValueError, match=r"frame\['at'\] \(Int64\) have 1 missing elements, the first one in row 1"):
        nulls.append(polars.DataFrame({"at": [None]}, schema={"at": polars.Int64}))
    assert len(nulls) == 1
    with pytest.raises(ValueError, match="does not go below the rows of the index"):
        nulls.append(polars.DataFrame({"at": [[1]]}))


def test_the_table_is_not_the_callers() -> None:
    frame = pandas.DataFrame({"at": [2, 1], "v": [1, 2]})
    index = lanetree.FrameIndex(frame, "at", device="cpu")
    frame.loc[0, "v"] = 7
    given, copied = index.frame, index.to_pandas()
    given.loc[0, "v"], copied.loc[0, "v"] = 8, 9
    assert index.loc[2]["v"].tolist() == [1]


def test_errors_name_the_argument() -> None:
    frame = pandas.DataFrame({"at": [2, 1], "s": ["a", "b"], "n": [1.0, np.nan], "b": [True, False], "t": pandas.to_datetime(["2024", "2025"])})
    index = lanetree.FrameIndex(frame, "at", "s", "cpu")
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: lanetree.FrameIndex(frame, "no", device="cpu"), KeyError, "on='no': frame has no such column"),
        (lambda: lanetree.FrameIndex(frame, "at", "no", "cpu"), KeyError, "by='no'"),
        (lambda: lanetree.FrameIndex(frame, "n", device="cpu"), ValueError, r"frame\['n'\] \(float64\) have 1 missing"),
        (lambda: lanetree.FrameIndex(frame, "b", device="cpu"), ValueError, "are booleans"),
        (lambda: lanetree.FrameIndex([1], "b", device="cpu"), TypeError, "frame is a builtins.list"),
        (lambda: index.asof(frame, on="t"), TypeError, r"frame\['t'\].*datetime64"),
        (lambda: index.asof(frame, by=["s", "b"]), ValueError, "by has 2 names, and the index 1"),
        (lambda: index.asof(frame, direction="up"), ValueError, "direction is 'up'"),
        (lambda: index.asof(frame, allow_exact_matches=2), ValueError, "allow_exact_matches is 2"),
        (lambda: index.asof(frame, tolerance=0.5), ValueError, r"tolerance is 0.5 for frame\['at'\]: pass an integer"),
        (lambda: index.asof(frame[["at"]]), KeyError, "by='s': frame has no such column"),
        (lambda: index.asof(frame.assign(at=[1, None]).convert_dtypes()), ValueError, "have 1 nulls"),
        (lambda: index.range("a", 3), (TypeError, ValueError), "low"),
        (lambda: index.range(1, 3, inclusive="all"), ValueError, "inclusive is 'all'"),
        (lambda: index.range(1, float("nan")), (TypeError, ValueError), "high"),
        (lambda: index.loc[7], KeyError, "7"),
        (lambda: index.loc[[1, 8]], KeyError, "8"),
        (lambda: index.loc[1:2:3], ValueError, "a slice of keys has no step"),
        (lambda: iter(index), TypeError, "not iterated"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()
    assert index.range(1, 3, by="z").empty
    with pytest.raises(TypeError, match="`in` is for one key"):
        [1] in index
    zoned = lanetree.FrameIndex(frame.assign(t=frame["t"].dt.tz_localize("Europe/Berlin")), "t", device="cpu")
    assert zoned.time_zone == "Europe/Berlin" and zoned.loc["2024-01-01T00:00:00+01:00"]["at"].tolist() == [2]
    with pytest.raises((TypeError, ValueError), match="time zone"):
        zoned.range("2024-01-01", None)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_pickled(device: str, tmp_path: Path, kind: str) -> None:
    left, right = tables(731, "in a time zone" if kind == "pandas" else "datetime64[ns]", ("category", "Int64"), is_sorted=False)
    index = lanetree.FrameIndex(KINDS[kind](right), "at", ["by0", "by1"], device)
    index.save(tmp_path / "index")
    for again in (lanetree.load(tmp_path / "index", device), lanetree.FrameIndex.load(tmp_path / "index", "cpu"), pickle.loads(pickle.dumps(index)), index.copy(), index.to("cpu")):
        assert rows_of(again.frame) == rows_of(right) and (again.on, again.by) == ("at", ["by0", "by1"])
        assert rows_of(again.asof(left)) == rows_of(index.asof(left))
        assert again == index or kind == "duckdb"
    assert index != lanetree.FrameIndex(KINDS[kind](right), "at", "by0", "cpu") and index != 3


def test_manners(device: str) -> None:
    frame = pandas.DataFrame({"at": [2, 1], "s": ["a", "b"]})
    with lanetree.FrameIndex(frame, "at", "s", device) as index:
        assert repr(index) == f"<lanetree.FrameIndex of 2 rows on 'at' in 2 groups by 's', int64, on {index.device.name}>"
        assert index.nbytes > 0 and "B/key" in index.describe() and index.shape == (2,) and not index.closed
    assert index.closed and repr(index) == "<lanetree.FrameIndex, closed>"
    with pytest.raises(RuntimeError, match="closed"):
        index.append(frame)
    (test,) = doctest.DocTestFinder(recurse=False).find(lanetree.FrameIndex, globs={"lanetree": lanetree})
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
