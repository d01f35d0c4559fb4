//! Look-ups in shards and in replicas: in one process, and in a scheduler and two executors.

mod lost;
mod processes;
mod shards;
