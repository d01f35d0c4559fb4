//! Which of the compiled kernels ran: one that nobody ran was not verified, whatever else passed.

use super::index::Index;
use crate::kernels;
use std::collections::BTreeSet;

/// Compiled kernels, and those of them that should have run and did not. Of a run from which nothing of this kind
/// follows, none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) compiled: usize,
    /// Symbols, in their order.
    pub(crate) missing: Vec<&'static str>,
}

impl Coverage {
    /// Of the kernels of these indexes that are part of the program, when these ones ran.
    pub(crate) fn of(indexes: &[Index], ran: &BTreeSet<&'static str>) -> Self {
        Self::among(&compiled(), indexes, ran)
    }

    fn among(compiled: &BTreeSet<&'static str>, indexes: &[Index], ran: &BTreeSet<&'static str>) -> Self {
        // A module's name begins with its index, and so does the symbol.
        let index = |symbol: &'static str| match symbol.split('_').next() {
            // Batches of byte strings.
            Some("keys") => Index::CUART.name(),
            // Its type is LaneTree; the joins are an example of its use.
            Some("lane" | "joins") => Index::LANE_TREE.name(),
            name => name.unwrap_or_default(),
        };
        let is_wanted = |symbol: &&&'static str| indexes.iter().any(|wanted| wanted.name() == index(symbol));
        let wanted: BTreeSet<&'static str> = compiled.iter().filter(is_wanted).copied().collect();
        Self { compiled: wanted.len(), missing: wanted.difference(ran).copied().collect() }
    }
}

/// All kernels that are part of the program.
fn compiled() -> BTreeSet<&'static str> {
    kernels::symbols().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_did_not_run_is_missing() {
        let compiled = ["cuart__get", "cuart_build__table", "harmonia_u32__rank", "grt__get_u32"].into();
        let coverage = |indexes: &[Index], ran: &[&'static str]| {
            let Coverage { compiled, missing } = Coverage::among(&compiled, indexes, &ran.iter().copied().collect());
            (compiled, missing)
        };
        let of_cuart = [Index::CUART];
        assert_eq!(coverage(&of_cuart, &["cuart__get", "cuart_build__table"]), (2, vec![]));
        assert_eq!(coverage(&of_cuart, &["cuart__get", "harmonia_u32__rank"]), (2, vec!["cuart_build__table"]));
        let all = &Index::all();
        assert_eq!(coverage(all, &["cuart__get"]).1, ["cuart_build__table", "grt__get_u32", "harmonia_u32__rank"]);
        // A kernel that is not compiled covers nothing.
        assert_eq!(coverage(&[Index::GRT], &["grt__get_u64"]), (1, vec!["grt__get_u32"]));
    }

    /// Where names of modules and of indexes part, kernels would not be missed.
    #[test]
    fn every_compiled_kernel_is_of_an_index() {
        let none = Coverage::of(&Index::all(), &BTreeSet::new());
        // The rivals and the ceilings of bench, which answer with a checked figure there.
        let is_of_bench = |symbol: &&str| {
            ["binary_search_", "ceiling_", "pointer_btree_"].iter().any(|name| symbol.starts_with(name))
        };
        let others: Vec<_> = compiled().into_iter().filter(|symbol| !none.missing.contains(symbol)).collect();
        assert!(others.iter().all(is_of_bench), "{others:?}");
        for index in Index::all() {
            assert!(Coverage::of(&[index], &BTreeSet::new()).compiled > 0, "{index:?}");
        }
    }
}
