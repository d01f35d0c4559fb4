//! An executor that is lost while it sends a partition.

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, Result as Reply, SchemaAsIpc, SchemaResult, Ticket,
};
use ballista_core::config::{
    BALLISTA_CLIENT_IO_RETRIES_TIMES, BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS, BALLISTA_SHUFFLE_READER_FORCE_REMOTE_READ,
};
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::ShuffleReaderExec;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::{FailedTask, failed_task::FailedReason};
use ballista_core::serde::scheduler::{
    ExecutorMetadata, ExecutorOperatingSystemSpecification, ExecutorSpecification, PartitionId, PartitionLocation,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::ipc::writer::IpcWriteOptions;
use datafusion::physical_plan::{Partitioning, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use lanetree::Device;
use lanetree_ballista::{Tables, session_state};
use lanetree_datafusion::Costs;
use std::sync::Arc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

type Replies<T> = Result<Response<BoxStream<'static, Result<T, Status>>>, Status>;

/// What the lost partition would have.
fn schema() -> Schema {
    Schema::new(vec![Field::new("k", DataType::Int64, false)])
}

/// An executor whose connection is lost when it has sent this many messages of a partition.
struct Lost(usize);

impl Lost {
    fn replies<T: Send + 'static>(&self, message: T) -> Replies<T> {
        let sent = (self.0 > 0).then_some(Ok(message));
        Ok(Response::new(stream::iter(sent.into_iter().chain([Err(Status::unknown("broken pipe"))])).boxed()))
    }
}

#[tonic::async_trait]
impl FlightService for Lost {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<Reply, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn do_get(&self, _: Request<Ticket>) -> Replies<FlightData> {
        self.replies(SchemaAsIpc::new(&schema(), &IpcWriteOptions::default()).into())
    }

    async fn do_action(&self, _: Request<Action>) -> Replies<Reply> {
        self.replies(Reply { body: vec![0xff; 4].into() })
    }

    async fn handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> Replies<HandshakeResponse> {
        Ok(Response::new(stream::empty().boxed()))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Replies<FlightInfo> {
        Err(Status::unimplemented("list_flights"))
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(Status::unimplemented("get_flight_info"))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("poll_flight_info"))
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(Status::unimplemented("get_schema"))
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Replies<PutResult> {
        Err(Status::unimplemented("do_put"))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Replies<FlightData> {
        Err(Status::unimplemented("do_exchange"))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Replies<ActionType> {
        Err(Status::unimplemented("list_actions"))
    }
}

/// A partition that an executor at a port has.
fn partition_at(port: u16) -> PartitionLocation {
    PartitionLocation {
        map_partition_id: 0,
        partition_id: PartitionId { job_id: "job".into(), stage_id: 1, partition_id: 0 },
        executor_meta: ExecutorMetadata {
            id: "lost".to_owned(),
            host: "127.0.0.1".to_owned(),
            port,
            grpc_port: port,
            specification: ExecutorSpecification::default().with_vcores(1),
            os_info: ExecutorOperatingSystemSpecification::default(),
        },
        partition_stats: Default::default(),
        file_id: None,
        is_sort_shuffle: false,
    }
}

/// Ballista makes a partition again if a task says that it could not be fetched, and from whom. Other errors of a task end the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_executor_is_lost_while_it_is_sent_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let tables = Tables::in_folder(folder.path(), &Device::host()).unwrap();
    let config = SessionConfig::new_with_ballista()
        .set_usize(BALLISTA_CLIENT_IO_RETRIES_TIMES, 1)
        .set_usize(BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS, 0)
        .set_bool(BALLISTA_SHUFFLE_READER_FORCE_REMOTE_READ, true);
    let context = SessionContext::new_with_state(session_state(config, &tables, Costs::ALWAYS).unwrap());
    for sent in [0, 1] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server::builder().add_service(FlightServiceServer::new(Lost(sent)));
        let server = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let (partition, schema) = (partition_at(port), Arc::new(schema()));
        let reader = ShuffleReaderExec::try_new(1, vec![vec![partition]], schema, Partitioning::UnknownPartitioning(1));
        let reader = reader.unwrap().with_work_dir(folder.path().to_str().unwrap().to_owned());
        let error = collect(Arc::new(reader), context.task_ctx()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("broken pipe"), "{sent} messages were sent: {text}");
        match FailedTask::from(BallistaError::from(error)).failed_reason {
            Some(FailedReason::FetchPartitionError(lost)) => {
                assert_eq!((&lost.executor_id[..], lost.map_stage_id), ("lost", 1))
            }
            other => panic!("{sent} messages were sent: {other:?}: {text}"),
        }
        server.abort();
    }
}
