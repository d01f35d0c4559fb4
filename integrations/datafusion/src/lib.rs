//! Tables with an index of Lanetree's, for DataFusion.
//!
//! An [`IndexedTable`] is a table in memory with an [`ArrowIndex`](lanetree_arrow::ArrowIndex) on one column. Conditions on that
//! column go through the index (`=`, `IN`, `<`, `<=`, `>`, `>=`, `BETWEEN`, and their conjunctions). With
//! [`with_index_lookups`], joins on it do too: they look up keys of the other side, and build no hash table.
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
//! # What goes through the index
//! A condition that compares the column with values, without a cast of the column. An inner join, a left or right join
//! that keeps the rows of the *other* side, and a semi or anti join that returns rows of the other side, if its only
//! condition equates the column with an expression over the other side, and nothing else restricts the table. All others are
//! DataFusion's own, with the same results. The column may have nulls and equal values. Columns of floats are scanned: SQL and the index
//! disagree about -0.0.

mod contents;
mod filter;
mod lookup;
mod rule;
mod scan;
mod table;

pub use lookup::IndexLookupExec;
pub use rule::{IndexLookups, with_index_lookups};
pub use scan::IndexedScanExec;
pub use table::IndexedTable;
