//! How CuART's figures are printed.

use crate::bench::table::{
    BASELINE, BATCH, CEILING, Column, HITS, INDEX, KEYS, MS, N, OPERATION, RATE, SIZE, THREADS, WORDS, figure,
    mebibytes, mega, optional,
};

/// Relative to what the look-ups' gathers would take, made by themselves.
const GATHERS: Column = ("x its gathers", |row| {
    optional(row.gathers_giga_per_second, |gathers| format!("{:.2}", row.giga_per_second / gathers))
});

/// A table: what stands above it, what it has of a row, and what stands below.
pub(in crate::bench) struct Layout {
    pub(in crate::bench) title: &'static str,
    pub(in crate::bench) columns: &'static [Column],
    pub(in crate::bench) footnotes: &'static [&'static str],
}

pub(in crate::bench) const LOOKUPS: Layout = Layout {
    title: "CuART: look-ups beside GRT's, queries and results on the device",
    columns: &[INDEX, OPERATION, WORDS, KEYS, N, BATCH, MS, RATE, ("x CuART's", BASELINE.1), GATHERS, SIZE],
    footnotes: &[
        "Random queries, all hits. x its gathers: relative to the sum of the reciprocal rates of the gathers that a",
        "look-up makes, each as measured over a table of the size of what it gathers from (of a sample of the queries).",
        "That is no ceiling: gathers of keys that begin alike are mostly of cached lines. GRT, after the paper's",
        "description: one buffer, byte offsets, the type in the node. The paper (sections 4.3, 4.4, on an A100, end to",
        "end from host memory): CuART up to 2 x GRT, slower than GRT for short keys, 1.2 x GRT for 15.4 M keys of the",
        "BTC dump. The URLs stand for that dump, and are synthetic: few hosts and paths have most of the keys.",
    ],
};

pub(in crate::bench) const LANES: Layout = Layout {
    title: "CuART: look-ups by the lanes that compare a key, queries and results on the device",
    columns: &[OPERATION, WORDS, N, BATCH, MS, RATE, ("x 1 lane", BASELINE.1), SIZE],
    footnotes: &[
        "Uniform keys, all hits. A thread descends for each query; then so many lanes, side by side, compare its words with",
        "those of its leaf.",
    ],
};

pub(in crate::bench) const BATCHES: Layout = Layout {
    title: "CuART: look-ups, queries and results in host memory, transfers included",
    columns: &[
        INDEX,
        OPERATION,
        WORDS,
        N,
        BATCH,
        THREADS,
        MS,
        RATE,
        ("GB/s", |row| optional(row.bytes_moved, |bytes| figure(row.giga_per_second_of(bytes)))),
        ("of the bus", CEILING.1),
    ],
    footnotes: &[
        "By the CPU's clock. Keys of one width in host memory; Options out, or values between page-locked buffers. GB/s:",
        "keys to the device and values back. Bus: as many bytes both ways at once, page-locked, and nothing else.",
        "Threads: so many that send batches at the same time, 64 each; ms: of all that time, a batch's share. The paper's",
        "batches: 2^13 to 2^17, on 8 threads.",
    ],
};

pub(in crate::bench) const LONG: Layout = Layout {
    title: "CuART: three ways with long keys (the paper's figures 13 and 14), from and to host memory",
    columns: &[
        ("way", OPERATION.1),
        WORDS,
        ("longer keys", |row| row.keys.clone()),
        N,
        BATCH,
        MS,
        RATE,
        ("x all on the device", BASELINE.1),
        ("device MiB", |row| mebibytes(row.footprint_bytes)),
        SIZE,
    ],
    footnotes: &[
        "By the CPU's clock. As large a share of the queries as of the keys is longer. Device leaves, all on the device:",
        "leaves of their size beside the others; host leaves: the device finds the leaf, the CPU compares the key; hybrid:",
        "the CPU looks up the longer keys while the device looks up the others. The paper (section 4.4.1, hybrid alone,",
        "26 Mi keys, batches of 2^15, 56 threads of the CPU): about half the rate where 3 % of the keys are the CPU's.",
    ],
};

pub(in crate::bench) const UPDATES: Layout = Layout {
    title: "CuART: updates, batches on the device; n = 26 Mi in the paper's figures",
    columns: &[INDEX, OPERATION, WORDS, N, BATCH, MS, RATE, ("x look-ups", BASELINE.1), SIZE],
    footnotes: &[
        "Of uniform keys with repetitions; the last one in the batch's order stays, which is checked. x look-ups: relative",
        "to look-ups of the same batch. The paper (section 4.5, end to end, RTX 3090): 120 M updates/s, 0.8 x its look-ups;",
        "GRT 13 M/s; the CPU 2.5 M/s.",
    ],
};

pub(in crate::bench) const BUILDS: Layout = Layout {
    title: "CuART: bulk builds of pairs on the device, and compaction there",
    columns: &[OPERATION, WORDS, N, MS, RATE, ("x CPU", BASELINE.1), SIZE],
    footnotes: &[
        "By the CPU's clock, from the call until the tree is complete, with its memory's allocation. On the CPU: all its",
        "threads, of sorted pairs in host memory, and the tree's copy to the device. Compaction: of a tree from which an",
        "eighth of the keys was removed, in no order, and inserted again. G/s: pairs. Checked by look-ups.",
    ],
};

pub(in crate::bench) const INSERTS: Layout = Layout {
    title: "CuART: inserts of new random keys and their removal, batches on the device",
    columns: &[OPERATION, WORDS, N, BATCH, MS, RATE],
    footnotes: &[
        "By the CPU's clock, from the call until the batch is done. Each run of inserts is removed again, untimed, and the",
        "other way about; so after the first run leaves are used again. Checked by looking up the last batch's keys.",
    ],
};

pub(in crate::bench) const CPU: Layout = Layout {
    title: "CuART's layout beside other radix trees, on the CPU (the paper's figure 7)",
    columns: &[
        INDEX,
        OPERATION,
        WORDS,
        N,
        BATCH,
        THREADS,
        MS,
        ("M/s", mega),
        ("x ART", BASELINE.1),
        ("CPU ns", |row| optional(row.cpu.as_ref().and_then(|cpu| cpu.cpu_ns), figure)),
        ("x ART, CPU", |row| optional(row.cpu.as_ref().and_then(|cpu| cpu.cpu_ratio), figure)),
        ("build ms", |row| optional(row.cpu.as_ref(), |cpu| figure(cpu.build_ms))),
        SIZE,
    ],
    footnotes: &[
        "All threads, batches of fresh random keys that all hit, competitors in turns; medians. CPU ns: CPU time of a",
        "look-up, all threads together; x ART: how much faster than the tree with pointers, by the clock and by CPU",
        "time. Trees with pointers are built in key order by one thread. The paper (figure 7; 12 threads, batches of",
        "2^15): CuART 2.5 x ART for small trees, up to 20 x for large ones.",
    ],
};

pub(in crate::bench) const REAL: Layout = Layout {
    title: "CuART over real input: on the device, between host memory and it, and on the CPU",
    columns: &[
        KEYS,
        N,
        INDEX,
        OPERATION,
        ("on", |row| row.device.clone()),
        HITS,
        BATCH,
        THREADS,
        MS,
        ("M/s", mega),
        ("x first", BASELINE.1),
        SIZE,
    ],
    footnotes: &[
        "geoip6: ranges of IPv6 addresses (tor-geoipdb); words: a word list (wamerican); paths: of Debian's packages.",
        "By the device's events, kernels only: get, upper_bound, prefix_span on a device; all else by the CPU's clock.",
        "x first: relative to the first row of the batch, the tree with pointers or binary search on the CPU. Misses: keys",
        "with another byte; of addresses, those in no range. upper_bound, then values: the spans of one pair, from which",
        "values are gathered, were made beforehand. Prefixes: 3 letters; directories.",
        "GRT has no ranks and no prefixes.",
    ],
};
