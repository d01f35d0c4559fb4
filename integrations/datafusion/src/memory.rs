//! What a statement takes of the engine's memory, and where its work is done.

use datafusion::common::exec_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A statement that changes a table. What it makes is counted in its session's memory pool; a call without a session counts nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statement {
    pool: Option<Arc<dyn MemoryPool>>,
    is_cancelled: Arc<AtomicBool>,
}

/// Bytes that are taken while this exists.
#[derive(Debug, Default)]
pub(crate) struct Memory(Option<MemoryReservation>);

impl Memory {
    /// Puts the bytes that were needed in the place of those that were expected.
    pub(crate) fn settle(&self, bytes: usize) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |taken| taken.try_resize(bytes))
    }
}

impl Statement {
    pub(crate) fn of(context: &TaskContext) -> Self {
        Self::in_pool(Some(context.memory_pool().clone()))
    }

    pub(crate) fn in_pool(pool: Option<Arc<dyn MemoryPool>>) -> Self {
        Self { pool, is_cancelled: Arc::default() }
    }

    pub(crate) fn pool(&self) -> Option<Arc<dyn MemoryPool>> {
        self.pool.clone()
    }

    /// Takes bytes before they are used.
    ///
    /// # Errors
    /// The pool's, which names what they are for.
    pub(crate) fn take(&self, what: &str, bytes: usize) -> Result<Memory> {
        let Some(pool) = &self.pool else { return Ok(Memory(None)) };
        let taken = MemoryConsumer::new(what).register(pool);
        taken.try_grow(bytes).map_err(|error| error.context(format!("no memory for {what}, {bytes} bytes")))?;
        Ok(Memory(Some(taken)))
    }

    /// # Errors
    /// If nobody waits for the statement any more.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_cancelled.load(Ordering::Acquire) {
            true => Err(exec_datafusion_err!("the statement was cancelled; the table is as before")),
            false => Ok(()),
        }
    }

    /// Does work on a thread that may be busy for long, and not on one of the runtime's workers. If the caller stops waiting, the
    /// statement counts as cancelled.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _cancels = Cancels(self.is_cancelled.clone());
        let done = SpawnedTask::spawn_blocking(move || work(&self)).join_unwind().await;
        done.map_err(|error| exec_datafusion_err!("the statement was not executed: {error}"))?
    }
}

/// Cancels a statement when it goes, which is harmless after the statement's end.
struct Cancels(Arc<AtomicBool>);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
