//! A table that changes.

use crate::condition::Condition;
use crate::contents::{Contents, Part, whole};
use crate::declared::Declared;
use crate::memory::Statement;
use crate::packing::{Packing, value_type};
use crate::runs::{Definition, TableIndex, external, names_of};
use crate::saved::{self, IndexFile};
use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{exec_err, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use lanetree::Device;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// A part has more than so many times the rows of all parts after it: those are made one with it otherwise. Each row is copied so many
/// times for each power of this number among the rows of the table, at most, and a query asks so many parts.
const RATIO: usize = 16;

/// A table that changes as a whole: who has taken its contents keeps them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) schema: SchemaRef,
    pub(crate) declared: Declared,
    /// What errors call the table, if `CREATE INDEX` knows.
    title: OnceLock<String>,
    current: RwLock<Arc<Contents>>,
    /// Where rows and indexes are counted that no statement makes: the pool of the first one that made any.
    pool: OnceLock<Arc<dyn MemoryPool>>,
    /// Held by the one change that is made at a time. Readers don't wait for it.
    changes: Mutex<()>,
}

/// An index that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct NewIndex<'a> {
    pub(crate) device: &'a Device,
    pub(crate) name: &'a str,
    pub(crate) columns: &'a [&'a str],
    pub(crate) is_unique: bool,
    pub(crate) file: Option<&'a Path>,
    pub(crate) condition: Option<&'a Condition>,
}

impl<'a> NewIndex<'a> {
    pub(crate) fn on(device: &'a Device, name: &'a str, columns: &'a [&'a str]) -> Self {
        Self { device, name, columns, is_unique: false, file: None, condition: None }
    }
}

impl Shared {
    /// A table without indexes.
    pub(crate) fn new(
        schema: SchemaRef,
        batches: &[RecordBatch],
        declared: Declared,
        statement: &Statement,
        title: Option<&str>,
    ) -> Result<Self> {
        let batch = match batches {
            [batch] if batch.schema_ref() == &schema => batch.clone(),
            _ => concat_batches(&schema, batches)?,
        };
        let title = title.map_or_else(OnceLock::new, |title| OnceLock::from(title.to_owned()));
        let part = Part::new(batch, 0, statement, &title_of(title.get(), &schema))?;
        let contents = Contents { schema: schema.clone(), parts: vec![part], indexes: Vec::new(), name: None };
        let (current, pool) =
            (RwLock::new(Arc::new(contents)), statement.pool().map_or_else(OnceLock::new, OnceLock::from));
        Ok(Self { schema, declared, title, current, pool, changes: Mutex::new(()) })
    }

    /// Counts what there is in a pool.
    pub(crate) fn count_in(&self, pool: &Arc<dyn MemoryPool>) -> Result<()> {
        let statement = Statement::in_pool(Some(pool.clone()));
        self.change(&statement, |old| {
            let mut new = copy_of(old);
            for part in &mut new.parts {
                *part = part.counted(&statement, &self.title())?;
            }
            for index in &mut new.indexes {
                *index = index.counted(&statement, &self.title())?;
            }
            Ok(Some(new))
        })
    }

    /// A change that no session asks for.
    fn own_statement(&self) -> Statement {
        Statement::in_pool(self.pool.get().cloned())
    }

    pub(crate) fn contents(&self) -> Arc<Contents> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What errors call the table.
    fn title(&self) -> String {
        title_of(self.title.get(), &self.schema)
    }

    /// Puts other contents in the place of the current ones, unless there are none; an error leaves those, and so does the end of whoever
    /// waits for the statement.
    pub(crate) fn change(
        &self,
        statement: &Statement,
        make: impl FnOnce(&Arc<Contents>) -> Result<Option<Contents>>,
    ) -> Result<()> {
        let _one_at_a_time = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        statement.check()?;
        if let Some(pool) = statement.pool() {
            self.pool.get_or_init(|| pool);
        }
        let Some(contents) = make(&self.contents())? else { return Ok(()) };
        statement.check()?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *current, Arc::new(contents));
        // Readers don't wait until it is gone.
        drop(current);
        drop(old);
        Ok(())
    }

    /// The contents as one part.
    pub(crate) fn compacted(&self) -> Result<Arc<Contents>> {
        let (statement, mut compacted) = (self.own_statement(), None);
        self.change(&statement, |old| {
            if old.is_whole() {
                compacted = Some(old.clone());
                return Ok(None);
            }
            let new = Contents { name: old.name.clone(), ..self.replaced(old, old.whole()?, &statement)? };
            compacted = Some(Arc::new(copy_of(&new)));
            Ok(Some(new))
        })?;
        Ok(compacted.unwrap_or_else(|| self.contents()))
    }

    /// Adds an index. With `if_not_exists`, one of its name is left as it is. What was done with its file, if it has one.
    pub(crate) fn add_index(
        &self,
        new: &NewIndex<'_>,
        if_not_exists: bool,
        statement: Option<&Statement>,
    ) -> Result<Option<IndexFile>> {
        let NewIndex { device, name, columns, is_unique, file, condition } = *new;
        let own = self.own_statement();
        let statement = statement.unwrap_or(&own);
        let number_of = |column: &&str| {
            self.schema.index_of(column).map_err(|_| {
                let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
                plan_datafusion_err!("no column {column} to index: choose one of {}", names.join(", "))
            })
        };
        let numbers = columns.iter().map(number_of).collect::<Result<Vec<_>>>()?;
        if numbers.is_empty() {
            return plan_err!("an index without columns: name one at least");
        }
        if let Some(at) = (1..numbers.len()).find(|at| numbers[..*at].contains(&numbers[*at])) {
            return plan_err!("column {} is twice in the index: name it once", columns[at]);
        }
        self.check_types(&numbers)?;
        if numbers.len() > 1 {
            let types: Vec<_> = numbers.iter().map(|number| self.schema.field(*number).data_type()).collect();
            Packing::check(&columns.iter().copied().zip(types).collect::<Vec<_>>())?;
        }
        let definition = Definition {
            name: name.to_owned(),
            columns: numbers,
            is_unique,
            device: device.clone(),
            file: file.map(Path::to_owned),
            condition: condition.cloned(),
        };
        let mut of_file = None;
        self.change(statement, |old| {
            if old.has_index(name) {
                return match if_not_exists {
                    true => Ok(None),
                    false => plan_err!("there is an index {name}: choose another name, or say IF NOT EXISTS"),
                };
            }
            let is_same = |index: &&TableIndex| {
                let conditions = (&index.definition.condition, &definition.condition);
                let is_same = match conditions {
                    (Some(own), Some(other)) => own.is_same(other),
                    (own, other) => own.is_none() && other.is_none(),
                };
                is_same && index.definition.columns == definition.columns
            };
            if let Some(other) = old.indexes.iter().find(is_same) {
                let (columns, name) = (names_of(&self.schema, &definition.columns), &other.definition.name);
                return plan_err!("column {columns} has an index, {name}: one is enough");
            }
            // Of one part; the other indexes are built again over it if there were several.
            let mut new = match old.is_whole() {
                true => copy_of(old),
                false => Contents { name: old.name.clone(), ..self.replaced(old, old.whole()?, statement)? },
            };
            let (definition, batch) = (Arc::new(definition), &new.parts[0].batch);
            let index = match definition.file.clone() {
                None => self.built(definition, batch, None, statement)?,
                Some(path) => {
                    let (index, found) = self.built_by_file(definition, batch, &path, statement)?;
                    of_file = Some(found);
                    index
                }
            };
            new.indexes.push(index);
            Ok(Some(new))
        })?;
        Ok(of_file)
    }

    /// An index by the order that its file has, if that is right. A file that has another one, or none, gets the index's.
    fn built_by_file(
        &self,
        definition: Arc<Definition>,
        batch: &RecordBatch,
        path: &Path,
        statement: &Statement,
    ) -> Result<(TableIndex, IndexFile)> {
        // Places and rows, as a file has them.
        let _memory = statement.take(&format!("the file of index {}", definition.name), 16 * batch.num_rows())?;
        let saved = saved::read(path, batch.num_rows())?;
        let index = self.built(definition, batch, saved.as_ref().ok(), statement)?;
        let order = index.runs[0].order()?;
        let reason = match saved {
            Ok(saved) if saved == order => return Ok((index, IndexFile::Loaded)),
            Ok(_) => saved::OTHER_ROWS.to_owned(),
            Err(reason) => reason,
        };
        statement.check()?;
        saved::write(path, order.values())?;
        Ok((index, IndexFile::Built(reason)))
    }

    /// # Errors
    /// A plan error for the first column of floats.
    fn check_types(&self, columns: &[usize]) -> Result<()> {
        for field in columns.iter().map(|column| self.schema.field(*column)) {
            if value_type(field.data_type()).is_floating() {
                let (name, data_type) = (field.name(), field.data_type());
                return plan_err!(
                    "column {name} is {data_type}, and no index has SQL's order of floats, where -0.0 equals 0.0: index a column of \
                     decimals or integers"
                );
            }
        }
        Ok(())
    }

    /// Takes an index away.
    pub(crate) fn drop_index(&self, name: &str) -> Result<()> {
        self.change(&Statement::default(), |old| {
            let mut new = copy_of(old);
            new.indexes.retain(|index| index.definition.name != name);
            if new.indexes.len() == old.indexes.len() {
                let names: Vec<_> = old.indexes.iter().map(|index| index.definition.name.as_str()).collect();
                return plan_err!("no index {name} to drop: choose one of {}", names.join(", "));
            }
            Ok(Some(new))
        })
    }

    /// Says by which name another process has the same rows.
    pub(crate) fn set_name(&self, name: &str) {
        let named =
            self.change(&Statement::default(), |old| Ok(Some(Contents { name: Some(name.into()), ..copy_of(old) })));
        debug_assert!(named.is_ok());
    }

    /// Adds rows, or puts them in place of all others.
    pub(crate) fn insert(&self, rows: &[RecordBatch], overwrite: bool, statement: &Statement) -> Result<()> {
        self.change(statement, |old| {
            let rows = concat_batches(&self.schema, rows)?;
            let new = match overwrite {
                true => self.replaced(old, rows, statement)?,
                false => self.changed(old, &[], Some(rows), statement)?,
            };
            Ok(Some(new))
        })
    }

    /// Whether a change of so many rows leaves most of the contents as they are.
    pub(crate) fn is_small(old: &Contents, rows: usize) -> bool {
        rows.saturating_mul(RATIO) < old.rows()
    }

    /// The contents without some rows, whose numbers ascend, and with others. What does not change is shared with the old contents.
    pub(crate) fn changed(
        &self,
        old: &Contents,
        removed: &[u64],
        added: Option<RecordBatch>,
        statement: &Statement,
    ) -> Result<Contents> {
        let mut parts = self.without(&old.parts, removed);
        // Parts that are not much larger than what follows them are made one with it.
        let (mut kept, mut rows) = (parts.len(), added.as_ref().map_or(0, RecordBatch::num_rows));
        while kept > 0 && (parts[kept - 1].batch.num_rows() < RATIO.saturating_mul(rows) || parts[kept - 1].rows() == 0)
        {
            kept -= 1;
            rows += parts[kept].rows();
        }
        let first = parts.first().map_or(0, |part| part.batch.num_rows() - part.rows());
        let is_full = kept == 0 || first.saturating_mul(RATIO) > parts[0].batch.num_rows();
        let newest = |from: &[Part]| -> Result<RecordBatch> {
            let older = whole(&self.schema, from)?;
            Ok(match &added {
                Some(added) if older.num_rows() == 0 => added.clone(),
                Some(added) => concat_batches(&self.schema, [&older, added])?,
                None => older,
            })
        };
        if is_full {
            return self.replaced(old, newest(&parts)?, statement);
        }
        let batch = newest(&parts.split_off(kept))?;
        for index in &old.indexes {
            if !index.fits(&batch)? {
                // All rows get other keys.
                return self.replaced(
                    old,
                    concat_batches(&self.schema, [&whole(&self.schema, &parts)?, &batch])?,
                    statement,
                );
            }
        }
        if batch.num_rows() > 0 {
            let last = &parts[kept - 1];
            parts.push(Part::new(batch, last.first + last.batch.num_rows(), statement, &self.title())?);
        }
        let indexes = old.indexes.iter().map(|index| self.index_changed(index, old, &parts, kept, removed, statement));
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        Ok(Contents { schema: self.schema.clone(), parts, indexes, name: None })
    }

    /// Parts without some rows.
    fn without(&self, parts: &[Part], removed: &[u64]) -> Vec<Part> {
        let each = parts.iter().map(|part| match rows_of(part, removed) {
            [] => part.clone(),
            rows => part.without(rows.iter().map(|row| *row as usize - part.first)),
        });
        each.collect()
    }

    /// An index over parts, the first of which are `kept` old ones without some rows.
    fn index_changed(
        &self,
        index: &TableIndex,
        old: &Contents,
        parts: &[Part],
        kept: usize,
        removed: &[u64],
        statement: &Statement,
    ) -> Result<TableIndex> {
        let mut new = TableIndex { runs: Vec::with_capacity(parts.len()), ..index.clone() };
        for (part, run) in parts[..kept].iter().zip(&index.runs) {
            let rows = rows_of(part, removed);
            new.runs.push(match rows {
                [] => run.clone(),
                _ => run.without(&*index.keys(&old.taken(rows)?)?, rows.iter().map(|row| row - part.first as u64))?,
            });
        }
        let Some(last) = parts.get(kept) else { return Ok(new) };
        let run = index.run(&last.batch, statement, &self.title())?;
        if index.definition.is_unique {
            let keys = index.unique_keys(&last.batch)?;
            let mut twice = index.repeated(&run, &last.batch)?;
            for (part, older) in parts[..kept].iter().zip(&new.runs) {
                let is_live = |row: u64| part.live.as_ref().is_none_or(|live| live.value(row as usize));
                let found = older.index.get(&keys).map_err(external)?;
                twice += found.iter().flatten().filter(|row| is_live(*row)).count() as u64;
            }
            new.runs.push(run);
            self.check_unique(&new, twice)?;
        } else {
            new.runs.push(run);
        }
        Ok(new)
    }

    /// # Errors
    /// An execution error if rows of a unique index have the values of others.
    fn check_unique(&self, index: &TableIndex, twice: u64) -> Result<()> {
        if !index.definition.is_unique || twice == 0 {
            return Ok(());
        }
        let (rows, values, name) = (index.len(), index.len() - twice, &index.definition.name);
        let columns = names_of(&self.schema, &index.definition.columns);
        exec_err!("index {name} is unique, but {rows} rows would have {values} distinct values of {columns}")
    }

    fn built(
        &self,
        definition: Arc<Definition>,
        batch: &RecordBatch,
        order: Option<&UInt64Array>,
        statement: &Statement,
    ) -> Result<TableIndex> {
        let index = TableIndex::build(definition, batch, order, statement, &self.title())?;
        if index.definition.is_unique {
            self.check_unique(&index, index.repeated(&index.runs[0], batch)?)?;
        }
        Ok(index)
    }

    /// Other rows as one part. Indexes on columns that are still the same arrays stay; the others are built again.
    pub(crate) fn replaced(&self, old: &Contents, batch: RecordBatch, statement: &Statement) -> Result<Contents> {
        let part = Part::new(batch, 0, statement, &self.title())?;
        let is_same = |column: &usize| {
            old.is_whole() && Arc::ptr_eq(old.parts[0].batch.column(*column), part.batch.column(*column))
        };
        let is_over = |index: &TableIndex| {
            let Definition { columns, condition, .. } = &*index.definition;
            let of_condition = |column: &usize| {
                let name = self.schema.field(*column).name();
                condition.as_ref().is_some_and(|condition| condition.has(name))
            };
            columns.iter().copied().chain((0..self.schema.fields().len()).filter(of_condition)).collect::<Vec<_>>()
        };
        let index = |index: &TableIndex| match is_over(index).iter().all(is_same) {
            true => Ok(index.clone()),
            false => self.built(index.definition.clone(), &part.batch, None, statement),
        };
        let indexes = old.indexes.iter().map(index).collect::<Result<_>>()?;
        Ok(Contents { schema: self.schema.clone(), parts: vec![part], indexes, name: None })
    }
}

fn title_of(title: Option<&String>, schema: &SchemaRef) -> String {
    let columns = || schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    title.map_or_else(|| format!("the table of columns {}", columns()), |title| format!("table {title}"))
}

fn copy_of(contents: &Contents) -> Contents {
    let Contents { schema, parts, indexes, name } = contents;
    Contents { schema: schema.clone(), parts: parts.clone(), indexes: indexes.clone(), name: name.clone() }
}

/// Those of rows, whose numbers ascend, that are of a part.
fn rows_of<'a>(part: &Part, rows: &'a [u64]) -> &'a [u64] {
    let end = part.first + part.batch.num_rows();
    let below = |number: usize| rows.partition_point(|row| (*row as usize) < number);
    &rows[below(part.first)..below(end)]
}
