"""What pandas' `merge_asof` does, case by case: tables and options, which both are given, and where they differ, why."""

from __future__ import annotations

import warnings
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

import lanetree

from test_frames import same

pandas = pytest.importorskip("pandas")

Stamp, Span = pandas.Timestamp, pandas.Timedelta


def frame(index: Any = None, **columns: Any) -> Any:
    return pandas.DataFrame(columns, index=index)


def days(*numbers: int, unit: str = "ns", tz: str | None = None) -> Any:
    return pandas.DatetimeIndex(np.array(numbers, "M8[D]").astype(f"M8[{unit}]")).tz_localize(tz)


class Case(NamedTuple):
    """Tables, and what both make of them."""

    behaviour: str
    left: Any
    right: Any
    options: dict[str, Any]
    #: Why they differ; "" where the results are equal, or both have an error.
    differs: str = ""


A = frame(t=[1, 5, 10], g=["x", "y", "x"], h=[1, 2, 1], a=[0.5, 1.5, 2.5])
B = frame(t=[1, 2, 3, 6, 7], g=["x", "y", "x", "y", "x"], h=[1, 2, 2, 2, 1], b=[10, 20, 30, 40, 50])
D = frame(t=days(1, 5, 10), a=[1, 2, 3])
E = frame(t=days(1, 2, 6), b=[1, 2, 3])
PLAIN = A[["t", "a"]], B[["t", "b"]]
EXACT = "columns of different dtypes are compared where that is exact"
KEYS = "pandas puts the left key into the right column of keys once a row has no match"
SORTED = "tables need not be sorted"
UNITS = "a tolerance may be NumPy's timedelta64"

CASES: list[Case] = [
    Case("backward", *PLAIN, {"on": "t"}),
    Case("forward", *PLAIN, {"on": "t", "direction": "forward"}),
    Case("nearest", *PLAIN, {"on": "t", "direction": "nearest"}),
    Case("a tie is won by the earlier row", frame(t=[4]), frame(t=[2, 6], b=[1, 2]), {"on": "t", "direction": "nearest"}),
    Case("equal times, backward", frame(t=[2]), frame(t=[2, 2], b=[1, 2]), {"on": "t"}),
    Case("equal times, forward", frame(t=[2]), frame(t=[2, 2], b=[1, 2]), {"on": "t", "direction": "forward"}),
    Case("equal times, nearest", frame(t=[2]), frame(t=[2, 2], b=[1, 2]), {"on": "t", "direction": "nearest"}),
    Case("equal times later, nearest", frame(t=[1]), frame(t=[2, 2], b=[1, 2]), {"on": "t", "direction": "nearest"}),
    Case("no exact matches, backward", *PLAIN, {"on": "t", "allow_exact_matches": False}),
    Case("no exact matches, forward", *PLAIN, {"on": "t", "allow_exact_matches": False, "direction": "forward"}),
    Case("no exact matches, nearest", *PLAIN, {"on": "t", "allow_exact_matches": False, "direction": "nearest"}),
    Case("no exact matches within a tolerance", *PLAIN, {"on": "t", "allow_exact_matches": False, "direction": "nearest", "tolerance": 1}),
    Case("rows of the left table that repeat", frame(t=[3, 3, 3]), B[["t", "b"]], {"on": "t"}),
    Case("by one column", A, B, {"on": "t", "by": "g"}),
    Case("by two columns", A, B, {"on": "t", "by": ["g", "h"]}),
    Case("by two columns, forward", A, B, {"on": "t", "by": ["g", "h"], "direction": "forward"}),
    Case("by two columns, nearest", A, B, {"on": "t", "by": ["h", "g"], "direction": "nearest", "tolerance": 4}),
    Case("by columns of other names", A, B.rename(columns={"g": "k"}), {"on": "t", "left_by": "g", "right_by": "k"}),
    Case("by several of other names", A, B.rename(columns={"g": "k"}), {"on": "t", "left_by": ["g", "h"], "right_by": ["k", "h"]}),
    Case("by a list of one", A, B, {"on": "t", "by": ["g"]}),
    Case("by a group that one side lacks", A.assign(g=["x", "z", "z"]), B, {"on": "t", "by": "g"}),
    Case("by categoricals", A.astype({"g": "category"}), B.astype({"g": "category"}), {"on": "t", "by": "g"}),
    Case("by categoricals with other categories", A.assign(g=pandas.Categorical(A.g, ["z", "x", "y"])), B.astype({"g": "category"}), {"on": "t", "by": "g"}, EXACT),
    Case("by a categorical and strings", A.astype({"g": "category"}), B, {"on": "t", "by": "g"}, EXACT),
    Case("by objects", A.astype({"g": object}), B.astype({"g": object}), {"on": "t", "by": "g"}),
    Case("by objects and strings", A.astype({"g": object}), B, {"on": "t", "by": "g"}, EXACT),
    Case("by integers of other widths", A, B.astype({"h": "int8"}), {"on": "t", "by": "h"}, EXACT),
    Case("by unsigned and signed integers", A.astype({"h": "uint64"}), B, {"on": "t", "by": "h"}, EXACT),
    Case("by integers and floats", A, B.astype({"h": "float64"}), {"on": "t", "by": "h"}, EXACT),
    Case("by floats with NaN", A.assign(h=[1, np.nan, 2]), B.assign(h=[np.nan, 1, 2, np.nan, 1.5]), {"on": "t", "by": "h"}),
    Case("by strings with nulls", A.assign(g=["x", None, "y"]), B.assign(g=[None, "x", "y", None, "x"]), {"on": "t", "by": "g"}),
    Case("by nullable integers", A.astype({"h": "Int64"}), B.astype({"h": "Int64"}), {"on": "t", "by": "h"}),
    Case("by booleans", A.assign(h=A.h == 1), B.assign(h=B.h == 1), {"on": "t", "by": "h"}),
    Case("by times", A.assign(h=days(1, 2, 1)), B.assign(h=days(1, 2, 2, 2, 1)), {"on": "t", "by": "h"}),
    Case("by times in a zone", A.assign(h=days(1, 2, 1, tz="UTC")), B.assign(h=days(1, 2, 2, 2, 1, tz="UTC")), {"on": "t", "by": "h"}),
    Case("by strings and integers", A.assign(g=A.h), B, {"on": "t", "by": "g"}),
    Case("by a column that is not there", A, B, {"on": "t", "by": "z"}),
    Case("by given twice", A, B, {"on": "t", "by": "g", "left_by": "g"}),
    Case("left_by alone", A, B, {"on": "t", "left_by": "g"}),
    Case("left_by and right_by of other lengths", A, B, {"on": "t", "left_by": ["g"], "right_by": ["g", "h"]}),
    Case("tolerance, an integer", *PLAIN, {"on": "t", "tolerance": 1}),
    Case("tolerance of 0", *PLAIN, {"on": "t", "tolerance": 0}),
    Case("tolerance of NumPy's int8", *PLAIN, {"on": "t", "tolerance": np.int8(1)}),
    Case("tolerance for columns of int8", *(it.astype({"t": "int8"}) for it in PLAIN), {"on": "t", "tolerance": np.int8(2)}),
    Case("tolerance for uint64", *(it.astype({"t": "uint64"}) for it in PLAIN), {"on": "t", "tolerance": np.uint64(2)}),
    Case("tolerance for floats", *(it.astype({"t": "float64"}) for it in PLAIN), {"on": "t", "tolerance": 0.5, "direction": "nearest"}),
    Case("a whole tolerance for floats", *(it.astype({"t": "float64"}) for it in PLAIN), {"on": "t", "tolerance": 1}),
    Case("tolerance, a Timedelta", D, E, {"on": "t", "tolerance": Span("1D")}),
    Case("tolerance, a timedelta", D, E, {"on": "t", "tolerance": Span("1D").to_pytimedelta()}),
    Case("tolerance, a timedelta64", D, E, {"on": "t", "tolerance": np.timedelta64(1, "D")}, UNITS),
    Case("tolerance of a finer unit than the times", *(it.astype({"t": "M8[s]"}) for it in (D, E)), {"on": "t", "tolerance": Span("86400001ms")}),
    Case("tolerance for durations", frame(t=pandas.to_timedelta([1, 5], "s")), frame(t=pandas.to_timedelta([0, 2], "s"), b=[1, 2]), {"on": "t", "tolerance": Span("1s")}),
    Case("a number as the tolerance of times", D, E, {"on": "t", "tolerance": 1}),
    Case("a Timedelta as that of integers", *PLAIN, {"on": "t", "tolerance": Span("1s")}),
    Case("a fraction as that of integers", *PLAIN, {"on": "t", "tolerance": 1.5}),
    Case("a tolerance below 0", *PLAIN, {"on": "t", "tolerance": -1}),
    Case("a Timedelta below 0", D, E, {"on": "t", "tolerance": Span("-1D")}),
    Case("uint64 above int64", frame(t=np.array([2**63, 2**64 - 1], "uint64")), frame(t=np.array([5, 2**63 + 1], "uint64"), b=[1, 2]), {"on": "t", "direction": "nearest"}),
    Case("int64 of both ends", frame(t=[-(2**63), 2**63 - 1]), frame(t=[-(2**63), 0], b=[1, 2]), {"on": "t"}),
    Case("int16", *(it.astype({"t": "int16"}) for it in PLAIN), {"on": "t"}),
    Case("uint8", *(it.astype({"t": "uint8"}) for it in PLAIN), {"on": "t", "direction": "forward"}),
    Case("float32", *(it.astype({"t": "float32"}) for it in PLAIN), {"on": "t", "direction": "nearest", "tolerance": 1.5}),
    Case("infinities", frame(t=[-np.inf, 0, np.inf]), frame(t=[-np.inf, 1, np.inf], b=[1, 2, 3]), {"on": "t", "direction": "nearest"}),
    Case("integers of other widths", PLAIN[0].astype({"t": "int32"}), PLAIN[1], {"on": "t"}, EXACT),
    Case("floats of other widths", PLAIN[0].astype({"t": "float32"}), PLAIN[1].astype({"t": "float64"}), {"on": "t"}, EXACT),
    Case("integers and floats", PLAIN[0], PLAIN[1].astype({"t": "float64"}), {"on": "t"}),
    Case("times of other units", D.astype({"t": "M8[s]"}), E, {"on": "t"}, EXACT),
    Case("times in a zone", D.assign(t=days(1, 5, 10, tz="UTC")), E.assign(t=days(1, 2, 6, tz="UTC")), {"on": "t"}),
    Case("times in two zones", D.assign(t=days(1, 5, 10, tz="UTC")), E.assign(t=days(1, 2, 6, tz="Asia/Tokyo")), {"on": "t"}, EXACT),
    Case("times in a zone and others", D.assign(t=days(1, 5, 10, tz="UTC")), E, {"on": "t"}),
    Case("nullable integers", *(it.astype({"t": "Int64"}) for it in PLAIN), {"on": "t"}),
    Case("nullable and other integers", PLAIN[0].astype({"t": "Int64"}), PLAIN[1], {"on": "t"}, EXACT),
    Case("strings in order", A.assign(t=["a", "b", "c"]), B.assign(t=list("abcde")), {"on": "t"}),
    Case("booleans", frame(t=[False, True]), frame(t=[False, True], b=[1, 2]), {"on": "t"}),
    Case("NaN on the left", frame(t=[1.0, np.nan]), frame(t=[1.0], b=[1]), {"on": "t"}),
    Case("NaN on the right", frame(t=[1.0]), frame(t=[1.0, np.nan], b=[1, 2]), {"on": "t"}),
    Case("NaT", D.assign(t=[*D.t[:2], pandas.NaT]), E, {"on": "t"}),
    Case("NA", frame(t=pandas.array([1, None], "Int64")), frame(t=pandas.array([1], "Int64"), b=[1]), {"on": "t"}),
    Case("an unsorted left table", PLAIN[0][::-1], PLAIN[1], {"on": "t"}, SORTED),
    Case("an unsorted right table", PLAIN[0], PLAIN[1][::-1], {"on": "t"}, SORTED),
    Case("an empty left table", PLAIN[0][:0], PLAIN[1], {"on": "t"}),
    Case("an empty right table", PLAIN[0], PLAIN[1][:0], {"on": "t"}),
    Case("two empty tables", PLAIN[0][:0], PLAIN[1][:0], {"on": "t", "direction": "nearest"}),
    Case("an empty right table, by a column", A, B[:0], {"on": "t", "by": "g"}),
    Case("columns of one name", A, B.rename(columns={"b": "a"}), {"on": "t", "by": ["g", "h"]}),
    Case("suffixes", A, B.rename(columns={"b": "a"}), {"on": "t", "by": ["g", "h"], "suffixes": ("_l", "_r")}),
    Case("no suffix on one side", A, B, {"on": "t", "suffixes": (None, "_r")}),
    Case("no suffixes", A, B, {"on": "t", "suffixes": (None, None)}),
    Case("suffixes that are no pair", A, B, {"on": "t", "suffixes": ("_l", "_r", "_z")}),
    Case("the only column of both", PLAIN[0], PLAIN[1], {}),
    Case("several columns of both", A, B, {}),
    Case("no column of both", PLAIN[0], PLAIN[1].rename(columns={"t": "s"}), {}),
    Case("columns of other names", PLAIN[0], PLAIN[1].rename(columns={"t": "s"}), {"left_on": "t", "right_on": "s"}),
    Case("columns of other names, one row without a match", PLAIN[0], PLAIN[1][1:].rename(columns={"t": "s"}), {"left_on": "t", "right_on": "s"}),
    Case("both indexes", PLAIN[0].set_index("t"), PLAIN[1].set_index("t"), {"left_index": True, "right_index": True}),
    Case("both indexes, by a column", A.set_index("t"), B.set_index("t"), {"left_index": True, "right_index": True, "by": "g"}),
    Case("the left index", PLAIN[0].set_index("t"), PLAIN[1], {"left_index": True, "right_on": "t"}),
    Case("the right index", PLAIN[0], PLAIN[1].set_index("t"), {"left_on": "t", "right_index": True}),
    Case("the left index, one row without a match", PLAIN[0].set_index("t"), PLAIN[1][1:], {"left_index": True, "right_on": "t"}, KEYS),
    Case("an array, one row without a match", PLAIN[0], PLAIN[1][1:].rename(columns={"t": "s"}), {"left_on": np.array([1, 5, 10]), "right_on": "s"}, KEYS),
    Case("an index of several levels", A.set_index(["t", "h"]), B, {"left_index": True, "right_on": "t"}),
    Case("a level's name", PLAIN[0].set_index("t"), PLAIN[1], {"on": "t"}),
    Case("labels of the left table", PLAIN[0].set_axis(list("pqr"), axis=0), PLAIN[1], {"on": "t"}),
    Case("on and an index", A, B, {"on": "t", "left_index": True}),
    Case("on and left_on", A, B, {"on": "t", "left_on": "t"}),
    Case("left_on alone", A, B, {"left_on": "t"}),
    Case("two columns of times", A, B, {"on": ["t", "h"]}),
    Case("a column that is not there", A, B, {"on": "z"}),
    Case("a direction that is none", A, B, {"on": "t", "direction": "up"}),
    Case("a flag that is none", A, B, {"on": "t", "allow_exact_matches": "no"}),
    Case("a Series", PLAIN[0]["t"], PLAIN[1], {"on": "t"}),
    Case("dtypes of the right side without a match", PLAIN[0], frame(t=[9], i=[1], s=["x"], d=days(3), c=pandas.Categorical(["u"]), n=pandas.array([1], "Int8"), o=[True]), {"on": "t"}),
    Case("dtypes of the right side with all matches", PLAIN[0], frame(t=[0], i=[1], s=["x"], d=days(3), c=pandas.Categorical(["u"]), n=pandas.array([1], "Int8"), o=[True]), {"on": "t"}),
    Case("columns of one name twice", pandas.DataFrame([[1, 2, 3]], columns=["t", "a", "a"]), PLAIN[1], {"on": "t"}),
    Case("names of columns that are numbers", PLAIN[0].set_axis([0, 1], axis=1), PLAIN[1].set_axis([0, 2], axis=1), {"on": 0}),
    Case("a name of the columns", PLAIN[0].rename_axis("names", axis=1), PLAIN[1], {"on": "t"}),
]


def outcome(join: Callable[..., Any], case: Case) -> Any:
    """The frame that a join makes, or its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return join(case.left, case.right, **case.options)
        except (KeyError, ValueError, TypeError) as error:
            return error


def alike(case: Case) -> tuple[Any, Any]:
    """The tables of a case, sorted, with columns of keys that pandas compares."""
    sides = []
    for side in (case.left, case.right):
        made = side.copy()
        for name in {"t", case.options.get("by", "t")}:
            column = made[name]
            if column.dtype.kind in "iuf":
                made[name] = column.astype("float64" if name == "h" else "int64")
            elif column.dtype.kind == "M":
                made[name] = pandas.to_datetime(column, utc=True).astype("datetime64[ns, UTC]")
            else:
                made[name] = column.astype(object)
        sides.append(made.sort_values("t"))
    return sides[0], sides[1]


def pandas_tolerance(case: Case) -> Any:
    """A tolerance as pandas takes it."""
    tolerance = case.options.get("tolerance")
    return Span(tolerance) if isinstance(tolerance, np.timedelta64) else tolerance


@pytest.mark.parametrize("case", CASES, ids=[case.behaviour for case in CASES])
def test_cases_of_pandas(case: Case) -> None:
    theirs, ours = outcome(pandas.merge_asof, case), outcome(lanetree.merge_asof, case)
    if case.differs == KEYS:
        # But for the right keys both are the same.
        name = case.options["right_on"]
        same(ours.drop(columns=name), theirs.drop(columns=name))
        assert ours[name].isna().tolist() == ours["b"].isna().tolist() != theirs[name].isna().tolist()
    elif case.differs:
        # They have an error, where there is a result here: that of columns which are made alike, and sorted.
        assert isinstance(theirs, (ValueError, TypeError)), theirs
        assert isinstance(ours, pandas.DataFrame) and ours["b"].notna().any()
        left, right = alike(case)
        expected = outcome(pandas.merge_asof, case._replace(left=left, right=right, options={**case.options, "tolerance": pandas_tolerance(case)}))
        assert ours.sort_values("a")["b"].tolist() == pytest.approx(expected.sort_values("a")["b"].tolist(), nan_ok=True)
    elif isinstance(theirs, Exception):
        assert isinstance(ours, (KeyError, ValueError, TypeError)), ours
    else:
        if isinstance(ours, Exception):
            raise ours
        same(ours, theirs)
