use crate::codec::{PlanCodec, TableCodec};
use crate::lookup::ShardedLookups;
use crate::placement::Placement;
use crate::scan::provider;
use crate::tables::Tables;
use ballista::prelude::SessionContextExt;
use ballista_core::config::{BALLISTA_ADAPTIVE_PLANNER_ENABLED, BALLISTA_SHUFFLE_READER_REMOTE_PREFER_FLIGHT};
use ballista_core::extension::SessionConfigExt;
use ballista_core::utils::{default_config_producer, default_session_builder};
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use lanetree_datafusion::{Costs, with_index_lookups_on};
use std::sync::Arc;
use std::time::Duration;

/// Ballista's adaptive planner is not used: it merges small partitions, so that a task would look up in many shards. Joins are planned
/// as hash joins, of which look-ups are made; Ballista would sort.
///
/// Partitions are read from other executors as Flight's records. If an executor is lost while it sends one of Ballista's blocks, the
/// error does not say that a partition is lost, and Ballista gives the job up in place of making the partition again.
fn planned_once(config: SessionConfig) -> SessionConfig {
    let mut config = config
        .set_bool(BALLISTA_ADAPTIVE_PLANNER_ENABLED, false)
        .set_bool(BALLISTA_SHUFFLE_READER_REMOTE_PREFER_FLIGHT, true);
    config.options_mut().optimizer.prefer_hash_join = true;
    config
}

/// A session of a scheduler: Ballista's own, in which joins with an indexed table are look-ups: in a replica where these cost less, in
/// shards always.
///
/// # Errors
/// Those of the session's environment.
pub fn session_state(config: SessionConfig, tables: &Tables, costs: Costs) -> Result<SessionState> {
    let builder = SessionStateBuilder::new_from_existing(default_session_builder(planned_once(config))?);
    let mut builder = with_index_lookups_on(builder, tables.device(), costs);
    let mut rules = builder.physical_optimizers().take().unwrap_or_default().rules;
    let at = rules.iter().position(|rule| rule.name() == "index_lookups").map_or(0, |at| at + 1);
    rules.insert(at, Arc::new(ShardedLookups));
    Ok(builder.with_physical_optimizer_rules(rules).build())
}

/// Makes a scheduler plan with indexes, send plans by the names of tables, and place tasks by shards.
/// [`Placement::set_cluster`] follows when there is a cluster.
#[must_use]
pub fn scheduler_config(
    mut config: SchedulerConfig,
    tables: &Arc<Tables>,
    costs: Costs,
    placement: &Arc<Placement>,
) -> SchedulerConfig {
    let own = tables.clone();
    config.override_session_builder = Some(Arc::new(move |config| session_state(config, &own, costs)));
    config.override_config_producer = Some(Arc::new(|| planned_once(default_config_producer())));
    config.override_logical_codec = Some(TableCodec::new(tables));
    config.override_physical_codec = Some(PlanCodec::new(tables));
    config.task_distribution = TaskDistributionPolicy::Custom(placement.clone());
    config
}

/// Makes an executor look up in its tables.
#[must_use]
pub fn executor_config(mut config: ExecutorProcessConfig, tables: &Arc<Tables>) -> ExecutorProcessConfig {
    config.override_logical_codec = Some(TableCodec::new(tables));
    config.override_physical_codec = Some(PlanCodec::new(tables));
    config
}

/// The rows of a query, which is submitted again if it has none after a time limit, and so often in all: a job may be slow because the
/// scheduler waits for an executor that is lost. A job that is given up is not cancelled by Ballista. For queries alone: a statement that
/// changes something could do so twice.
///
/// # Errors
/// The query's own, at once; an execution error if no job was done in time.
pub async fn collect_within(
    context: &SessionContext,
    sql: &str,
    limit: Duration,
    tries: usize,
) -> Result<Vec<RecordBatch>> {
    for _ in 0..tries {
        let job = async { context.sql(sql).await?.collect().await };
        if let Ok(result) = tokio::time::timeout(limit, job).await {
            return result;
        }
    }
    exec_err!("{tries} jobs had no result, each within {} s: {sql}", limit.as_secs_f64())
}

/// A client's context, in which each table is registered by its name. Others, such as Parquet files, are registered as in Ballista.
///
/// # Errors
/// [`Tables::open`]'s; those of the connection.
pub async fn client_context(url: &str, tables: &Arc<Tables>, config: SessionConfig) -> Result<SessionContext> {
    let config = planned_once(config).with_ballista_logical_extension_codec(TableCodec::new(tables));
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let context = SessionContext::remote_with_state(url, state).await?;
    for name in tables.names().await? {
        context.register_table(&name, provider(tables, tables.open(&name)?))?;
    }
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_query_that_takes_too_long_is_an_error() {
        let context = SessionContext::new();
        let long = "SELECT count(*) FROM generate_series(1, 100000000) AS t (k) WHERE k % 7 = 3";
        let error = collect_within(&context, long, Duration::from_millis(20), 2).await.unwrap_err().to_string();
        assert!(error.contains("2 jobs had no result, each within 0.02 s: SELECT"), "{error}");
        let rows = collect_within(&context, "SELECT 1", Duration::from_secs(60), 1).await.unwrap();
        assert_eq!(rows[0].num_rows(), 1);
        // Errors of the query are not tried again.
        let error = collect_within(&context, "SELECT x", Duration::from_secs(60), 3).await.unwrap_err().to_string();
        assert!(!error.contains("had no result"), "{error}");
    }
}
