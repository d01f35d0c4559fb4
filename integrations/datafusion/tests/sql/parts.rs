//! Plans that are made again of their parts, over replicas of the tables.

use crate::Sessions;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{IndexLookupExec, IndexedScanExec, IndexedTable};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) type Replicas = HashMap<String, IndexedTable>;

async fn table_of(session: &SessionContext, name: &str) -> IndexedTable {
    session.table_provider(name).await.unwrap().downcast_ref::<IndexedTable>().unwrap().clone()
}

/// The same plan over other tables, and how many of its nodes were made again.
pub(crate) fn made_again(plan: Arc<dyn ExecutionPlan>, replicas: &Replicas) -> (Arc<dyn ExecutionPlan>, usize) {
    let mut count = 0;
    let plan = plan.transform_up(|node| {
        let again: Arc<dyn ExecutionPlan> = if let Some(lookup) = node.downcast_ref::<IndexLookupExec>() {
            let (table, probes) = (&replicas[lookup.table_name().unwrap()], node.children()[0].clone());
            Arc::new(IndexLookupExec::of_parts(table, probes, lookup.parts())?)
        } else if let Some(scan) = node.downcast_ref::<IndexedScanExec>() {
            Arc::new(IndexedScanExec::of_parts(&replicas[scan.table_name().unwrap()], scan.parts())?)
        } else {
            return Ok(Transformed::no(node));
        };
        assert_eq!(again.schema(), node.schema());
        assert_eq!(again.properties().partitioning.partition_count(), node.properties().partitioning.partition_count());
        count += 1;
        Ok(Transformed::yes(again))
    });
    (plan.data().unwrap(), count)
}

#[tokio::test]
async fn plans_made_again_of_their_parts_have_the_same_rows() {
    for data_type in [DataType::Int64, DataType::Utf8, DataType::Decimal128(20, 2)] {
        let sessions = Sessions::with_tables(91, &data_type);
        let session = &sessions.lookups;
        let mut replicas = Replicas::new();
        for name in ["i", "j"] {
            let own = table_of(session, name).await.with_name(name);
            assert_eq!(own.indexed_columns(), ["k"]);
            let rows = own.rows().unwrap();
            let replica = IndexedTable::new(&Device::host(), rows.schema(), &[rows], "k").unwrap();
            replicas.insert(name.to_owned(), replica);
        }
        let value = |number: u32| format!("arrow_cast(arrow_cast({number}, 'Int64'), '{data_type}')");
        let [low, high, other] = [5, 30, 17].map(value);
        for sql in [
            "SELECT t.a, i.s FROM t JOIN i ON t.k = i.k".to_owned(),
            "SELECT i.a, t.* FROM i RIGHT JOIN t ON i.k = t.k".to_owned(),
            "SELECT t.a, j.a FROM t LEFT JOIN j ON t.k = j.k".to_owned(),
            "SELECT a FROM t WHERE k IN (SELECT k FROM j)".to_owned(),
            "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM j WHERE j.k = t.k)".to_owned(),
            "SELECT t.a, j.s FROM t LEFT JOIN j ON t.k = j.k AND t.a < j.a AND j.s > t.s".to_owned(),
            "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM j WHERE j.k = t.k AND j.a > 30)".to_owned(),
            "SELECT a, i_s FROM as_of('t', 'k', 'i', 'k')".to_owned(),
            "SELECT a, i_a FROM as_of('t', 'k', 'i', 'k', 'forward', 'inner')".to_owned(),
            "SELECT a, j_a FROM range_join('t', 'k', 'k', 'j', 'k', 'left')".to_owned(),
            "SELECT s, a FROM j".to_owned(),
            "SELECT a FROM j LIMIT 11".to_owned(),
            format!("SELECT a FROM j WHERE k >= {low} AND k < {high}"),
            format!("SELECT a, s FROM i WHERE k IN ({low}, {other}, {high}) AND k > {low}"),
            format!("SELECT k FROM j WHERE k = {low} OR k = {high}"),
            format!("SELECT k FROM j WHERE k > {low} ORDER BY k DESC LIMIT 5"),
        ] {
            let plan = session.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let (again, count) = made_again(plan.clone(), &replicas);
            assert!(count > 0, "{sql}\n{}", displayable(&*plan).indent(false));
            let rows = async |plan| {
                pretty_format_batches(&collect(plan, session.task_ctx()).await.unwrap()).unwrap().to_string()
            };
            let [found, expected] = [rows(again).await, rows(plan).await];
            assert_eq!(sorted_lines(&found), sorted_lines(&expected), "{sql}");
        }
    }
}

fn sorted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn parts_that_do_not_fit_the_table_are_refused() {
    let sessions = Sessions::with_tables(92, &DataType::Int64);
    let (session, mut lookups) = (&sessions.lookups, Vec::new());
    let i = table_of(session, "i").await.with_name("i");
    for sql in ["SELECT t.a, i.s FROM t JOIN i ON t.k = i.k", "SELECT a FROM i WHERE k < 9"] {
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        plan.transform_up(|node| {
            lookups.push(node.clone());
            Ok(Transformed::no(node))
        })
        .unwrap();
    }
    let node = lookups.iter().find(|node| node.is::<IndexLookupExec>()).unwrap();
    let lookup = node.downcast_ref::<IndexLookupExec>().unwrap();
    let refused = |change: &dyn Fn(&mut lanetree_datafusion::LookupParts)| {
        let mut parts = lookup.parts();
        change(&mut parts);
        IndexLookupExec::of_parts(&i, node.children()[0].clone(), parts).unwrap_err().to_string()
    };
    assert!(refused(&|parts| parts.index = vec![0]).contains("no index on column 0"));
    assert!(refused(&|parts| parts.columns = vec![0, 3]).contains("no column 3 of the table, which has 3"));
    assert!(refused(&|parts| parts.output = vec![99]).contains("no column 99 of the join"));
    assert!(
        refused(&|parts| parts.join_type = datafusion::common::JoinType::Full)
            .contains("no look-up stands for a Full join")
    );
    let scan = lookups.iter().filter_map(|node| node.downcast_ref::<IndexedScanExec>());
    let scan = scan.map(IndexedScanExec::parts).find(|parts| parts.filter.is_some()).unwrap();
    let mut other = scan.clone();
    other.filter.as_mut().unwrap().index = vec![2];
    assert!(IndexedScanExec::of_parts(&i, other).unwrap_err().to_string().contains("no index on column 2"));
    let other = lanetree_datafusion::ScanParts { columns: vec![7], ..scan };
    assert!(IndexedScanExec::of_parts(&i, other).unwrap_err().to_string().contains("no column 7"));

    // Rows that no other process has: the name goes.
    assert_eq!(i.name().as_deref(), Some("i"));
    crate::rows(session, "INSERT INTO i SELECT a + 1000, k + 1000, s FROM i").await.unwrap();
    assert_eq!(i.name(), None);
}
