//! The device that is nothing but memory that the CPU can reach.

use crate::host_memory;
use crate::machine::{Machine, RawStream};
use crate::threads::threads;
use crate::{DeviceKind, Error, Properties, Result};
use lanetree_simt::{Call, Entry, LaunchShape};

/// The CPU, for the library's native paths: buffers, and no kernels.
pub(crate) struct Host;

impl Machine for Host {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Host
    }
    fn name(&self) -> String {
        "host".into()
    }
    fn label(&self) -> String {
        match threads() {
            1 => "1 thread".into(),
            threads => format!("{threads} threads"),
        }
    }
    fn properties(&self) -> Result<Properties> {
        Ok(Properties {
            name: "host",
            multiprocessors: threads() as u32,
            l2_bytes: 0,
            compute_capability: (0, 0),
            shared_bytes_per_block: 0,
            total_memory: host_memory::total(),
            driver_version: (0, 0),
        })
    }
    fn load(&self, entry: &'static Entry) -> Result<()> {
        Err(Error::NoKernels { kernel: entry.symbol() })
    }
    unsafe fn launch(&self, _: RawStream, call: Call<'_>, _: LaunchShape) -> Result<()> {
        let entry = call.entry();
        Err(Error::NoKernels { kernel: entry.symbol() })
    }
}
