use crate::lookup::ShardedLookupExec;
use crate::scan::ShardScanExec;
use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::config::BallistaConfig;
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use ballista_core::serde::protobuf::{AvailableVcores, executor_status, job_status, task_status};
use ballista_core::serde::scheduler::{PartitionLocation, TaskKey};
use ballista_scheduler::cluster::{BoundTask, ClusterState, DistributionPolicy};
use ballista_scheduler::state::execution_graph::{ExecutionGraph, TaskDescription, create_task_info};
use ballista_scheduler::state::execution_stage::{ExecutionStage, RunningStage, TaskInfo};
use ballista_scheduler::state::task_manager::JobInfoCache;
use core::fmt;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Gives the tasks of look-ups in shards to executors so that each shard is open in one of them: the partition of a shard's probes
/// goes to the executor that had the shard's before, and waits while it is busy. If that one is gone, or there was none, it goes to
/// the executor that has the fewest shards of the table. Other tasks go in turn to whoever is free.
///
/// Which cores are free is counted anew each time, from the tasks that run. Ballista 55 keeps a counter for each executor, and when a
/// stage is given back because an executor was lost, the cores of the stage's tasks on the others are never put back into theirs: after
/// that an executor may have none left, and its job waits for ever.
///
/// Such a stage is computed anew, and the stages that read it read what was written last, once; Ballista 55 lets them read what was
/// written before, too. A job whose last stage, which the client reads, was partly done when it was given back, fails.
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
        counters: Vec<&mut AvailableVcores>,
        running_jobs: Arc<HashMap<JobId, JobInfoCache>>,
    ) -> Result<Vec<BoundTask>> {
        let mut budgets: Vec<AvailableVcores> =
            counters.iter().map(|counter| AvailableVcores::clone(counter)).collect();
        if let Some(cluster) = self.cluster.get() {
            budgets = free_vcores(&**cluster, &running_jobs).await;
        }
        let bound = self.bind_all(&mut budgets, &running_jobs).await?;
        // An executor whose counter is at 0 is not among these. What is bound to it is put back into its counter when it is done.
        for counter in counters {
            if let Some(budget) = budgets.iter().find(|budget| budget.executor_id == counter.executor_id) {
                counter.vcores = budget.vcores;
            }
        }
        Ok(bound)
    }

    fn name(&self) -> &str {
        "lanetree_placement"
    }
}

/// The cores of each executor that can be given tasks, less those of the tasks that run on it.
async fn free_vcores(cluster: &dyn ClusterState, jobs: &HashMap<JobId, JobInfoCache>) -> Vec<AvailableVcores> {
    let mut taken: HashMap<String, u32> = HashMap::new();
    for job in jobs.values() {
        for stage in job.execution_graph.read().await.stages().values() {
            let ExecutionStage::Running(stage) = stage else { continue };
            for task in &stage.task_infos {
                if let task_status::Status::Running(running) = &task.task_status {
                    *taken.entry(running.executor_id.clone()).or_default() += task.vcores_consumed;
                }
            }
        }
    }
    let is_active = |id: &str| {
        let heartbeat = cluster.get_executor_heartbeat(id);
        let status = heartbeat.and_then(|heartbeat| heartbeat.status?.status);
        matches!(status, Some(executor_status::Status::Active(_)))
    };
    let executors = cluster.registered_executor_metadata().await.into_iter().filter(|executor| is_active(&executor.id));
    let free = executors.map(|executor| {
        let vcores = executor.specification.vcores.saturating_sub(taken.get(&executor.id).copied().unwrap_or(0));
        AvailableVcores { executor_id: executor.id, vcores }
    });
    let mut free: Vec<_> = free.collect();
    free.sort_by(|a, b| a.executor_id.cmp(&b.executor_id));
    free
}

impl Placement {
    /// Binds what can be run, and takes its cores from the budgets.
    async fn bind_all(
        &self,
        budgets: &mut [AvailableVcores],
        running_jobs: &HashMap<JobId, JobInfoCache>,
    ) -> Result<Vec<BoundTask>> {
        let executors: BTreeSet<String> = budgets.iter().map(|budget| budget.executor_id.clone()).collect();
        let (mut bound, mut turn) = (Vec::new(), 0);
        for (job_id, job) in running_jobs.iter() {
            if !matches!(job.status, Some(job_status::Status::Running(_))) {
                continue;
            }
            let mut graph = job.execution_graph.write().await;
            let session_id = graph.session_id().to_owned();
            let (written, has_rows) = (Written::of(&**graph), !graph.output_locations().is_empty());
            let mut seen = Vec::new();
            while let Some(stage) = graph.fetch_running_stage(&seen) {
                seen.push(stage.stage_id);
                if stage.task_infos.is_empty() {
                    stage.plan = written.read_once(&stage.plan)?;
                    // The client would be given these rows and those of all partitions.
                    if stage.output_links.is_empty() && has_rows {
                        log::error!("job {job_id} fails: an executor was lost when the last stage was partly done");
                        stage.plan = Arc::new(GivenUpExec(stage.plan.clone()));
                    }
                }
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
                    let budget = &mut budgets[at];
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
}

/// A stage that no codec sends: so its job fails.
#[derive(Debug)]
struct GivenUpExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for GivenUpExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenUpExec: an executor was lost when the stage was partly done")
    }
}

impl ExecutionPlan for GivenUpExec {
    fn name(&self) -> &str {
        "GivenUpExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        exec_err!("an executor was lost when the last stage of the job was partly done: submit it again")
    }
}

/// Which executor has what a task wrote, by the task's number, for the stages that are done.
struct Written(HashMap<usize, Vec<Option<String>>>);

impl Written {
    fn of(graph: &dyn ExecutionGraph) -> Self {
        let executor = |task: &TaskInfo| match &task.task_status {
            task_status::Status::Successful(task) => Some(task.executor_id.clone()),
            _ => None,
        };
        let done = graph.stages().iter().filter_map(|(id, stage)| match stage {
            ExecutionStage::Successful(stage) => Some((*id, stage.task_infos.iter().map(executor).collect())),
            _ => None,
        });
        Self(done.collect())
    }

    /// The plan of a stage that reads what each task of the stages before it wrote in its last attempt, once. Ballista 55 keeps what the
    /// tasks of a stage had written when the stage was given back, and adds what they write in the next attempt: rows would be read twice.
    fn read_once(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let once = plan.clone().transform_up(|node| {
            let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() else { return Ok(Transformed::no(node)) };
            let Some(tasks) = self.0.get(&reader.stage_id) else { return Ok(Transformed::no(node)) };
            let mut partitions = reader.partition.clone();
            for locations in &mut partitions {
                let mut seen = HashSet::new();
                locations.retain(|location| {
                    let executor = tasks.get(location.map_partition_id).and_then(Option::as_ref);
                    executor == Some(&location.executor_meta.id)
                        && seen.insert((location.map_partition_id, location.partition_id.partition_id))
                });
            }
            let count = |partitions: &[Vec<PartitionLocation>]| partitions.iter().map(Vec::len).sum::<usize>();
            if count(&partitions) == count(&reader.partition) {
                return Ok(Transformed::no(node));
            }
            let (stage, schema) = (reader.stage_id, reader.schema());
            let partitioning = reader.properties().partitioning.clone();
            let reader = match &reader.coalesce {
                _ if reader.broadcast => {
                    let all = partitions.into_iter().flatten().collect();
                    ShuffleReaderExec::try_new_broadcast(stage, all, schema, reader.upstream_partition_count)
                }
                Some(coalesce) => {
                    ShuffleReaderExec::try_new_coalesced(stage, partitions, coalesce.clone(), schema, partitioning)
                }
                None => ShuffleReaderExec::try_new(stage, partitions, schema, partitioning),
            };
            Ok(Transformed::yes(Arc::new(reader?) as Arc<dyn ExecutionPlan>))
        });
        once.data()
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
    use ballista_core::extension::SessionConfigExt;
    use ballista_core::serde::protobuf::{
        ExecutorHeartbeat, ExecutorStatus, ShuffleWritePartition, SuccessfulTask, TaskStatus,
    };
    use ballista_core::serde::scheduler::{
        ExecutorMetadata, ExecutorOperatingSystemSpecification, ExecutorSpecification,
    };
    use ballista_scheduler::cluster::memory::InMemoryClusterState;
    use ballista_scheduler::planner::DefaultDistributedPlanner;
    use ballista_scheduler::state::execution_graph::{ExecutionGraphBox, StaticExecutionGraph};
    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::MemTable;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use tokio::sync::RwLock;

    /// Two executors of two cores each, without a counter: each counts as one that has no core left.
    async fn cluster() -> Arc<dyn ClusterState> {
        let cluster = InMemoryClusterState::default();
        for id in ["a", "b"] {
            let specification = ExecutorSpecification::default().with_vcores(2);
            let os_info = ExecutorOperatingSystemSpecification::default();
            let (id, host) = (id.to_owned(), "localhost".to_owned());
            let metadata = ExecutorMetadata { id: id.clone(), host, port: 1, grpc_port: 2, specification, os_info };
            cluster.save_executor_metadata(metadata).await.unwrap();
            let status = Some(ExecutorStatus { status: Some(executor_status::Status::Active(String::new())) });
            let heartbeat = ExecutorHeartbeat { executor_id: id, status, ..ExecutorHeartbeat::default() };
            cluster.save_executor_heartbeat(heartbeat).await.unwrap();
        }
        Arc::new(cluster)
    }

    /// A job of two stages, the first of which has four partitions.
    async fn job() -> JobInfoCache {
        let config = SessionConfig::new_with_ballista().with_target_partitions(4);
        let context = SessionContext::new_with_config(config.clone());
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let batch = || RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
        let table = MemTable::try_new(schema.clone(), (0..4).map(|_| vec![batch()]).collect()).unwrap();
        context.register_table("t", Arc::new(table)).unwrap();
        let plan = context.sql("SELECT k, count(*) FROM t GROUP BY k").await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let (planner, config) = (&mut DefaultDistributedPlanner::new(), Arc::new(config));
        let graph = StaticExecutionGraph::new("s", &JobId::new("job"), "", "", plan, 0, config, planner, None);
        let mut graph: ExecutionGraphBox = Box::new(graph.unwrap());
        graph.revive();
        JobInfoCache::new(graph)
    }

    fn done(executor: &str, task: &TaskDescription) -> TaskStatus {
        let partition = |partition_id| ShuffleWritePartition { partition_id, ..ShuffleWritePartition::default() };
        let partitions = (0..4).map(partition).collect();
        let successful = SuccessfulTask { executor_id: executor.to_owned(), partitions, ..SuccessfulTask::default() };
        TaskStatus {
            task_id: task.key.task_id as u32,
            job_id: task.key.job_id.to_string(),
            stage_id: task.key.stage_id as u32,
            stage_attempt_num: task.stage_attempt_num as u32,
            status: Some(task_status::Status::Successful(successful)),
            ..TaskStatus::default()
        }
    }

    /// Tells a job that tasks are done.
    async fn finish(cluster: &dyn ClusterState, graph: &RwLock<ExecutionGraphBox>, bound: &[BoundTask]) {
        let mut graph = graph.write().await;
        for (executor, task) in bound {
            let executor = cluster.get_executor_metadata(executor).await.unwrap();
            graph.update_task_status(&executor, vec![done(&executor.id, task)], 4, 4).unwrap();
        }
        graph.revive();
    }

    #[tokio::test]
    async fn a_stage_that_was_given_back_takes_no_cores_and_is_read_once() {
        let (placement, cluster) = (Placement::default(), cluster().await);
        placement.set_cluster(cluster.clone());
        let jobs = Arc::new(HashMap::from([(JobId::new("job"), job().await)]));
        let bind = async || placement.bind_tasks(Vec::new(), jobs.clone()).await.unwrap();
        let of = |bound: &[BoundTask]| -> Vec<(String, usize, usize)> {
            let each = bound
                .iter()
                .map(|(executor, task)| (executor.clone(), task.key.stage_id, task.global_input_partition_ids.len()));
            each.collect()
        };
        let graph = &jobs[&JobId::new("job")].execution_graph;
        let finish = async |bound: &[BoundTask]| finish(&*cluster, graph, bound).await;
        let first = bind().await;
        assert_eq!(of(&first), [("a".to_owned(), 1, 2), ("b".to_owned(), 1, 2)]);
        assert!(bind().await.is_empty(), "all cores are taken");
        finish(&first).await;
        let second = bind().await;
        assert_eq!(of(&second), [("a".to_owned(), 2, 2), ("b".to_owned(), 2, 2)]);

        // What `b` does of the second stage is given back, too: it needs what `a` had written.
        cluster.remove_executor("a").await.unwrap();
        graph.write().await.reset_stages_on_lost_executor("a").unwrap();
        let again = bind().await;
        assert_eq!(of(&again), [("b".to_owned(), 1, 2)]);

        // What each task wrote is read once.
        finish(&again).await;
        let last = bind().await;
        assert_eq!(of(&last), [("b".to_owned(), 2, 2)]);
        let mut read = Vec::new();
        let plan = last[0].1.plan.clone();
        plan.apply(|node| {
            if let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() {
                read = reader.partition.iter().map(Vec::len).collect();
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        assert_eq!(read, [2; 4]);
    }

    #[tokio::test]
    async fn a_job_whose_last_stage_was_partly_done_fails() {
        let (placement, cluster) = (Placement::default(), cluster().await);
        placement.set_cluster(cluster.clone());
        let jobs = Arc::new(HashMap::from([(JobId::new("job"), job().await)]));
        let bind = async || placement.bind_tasks(Vec::new(), jobs.clone()).await.unwrap();
        let graph = &jobs[&JobId::new("job")].execution_graph;
        let finish = async |bound: &[BoundTask]| finish(&*cluster, graph, bound).await;
        finish(&bind().await).await;
        let second = bind().await;
        finish(&second[1..]).await;
        cluster.remove_executor("a").await.unwrap();
        graph.write().await.reset_stages_on_lost_executor("a").unwrap();
        finish(&bind().await).await;
        assert!(bind().await.iter().all(|(_, task)| task.plan.is::<GivenUpExec>()));
    }

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
