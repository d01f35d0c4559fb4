use crate::contents::bytes_of;
use crate::memory::Statement;
use crate::shared::Shared;
use async_trait::async_trait;
use core::fmt;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use std::sync::Arc;

/// Inserts the rows of a statement together.
#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) shared: Arc<Shared>,
    /// Whether they replace all rows.
    pub(crate) overwrite: bool,
}

impl DisplayAs for Insert {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexedTable (indexes=[{}])", self.shared.contents().indexed_columns())
    }
}

#[async_trait]
impl DataSink for Insert {
    fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    async fn write_all(&self, mut rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let memory = MemoryConsumer::new("IndexedTable: rows to insert").register(context.memory_pool());
        let (mut batches, mut count) = (Vec::new(), 0);
        while let Some(batch) = rows.next().await.transpose()? {
            memory.try_grow(bytes_of(&batch)?)?;
            count += batch.num_rows() as u64;
            batches.push(batch);
        }
        if count > 0 || self.overwrite {
            let (shared, overwrite) = (self.shared.clone(), self.overwrite);
            Statement::of(context).run(move |statement| shared.insert(&batches, overwrite, statement)).await?;
        }
        Ok(count)
    }
}
