"""What calls of several classes give: columns with names."""

from __future__ import annotations

from typing import NamedTuple

from ._arrays import Output


class UpdateReport(NamedTuple):
    """What a batch of changes did, in numbers of distinct keys."""

    #: Keys that were not there, and are.
    inserted: int
    #: Keys that were there and were given a value.
    replaced: int
    #: Keys that were there, and are not.
    removed: int
    #: Keys that were there neither before nor after.
    unmatched: int
    #: ``"Unchanged"``, ``"InPlace"``, ``"Moved"`` or ``"Rebuilt"``.
    path: str


class Ranges(NamedTuple):
    """The pairs of a batch of ranges, in compressed sparse rows: the pairs of range ``i`` are ``offsets[i]:offsets[i + 1]``."""

    offsets: Output
    keys: Output
    values: Output


class KeyRanges(NamedTuple):
    """The keys of a batch of ranges in a set, in compressed sparse rows."""

    offsets: Output
    keys: Output


class Scans(NamedTuple):
    """The first pairs from each key on: row ``i`` has ``counts[i]`` of them; the rest of the row is 0."""

    counts: Output
    keys: Output
    values: Output


class RangeMatches(NamedTuple):
    """The matches of a join by ranges: a row for each pair of a probe and a pair of the index."""

    #: The number of the probe, int64, in ascending order.
    left: Output
    #: The pair's key; of a probe they ascend.
    keys: Output
    #: The pair's value.
    values: Output


class KeyScans(NamedTuple):
    """The first keys of a set from each key on."""

    counts: Output
    keys: Output
