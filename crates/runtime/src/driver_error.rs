//! From the driver's error codes to [`Error`]: a pure function, so that machines without a GPU test it.

use crate::Error;
use crate::error::loses_context;

/// What was being done when the driver returned an error: each kind of action has its own errors.
pub(crate) enum Action {
    /// Starting the driver, which finds the GPUs.
    Start {
        /// The value of `CUDA_VISIBLE_DEVICES`.
        visible: Option<String>,
    },
    /// Allocating memory.
    Allocate { requested: u128, free: u64, total: u64, device: String },
    /// Page-locking host memory.
    Pin { bytes: usize, device: String },
    /// Compiling and loading PTX.
    Load(Load),
    /// Looking for a kernel in a loaded module.
    Find { module: &'static str, kernel: &'static str },
    /// Anything else, in words.
    Other(String),
}

/// A module and the device it was to be loaded on.
pub(crate) struct Load {
    pub(crate) module: &'static str,
    pub(crate) header: PtxHeader,
    pub(crate) device: String,
    pub(crate) compute_capability: (u32, u32),
    pub(crate) driver_version: (u32, u32),
    /// What the driver's compiler wrote.
    pub(crate) log: String,
}

/// The error for a driver's code, its name and its message.
pub(crate) fn classify(code: i32, name: String, message: String, action: Action) -> Error {
    let cuda = |action| Error::Cuda { action, code, name: name.clone(), message: message.clone() };
    match action {
        Action::Start { visible } => match code {
            // NO_DEVICE
            100 => Error::NoDevice { visible },
            // STUB_LIBRARY, SYSTEM_DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED_ON_DEVICE
            34 | 803 | 804 => {
                // The stub library, which comes with the toolkit, is no driver.
                Error::NoDriver { reason: format!("{name} ({code}), {message}"), is_installed: code != 34 }
            }
            _ => cuda("starting the CUDA driver".into()),
        },
        Action::Allocate { requested, free, total, device } => match code {
            // OUT_OF_MEMORY
            2 => Error::OutOfMemory { requested, free, total, device },
            _ => cuda(format!("allocating {requested} bytes on {device}")),
        },
        // Whatever the code says, the memory is not pinned, and the program can go on without; unless it can use the GPU no
        // more.
        Action::Pin { bytes, device } if loses_context(code) => {
            cuda(format!("page-locking {bytes} bytes of host memory for {device}"))
        }
        Action::Pin { bytes, device } => {
            Error::CannotPin { bytes, device, reason: format!("{name} ({code}), {message}") }
        }
        Action::Load(load) => {
            let module = load.module.to_owned();
            let Load { header, device, compute_capability, driver_version, log, .. } = load;
            let too_old = header.architecture() > compute_capability.0 * 10 + compute_capability.1;
            match code {
                // UNSUPPORTED_PTX_VERSION
                222 => Error::PtxTooNew { module, ptx_version: header.version, driver_version },
                // NO_BINARY_FOR_GPU, or INVALID_IMAGE and INVALID_PTX from a compiler that does not know the
                // target's name
                209 => Error::UnsupportedGpu { module, target: header.target, device, compute_capability },
                200 | 218 if too_old => {
                    Error::UnsupportedGpu { module, target: header.target, device, compute_capability }
                }
                200 | 218 => {
                    let log = if log.is_empty() { "(empty)".into() } else { log };
                    Error::InvalidPtx { module, target: header.target, log }
                }
                _ => cuda(format!("loading module {module} on {device}")),
            }
        }
        Action::Find { module, kernel } => match code {
            // NOT_FOUND
            500 => Error::UnknownKernel { module, kernel },
            _ => cuda(format!("looking for kernel {kernel} in module {module}")),
        },
        Action::Other(action) => cuda(action),
    }
}

/// The directives at the head of a PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PtxHeader {
    /// `.version`, major and minor; zeros if there is none.
    pub(crate) version: (u32, u32),
    /// The architecture of `.target`; empty if there is none.
    pub(crate) target: String,
}

impl PtxHeader {
    pub(crate) fn parse(ptx: &str) -> Self {
        let directive = |name: &str| ptx.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or("").trim();
        let version = directive(".version").split_once('.').and_then(|(major, minor)| {
            let minor = minor.split(|c: char| !c.is_ascii_digit()).next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let target = directive(".target").split(',').next().unwrap_or("").trim().to_owned();
        Self { version: version.unwrap_or((0, 0)), target }
    }

    /// The number in the target's name: 90 of `sm_90a`; 0 if there is none.
    fn architecture(&self) -> u32 {
        let digits = self.target.trim_start_matches("sm_").trim_end_matches(|c: char| !c.is_ascii_digit());
        digits.parse().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32, action: Action) -> Error {
        classify(code, "CUDA_ERROR_X".into(), "words".into(), action)
    }

    fn load(target: &str) -> Action {
        Action::Load(Load {
            module: "harmonia",
            header: PtxHeader { version: (8, 7), target: target.into() },
            device: "NVIDIA T4 (cuda:0)".into(),
            compute_capability: (7, 5),
            driver_version: (12, 2),
            log: "line 3: syntax".into(),
        })
    }

    #[test]
    fn the_header_of_a_module_is_read() {
        let ptx =
            "//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version 8.0\n.target sm_90a, debug\n.address_size 64\n";
        let header = PtxHeader::parse(ptx);
        assert_eq!(header, PtxHeader { version: (8, 0), target: "sm_90a".into() });
        assert_eq!(header.architecture(), 90);
        assert_eq!(PtxHeader::parse(".version 8.7 // x\n.target sm_120").architecture(), 120);
        assert_eq!(PtxHeader::parse(".version 8.7 // x").version, (8, 7));
        assert_eq!(PtxHeader::parse("").version, (0, 0));
        assert_eq!(PtxHeader::parse("").architecture(), 0);
    }

    #[test]
    fn starting_tells_no_driver_from_no_gpu() {
        let start = || Action::Start { visible: None };
        assert!(matches!(error(100, start()), Error::NoDevice { visible: None }));
        for code in [34, 803, 804] {
            let error = error(code, start());
            assert!(matches!(error, Error::NoDriver { is_installed, .. } if is_installed == (code != 34)), "{code}");
        }
        assert!(matches!(error(999, start()), Error::Cuda { code: 999, .. }));
    }

    #[test]
    fn loading_says_what_is_too_old() {
        let message = error(222, load("sm_75")).to_string();
        assert!(
            message.contains("CUDA 12.2") && message.contains("PTX 8.7") && message.contains("harmonia"),
            "{message}"
        );
        for code in [200, 209, 218] {
            let message = error(code, load("sm_90")).to_string();
            assert!(message.contains("sm_90") && message.contains("T4") && message.contains("7.5"), "{message}");
        }
        let message = error(218, load("sm_75")).to_string();
        assert!(message.contains("line 3: syntax"), "{message}");
        let message = error(221, load("sm_75")).to_string();
        assert!(message.contains("loading module harmonia on NVIDIA T4 (cuda:0)"), "{message}");
    }

    #[test]
    fn memory_and_kernels_that_are_not_there() {
        let allocate = || Action::Allocate { requested: 1024, free: 1, total: 2, device: "cuda:0".into() };
        assert!(matches!(error(2, allocate()), Error::OutOfMemory { requested: 1024, free: 1, total: 2, .. }));
        assert!(
            error(700, allocate())
                .to_string()
                .starts_with("allocating 1024 bytes on cuda:0: CUDA_ERROR_X (700), words;")
        );
        let find = || Action::Find { module: "m", kernel: "m__k" };
        assert!(matches!(error(500, find()), Error::UnknownKernel { module: "m", kernel: "m__k" }));
        assert!(matches!(error(201, find()), Error::Cuda { code: 201, .. }));
    }

    #[test]
    fn memory_that_cannot_be_pinned_is_told_from_a_context_that_is_lost() {
        let pin = || Action::Pin { bytes: 4096, device: "X (cuda:0)".into() };
        for code in [1, 2, 304, 712, 800, 801] {
            let error = error(code, pin());
            assert!(matches!(error, Error::CannotPin { bytes: 4096, .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(&format!("X (cuda:0): CUDA_ERROR_X ({code}), words; raise")), "{message}");
        }
        let message = error(700, pin()).to_string();
        assert!(
            message.starts_with("page-locking 4096 bytes of host memory for X (cuda:0): CUDA_ERROR_X"),
            "{message}"
        );
    }

    #[test]
    fn any_other_error_names_the_action() {
        let message = error(400, Action::Other("recording an event on cuda:1".into())).to_string();
        assert_eq!(message, "recording an event on cuda:1: CUDA_ERROR_X (400), words");
    }
}
