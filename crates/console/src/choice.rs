//! The device that a run is asked to be on.

use lanetree_runtime::{Device, DeviceKind};
use std::path::Path;

/// The value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// A GPU if there is one; otherwise the program decides.
    Auto,
    /// The first GPU.
    Cuda,
    /// Native code on the CPU.
    Host,
    /// The kernels on the CPU.
    Emulated,
}

/// What there is of it.
pub enum Chosen {
    /// The device, opened.
    Device(Device),
    /// A GPU was looked for, and this is why there is none.
    NoGpu(String),
}

impl Choice {
    /// Opens the device; of several GPUs, the first one.
    ///
    /// # Errors
    /// The driver's, for a GPU that was asked for and cannot be had.
    pub fn open(self) -> lanetree_runtime::Result<Chosen> {
        self.open_with(None)
    }

    /// [`Choice::open`]; a GPU with the kernels' PTX of a folder, if one is named.
    ///
    /// # Errors
    /// As of [`Choice::open`], and for a folder that cannot be taken.
    pub fn open_with(self, ptx: Option<&Path>) -> lanetree_runtime::Result<Chosen> {
        if let Some(folder) = ptx {
            // SAFETY: the user who names the folder wants to know what its kernels do.
            return unsafe { Device::cuda_with_ptx(0, folder) }.map(Chosen::Device);
        }
        Ok(match self {
            Self::Cuda => Chosen::Device(Device::cuda(0)?),
            Self::Host => Chosen::Device(Device::host()),
            Self::Emulated => Chosen::Device(Device::emulated()),
            Self::Auto => match Device::cuda(0) {
                Ok(device) => Chosen::Device(device),
                Err(error) => Chosen::NoGpu(error.to_string()),
            },
        })
    }
}

/// What `--device` calls a kind of device.
pub fn name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cuda => "cuda",
        DeviceKind::Host => "host",
        DeviceKind::Emulated => "emulated",
    }
}
