"""As-of joins of whole frames by symbol, frames in and frames out: `lanetree.merge_asof` beside pandas and polars, on the CPU.

    python python/benches/frames.py                          # 2^21 and 2^24 quotes, and as many trades
    python python/benches/frames.py --log-n 21 --by str

Both tables are in the order of time, of 500 symbols. Methods take turns, and each figure is a median over rounds; the last column is how
many times Lanetree's is faster in the median of rounds, with the quarter of rounds below and above. Then what a call of few rows takes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import time
from typing import Any, Callable

import numpy as np
import pandas
import polars

import lanetree

Calls = dict[str, Callable[[], Any]]


def tables(size: int, by: str) -> tuple[Any, Any]:
    """Trades and quotes of pandas: times in nanoseconds, symbols as int64, str or category, and a number."""
    rng, made = np.random.default_rng(size), []
    for column in ("price", "bid"):
        symbol: Any = rng.integers(0, 500, size)
        if by != "int64":
            symbol = pandas.Categorical.from_codes(symbol, [f"S{number:03}" for number in range(500)])
            symbol = symbol if by == "category" else pandas.Series(symbol).astype("str")
        at = np.sort(rng.integers(0, 1000 * size, size)).view("M8[ns]")
        made.append(pandas.DataFrame({"at": at, "symbol": symbol, column: rng.normal(size=size)}))
    return made[0], made[1]


def calls_of(size: int, by: str) -> Calls:
    trades, quotes = tables(size, by)
    ours, theirs = (polars.from_pandas(frame).with_columns(polars.col("at").set_sorted()) for frame in (trades, quotes))
    calls: Calls = {
        "lanetree.merge_asof of pandas": lambda: lanetree.merge_asof(trades, quotes, on="at", by="symbol", device="cpu"),
        "pandas.merge_asof": lambda: pandas.merge_asof(trades, quotes, on="at", by="symbol"),
        "lanetree.merge_asof of polars": lambda: lanetree.merge_asof(ours, theirs, on="at", by="symbol", device="cpu"),
        "polars.DataFrame.join_asof": lambda: ours.join_asof(theirs, on="at", by="symbol", check_sortedness=False),
    }
    results = [np.nan_to_num(np.asarray(call()["bid"].to_numpy())) for call in calls.values()]
    # polars and pandas take the last of equal times, too.
    assert all(np.array_equal(results[0], other) for other in results[1:])
    return calls


def in_turns(calls: Calls, rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log-n", type=int, nargs="+", default=[21, 24], help="log2 of the rows of each table")
    parser.add_argument("--by", choices=["int64", "str", "category"], default="int64", help="what symbols are")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    names = ("numpy", "pandas", "polars", "pyarrow")
    record: dict[str, Any] = {"lanetree": lanetree.__version__, "python": platform.python_version(), "by": options.by, "rows": []}
    record["versions"] = {name: importlib.metadata.version(name) for name in names}
    model = next((line.partition(": ")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    record.update(cpu=model, cores=len(os.sched_getaffinity(0)), load_before=os.getloadavg(), rounds=options.rounds)
    for log_n in options.log_n:
        calls = calls_of(1 << log_n, options.by)
        seconds = in_turns(calls, options.rounds)
        for name, times in seconds.items():
            own = seconds["lanetree.merge_asof of polars" if "polars" in name else "lanetree.merge_asof of pandas"]
            low, middle, high = statistics.quantiles([it / mine for it, mine in zip(times, own)], n=4)
            record["rows"].append({"log_n": log_n, "what": name, "seconds": times, "ratio": [low, middle, high]})
            print(f"2^{log_n} {name:<32}{statistics.median(times) * 1e3:10.1f} ms{middle:8.2f} x  ({low:.2f} to {high:.2f})", flush=True)
    trades, quotes = tables(1000, options.by)
    at, kept = trades["at"].to_numpy(), lanetree.Index(quotes["at"].to_numpy(), device="cpu")
    times, bids = trades[["at"]], quotes[["at", "bid"]]
    few: Calls = {
        "lanetree.merge_asof, 10^3 rows": lambda: lanetree.merge_asof(times, bids, on="at", device="cpu"),
        "lanetree.merge_asof by symbol, 10^3 rows": lambda: lanetree.merge_asof(trades, quotes, on="at", by="symbol", device="cpu"),
        "Index.asof, 10^3 rows": lambda: kept.asof(at),
        "pandas.merge_asof by symbol, 10^3 rows": lambda: pandas.merge_asof(trades, quotes, on="at", by="symbol"),
    }
    for name, times in in_turns(few, 300).items():
        record["rows"].append({"what": name, "seconds": statistics.median(times)})
        print(f"{name:<42}{statistics.median(times) * 1e6:10.0f} us", flush=True)
    record["load_after"] = os.getloadavg()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
