//! Which of the compiled kernels ran: one that nobody ran was not verified, whatever else passed.

use super::index::Index;
use crate::kernels;
use std::collections::{BTreeMap, BTreeSet};

/// The compiled kernels, and the ones that should have run and did not. Empty for a run that need not run all kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) compiled: usize,
    /// Symbols, in their order.
    pub(crate) missing: Vec<&'static str>,
    /// For each index how many of its kernels ran, and how many there are.
    pub(crate) by_index: BTreeMap<&'static str, (usize, usize)>,
}

impl Coverage {
    /// Of these kernels, when those ran.
    pub(crate) fn of(wanted: &BTreeSet<&'static str>, ran: &BTreeSet<&'static str>) -> Self {
        let mut by_index = BTreeMap::<_, (usize, usize)>::new();
        for symbol in wanted {
            let (of_ran, of_all) = by_index.entry(index_of(symbol)).or_default();
            (*of_ran, *of_all) = (*of_ran + usize::from(ran.contains(symbol)), *of_all + 1);
        }
        Self { compiled: wanted.len(), missing: wanted.difference(ran).copied().collect(), by_index }
    }
}

/// The kernels of these indexes that are part of the program.
pub(crate) fn compiled(indexes: &[Index]) -> BTreeSet<&'static str> {
    of_indexes(kernels::symbols(), indexes)
}

fn of_indexes(symbols: impl Iterator<Item = &'static str>, indexes: &[Index]) -> BTreeSet<&'static str> {
    symbols.filter(|symbol| indexes.iter().any(|wanted| wanted.name() == index_of(symbol))).collect()
}

/// The index of a kernel: a module's name begins with it, and so does the symbol.
fn index_of(symbol: &'static str) -> &'static str {
    let begins = |names: &[&str]| names.iter().any(|name| symbol.starts_with(name));
    match symbol.split('_').next() {
        // Batches of byte strings.
        _ if begins(&["keys__encode", "keys__check_offsets", "keys__heads"]) => Index::CUART.name(),
        // Changed nodes.
        _ if begins(&["keys__put_elements"]) => Index::HBTREE.name(),
        // Of queries: LaneTree's cases reach all but those of pairs that it widens.
        _ if symbol == "keys__take_nearest_u32_u64" => Index::HARMONIA.name(),
        _ if begins(&["keys__add_counts", "keys__keep_last", "keys__reverse_rows", "keys__take_nearest"]) => {
            Index::LANE_TREE.name()
        }
        // Columns, and what joins are made of.
        Some("keys") => Index::PRIMITIVES.name(),
        // Parts of batches over several devices.
        Some("lane") if symbol.ends_with("_counted") => Index::SHARDED.name(),
        // Its type is LaneTree; the joins are an example of its use.
        Some("lane" | "joins") => Index::LANE_TREE.name(),
        name => name.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_did_not_run_is_missing() {
        let compiled = ["cuart__get", "cuart_build__table", "harmonia_u32__rank", "grt__get_u32"];
        let coverage = |indexes: &[Index], ran: &[&'static str]| {
            let wanted = of_indexes(compiled.into_iter(), indexes);
            let Coverage { compiled, missing, by_index } = Coverage::of(&wanted, &ran.iter().copied().collect());
            assert_eq!(by_index.values().map(|(ran, all)| all - ran).sum::<usize>(), missing.len());
            (compiled, missing)
        };
        let of_cuart = [Index::CUART];
        assert_eq!(coverage(&of_cuart, &["cuart__get", "cuart_build__table"]), (2, vec![]));
        assert_eq!(coverage(&of_cuart, &["cuart__get", "harmonia_u32__rank"]), (2, vec!["cuart_build__table"]));
        let all = &Index::all();
        assert_eq!(coverage(all, &["cuart__get"]).1, ["cuart_build__table", "grt__get_u32", "harmonia_u32__rank"]);
        let of_all = Coverage::of(&of_indexes(compiled.into_iter(), all), &["cuart__get"].into()).by_index;
        assert_eq!(of_all.into_iter().collect::<Vec<_>>(), [("cuart", (1, 2)), ("grt", (0, 1)), ("harmonia", (0, 1))]);
        // A kernel that is not compiled covers nothing.
        assert_eq!(coverage(&[Index::GRT], &["grt__get_u64"]), (1, vec!["grt__get_u32"]));
    }

    /// Where names of modules and of indexes part, kernels would not be missed.
    #[test]
    fn every_compiled_kernel_is_of_an_index() {
        let all = compiled(&Index::all());
        // The rivals and the ceilings of bench, which answer with a checked figure there.
        let is_of_bench = |symbol: &&str| {
            ["binary_search_", "ceiling_", "pointer_btree_"].iter().any(|name| symbol.starts_with(name))
        };
        let others: BTreeSet<_> = kernels::symbols().filter(|symbol| !all.contains(symbol)).collect();
        assert!(others.iter().all(is_of_bench), "{others:?}");
        // Copies of another index, without kernels of their own.
        let has_none = |index: &Index| index.name() == "replicated";
        for index in Index::all() {
            assert_eq!(compiled(&[index]).is_empty(), has_none(&index), "{index:?}");
        }
    }
}
