//! What is verified: the indexes of the suite's list, and what they are made of and compared with.

use lanetree_suite::indexes;

/// A value of `--index`: the second part of a case's name, and what the kernels' modules begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index(&'static str);

impl Index {
    /// The B+tree.
    pub(crate) const HARMONIA: Self = Self("harmonia");
    /// The radix tree, on the CPU too.
    pub(crate) const CUART: Self = Self("cuart");
    /// The B+tree with leaves in host memory.
    pub(crate) const HBTREE: Self = Self("hbtree");
    /// Lanetree's own, and the example kernels that probe it.
    pub(crate) const LANE_TREE: Self = Self("lanetree");
    /// What CuART is compared with; on devices with kernels only.
    pub(crate) const GRT: Self = Self("grt");
    /// Intervals.
    pub(crate) const INTERVALS: Self = Self("intervals");
    /// Keys with any number of values.
    pub(crate) const MULTIMAP: Self = Self("multimap");
    /// Sorts, scans, selection, runs, merging.
    pub(crate) const PRIMITIVES: Self = Self("primitives");

    /// Several devices.
    pub(crate) const SHARDED: Self = Self("sharded");

    /// All of them, each once.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::HARMONIA, Self::CUART, Self::GRT, Self::INTERVALS, Self::MULTIMAP, Self::PRIMITIVES];
        for listed in indexes::with_builders() {
            let index = Self::of_family(listed.name);
            if !all.contains(&index) {
                all.push(index);
            }
        }
        all
    }

    /// The index of a family of the suite's: the name up to the first underscore. Pairs of CuARTs count to CuART.
    pub(crate) fn of_family(name: &'static str) -> Self {
        match name.split('_').next().unwrap_or(name) {
            "hybrid" => Self::CUART,
            first => Self(first),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}

/// # Errors
/// The names that there are, for another one.
pub(crate) fn parse(name: &str) -> Result<Index, String> {
    let all = Index::all();
    all.iter().find(|index| index.name() == name).copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|index| index.name()).collect();
        format!("no index is called {name:?}; choose from {}", names.join(", "))
    })
}
