//! Ballista's scheduler and executors with Lanetree's indexes, and a client.

mod demo;

use ballista_core::error::BallistaError;
use ballista_core::extension::SessionConfigExt;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use lanetree::Device;
use lanetree_ballista::{
    Placement, Tables, client_context, collect_within, executor_config, scheduler_config, write_sharded, write_table,
};
use lanetree_datafusion::{Costs, file_url};
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const HELP: &str = "\
Ballista with Lanetree's indexes.

lanetree-ballista demo
lanetree-ballista write --tables FOLDER --name NAME --index COLUMN [--shards N] FILE.parquet
lanetree-ballista scheduler --tables FOLDER [--bind 127.0.0.1] [--port 50050] [--host 127.0.0.1]
                            [--executor-timeout SECONDS] [--always-look-up yes]
lanetree-ballista executor --tables FOLDER [--scheduler 127.0.0.1:50050] [--bind 127.0.0.1] [--port 50051]
                           [--grpc-port 50052] [--host 127.0.0.1] [--vcores N] [--work-dir FOLDER] [--heartbeat SECONDS]
                           [--keep-shards N]
lanetree-ballista query --tables FOLDER [--scheduler 127.0.0.1:50050] [--partitions 16] [--time-limit SECONDS]
                        [FILE.parquet ...] SQL

A folder of tables has a file NAME.arrow for each, and the shards of those that are in shards. Each process may have its own copy.
Other tables are Parquet files, named as they are, by paths at which all processes have them.
A query that has no result within the time limit is submitted again, three times in all.
--bind is where a process listens, --host the name by which others reach it. There are no passwords.

Example: lanetree-ballista query --tables tables orders.parquet \"SELECT count(*) FROM orders JOIN customer ON o_custkey = c_custkey\"";

/// Options with their values, and what comes without one.
struct Arguments {
    options: HashMap<String, String>,
    rest: Vec<String>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>, known: &[&str]) -> Result<Self, String> {
        let (mut options, mut rest) = (HashMap::new(), Vec::new());
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix("--") {
                Some(name) if known.contains(&name) => {
                    let value = arguments.next().ok_or_else(|| format!("--{name} needs a value"))?;
                    options.insert(name.to_owned(), value);
                }
                Some(name) => return Err(format!("no option --{name}: choose one of --{}", known.join(", --"))),
                None => rest.push(argument),
            }
        }
        Ok(Self { options, rest })
    }

    fn text(&self, name: &str, otherwise: &str) -> String {
        self.options.get(name).map_or(otherwise, String::as_str).to_owned()
    }

    fn number<T: core::str::FromStr>(&self, name: &str, otherwise: T) -> Result<T, String> {
        match self.options.get(name) {
            Some(value) => value.parse().map_err(|_| format!("--{name} is a number, not {value:?}")),
            None => Ok(otherwise),
        }
    }

    fn required(&self, name: &str) -> Result<&str, String> {
        self.options.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing"))
    }

    fn tables(&self) -> Result<Arc<Tables>, String> {
        let folder = self.required("tables")?;
        Tables::in_folder(folder, &Device::best()).map_err(|error| format!("--tables {folder}: {error}"))
    }
}

/// A file that is there is read as itself, whatever its name is; other arguments are URLs or patterns.
fn url_of(file: &str) -> datafusion::error::Result<String> {
    if Path::new(file).exists() { file_url(file) } else { Ok(file.to_owned()) }
}

async fn run(command: &str, arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    match command {
        "demo" => demo::run().await,
        "write" => {
            let arguments = Arguments::parse(arguments, &["tables", "name", "index", "shards"])?;
            let [file] = &arguments.rest[..] else { return Err("write takes one file".into()) };
            let rows = SessionContext::new().read_parquet(url_of(file)?, ParquetReadOptions::default()).await?;
            let (schema, batches) = (Arc::new(rows.schema().as_arrow().clone()), rows.collect().await?);
            let [folder, name, index] = ["tables", "name", "index"].map(|option| arguments.required(option));
            match arguments.number("shards", 0)? {
                0 => Ok(write_table(folder?, name?, &schema, &batches, &[index?])?),
                shards => Ok(write_sharded(folder?, name?, &schema, &batches, index?, shards)?),
            }
        }
        "scheduler" => {
            let known = ["tables", "bind", "port", "host", "executor-timeout", "always-look-up"];
            let arguments = Arguments::parse(arguments, &known)?;
            let timeout = arguments.number("executor-timeout", 180)?;
            let config = SchedulerConfig {
                bind_port: arguments.number("port", 50050)?,
                bind_host: arguments.text("bind", "127.0.0.1"),
                external_host: arguments.text("host", "127.0.0.1"),
                executor_timeout_seconds: timeout,
                expire_dead_executor_interval_seconds: (timeout / 3).clamp(1, 15),
                ..SchedulerConfig::default()
            };
            let costs = if arguments.text("always-look-up", "no") == "yes" { Costs::ALWAYS } else { Costs::default() };
            let placement = Arc::new(Placement::default());
            let config = Arc::new(scheduler_config(config, &arguments.tables()?, costs, &placement));
            let address = format!("{}:{}", config.bind_host, config.bind_port).parse()?;
            let cluster = BallistaCluster::new_from_config(&config).await?;
            placement.set_cluster(cluster.cluster_state());
            Ok(start_server(cluster, address, config).await?)
        }
        "executor" => {
            let known = [
                "tables",
                "scheduler",
                "bind",
                "port",
                "grpc-port",
                "host",
                "vcores",
                "work-dir",
                "heartbeat",
                "keep-shards",
            ];
            let arguments = Arguments::parse(arguments, &known)?;
            let scheduler = arguments.text("scheduler", "127.0.0.1:50050");
            let (host, port) = scheduler.rsplit_once(':').ok_or("--scheduler is HOST:PORT")?;
            let otherwise = ExecutorProcessConfig::default();
            let config = ExecutorProcessConfig {
                port: arguments.number("port", 50051)?,
                grpc_port: arguments.number("grpc-port", 50052)?,
                bind_host: arguments.text("bind", "127.0.0.1"),
                external_host: Some(arguments.text("host", "127.0.0.1")),
                scheduler_host: host.to_owned(),
                scheduler_port: port.parse()?,
                scheduler_connect_timeout_seconds: 30,
                vcores: arguments.number("vcores", otherwise.vcores)?,
                work_dir: arguments.options.get("work-dir").cloned(),
                executor_heartbeat_interval_seconds: arguments.number("heartbeat", 60)?,
                ..otherwise
            };
            let tables = arguments.tables()?;
            tables.keep_shards(arguments.number("keep-shards", usize::MAX)?);
            Ok(start_executor_process(Arc::new(executor_config(config, &tables))).await?)
        }
        "query" => {
            let arguments = Arguments::parse(arguments, &["tables", "scheduler", "partitions", "time-limit"])?;
            let [files @ .., sql] = &arguments.rest[..] else { return Err("query takes a statement".into()) };
            let url = format!("df://{}", arguments.text("scheduler", "127.0.0.1:50050"));
            let config = SessionConfig::new_with_ballista();
            let partitions = arguments.number("partitions", config.target_partitions())?;
            let config = config.with_target_partitions(partitions);
            let context = client_context(&url, &arguments.tables()?, config).await?;
            for file in files {
                let name = Path::new(file).file_stem().and_then(|name| name.to_str()).ok_or("a file without a name")?;
                context.register_parquet(name, url_of(file)?, ParquetReadOptions::default()).await?;
            }
            match arguments.number("time-limit", 0)? {
                0 => Ok(context.sql(sql).await?.show().await?),
                seconds => {
                    let rows = collect_within(&context, sql, Duration::from_secs(seconds), 3).await?;
                    println!("{}", pretty_format_batches(&rows)?);
                    Ok(())
                }
            }
        }
        other => Err(Box::new(BallistaError::General(format!("no command {other:?}\n\n{HELP}")))),
    }
}

/// What this crate logs goes to the standard error: which tables and shards are opened.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("lanetree_ballista") || metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{}", record.args());
        }
    }

    fn flush(&self) {}
}

#[tokio::main]
async fn main() -> ExitCode {
    if log::set_logger(&Log).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
    }
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    if command.is_empty() || command == "--help" || command == "help" {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(&command, arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
