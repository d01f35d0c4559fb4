//! A scheduler and two executors on this machine, and one query.

use ballista_core::extension::SessionConfigExt;
use datafusion::arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use lanetree::Device;
use lanetree_ballista::{Tables, client_context, write_sharded};
use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SQL: &str = "SELECT name, count(*) AS orders, sum(amount) AS amount FROM orders JOIN customers ON customer = id \
                   GROUP BY name ORDER BY amount DESC, name LIMIT 3";

/// A process that ends with the demonstration.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // (It may have ended by itself.)
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that is removed with what is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(arguments: &[&str]) -> std::io::Result<Process> {
    let program = std::env::current_exe()?;
    Ok(Process(Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
}

/// Waits until somebody listens at a port.
async fn wait_for(port: &str) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        if started.elapsed() > Duration::from_secs(60) {
            return Err(format!("nobody listens at port {port} after a minute").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let folder = Folder(std::env::temp_dir().join(format!("lanetree-ballista-{}", std::process::id())));
    std::fs::create_dir(&folder.0)?;
    let path = |name: &str| folder.0.join(name).to_string_lossy().into_owned();
    std::fs::create_dir(path("tables"))?;
    write(Path::new(&path("tables")), &path("orders.parquet")).await?;

    let listeners = (0..5).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port().to_string()));
    let ports = ports.collect::<std::io::Result<Vec<_>>>()?;
    drop(listeners);
    let (tables, scheduler) = (path("tables"), format!("127.0.0.1:{}", ports[0]));
    let mut processes = vec![start(&["scheduler", "--tables", &tables, "--port", &ports[0]])?];
    wait_for(&ports[0]).await?;
    for own in [&ports[1..3], &ports[3..5]] {
        let work = path(&format!("work-{}", own[0]));
        std::fs::create_dir(&work)?;
        let places = ["executor", "--tables", &tables, "--work-dir", &work, "--scheduler", &scheduler];
        processes.push(start(&[&places[..], &["--vcores", "1", "--port", &own[0], "--grpc-port", &own[1]]].concat())?);
        wait_for(&own[0]).await?;
    }

    let config = SessionConfig::new_with_ballista().with_target_partitions(4);
    let tables = Tables::in_folder(path("tables"), &Device::host())?;
    let context = client_context(&format!("df://{scheduler}"), &tables, config).await?;
    context.register_parquet("orders", path("orders.parquet"), ParquetReadOptions::default()).await?;
    println!("{SQL}");
    Ok(context.sql(SQL).await?.show().await?)
}

/// A thousand customers in four shards, and ten thousand orders in a Parquet file.
async fn write(tables: &Path, orders: &str) -> datafusion::error::Result<()> {
    let ids = 0..1000_i64;
    let customers = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone())) as Arc<dyn Array>),
        ("name", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("customer {id}"))))),
    ])?;
    write_sharded(tables, "customers", &customers.schema(), &[customers], "id", 4)?;
    let numbers = 0..10_000_i64;
    let batch = RecordBatch::try_from_iter([
        ("customer", Arc::new(numbers.clone().map(|order| Some(order * order % 1009)).collect::<Int64Array>()) as _),
        ("amount", Arc::new(Int64Array::from_iter_values(numbers.map(|order| order % 97))) as Arc<dyn Array>),
    ])?;
    SessionContext::new().read_batch(batch)?.write_parquet(orders, DataFrameWriteOptions::new(), None).await?;
    Ok(())
}
