//! Joins that SQL has no words for yet, as table functions.

use crate::catalog::schema_of;
use crate::lookup::IndexLookupExec;
use crate::replaced::current;
use crate::shape::{On, Shape};
use crate::shared::Shared;
use crate::table::IndexedTable;
use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{
    Column, DFSchema, JoinSide, JoinType, ScalarValue, plan_datafusion_err, plan_err, project_schema,
};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Operator, TableType, lit, when};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, Column as PhysicalColumn, Literal};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use std::sync::Arc;

/// `as_of(probes, column, table, indexed [, 'backward' | 'forward'] [, 'left' | 'inner'])`: each row of `probes` with the row of
/// `table` that was valid at its time.
#[derive(Debug)]
pub(crate) struct AsOf {}

/// Each row of `probes` with the rows of `table` within a range.
#[derive(Debug)]
pub(crate) enum Ranges {
    /// `range_join(probes, low, high, table, indexed [, 'inner' | 'left'])`
    Between,
    /// `band_join(probes, column, below, above, table, indexed [, 'inner' | 'left'])`
    Band,
}

/// The arguments of a call.
struct Arguments<'a, 's> {
    usage: &'static str,
    all: &'a [Expr],
    session: &'s dyn Session,
}

impl<'a> Arguments<'a, '_> {
    fn text(&self, at: usize) -> Result<&'a str> {
        match self.all.get(at) {
            Some(Expr::Literal(value, _)) if let Some(Some(text)) = value.try_as_str() => Ok(text),
            Some(other) => plan_err!("argument {} is {other}, not a string: {}", at + 1, self.usage),
            None => plan_err!("{} arguments are too few: {}", self.all.len(), self.usage),
        }
    }

    fn number(&self, at: usize) -> Result<&'a ScalarValue> {
        match self.all.get(at) {
            Some(Expr::Literal(value, _)) if !value.is_null() => Ok(value),
            Some(other) => plan_err!("argument {} is {other}, not a constant: {}", at + 1, self.usage),
            None => plan_err!("{} arguments are too few: {}", self.all.len(), self.usage),
        }
    }

    fn table(&self, at: usize) -> Result<Arc<dyn TableProvider>> {
        let name = self.text(at)?;
        let (schema, full_name) = schema_of(self.session, name.into())?;
        // Functions are planned without waiting; catalogs in memory don't make them.
        let Some(table) = schema.table(&full_name.table).now_or_never() else {
            return plan_err!("table {name} is in a catalog that must be waited for: register it in one in memory");
        };
        table?.map(current).ok_or_else(|| plan_datafusion_err!("no table {name}"))
    }

    /// The words from an argument on, of which each is one of `choices`.
    fn words(&self, from: usize, choices: &[&str]) -> Result<Vec<&'a str>> {
        let words = (from..self.all.len()).map(|at| {
            let word = self.text(at)?;
            match choices.contains(&word) {
                true => Ok(word),
                false => plan_err!("{word} is none of {}: {}", choices.join(", "), self.usage),
            }
        });
        words.collect()
    }

    /// The column of the probes, with its type.
    fn column(&self, probes: &SchemaRef, at: usize) -> Result<(String, DataType)> {
        let name = self.text(at)?;
        let field = probes.field_with_name(name).map_err(|_| {
            let names: Vec<_> = probes.fields().iter().map(|field| field.name().as_str()).collect();
            plan_datafusion_err!("{} has no column {name}: choose one of {}", self.all[0], names.join(", "))
        })?;
        Ok((name.to_owned(), field.data_type().clone()))
    }

    /// The call, given where its table is and which probes match which of its rows.
    fn call(&self, probes: Arc<dyn TableProvider>, table: usize, on: Matching, join_type: JoinType) -> Result<Call> {
        let (name, column) = (self.text(table)?, self.text(table + 1)?);
        let provider = self.table(table)?;
        let Some(indexed) = provider.downcast_ref::<IndexedTable>() else {
            return plan_err!("table {name} has no index: make one by CREATE INDEX ON {name} ({column})");
        };
        let shared = indexed.shared().clone();
        let contents = shared.contents();
        let Some(indexed) = contents.index_named(column) else {
            let columns = contents.indexed_columns();
            return plan_err!(
                "table {name} has indexes on {columns}, not on {column}: CREATE INDEX ON {name} ({column})"
            );
        };
        let index_type = indexed.key_type();
        for column in on.columns() {
            let own = probes.schema().field_with_name(column)?.data_type().clone();
            if own != *index_type {
                return plan_err!("{column} is {own}, but {name}.{} is {index_type}: cast it", indexed.column_names());
            }
        }
        let number = indexed.columns()[0];
        let schema = joined(&probes.schema(), &shared.schema, name, join_type)?;
        Ok(Call { probes, shared, column: number, on, join_type, schema })
    }
}

/// The columns of the probes and of the table. One of the table's whose name the probes have is named `table_column`.
fn joined(probes: &Schema, table: &Schema, name: &str, join_type: JoinType) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = probes.fields().iter().map(|field| field.as_ref().clone()).collect();
    let name = name.rsplit('.').next().unwrap_or(name);
    for field in table.fields() {
        let mut field = field.as_ref().clone();
        if probes.index_of(field.name()).is_ok() {
            field = field.clone().with_name(format!("{name}_{}", field.name()));
        }
        if fields.iter().any(|other| other.name() == field.name()) {
            return plan_err!("both sides have a column {}: rename one in a view", field.name());
        }
        let nullable = field.is_nullable() || join_type == JoinType::Left;
        fields.push(field.with_nullable(nullable));
    }
    Ok(Arc::new(Schema::new(fields)))
}

impl TableFunctionImpl for AsOf {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage =
            "as_of('probes', 'column', 'table', 'indexed column' [, 'backward' | 'forward'] [, 'left' | 'inner'])";
        let arguments = Arguments { usage, all: args.exprs(), session: args.session() };
        let probes = arguments.table(0)?;
        let (column, _) = arguments.column(&probes.schema(), 1)?;
        let words = arguments.words(4, &["backward", "forward", "left", "inner"])?;
        let join_type = if words.contains(&"inner") { JoinType::Inner } else { JoinType::Left };
        let on = Matching::AsOf { column, forward: words.contains(&"forward") };
        Ok(Arc::new(arguments.call(probes, 2, on, join_type)?))
    }
}

impl TableFunctionImpl for Ranges {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let (usage, table) = match self {
            Self::Between => {
                ("range_join('probes', 'low column', 'high column', 'table', 'indexed column' [, 'inner' | 'left'])", 3)
            }
            Self::Band => {
                ("band_join('probes', 'column', below, above, 'table', 'indexed column' [, 'inner' | 'left'])", 4)
            }
        };
        let arguments = Arguments { usage, all: args.exprs(), session: args.session() };
        let probes = arguments.table(0)?;
        let (column, data_type) = arguments.column(&probes.schema(), 1)?;
        let on = match self {
            Self::Between => Matching::Between { low: column, high: arguments.column(&probes.schema(), 2)?.0 },
            Self::Band => {
                let distance = |at: usize| {
                    let given = arguments.number(at)?;
                    // Times have distances of another type.
                    if !data_type.is_integer() {
                        return Ok(given.clone());
                    }
                    given.cast_to(&data_type).map_err(|_| {
                        plan_datafusion_err!("argument {} is {given}, which is no {data_type}: {usage}", at + 1)
                    })
                };
                Matching::Band { column, below: distance(2)?, above: distance(3)? }
            }
        };
        let words = arguments.words(table + 2, &["inner", "left"])?;
        let join_type = if words.contains(&"left") { JoinType::Left } else { JoinType::Inner };
        Ok(Arc::new(arguments.call(probes, table, on, join_type)?))
    }
}

/// Which rows a probe matches, by names of the probes' columns.
#[derive(Clone, Debug)]
enum Matching {
    AsOf { column: String, forward: bool },
    Between { low: String, high: String },
    Band { column: String, below: ScalarValue, above: ScalarValue },
}

impl Matching {
    fn columns(&self) -> Vec<&str> {
        match self {
            Self::AsOf { column, .. } | Self::Band { column, .. } => vec![column],
            Self::Between { low, high } => vec![low, high],
        }
    }

    /// Over the probes that are read.
    fn on(&self, session: &dyn Session, probes: &SchemaRef) -> Result<On> {
        let column =
            |name: &str| -> Result<PhysicalExprRef> { Ok(Arc::new(PhysicalColumn::new_with_schema(name, probes)?)) };
        Ok(match self {
            Self::AsOf { column: key, forward } => On::AsOf { key: column(key)?, forward: *forward },
            Self::Between { low, high } => On::Between { low: column(low)?, high: column(high)? },
            Self::Band { column, below, above } => On::Between {
                low: shifted(session, probes, column, below, Operator::Minus)?,
                high: shifted(session, probes, column, above, Operator::Plus)?,
            },
        })
    }
}

/// A column less a distance, or plus one: as far as its type goes if it is of integers, otherwise an error past that.
fn shifted(
    session: &dyn Session,
    probes: &SchemaRef,
    name: &str,
    distance: &ScalarValue,
    operator: Operator,
) -> Result<PhysicalExprRef> {
    let column = PhysicalColumn::new_with_schema(name, probes)?;
    let data_type = probes.field(column.index()).data_type();
    if !data_type.is_integer() {
        let distance = Arc::new(Literal::new(distance.clone()));
        let shifted = BinaryExpr::new(Arc::new(column), operator, distance).with_fail_on_overflow(true);
        let made = datafusion::physical_plan::PhysicalExpr::data_type(&shifted, probes)?;
        return match made == *data_type {
            true => Ok(Arc::new(shifted)),
            false => plan_err!("{shifted} is {made}, not {data_type}: give another distance"),
        };
    }
    let zero = ScalarValue::new_zero(data_type)?;
    if *distance < zero {
        return plan_err!("a distance of {distance} is negative: use range_join");
    }
    let end = |end: Option<ScalarValue>| end.ok_or_else(|| plan_datafusion_err!("{data_type} has no ends"));
    let own = || Expr::Column(Column::new_unqualified(name));
    let shifted = if operator == Operator::Minus {
        let end = end(ScalarValue::min(data_type))?;
        let last = end.add_checked(distance)?;
        when(own().lt(lit(last)), lit(end)).otherwise(own() - lit(distance.clone()))?
    } else {
        let end = end(ScalarValue::max(data_type))?;
        let last = end.sub_checked(distance)?;
        when(own().gt(lit(last)), lit(end)).otherwise(own() + lit(distance.clone()))?
    };
    session.create_physical_expr(shifted, &DFSchema::try_from(probes.clone())?)
}

/// What a function returns.
#[derive(Debug)]
struct Call {
    probes: Arc<dyn TableProvider>,
    shared: Arc<Shared>,
    /// The indexed one of the table.
    column: usize,
    on: Matching,
    join_type: JoinType,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for Call {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (probes, all) = (self.probes.schema(), self.schema.fields().len());
        let wanted = projection.cloned().unwrap_or_else(|| (0..all).collect());
        // The probes' columns that are returned or matched.
        let mut read: Vec<usize> = wanted.iter().copied().filter(|at| *at < probes.fields().len()).collect();
        for column in self.on.columns() {
            read.push(probes.index_of(column)?);
        }
        read.sort_unstable();
        read.dedup();
        let of_table = probes.fields().len()..all;
        let position = |at: &usize| match read.binary_search(at) {
            Ok(position) => position,
            Err(_) => at - of_table.start + read.len(),
        };
        let output = wanted.iter().map(position).collect();
        let joined: Vec<usize> = read.iter().copied().chain(of_table.clone()).collect();
        let schema = project_schema(&self.schema, Some(&joined))?;
        let input = current(self.probes.clone()).scan(session, Some(&read), &[], None).await?;
        let condition = self.on.on(session, &input.schema())?;
        let Some(indexed) = self.shared.contents().index_on(&[self.column]) else {
            return plan_err!("the index on {} is gone", self.shared.schema.field(self.column).name());
        };
        let columns = (0..self.shared.schema.fields().len()).collect();
        let (join_type, filters) = (self.join_type, Vec::new());
        let shape = Shape { join_type, probe_side: JoinSide::Left, schema, condition, columns, filters };
        Ok(Arc::new(IndexLookupExec::new(indexed, input, Arc::new(shape), output, None)?))
    }
}
