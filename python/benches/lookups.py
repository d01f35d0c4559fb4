"""Look-ups beside what else Python has: on a GPU torch and CuPy, on the CPU NumPy, pandas and polars where they are installed.

    python python/benches/lookups.py --json lookups.json            # the GPU, if there is one
    python python/benches/lookups.py --device cpu --json cpu.json

Every result is compared with NumPy's before its time counts. Times are medians; on a GPU by its events, over calls in one stream.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import time
from typing import Any, Callable

import numpy as np

import lanetree
from lanetree import _arrays


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def cpu_time(call: Callable[[], Any], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def check(name: str, values: np.ndarray, expected: np.ndarray) -> None:
    if not np.array_equal(values, expected):
        raise SystemExit(f"{name}: a wrong result")


def on_gpu(n: int, m: int, repeats: int, sorted_queries: bool) -> list[dict[str, Any]]:
    import torch

    generator = torch.Generator(device="cuda").manual_seed(1)
    keys = torch.unique(torch.randint(-(2**63), 2**63 - 1, (n,), device="cuda", generator=generator))
    values = torch.arange(keys.numel(), device="cuda")
    queries = keys[torch.randint(0, keys.numel(), (m,), device="cuda", generator=generator)]
    if sorted_queries:
        queries = queries.sort().values
    expected = torch.searchsorted(keys, queries)
    index = lanetree.Index(keys, values, is_sorted=True)
    rows: list[dict[str, Any]] = []

    def measure(name: str, call: Callable[[], Any], result: Callable[[Any], Any] | None) -> None:
        made = call()
        if result is not None and not torch.equal(result(made), expected):
            raise SystemExit(f"{name}: a wrong result")
        del made
        times = []
        for _ in range(repeats):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        seconds = statistics.median(times)
        rows.append({"what": name, "n": keys.numel(), "queries": m, "sorted": sorted_queries, "seconds": seconds, "rate": m / seconds})
        print(f"{name:<48}{seconds * 1e3:10.3f} ms {m / seconds / 1e9:8.2f} G/s", flush=True)

    # What the library for Rust does, without this package: a kernel, from and to memory that is there.
    column, on = index._on(queries, None)
    native = _arrays.empty(index.device, m, np.dtype(np.int64))
    measure("Rust's get alone", lambda: index._index.get(column._memory, native._memory, None, 0, on), lambda _: torch.from_dlpack(native))
    del native, column
    out = torch.empty(m, dtype=torch.int64, device="cuda"), torch.empty(m, dtype=torch.bool, device="cuda")
    measure("lanetree get, out=", lambda: index.get(queries, out=out), lambda made: made[0])
    measure("lanetree get", lambda: index.get(queries), lambda made: torch.from_dlpack(made[0]))
    measure("lanetree searchsorted", lambda: index.searchsorted(queries), lambda made: torch.from_dlpack(made))
    measure("lanetree asof, a tolerance", lambda: index.asof(queries, tolerance=1), lambda made: torch.from_dlpack(made[0]))

    def gather() -> Any:
        at = torch.searchsorted(keys, queries).clamp_(max=keys.numel() - 1)
        return torch.where(keys[at] == queries, values[at], 0)

    measure("torch.searchsorted, gather", gather, lambda made: made)
    measure("torch.searchsorted", lambda: torch.searchsorted(keys, queries), lambda made: made)
    if installed("cupy"):
        import cupy

        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            theirs = cupy.from_dlpack(keys), cupy.from_dlpack(queries)
            measure("cupy.searchsorted", lambda: cupy.searchsorted(*theirs), lambda made: torch.from_dlpack(made))
    return rows


def overhead(repeats: int) -> list[dict[str, Any]]:
    """Seconds of a call with one query that the CPU takes, without the wait for its result."""
    import torch

    index = lanetree.Index(torch.arange(1 << 20, device="cuda"), torch.arange(1 << 20, device="cuda"))
    query = torch.tensor([7], device="cuda")
    out = torch.empty(1, dtype=torch.int64, device="cuda"), torch.empty(1, dtype=torch.bool, device="cuda")
    rows = []
    for name, call in [
        ("a call with one query, out=", lambda: index.get(query, out=out)),
        ("a call with one query", lambda: index.get(query)),
        ("a call with one query, searchsorted", lambda: index.searchsorted(query)),
    ]:
        for _ in range(100):
            call()
        torch.cuda.synchronize()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            for _ in range(100):
                call()
            times.append((time.perf_counter() - start) / 100)
            torch.cuda.synchronize()
        seconds = statistics.median(times)
        rows.append({"what": name, "seconds": seconds})
        print(f"{name:<48}{seconds * 1e6:10.2f} us", flush=True)
    return rows


def on_cpu(n: int, m: int, repeats: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(-(2**63), 2**63 - 1, n))
    values = np.arange(keys.size)
    queries = keys[rng.integers(0, keys.size, m)]
    expected = np.searchsorted(keys, queries)
    index = lanetree.Index(keys, values, device="cpu", is_sorted=True)
    rows: list[dict[str, Any]] = []

    def measure(name: str, call: Callable[[], Any], result: Callable[[Any], Any]) -> None:
        check(name, np.asarray(result(call())), expected)
        seconds = cpu_time(call, repeats)
        rows.append({"what": name, "n": keys.size, "queries": m, "seconds": seconds, "rate": m / seconds})
        print(f"{name:<48}{seconds * 1e3:10.2f} ms {m / seconds / 1e6:8.1f} M/s", flush=True)

    measure("lanetree get", lambda: index.get(queries), lambda made: made[0])
    measure("lanetree searchsorted", lambda: index.searchsorted(queries), lambda made: made)
    measure("numpy.searchsorted, take", lambda: values[np.searchsorted(keys, queries)], lambda made: made)
    measure("numpy.searchsorted", lambda: np.searchsorted(keys, queries), lambda made: made)
    if installed("pandas"):
        import pandas

        table = pandas.Index(keys)
        measure("pandas.Index.get_indexer", lambda: table.get_indexer(queries), lambda made: made)
    if installed("polars"):
        import polars

        series = polars.Series(keys)
        measure("polars.Series.search_sorted", lambda: series.search_sorted(polars.Series(queries)), lambda made: made.to_numpy())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="by default the GPU, if there is one")
    parser.add_argument("--log-n", type=int, help="log2 of the pairs: 26 on a GPU, 22 on the CPU")
    parser.add_argument("--log-queries", type=int, help="log2 of the queries: 26 on a GPU, 22 on the CPU")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    device = lanetree.Device(options.device)
    size = 26 if device.kind == "cuda" else 22
    n, m = 1 << (options.log_n or size), 1 << (options.log_queries or size)
    print(device)
    versions = {name: __import__(name).__version__ for name in ("numpy", "torch", "cupy", "pandas", "polars") if installed(name)}
    record: dict[str, Any] = {"device": device.description, "lanetree": lanetree.__version__, "python": platform.python_version()}
    record["versions"] = versions
    if device.kind == "cuda":
        record["rows"] = on_gpu(n, m, options.repeats, False) + on_gpu(n, m, options.repeats, True) + overhead(options.repeats)
    else:
        record["rows"] = on_cpu(n, m, options.repeats)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
