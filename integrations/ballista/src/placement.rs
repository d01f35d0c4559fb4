use crate::lookup::ShardedLookupExec;
use crate::scan::ShardScanExec;
use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::config::BallistaConfig;
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use ballista_core::serde::protobuf::{AvailableVcores, job_status};
use ballista_core::serde::scheduler::TaskKey;
use ballista_scheduler::cluster::{BoundTask, ClusterState, DistributionPolicy};
use ballista_scheduler::state::execution_graph::{TaskDescription, create_task_info};
use ballista_scheduler::state::execution_stage::RunningStage;
use ballista_scheduler::state::task_manager::JobInfoCache;
use core::fmt;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Gives the tasks of look-ups in shards to executors so that each shard is open in one of them: the partition of a shard's probes
/// goes to the executor that had the shard's before, and waits while it is busy. If that one is gone, or there was none, it goes to
/// the executor that has the fewest shards of the table. Other tasks go in turn to whoever is free.
#[derive(Default)]
pub struct Placement {
    cluster: OnceLock<Arc<dyn ClusterState>>,
    owners: Mutex<HashMap<Range, String>>,
}

/// A table, and the number of a shard.
type Range = (Arc<str>, usize);

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement").field("owners", &self.owners).finish_non_exhaustive()
    }
}

impl Placement {
    /// Says which cluster's executors there are. Without it, busy ones are taken for gone.
    pub fn set_cluster(&self, cluster: Arc<dyn ClusterState>) {
        // (Who sets it a second time has the same cluster.)
        let _ = self.cluster.set(cluster);
    }

    /// The executor that has a range, of those that there are.
    fn owner(&self, range: &Range, executors: &BTreeSet<String>) -> Option<String> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get(range).filter(|owner| executors.contains(*owner)) {
            return Some(owner.clone());
        }
        let mut counts: BTreeMap<&String, usize> = executors.iter().map(|executor| (executor, 0)).collect();
        for ((table, _), owner) in &*owners {
            if let Some(count) = counts.get_mut(owner).filter(|_| *table == range.0) {
                *count += 1;
            }
        }
        let fewest = counts.into_iter().min_by_key(|(_, count)| *count).map(|(executor, _)| executor.clone())?;
        owners.insert(range.clone(), fewest.clone());
        Some(fewest)
    }
}

#[async_trait]
impl DistributionPolicy for Placement {
    async fn bind_tasks(
        &self,
        mut budgets: Vec<&mut AvailableVcores>,
        running_jobs: Arc<HashMap<JobId, JobInfoCache>>,
    ) -> Result<Vec<BoundTask>> {
        let mut executors: BTreeSet<String> = budgets.iter().map(|budget| budget.executor_id.clone()).collect();
        if let Some(cluster) = self.cluster.get() {
            executors = cluster.registered_executor_metadata().await.into_iter().map(|executor| executor.id).collect();
        }
        let (mut bound, mut turn) = (Vec::new(), 0);
        for (job_id, job) in running_jobs.iter() {
            if !matches!(job.status, Some(job_status::Status::Running(_))) {
                continue;
            }
            let mut graph = job.execution_graph.write().await;
            let session_id = graph.session_id().to_owned();
            let mut seen = Vec::new();
            while let Some(stage) = graph.fetch_running_stage(&seen) {
                seen.push(stage.stage_id);
                let mut bind = |stage: &mut RunningStage, budget: &mut AvailableVcores, partitions, vcores| {
                    bound.push(bind(stage, (&session_id, job_id), budget, partitions, vcores));
                };
                let (collapses, most) = (collapses(&stage.plan), most_partitions(stage));
                if let Some((table, only)) = range_of(&stage.plan) {
                    let mut of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
                    for partition in stage.pending.next_slice(usize::MAX) {
                        let range = (table.clone(), only.unwrap_or(partition));
                        of.entry(self.owner(&range, &executors).unwrap_or_default()).or_default().push(partition);
                    }
                    for (owner, mut partitions) in of {
                        let budget = budgets.iter_mut().find(|budget| budget.executor_id == owner);
                        if let Some(budget) = budget.filter(|budget| budget.vcores > 0) {
                            let count = if collapses {
                                partitions.len()
                            } else {
                                (budget.vcores as usize).min(most).min(partitions.len())
                            };
                            let vcores = if collapses { 1 } else { count as u32 };
                            let rest = partitions.split_off(count);
                            bind(stage, budget, partitions, vcores);
                            partitions = rest;
                        }
                        stage.pending.reschedule(partitions);
                    }
                    continue;
                }
                while !stage.pending.is_empty() {
                    let count = budgets.len();
                    let Some(at) = (turn..turn + count).map(|at| at % count).find(|at| budgets[*at].vcores > 0) else {
                        return Ok(bound);
                    };
                    turn = at + 1;
                    let budget = &mut *budgets[at];
                    // What reads all partitions in one task needs one core.
                    let partitions = stage.pending.next_slice(if collapses {
                        usize::MAX
                    } else {
                        (budget.vcores as usize).min(most)
                    });
                    let vcores = if collapses { 1 } else { partitions.len() as u32 };
                    bind(stage, budget, partitions, vcores);
                }
            }
        }
        Ok(bound)
    }

    fn name(&self) -> &str {
        "lanetree_placement"
    }
}

fn bind(
    stage: &mut RunningStage,
    (session_id, job_id): (&str, &JobId),
    budget: &mut AvailableVcores,
    partitions: Vec<usize>,
    vcores: u32,
) -> BoundTask {
    let (executor, task_id) = (budget.executor_id.clone(), stage.task_infos.len());
    let task_attempt = partitions.iter().map(|partition| stage.task_failure_numbers[*partition]).max().unwrap_or(0);
    let mut info = create_task_info(executor.clone(), task_id);
    info.global_input_partition_ids = partitions.clone();
    info.vcores_consumed = vcores;
    stage.task_infos.push(info);
    budget.vcores -= vcores;
    let task = TaskDescription {
        session_id: session_id.to_owned(),
        key: TaskKey { job_id: job_id.clone(), stage_id: stage.stage_id, task_id },
        stage_attempt_num: stage.stage_attempt_num,
        task_attempt,
        global_input_partition_ids: partitions,
        vcores_consumed: vcores,
        plan: stage.plan.clone(),
        session_config: stage.session_config.clone(),
    };
    (executor, task)
}

/// How many partitions a task of the session may have.
fn most_partitions(stage: &RunningStage) -> usize {
    let config = stage.session_config.options().extensions.get::<BallistaConfig>();
    config.map(BallistaConfig::max_partitions_per_task).filter(|most| *most > 0).unwrap_or(usize::MAX)
}

/// The table in shards that a stage looks up in by the partitions that it reads, the numbers of which are those of shards; or the table
/// of which it reads one shard, and that one's number.
fn range_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(Arc<str>, Option<usize>)> {
    if let Some(lookup) = plan.downcast_ref::<ShardedLookupExec>() {
        return Some((lookup.shards().identity.clone(), None));
    }
    if let Some(scan) = plan.downcast_ref::<ShardScanExec>() {
        return scan.only().map(|only| (scan.shards().identity.clone(), Some(only)));
    }
    let [child] = plan.children()[..] else { return None };
    range_of(child)
}

/// Whether something between a stage's output and what it reads of others brings all partitions into one: such a stage is one task.
fn collapses(stage: &Arc<dyn ExecutionPlan>) -> bool {
    let [mut node] = stage.children()[..] else { return false };
    loop {
        if node.is::<ShuffleReaderExec>() || node.is::<RangeShuffleReaderExec>() {
            return false;
        }
        if node.output_partitioning().partition_count() == 1 {
            return true;
        }
        let [child] = node.children()[..] else { return false };
        node = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_stay_with_their_executor_and_those_of_a_lost_one_are_divided() {
        let placement = Placement::default();
        let owners = |executors: &[&str], table: &str| -> Vec<String> {
            let executors = executors.iter().map(|id| (*id).to_owned()).collect();
            (0..6).map(|shard| placement.owner(&(table.into(), shard), &executors).unwrap()).collect()
        };
        let first = owners(&["a", "b", "c"], "t");
        assert!(["a", "b", "c"].iter().all(|id| first.iter().filter(|owner| owner == id).count() == 2));
        // Another executor takes none of those that are open; nor does another table change them.
        owners(&["a", "b", "c"], "u");
        assert_eq!(owners(&["a", "b", "c", "d"], "t"), first);
        let later = owners(&["a", "c"], "t");
        for (before, after) in first.iter().zip(&later) {
            assert!(before == after || before == "b");
        }
        assert_eq!(later.iter().filter(|owner| *owner == "a").count(), 3);
        assert_eq!(placement.owner(&("t".into(), 0), &BTreeSet::new()), None);
    }
}
