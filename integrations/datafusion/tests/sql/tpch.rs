//! TPC-H's queries with the tables indexed and not. The scale is 0.01, or what the variable `LANETREE_TPCH_SCALE` says.

use crate::{plan, rows, sorted};
use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use lanetree::Device;
use lanetree_datafusion::{Costs, IndexedTable, with_index_lookups_on};
use std::sync::Arc;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// A table's name, its batches, and the columns that are indexed.
type Table = (&'static str, Vec<RecordBatch>, &'static [&'static str]);

fn tables(scale: f64) -> [Table; 8] {
    macro_rules! batches {
        ($arrow:ident, $generator:ident) => {
            $arrow::new($generator::new(scale, 1, 1)).map(|batch| batch.unwrap()).collect()
        };
    }
    [
        ("region", batches!(RegionArrow, RegionGenerator), &["r_regionkey"]),
        ("nation", batches!(NationArrow, NationGenerator), &["n_nationkey", "n_name"]),
        ("part", batches!(PartArrow, PartGenerator), &["p_partkey", "p_size"]),
        ("supplier", batches!(SupplierArrow, SupplierGenerator), &["s_suppkey", "s_nationkey"]),
        ("partsupp", batches!(PartSuppArrow, PartSuppGenerator), &["ps_partkey", "ps_suppkey"]),
        ("customer", batches!(CustomerArrow, CustomerGenerator), &["c_custkey", "c_mktsegment"]),
        ("orders", batches!(OrderArrow, OrderGenerator), &["o_orderkey", "o_custkey", "o_orderdate"]),
        ("lineitem", batches!(LineItemArrow, LineItemGenerator), &["l_orderkey", "l_partkey", "l_shipdate"]),
    ]
}

/// Sessions with look-ups wherever there can be some, with those that cost less, and without indexes.
fn sessions(scale: f64) -> [SessionContext; 3] {
    let state = || {
        let config = SessionConfig::new().with_target_partitions(2);
        SessionStateBuilder::new().with_config(config).with_default_features()
    };
    let device = Device::best();
    let with = |costs| SessionContext::new_with_state(with_index_lookups_on(state(), &device, costs).build());
    let sessions = [with(Costs::ALWAYS), with(Costs::default()), SessionContext::new_with_state(state().build())];
    for (name, batches, columns) in tables(scale) {
        let schema = batches[0].schema();
        let table = IndexedTable::new(&device, schema.clone(), &batches, columns[0]).unwrap();
        columns[1..].iter().for_each(|column| table.add_index(&device, column).unwrap());
        sessions[0].register_table(name, Arc::new(table.clone())).unwrap();
        sessions[1].register_table(name, Arc::new(table)).unwrap();
        sessions[2].register_table(name, Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    }
    sessions
}

#[tokio::test]
async fn tpch_has_the_results_of_tables_without_indexes() {
    let scale = std::env::var("LANETREE_TPCH_SCALE").map_or(0.01, |scale| scale.parse().expect("a number"));
    let [always, costs, plain] = sessions(scale);
    let queries: Vec<_> = include_str!("tpch.sql").split(';').filter(|query| query.contains("SELECT")).collect();
    assert_eq!(queries.len(), 22);
    let (mut with_lookups, mut with_index, mut not_empty) = (0, 0, 0);
    for (number, query) in (1..).zip(queries) {
        let expected = sorted(rows(&plain, query).await.unwrap());
        for session in [&always, &costs] {
            let found = rows(session, query).await.unwrap_or_else(|error| panic!("{number}: {error}"));
            assert_eq!(sorted(found), expected, "{number}");
        }
        let plan = plan(&always, query).await;
        with_lookups += usize::from(plan.contains("IndexLookupExec"));
        with_index += usize::from(plan.contains("IndexLookupExec") || plan.contains("filters=["));
        // Without rows, there is a frame of four lines at most.
        not_empty += usize::from(expected.len() > 4);
    }
    println!(
        "of 22 queries at scale {scale}: {with_lookups} look up, {with_index} use an index, {not_empty} find rows"
    );
    assert!(
        with_lookups >= 14 && with_index > with_lookups && not_empty >= 18,
        "{with_lookups} {with_index} {not_empty}"
    );
}
