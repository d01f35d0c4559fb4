//! Tables in files and in shards, and plans over them that were sent.

use ballista_core::extension::SessionConfigExt;
use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use lanetree::Device;
use lanetree_ballista::{PlanCodec, Table, Tables, session_state, write_sharded, write_table};
use lanetree_datafusion::{Costs, IndexedTable};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;

/// Rows `k`, `v`, `s`: keys with nulls and equal values, from 0 to `keys`.
fn rows(count: i64, keys: i64) -> (SchemaRef, RecordBatch) {
    let key = |row: i64| (row % 11 != 3).then_some(row.wrapping_mul(2_654_435_761).rem_euclid(keys));
    let fields = [("k", DataType::Int64), ("v", DataType::Int64), ("s", DataType::Utf8)];
    let schema = Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec()));
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new((0..count).map(key).collect::<Int64Array>()),
            Arc::new(Int64Array::from_iter_values(0..count)),
            Arc::new((0..count).map(|row| Some(format!("s{row}"))).collect::<StringArray>()),
        ],
    );
    (schema, batch.unwrap())
}

fn open(folder: &Path) -> Arc<Tables> {
    Tables::in_folder(folder, &Device::host()).unwrap()
}

fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|own| own == end)).collect();
    files.sort();
    files
}

/// A session as a scheduler's, and one without indexes, with the tables `t` (probes), `i` (in shards) and `r` (a replica).
fn sessions(tables: &Arc<Tables>, partitions: usize) -> [SessionContext; 2] {
    let config = SessionConfig::new_with_ballista().with_target_partitions(partitions);
    let state = session_state(config, tables, Costs::ALWAYS).unwrap();
    let sessions = [SessionContext::new_with_state(state), SessionContext::new()];
    let (schema, probes) = rows(3000, 700);
    let half = probes.num_rows() / 2;
    let halves = vec![vec![probes.slice(0, half)], vec![probes.slice(half, half)]];
    for (number, session) in sessions.iter().enumerate() {
        let probes = MemTable::try_new(schema.clone(), halves.clone()).unwrap();
        session.register_table("t", Arc::new(probes)).unwrap();
        for (name, (schema, batch)) in [("i", rows(2000, 500)), ("r", rows(50, 40))] {
            let table: Arc<dyn datafusion::catalog::TableProvider> = match number {
                0 => tables.provider(name).unwrap(),
                _ => Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap()),
            };
            session.register_table(name, table).unwrap();
        }
    }
    sessions
}

fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines: Vec<_> = pretty_format_batches(batches).unwrap().to_string().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The plan as another process has it.
fn sent(plan: &Arc<dyn ExecutionPlan>, codecs: [&PlanCodec; 2], session: &SessionContext) -> Arc<dyn ExecutionPlan> {
    let mut bytes = Vec::new();
    PhysicalPlanNode::try_from_physical_plan(plan.clone(), codecs[0]).unwrap().try_encode(&mut bytes).unwrap();
    let node = PhysicalPlanNode::try_decode(&bytes).unwrap();
    node.try_into_physical_plan(&session.task_ctx(), codecs[1]).unwrap()
}

#[tokio::test]
async fn plans_that_were_sent_have_the_rows_of_tables_without_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let ((schema, batch), (_, small)) = (rows(2000, 500), rows(50, 40));
    write_sharded(folder.path(), "i", &schema, &[batch], "k", 5).unwrap();
    write_table(folder.path(), "r", &schema, &[small], &["k"]).unwrap();
    let own = open(folder.path());
    // The other process has them in an object store, and room for two shards.
    let (store, prefix) = (Arc::new(InMemory::new()), object_store::path::Path::from("some/tables"));
    for file in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let path = prefix.clone().join(file.file_name().unwrap().to_str().unwrap());
        store.put(&path, fs::read(&file).unwrap().into()).await.unwrap();
    }
    let others = Tables::new(store, prefix, &Device::host());
    others.keep_shards(2);
    assert_eq!(others.names().await.unwrap(), ["i", "r"]);
    // Fewer partitions than shards, as many, and more.
    for partitions in [1, 3, 5, 8] {
        let [session, plain] = sessions(&own, partitions);
        for (sql, node) in [
            ("SELECT t.v, i.v, i.s FROM t JOIN i ON t.k = i.k", "ShardedLookupExec"),
            ("SELECT t.v, i.s FROM t LEFT JOIN i ON t.k = i.k", "ShardedLookupExec"),
            ("SELECT i.s, t.v FROM i RIGHT JOIN t ON i.k = t.k + 100", "ShardedLookupExec"),
            ("SELECT v FROM t WHERE k IN (SELECT k FROM i)", "ShardedLookupExec"),
            ("SELECT v FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.k = t.k)", "ShardedLookupExec"),
            ("SELECT t.v, i.v, r.s FROM t JOIN i ON t.k = i.k JOIN r ON i.v = r.k", "index=k"),
            ("SELECT i.k, t.v FROM i LEFT JOIN t ON t.k = i.k", "ShardScanExec"),
            ("SELECT t.v, i.k FROM t JOIN i ON t.v = i.v", "ShardScanExec"),
            ("SELECT t.v, i.k FROM t JOIN i ON t.k = i.k AND t.v < i.v", "ShardScanExec"),
            ("SELECT t.v, i.k FROM t JOIN (SELECT * FROM i WHERE v > 900) i ON t.k = i.k", "ShardScanExec"),
            ("SELECT k, s FROM i", "ShardScanExec"),
            ("SELECT count(*), sum(k) FROM i", "ShardScanExec"),
            ("SELECT s FROM r WHERE k BETWEEN 3 AND 20 AND k IN (5, 8, 13, 50)", "IndexedScanExec: index=k"),
            ("SELECT k FROM r WHERE k < 30 ORDER BY k DESC LIMIT 4", "index=k, descending, rows=4"),
            ("SELECT v FROM t WHERE k IN (SELECT k FROM r)", "IndexLookupExec"),
            ("SELECT t.v, r.s FROM t LEFT JOIN r ON t.k = r.k AND t.v < r.v * 9 AND r.s <> t.s", "pair_filters=["),
            ("SELECT v, r_s FROM as_of('t', 'k', 'r', 'k')", "last_up_to"),
            ("SELECT v, r_s FROM range_join('t', 'k', 'v', 'r', 'k', 'left')", "between"),
        ] {
            let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let shown = displayable(&*plan).indent(false).to_string();
            assert!(shown.contains(node), "{sql}\n{shown}");
            // Ballista cannot divide such leaves.
            plan.apply(|node| {
                let is_leaf = ["IndexedScanExec", "ShardScanExec"].contains(&node.name());
                assert!(!is_leaf || node.properties().partitioning.partition_count() == 1, "{shown}");
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
            let again = sent(&plan, [&PlanCodec::new(&own), &PlanCodec::new(&others)], &session);
            assert_eq!(displayable(&*again).indent(false).to_string().contains(node), shown.contains(node));
            let found = collect(again, session.task_ctx()).await.unwrap();
            let expected = if sql.contains("r_s") {
                // (Its functions are not in a session without indexes.)
                collect(plan, session.task_ctx()).await.unwrap()
            } else {
                plain.sql(sql).await.unwrap().collect().await.unwrap()
            };
            assert!(expected.iter().any(|batch| batch.num_rows() > 0), "{sql}");
            assert_eq!(sorted(&found), sorted(&expected), "{sql}\n{shown}");
        }
    }
}

#[test]
fn shards_have_all_rows_and_equal_values_are_in_one() {
    let folder = tempfile::tempdir().unwrap();
    for (count, keys, shards, expected) in
        [(2000, 500, 7, 7), (2000, 3, 7, 3), (40, 1, 3, 1), (0, 1, 4, 1), (9, 9, 1, 1)]
    {
        let (schema, batch) = rows(count, keys);
        write_sharded(folder.path(), "t", &schema, &[batch], "k", shards).unwrap();
        let Table::Sharded(table) = open(folder.path()).open("t").unwrap() else { panic!("it is in shards") };
        assert_eq!((table.rows(), table.count()), (count as usize, expected));
        let name = |number: usize| format!("t.{number:04}.");
        let mut last = None;
        for number in 0..table.count() {
            let all = files(folder.path(), "shard");
            let own = all.iter().filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&name(number)));
            for file in own.clone().take(1) {
                let reader = datafusion::arrow::ipc::reader::FileReader::try_new(fs::File::open(file).unwrap(), None);
                for batch in reader.unwrap().map(Result::unwrap) {
                    for key in batch.column(0).as_primitive::<Int64Type>() {
                        assert!(last.is_none_or(|(shard, earlier)| earlier < key || (shard, earlier) == (number, key)));
                        last = Some((number, key));
                    }
                }
            }
        }
        files(folder.path(), "shard").iter().for_each(|file| fs::remove_file(file).unwrap());
    }
}

#[tokio::test]
async fn what_is_damaged_or_missing_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (schema, batch) = rows(500, 90);
    let refused = |result: datafusion::error::Result<()>| result.unwrap_err().to_string();
    let write = |column: &str, shards| write_sharded(folder.path(), "i", &schema, from_ref(&batch), column, shards);
    assert!(refused(write("none", 2)).contains("none"));
    assert!(refused(write("k", 0)).contains("one shard at least"));
    let floats = RecordBatch::try_from_iter([(
        "f",
        Arc::new(datafusion::arrow::array::Float64Array::from(vec![1.0])) as Arc<dyn Array>,
    )]);
    let floats = floats.unwrap();
    assert!(
        refused(write_sharded(folder.path(), "f", &floats.schema(), from_ref(&floats), "f", 2)).contains("Float64")
    );
    assert!(refused(write_table(folder.path(), "i", &schema, from_ref(&batch), &[])).contains("needs an index"));
    assert!(files(folder.path(), "arrow").is_empty());

    write("k", 3).unwrap();
    write_table(folder.path(), "r", &schema, from_ref(&batch), &["k", "v"]).unwrap();
    let tables = open(folder.path());
    assert_eq!(tables.names().await.unwrap(), ["i", "r"]);
    let Table::Whole(table) = tables.open("r").unwrap() else { panic!("it is a replica") };
    assert_eq!(table.indexed_columns(), ["k", "v"]);
    assert!(tables.replica("r@0").unwrap_err().to_string().contains("give all processes the same file"));
    // One that was replaced is opened again, when a plan is over it.
    write_table(folder.path(), "r", &schema, &[batch.slice(0, 90)], &["k"]).unwrap();
    let identity = open(folder.path()).open("r").unwrap().identity();
    let Table::Whole(table) = tables.replica(&identity).unwrap() else { panic!("it is a replica") };
    assert_eq!((table.len(), tables.open("r").unwrap().identity()), (90, identity));
    for name in ["", "..", "a/b", "none"] {
        assert!(tables.open(name).unwrap_err().to_string().contains(name), "{name}");
    }

    // A shard that was changed, and one that is gone.
    let shards = files(folder.path(), "shard");
    let mut bytes = fs::read(&shards[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&shards[1], bytes).unwrap();
    let config = SessionConfig::new_with_ballista();
    let session = SessionContext::new_with_state(session_state(config, &tables, Costs::ALWAYS).unwrap());
    session.register_table("i", tables.provider("i").unwrap()).unwrap();
    let error = session.sql("SELECT sum(v) FROM i").await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains(shards[1].file_name().unwrap().to_str().unwrap()) && error.contains("damaged"), "{error}");
    fs::remove_file(&shards[1]).unwrap();
    let error = session.sql("SELECT sum(v) FROM i").await.unwrap().collect().await.unwrap_err().to_string();
    assert!(error.contains(shards[1].file_name().unwrap().to_str().unwrap()), "{error}");

    // A table in this process alone cannot be sent.
    let own = IndexedTable::new(&Device::host(), schema.clone(), &[batch], "k").unwrap();
    session.register_table("own", Arc::new(own)).unwrap();
    let plan = session.sql("SELECT v FROM own WHERE k < 9").await.unwrap().create_physical_plan().await.unwrap();
    let error = PhysicalPlanNode::try_from_physical_plan(plan, &*PlanCodec::new(&tables)).unwrap_err().to_string();
    assert!(error.contains("in this process alone"), "{error}");
}
