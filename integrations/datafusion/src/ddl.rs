//! `CREATE INDEX`.

use crate::catalog::schema_of;
use crate::condition::Condition;
use crate::contents::bytes_of;
use crate::declared::Declared;
use crate::dml::guarded;
use crate::memory::Statement;
use crate::replaced::{current, replace, successor};
use crate::saved::IndexFile;
use crate::shared::{NewIndex, Shared};
use crate::table::IndexedTable;
use async_trait::async_trait;
use core::fmt;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{CreateIndex, DdlStatement, Expr, LogicalPlan, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::{StreamExt, stream};
use lanetree::Device;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Plans `CREATE INDEX`, guards `DELETE` and `UPDATE`, and leaves the rest to another planner.
#[derive(Debug)]
pub(crate) struct Planner {
    device: Device,
    rest: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl Planner {
    /// Indexes are built on a device; without `rest`, the engine's own planner does the rest.
    pub(crate) fn new(device: &Device, rest: Option<Arc<dyn QueryPlanner + Send + Sync>>) -> Self {
        Self { device: device.clone(), rest }
    }
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let guarded = match plan {
            LogicalPlan::Dml(_) | LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Some(guarded(plan.clone())?),
            _ => None,
        };
        let plan = guarded.as_ref().unwrap_or(plan);
        match (plan, &self.rest) {
            (LogicalPlan::Ddl(DdlStatement::CreateIndex(index)), _) => {
                Ok(Arc::new(CreateIndexExec::plan(&self.device, index, session).await?))
            }
            (_, Some(rest)) => rest.create_physical_plan(plan, session).await,
            (_, None) => DefaultPhysicalPlanner::default().create_physical_plan(plan, session).await,
        }
    }
}

/// Builds an index when it is executed.
#[derive(Clone, Debug)]
pub(crate) struct CreateIndexExec {
    device: Device,
    name: String,
    columns: Vec<String>,
    is_unique: bool,
    if_not_exists: bool,
    options: Options,
    /// What was done with the file.
    of_file: Arc<OnceLock<IndexFile>>,
    table: Table,
    properties: Arc<PlanProperties>,
}

/// What a `CREATE INDEX` has that the engine's plan of it leaves out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) file: Option<PathBuf>,
    pub(crate) condition: Option<Condition>,
}

/// What is indexed.
#[derive(Clone, Debug)]
enum Table {
    Indexed(Arc<Shared>),
    Other(Other),
}

/// Another table, which an indexed one with the same rows takes the place of.
#[derive(Clone, Debug)]
struct Other {
    catalog: Arc<dyn SchemaProvider>,
    name: String,
    provider: Arc<dyn TableProvider>,
    rows: Arc<dyn ExecutionPlan>,
}

impl CreateIndexExec {
    async fn plan(device: &Device, statement: &CreateIndex, session: &dyn Session) -> Result<Self> {
        let CreateIndex { name, table, using, columns, unique, if_not_exists, .. } = statement;
        if let Some(using) = using
            && using != "lanetree"
        {
            return plan_err!("there are no indexes of kind {using}: say USING lanetree, or leave it out");
        }
        let mut own = Vec::with_capacity(columns.len());
        for column in columns {
            let Expr::Column(name) = &column.expr else {
                return not_impl_err!("an index on {}: give the name of a column", column.expr);
            };
            if !column.asc {
                return plan_err!("an index has no direction, and answers both: leave out DESC");
            }
            own.push(name.name.clone());
        }
        let (catalog, full_name) = schema_of(session, table.clone())?;
        let provider = catalog.table(&full_name.table).await?;
        let provider = provider.ok_or_else(|| plan_datafusion_err!("no table {table}"))?;
        let table = match current(provider.clone()).downcast_ref::<IndexedTable>() {
            Some(indexed) => Table::Indexed(indexed.shared().clone()),
            None if provider.table_type() == TableType::View => {
                return plan_err!("{table} is a view: make a table of it, by CREATE TABLE AS, to index it");
            }
            None => {
                let rows = provider.scan(session, None, &[], None).await?;
                Table::Other(Other { catalog, name: full_name.table.to_string(), provider, rows })
            }
        };
        Ok(Self {
            device: device.clone(),
            name: name.clone().unwrap_or_else(|| own.join("_")),
            columns: own,
            is_unique: *unique,
            if_not_exists: *if_not_exists,
            options: Options::default(),
            of_file: Arc::default(),
            table,
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(Arc::new(Schema::empty())),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Final,
                Boundedness::Bounded,
            )),
        })
    }

    /// Makes an index with options, and says what was done with its file: nothing if the index was there.
    pub(crate) async fn run_with(&self, options: Options, context: Arc<TaskContext>) -> Result<Option<IndexFile>> {
        let own = Self { options, of_file: Arc::default(), ..self.clone() };
        own.run(context).await?;
        Ok(own.of_file.get().cloned())
    }

    fn add_to(&self, shared: &Shared, statement: &Statement) -> Result<()> {
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let (file, condition) = (self.options.file.as_deref(), self.options.condition.as_ref());
        let own = NewIndex::on(&self.device, &self.name, &columns);
        let new = NewIndex { is_unique: self.is_unique, file, condition, ..own };
        if let Some(of_file) = shared.add_index(&new, self.if_not_exists, Some(statement))? {
            self.of_file.get_or_init(|| of_file);
        }
        Ok(())
    }

    async fn add(&self, shared: Arc<Shared>, context: &TaskContext) -> Result<()> {
        let own = self.clone();
        Statement::of(context).run(move |statement| own.add_to(&shared, statement)).await
    }
}

/// All rows of a plan, in the order of its partitions.
async fn read(
    rows: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
    let memory = MemoryConsumer::new("CREATE INDEX: rows of the table").register(context.memory_pool());
    let mut batches = Vec::new();
    for partition in 0..rows.output_partitioning().partition_count() {
        let mut input = rows.execute(partition, context.clone())?;
        while let Some(batch) = input.next().await.transpose()? {
            memory.try_grow(bytes_of(&batch)?)?;
            batches.push(batch);
        }
    }
    Ok((batches, memory))
}

impl DisplayAs for CreateIndexExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns.join(", ");
        write!(f, "CreateIndexExec: name={}, columns=[{columns}], device={}", self.name, self.device)
    }
}

impl ExecutionPlan for CreateIndexExec {
    fn name(&self) -> &str {
        "CreateIndexExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("CREATE INDEX has no inputs") }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("partition {partition} of 1");
        }
        let own = self.clone();
        // Nothing, or an error.
        let batches = stream::once(async move { own.run(context).await.err().map(Err) });
        let batches = batches.filter_map(core::future::ready);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

impl CreateIndexExec {
    async fn run(&self, context: Arc<TaskContext>) -> Result<()> {
        match &self.table {
            Table::Indexed(shared) => self.add(shared.clone(), &context).await,
            Table::Other(other) => self.replace(other, context).await,
        }
    }

    /// Puts an indexed table in another one's place.
    async fn replace(&self, other: &Other, context: Arc<TaskContext>) -> Result<()> {
        let Other { catalog, name, provider, rows } = other;
        let mut indexed = successor(provider);
        if indexed.is_none() {
            let is_there = catalog.table(name).await?.is_some_and(|table| Arc::ptr_eq(&table, provider));
            if !is_there {
                return exec_err!("table {name} was dropped or replaced since CREATE INDEX was planned: plan it again");
            }
            let (batches, _memory) = read(rows, context.clone()).await?;
            let (own, schema, declared) = (self.clone(), provider.schema(), Declared::of(&**provider));
            let title = name.clone();
            let made = Statement::of(&context).run(move |statement| {
                let shared = Shared::new(schema, &batches, declared, statement, Some(&title))?;
                own.add_to(&shared, statement)?;
                Ok(shared)
            });
            let shared = made.await?;
            indexed = replace(provider, IndexedTable::of(shared), |table| register(&**catalog, name, table))?;
        }
        // Another CREATE INDEX has replaced the table since this one was planned.
        match indexed {
            Some(indexed) => self.add(indexed.shared().clone(), &context).await,
            None => Ok(()),
        }
    }
}

/// Puts a table in the place of the one with its name; an error leaves that one.
fn register(catalog: &dyn SchemaProvider, name: &str, table: Arc<IndexedTable>) -> Result<()> {
    let old = catalog.deregister_table(name)?;
    let added = catalog.register_table(name.to_owned(), table);
    if let (Err(_), Some(old)) = (&added, old) {
        catalog.register_table(name.to_owned(), old)?;
    }
    added.map(drop)
}
