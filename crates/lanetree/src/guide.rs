//! The guide's examples, compiled and run with the doc tests.

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../../../docs/guide/", $file))]
        struct $name;
    )*};
}

pages! {
    AsOfLookUps: "as-of-look-ups.md",
    ChoosingAnIndex: "choosing-an-index.md",
    KeysAndEncodings: "keys-and-encodings.md",
    Intervals: "intervals.md",
    Joins: "joins.md",
    BatchesAndAtomicity: "batches-and-atomicity.md",
    StreamsAndOtherLibraries: "streams-and-other-libraries.md",
    MemoryAndPools: "memory-and-pools.md",
    SeveralGpus: "several-gpus.md",
    TestingWithoutAGpu: "testing-without-a-gpu.md",
}
