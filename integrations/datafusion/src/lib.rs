//! Tables with an index of Lanetree's, for DataFusion.
//!
//! An [`IndexedTable`] is a table in memory with an [`ArrowIndex`](lanetree_arrow::ArrowIndex) on each of some columns, or on
//! several columns together ([`IndexedTable::add_index_on`]). Conditions
//! on those go through an index (`=`, `<>`, `IN`, `NOT IN`, `<`, `<=`, `>`, `>=`, `BETWEEN`, `LIKE 'prefix%'`, `IS NULL`, `IS NOT NULL`,
//! joined by `AND` and `OR`). [`with_index_lookups`] adds to a session: joins that look up keys of the other side, and build no hash
//! table, where that costs less; distinct values from an index; `CREATE INDEX`; and as-of, range and band joins.
//!
//! ```
//! use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use lanetree::Device;
//! use lanetree_datafusion::{IndexedTable, with_index_lookups};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! let state = with_index_lookups(SessionStateBuilder::new().with_default_features()).build();
//! let context = SessionContext::new_with_state(state);
//! let users = RecordBatch::try_from_iter([
//!     ("id", Arc::new(Int64Array::from(vec![30, 10, 20])) as _),
//!     ("name", Arc::new(StringArray::from(vec!["Grace", "Ada", "Edsger"])) as _),
//! ])?;
//! let users = IndexedTable::new(&Device::best(), users.schema(), &[users], "id")?;
//! context.register_table("users", Arc::new(users))?;
//!
//! let rows = context.sql("SELECT name FROM users WHERE id BETWEEN 10 AND 20").await?.collect().await?;
//! assert_eq!(rows[0].column(0).as_ref(), &StringArray::from(vec!["Ada", "Edsger"]));
//! # Ok(())
//! # }
//! ```
//!
//! # What goes through an index
//! A condition that compares the column with values, without a cast of the column. If there are conditions on several indexed
//! columns, the index that finds the fewest rows is asked, and the other conditions are tried on those. An index on several columns
//! answers conditions on its first ones, of which all but the last are lists of values: one on `(a, b)` answers `a < 1`, `a = 1 AND
//! b < 2`, `a IN (1, 2) AND b = 3` and `a = 1 AND b IS NULL`; of `a < 1 AND b = 3` it answers the first, and of `b = 3` nothing. `OR`
//! is answered if both sides are conditions on one column; their ranges are made one set first, so no row is found twice. If a condition leaves most of
//! the table, which the index counts exactly, the whole table is read instead, unless its order or its first rows are wanted.
//!
//! `min`, `max` and `count` of an indexed column, of all rows or of those that one range of it leaves, read no row: the index knows them.
//!
//! `count(DISTINCT)` of an indexed column reads no row either, of all rows or of those that conditions on it leave. `SELECT DISTINCT` of
//! an index's columns, and `GROUP BY` them without aggregates, read one row of each distinct value, in their order. After small changes of
//! the table the values of its parts are compared to count them. If there are so many values that reading the whole table costs less, it
//! is read.
//!
//! `ORDER BY` of an index's columns, ascending or all descending, with or without `LIMIT`: of the rows that the index finds, or of all.
//! Nulls of the first column may be first or last; those of the others are last in an ascending order.
//!
//! A join whose other side is any plan, if [`Costs`] says that the look-ups are cheaper (`EXPLAIN` shows both costs):
//!
//! | condition | joins |
//! |---|---|
//! | the column, or the first columns of an index on several, equal expressions over the other side | inner; left or right that keeps the rows of the *other* side; semi and anti that return rows of the other side; semi that return rows of the table, as `indexed IN (SELECT …)`: the distinct keys are looked up |
//! | the column is `BETWEEN` two expressions over the other side, or strictly between them | the same, except those that return rows of the table |
//! | one of these, and any other conditions on both sides | the same, except semi joins that return rows of the table: the others are tried on the pairs that are found |
//! | equality, and conditions on the table alone | all of the first line |
//! | `expression NOT IN (SELECT indexed FROM table)` | if the table has rows, and none whose column is null |
//!
//! All others are DataFusion's own, with the same results. The column may have nulls and equal values. Columns of floats can't be indexed:
//! SQL and an index disagree about -0.0.
//!
//! # Changes
//! An index changes nothing about its table except the time that queries take: column defaults, constraints, `INSERT`, `DELETE` and
//! `UPDATE` are those of the table without it. `INSERT INTO`, `INSERT OVERWRITE`, `DELETE` and `UPDATE` change all rows of a statement or
//! none, and keep the indexes; what a statement of few rows takes depends on these rows, and not on the table's: see [`IndexedTable`]. Conditions of `DELETE` and `UPDATE` are on columns of the table alone. One with a
//! subquery is an error, also of a `MemTable`: DataFusion alone (55.2) would change all rows.
//!
//! `CREATE [UNIQUE] INDEX [IF NOT EXISTS] [name] ON table [USING lanetree] (column, ...)` adds an index to an `IndexedTable`, or puts an
//! `IndexedTable` with the same rows in the place of another table. Views, prepared statements and data frames that were made before read
//! and change the `IndexedTable` from then on, in each session with [`with_index_lookups`]. Rows that a statement inserts while
//! `CREATE INDEX` is reading the other table may be lost, and so are rows that a program puts into the other table later without a plan,
//! as into the batches of a `MemTable`. `CREATE INDEX` is done when its result is read (`collect`), not when `sql` returns. An index that
//! is not given a name has that of its columns, with `_` between them. With `UNIQUE`, rows with equal values are refused, nulls apart,
//! now and by each change.
//!
//! [`sql`] has `DROP INDEX` and `SHOW INDEXES` in addition, and the clauses `WHERE` and `WITH (file = …)` of `CREATE INDEX`, which
//! DataFusion's planner leaves out; it refuses others that are left out, such as `INCLUDE`.
//!
//! An index on some rows (`CREATE INDEX … WHERE condition`) answers queries whose `WHERE` has each part of the condition among its own,
//! and a condition on an indexed column beside: `a > 10 AND b = 5` by an index on `b` `WHERE a > 10`, and not `a > 11 AND b = 5`. Joins,
//! `ORDER BY`, `DISTINCT`, `min`, `max` and `count` go through such an index within these rows alone.
//!
//! # Files
//! Rows are in main memory alone: what statements change is gone when the process ends, whenever that is, and no file is changed by them.
//! `COPY … TO` writes rows to a file.
//!
//! An index is kept in a file by `CREATE INDEX … WITH (file = 'path')` or [`IndexedTable::add_saved_index`], beside the file of its table:
//! the order of the rows by the indexed columns, in [Lanetree's format](lanetree::files) with its checksums, of 16 bytes for each row. A file
//! needs no digest of the table: the order is compared with all rows, in one pass over the indexed columns, so a file is either the right one
//! for just these rows, whatever file they came from and whenever, or it is not used. The index is then built and saved, and the frame that
//! [`sql`] returns says why: there was no file, it was damaged, or it was of other rows. A file is replaced as a whole, and has the old order
//! or the new one after a crash. Later changes of the table are not saved: a program that starts again with the old rows loads the index, and
//! one that has copied the new ones to a file builds it once. Files of other programs are errors, and are not written over; nor are damaged ones
//! that no longer say that they are an index's.
//!
//! # Joins by order
//! Arguments are strings: names of tables or views, and of their columns. `table` is an `IndexedTable`; its columns follow those of
//! `probes`, and one whose name those have, too, is named `table_column`. The columns must be of one type.
//!
//! | function | rows |
//! |---|---|
//! | `as_of('probes', 'column', 'table', 'indexed')` | each probe with the row of the largest value that is not above it; `'forward'`: of the smallest that is not below it. Of equal values, the last row, or the first. Without such a row there are nulls; `'inner'`: the probe is left out |
//! | `range_join('probes', 'low', 'high', 'table', 'indexed')` | each probe with all rows from `low` to `high`, both included; `'left'`: a probe without rows is there, with nulls |
//! | `band_join('probes', 'column', below, above, 'table', 'indexed')` | the same, from `column - below` to `column + above` |
//!
//! ```
//! # use datafusion::arrow::array::Int64Array;
//! # use datafusion::execution::SessionStateBuilder;
//! # use datafusion::prelude::SessionContext;
//! # use lanetree_datafusion::with_index_lookups;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! # let context = SessionContext::new_with_state(with_index_lookups(SessionStateBuilder::new().with_default_features()).build());
//! for statement in [
//!     "CREATE TABLE prices AS SELECT column1 AS since, column2 AS price FROM (VALUES (100, 7), (200, 8))",
//!     "CREATE INDEX ON prices (since)",
//!     "CREATE TABLE orders AS SELECT column1 AS placed FROM (VALUES (150), (250))",
//! ] {
//!     context.sql(statement).await?.collect().await?;
//! }
//! let prices = "SELECT price FROM as_of('orders', 'placed', 'prices', 'since') ORDER BY placed";
//! let prices = context.sql(prices).await?.collect().await?;
//! assert_eq!(prices[0].column(0).as_ref(), &Int64Array::from(vec![7, 8]));
//! # Ok(())
//! # }
//! ```

mod asked;
mod candidate;
mod catalog;
mod condition;
mod contents;
mod costs;
mod ddl;
mod declared;
mod distinct;
mod dml;
mod file_url;
mod filter;
mod found;
mod functions;
mod insert;
mod lookup;
mod memory;
mod packing;
mod pairs;
mod parts;
mod ranges;
mod replaced;
mod rule;
mod runs;
mod saved;
mod scan;
mod select;
mod shape;
mod shared;
mod statement;
mod table;

pub use costs::Costs;
pub use file_url::file_url;
pub use lookup::IndexLookupExec;
pub use parts::{LookupParts, ScanFilter, ScanParts};
pub use ranges::{ColumnFilter, ValueRange};
pub use rule::{IndexLookups, with_index_lookups, with_index_lookups_on};
pub use saved::IndexFile;
pub use scan::IndexedScanExec;
pub use shape::On;
pub use statement::{plan_statement, sql};
pub use table::IndexedTable;
