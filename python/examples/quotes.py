"""The last quote before each trade, and how many quotes a trade has seen in the last second."""

import numpy as np

import lanetree

rng = np.random.default_rng(0)
start = np.datetime64("2026-01-05T09:30", "ns")
quote_times = start + np.cumsum(rng.integers(1, 2_000_000, 100_000)).astype("timedelta64[ns]")
prices = (100 + np.cumsum(rng.normal(0, 0.01, quote_times.size))).astype(np.float64)
trade_times = start + rng.integers(0, 100_000_000_000, 20_000).astype("timedelta64[ns]")

# On the first GPU; without one, on the CPU.
quotes = lanetree.Index(quote_times, prices)
print(quotes)

price, found = quotes.asof(trade_times, tolerance=np.timedelta64(10, "ms"), default=np.nan)
print(f"{found.sum():,} of {found.size:,} trades have a quote that is at most 10 ms old; the mean price is {price[found].mean():.2f}")

recent = quotes.count_range(trade_times - np.timedelta64(1, "s"), trade_times)
print(f"quotes in the second before a trade: {recent.mean():.0f} on average")

# As NumPy finds them.
rows = np.searchsorted(quote_times, trade_times, "right") - 1
assert np.array_equal(price[found], prices[rows[found]])
