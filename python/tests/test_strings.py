"""StringIndex against sorted lists."""

from __future__ import annotations

import bisect
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanetree


def check(index: lanetree.StringIndex, expected: dict[object, object], queries: list[object]) -> None:
    ordered = sorted(expected, key=lambda key: key.encode() if isinstance(key, str) else key)  # type: ignore[union-attr]
    raw = [key.encode() if isinstance(key, str) else key for key in ordered]
    assert index.keys() == ordered and index.values().tolist() == [expected[key] for key in ordered]
    values, found = index.get(queries)
    assert found.tolist() == [query in expected for query in queries]
    assert values[found].tolist() == [expected[query] for query in queries if query in expected]
    asked = [query.encode() if isinstance(query, str) else query for query in queries]
    assert index.searchsorted(queries).tolist() == [bisect.bisect_left(raw, query) for query in asked]
    assert index.searchsorted(queries, "right").tolist() == [bisect.bisect_right(raw, query) for query in asked]
    near, _, has = index.predecessor(queries)
    below = [bisect.bisect_right(raw, query) - 1 for query in asked]
    assert has.tolist() == [at >= 0 for at in below]
    assert [key for key, there in zip(near, has) if there] == [ordered[at] for at in below if at >= 0]
    rows, keys, _ = index.prefix(queries)
    for i, query in enumerate(queries):
        assert keys[rows[i] : rows[i + 1]] == [key for key in ordered if key.startswith(query)]  # type: ignore[arg-type, attr-defined]


def test_words(device: str) -> None:
    words = ["dog", "car", "", "cart", "zoë", "äpfel", "care", "x" * 100, "dog"]
    index = lanetree.StringIndex(words, np.arange(9, dtype=np.float32), device=device)
    expected = dict(zip(words, [float(i) for i in range(9)]))
    check(index, expected, ["car", "ca", "dog", "", "zz", "z", "x" * 99])
    report = index.insert(["cat", "dog"], np.array([10, 11], np.float32))
    assert (report.inserted, report.replaced) == (1, 1)
    expected |= {"cat": 10.0, "dog": 11.0}
    check(index, expected, ["cat", "cas", "dog"])
    assert index.remove(["cat", "bird"])[2:4] == (1, 1)
    assert index.update(["car", "bird"], np.array([20, 21], np.float32)).replaced == 1
    del expected["cat"]
    expected["car"] = 20.0
    check(index, expected, ["cat", "car"])
    rows, keys, values = index.range(["car", "d", "z"], ["care", "dog", "a"])
    assert rows.tolist() == [0, 2, 3, 3] and keys == ["car", "care", "dog"]
    assert index.range(["car"], ["cart"], inclusive="neither").keys == ["care"]
    assert index.range(["", ""], ["zzz", "zzz"], limit=2).keys == ["", "car"] * 2
    assert index["dog"] == 11 and "cow" not in index and len(index) == len(expected)
    again = pickle.loads(pickle.dumps(index))
    check(again, expected, ["dog"])


def test_bytes_arrays_and_errors(device: str) -> None:
    index = lanetree.StringIndex(np.array([b"b", b"a\xff", b"a"]), device=device)
    assert index.keys() == [b"a", b"a\xff", b"b"] and index.values().tolist() == [2, 1, 0]
    assert index.contains([b"a", b"c"]).tolist() == [True, False]
    assert index.get([])[0].size == 0
    for keys, message in [("text", "one string"), (["a"], "index of bytes"), ([b"a", "b"], "bytes, str"), ([1], "int")]:
        with pytest.raises(TypeError, match=message):
            index.get(keys)
    with pytest.raises(lanetree.errors.LengthMismatch, match="2 keys but 1 values"):
        lanetree.StringIndex(["a", "b"], np.array([1]), device=device)
    with pytest.raises(TypeError, match="complex64"):
        lanetree.StringIndex(["a"], np.array([1], np.complex64), device=device)
    index.close()
    assert "closed" in repr(index)
    with pytest.raises(RuntimeError, match="closed"):
        index.get([b"a"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=12), max_size=40), st.lists(st.binary(max_size=12), max_size=10))
def test_any_strings(keys: list[bytes], queries: list[bytes]) -> None:
    index = lanetree.StringIndex(keys, device="cpu")
    check(index, {key: i for i, key in enumerate(keys)}, list(queries))
