//! What can go wrong, with the values that went wrong and what to do.

use lanetree_simt::LaunchShape;
#[cfg(feature = "emulator")]
use lanetree_simt::emulator::Fault;

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = core::result::Result<T, E>;

crate::errors! {
    /// Why a device could not do what it was asked.
    #[non_exhaustive]
    #[derive(Debug)]
    pub enum Error {
        /// A GPU was asked for, and the program was built without the feature `cuda`.
        #[error("this program was built without CUDA: rebuild it with `--features cuda` to run on NVIDIA GPUs")]
        #[kind(NotCompiled)]
        CudaNotCompiled,

        /// There is no CUDA driver, or the library that was loaded as one does not work.
        #[error("no working CUDA driver: {reason}; install the NVIDIA driver, and check that `nvidia-smi` runs")]
        #[kind(NoGpu)]
        NoDriver {
            /// The message of the system's loader, or of the driver.
            reason: String,
            /// Whether a driver is installed, one that does not match the kernel's module or the card, say.
            is_installed: bool,
        },

        /// A folder with the kernels' PTX is not what its list of hashes says.
        #[error("the PTX in {}: {reason}; `cargo xtask ptx --out` writes such a folder", folder.display())]
        #[kind(Incompatible)]
        PtxFolder {
            /// The folder.
            folder: std::path::PathBuf,
            /// What is missing, or differs.
            reason: String,
        },

        /// The driver works but finds no GPU.
        #[error(
            "the CUDA driver finds no GPU{}; does `nvidia-smi` list one?",
            visible.as_deref().map(|v| format!(" (CUDA_VISIBLE_DEVICES is \"{v}\")")).unwrap_or_default()
        )]
        #[kind(NoGpu)]
        NoDevice {
            /// The value of the environment variable `CUDA_VISIBLE_DEVICES`, which hides GPUs.
            visible: Option<String>,
        },

        /// There are GPUs, but not this one.
        #[error("there is no cuda:{ordinal}: the driver lists {count} GPU{}, from cuda:0", if *count == 1 { "" } else { "s" })]
        #[kind(NoGpu)]
        NoSuchDevice {
            /// The GPU asked for.
            ordinal: u32,
            /// How many there are.
            count: u32,
        },

        /// The driver lacks functions that this crate calls, or cannot read the kernels' PTX.
        #[error("the driver supports CUDA {}, but this program needs {} or later: update the NVIDIA driver", dotted(*driver_version), dotted(*needed))]
        #[kind(Incompatible)]
        DriverTooOld {
            /// The CUDA version that the driver supports, major and minor.
            driver_version: (u32, u32),
            /// The oldest version that is enough.
            needed: (u32, u32),
        },

        /// The driver cannot read PTX of this version.
        #[error(
            "the driver (for CUDA {}) cannot read module {module}, which is PTX {}: update the NVIDIA driver, or rebuild the module for an older PTX with `cargo xtask ptx`",
            dotted(*driver_version), dotted(*ptx_version)
        )]
        #[kind(Incompatible)]
        PtxTooNew {
            /// The module.
            module: String,
            /// Its PTX version, major and minor.
            ptx_version: (u32, u32),
            /// The CUDA version that the driver supports, major and minor.
            driver_version: (u32, u32),
        },

        /// The GPU is older than the code was compiled for.
        #[error(
            "module {module} is compiled for {target}, but {device} has compute capability {}: use a newer GPU, or compile for an older target with `cargo xtask ptx`",
            dotted(*compute_capability)
        )]
        #[kind(Incompatible)]
        UnsupportedGpu {
            /// The module.
            module: String,
            /// Its `.target`: `sm_75`, say.
            target: String,
            /// The device.
            device: String,
            /// The device's compute capability, major and minor.
            compute_capability: (u32, u32),
        },

        /// The driver's compiler rejected a module.
        #[error(
            "the driver rejected the PTX of module {module} (for {target}): update the NVIDIA driver, or compile the kernels again with `cargo xtask ptx`; its log: {log}"
        )]
        #[kind(Incompatible)]
        InvalidPtx {
            /// The module.
            module: String,
            /// Its `.target`.
            target: String,
            /// What the driver's compiler wrote.
            log: String,
        },

        /// The module lacks the kernel.
        #[error(
            "PTX module \"{module}\" has no kernel {kernel}: it is older than the program; compile its crate again with `lanetree-ptx` (Lanetree's own: `cargo xtask ptx`)"
        )]
        #[kind(Incompatible)]
        UnknownKernel {
            /// The module.
            module: &'static str,
            /// The symbol looked for.
            kernel: &'static str,
        },

        /// An allocation failed.
        #[error("{device} has no room for {requested} bytes{}; free memory on it, or ask for less", room(*free, *total))]
        #[kind(OutOfMemory)]
        OutOfMemory {
            /// Bytes asked for.
            requested: u128,
            /// Bytes free at that time; 0 if unknown.
            free: u64,
            /// Bytes in all; 0 if unknown.
            total: u64,
            /// Whose memory.
            device: String,
        },

        /// Host memory could not be pinned for a device.
        #[error(
            "cannot page-lock {bytes} bytes of host memory for {device}: {reason}; raise the limit of locked memory (`ulimit -l`), free host memory, or go on without pinning: an index then copies through staging memory"
        )]
        #[kind(OutOfMemory)]
        CannotPin {
            /// Bytes that were to be pinned.
            bytes: usize,
            /// The device that was to read them.
            device: String,
            /// The driver's error.
            reason: String,
        },

        /// A kernel was to read an array in host memory that is not pinned for its device.
        #[error("an array of {bytes} bytes in host memory is not pinned for {device}: call `HostArray::pin` with it first")]
        #[kind(InvalidInput)]
        NotPinned {
            /// Bytes of the array.
            bytes: usize,
            /// The device of the kernel's stream.
            device: String,
        },

        /// A pool's limit leaves no room for an allocation.
        #[error(
            "a pool of {device} with a limit of {limit} bytes has no room for {requested} bytes{}: {in_use} are in use; drop buffers, or raise the limit",
            if block == requested { String::new() } else { format!(" ({block} when rounded up to a block)") }
        )]
        #[kind(OutOfMemory)]
        PoolLimit {
            /// Bytes asked for.
            requested: usize,
            /// These, rounded up to a block: the pool has tried both.
            block: usize,
            /// Bytes of the pool that are in use, rounding included.
            in_use: usize,
            /// The pool's limit.
            limit: usize,
            /// Whose memory.
            device: String,
        },

        /// Two lengths that must be equal are not.
        #[error("{action}: needs {}, got {actual}", elements(*expected))]
        #[kind(InvalidInput)]
        LengthMismatch {
            /// What was to be done.
            action: &'static str,
            /// The length needed, in elements.
            expected: usize,
            /// The length given, in elements.
            actual: usize,
        },

        /// A range of elements is not inside its buffer.
        #[error("{action}: elements {start}..{} are not inside a buffer of {}", start.saturating_add(*len), elements(*buffer_len))]
        #[kind(InvalidInput)]
        OutOfRange {
            /// What was to be done.
            action: &'static str,
            /// First element.
            start: usize,
            /// Elements.
            len: usize,
            /// Elements of the buffer.
            buffer_len: usize,
        },

        /// A buffer, stream or event belongs to another device than the one it is used with.
        #[error("{action}: the devices differ, {expected} and {actual}; use one device for both")]
        #[kind(InvalidInput)]
        WrongDevice {
            /// What was to be done.
            action: &'static str,
            /// The device of the object called.
            expected: String,
            /// The device of its argument.
            actual: String,
        },

        /// Something that only GPUs have was asked of another device.
        #[error("{action}: {device} is no NVIDIA GPU; use a device of Device::cuda()")]
        #[kind(Unsupported)]
        NotAGpu {
            /// What was to be done.
            action: &'static str,
            /// The device.
            device: String,
        },

        /// Memory does not begin where it must, to be a buffer or for what was to be done with it.
        #[error("the memory at {address:#x} is not aligned: it does not begin at a multiple of {needed} bytes")]
        #[kind(InvalidInput)]
        Misaligned {
            /// Where it begins.
            address: usize,
            /// What the address must be a multiple of.
            needed: usize,
        },

        /// A buffer's memory was to be given away, and cannot be.
        #[error("the memory of a buffer of {device} cannot be given away: {reason}")]
        #[kind(InvalidInput)]
        NotOwned {
            /// Whose memory.
            device: String,
            /// Why, and what to do.
            reason: &'static str,
        },

        /// An event was used before it was recorded.
        #[error("{action}: the event has not been recorded; call `record` first")]
        #[kind(WrongState)]
        NotRecorded {
            /// What was to be done.
            action: &'static str,
        },

        /// A kernel was launched on the host device, which runs none.
        #[error(
            "the host device runs no kernels, and cannot launch {kernel}: use the native CPU path, or Device::emulated()"
        )]
        #[kind(Unsupported)]
        NoKernels {
            /// The kernel.
            kernel: &'static str,
        },

        /// The device cannot run a launch of this shape.
        #[error("launching {kernel} with {} blocks of {} threads: {reason}", shape.blocks, shape.threads)]
        #[kind(Unsupported)]
        Launch {
            /// The kernel.
            kernel: &'static str,
            /// The shape.
            shape: LaunchShape,
            /// What is wrong with it.
            reason: String,
        },


        /// Work in a stream, or by the CPU, uses a buffer that another stream's work also uses, and nothing orders the one
        /// after the other. Only the emulator detects this; elsewhere the result is undefined.
        #[error(
            "{what} would race with another stream's work over the buffer of {bytes} bytes at {address:#x}: take the buffer's address by `read_on` or `write_on` with the stream of the launch"
        )]
        #[kind(WrongState)]
        Unordered {
            /// The kernel's symbol, or a description of other work.
            what: String,
            /// The buffer's size.
            bytes: usize,
            /// Its address.
            address: usize,
        },

        /// A failure that a test has injected: [`Device::inject`](crate::Device::inject).
        #[error("{what} has failed, as a test asked for")]
        #[kind(DeviceFailed)]
        Injected {
            /// The kernel or the operation that was to fail.
            what: &'static str,
        },

        /// The CUDA driver reported any other error.
        #[error("{action}: {name} ({code}), {message}{}", advice(*code))]
        #[kind(DeviceFailed)]
        Cuda {
            /// What was being done.
            action: String,
            /// The driver's code, a `CUresult`.
            code: i32,
            /// Its name.
            name: String,
            /// The driver's message.
            message: String,
        },
    }
    transparent {
        /// The emulator stopped a kernel that broke a rule.
        #[cfg(feature = "emulator")]
        #[kind(|_| ErrorKind::DeviceFailed)]
        Emulator(Fault),
    }
}

/// What kind of error it is, for a program that does something about it. The errors themselves say what was wrong, with its values.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An argument is not possible, or does not fit the others. The message names it, and its value.
    InvalidInput,
    /// More pairs, queries or operations than one index or one call takes: several do.
    TooLarge,
    /// A device, main memory or a pool has no room: free some, or ask for less at a time.
    OutOfMemory,
    /// The index, the device or the file does not have this call.
    Unsupported,
    /// The program was built without it: a feature of the crate turns it on.
    NotCompiled,
    /// There is no GPU, or no driver: `Device::host()` is always there.
    NoGpu,
    /// The driver, the GPU or the kernels' PTX is too old for the others, or is not what it should be.
    Incompatible,
    /// A call that must come first has not been made; or two calls need an order, and have none.
    WrongState,
    /// A sum that 64 bits do not hold.
    Overflow,
    /// The device, or its driver, has failed. The index is as it was.
    DeviceFailed,
    /// The device has failed while it changed the index, which is lost: build it again.
    Lost,
    /// A file could not be read or written, or is damaged.
    File,
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// "1 element", "2 elements".
fn elements(count: usize) -> String {
    format!("{count} element{}", if count == 1 { "" } else { "s" })
}

fn room(free: u64, total: u64) -> String {
    if total == 0 { String::new() } else { format!(": {free} of its {total} bytes are free") }
}

impl Error {
    /// Whether it is of a GPU, or of a driver, that is there but cannot be used: more than a machine without one.
    pub(crate) fn is_of_a_gpu(&self) -> bool {
        match self {
            Self::CudaNotCompiled | Self::NoDevice { .. } | Self::NoSuchDevice { .. } => false,
            Self::NoDriver { is_installed, .. } => *is_installed,
            _ => true,
        }
    }
}

/// Whether the driver has lost the context: every later call in the process returns the same code.
pub(crate) fn loses_context(code: i32) -> bool {
    matches!(code, 214 | 220 | 700 | 702 | 710 | 714..=719)
}

/// What to do about a driver error, if its name does not say it.
fn advice(code: i32) -> &'static str {
    match code {
        46 => "; another process has the GPU to itself (nvidia-smi -c sets the compute mode)",
        221 => "; the driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed",
        _ if loses_context(code) => {
            "; this or an earlier kernel failed, and the process can no longer use the GPU: run it under compute-sanitizer, or on Device::emulated(), to find the access"
        }
        701 => "; try fewer threads per block, or less shared memory",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_values() {
        let cases = [
            (Error::NoSuchDevice { ordinal: 3, count: 1 }, "there is no cuda:3: the driver lists 1 GPU, from cuda:0"),
            (
                Error::OutOfMemory { requested: 1 << 70, free: 5, total: 9, device: "X (cuda:0)".into() },
                "X (cuda:0) has no room for 1180591620717411303424 bytes: 5 of its 9 bytes are free; free memory on it, or ask for less",
            ),
            (
                Error::OutOfMemory { requested: 1, free: 0, total: 0, device: "host (1 thread)".into() },
                "host (1 thread) has no room for 1 bytes; free memory on it, or ask for less",
            ),
            (
                Error::NoDevice { visible: Some("-1".into()) },
                "the CUDA driver finds no GPU (CUDA_VISIBLE_DEVICES is \"-1\"); does `nvidia-smi` list one?",
            ),
            (
                Error::PoolLimit { requested: 9, block: 512, in_use: 7, limit: 12, device: "X (cuda:0)".into() },
                "a pool of X (cuda:0) with a limit of 12 bytes has no room for 9 bytes (512 when rounded up to a block): 7 are in use; drop buffers, or raise the limit",
            ),
            (
                Error::CannotPin { bytes: 9, device: "X (cuda:0)".into(), reason: "words".into() },
                "cannot page-lock 9 bytes of host memory for X (cuda:0): words; raise the limit of locked memory (`ulimit -l`), free host memory, or go on without pinning: an index then copies through staging memory",
            ),
            (
                Error::NotPinned { bytes: 9, device: "X (cuda:0)".into() },
                "an array of 9 bytes in host memory is not pinned for X (cuda:0): call `HostArray::pin` with it first",
            ),
            (
                Error::LengthMismatch { action: "copying to a buffer", expected: 3, actual: 2 },
                "copying to a buffer: needs 3 elements, got 2",
            ),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn an_error_is_small_enough_to_return() {
        assert!(size_of::<Error>() <= 128, "{} bytes", size_of::<Error>());
    }
}
