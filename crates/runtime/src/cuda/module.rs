//! Kernels, each compiled by the driver and loaded at its first launch on a device. The driver compiles one text at a time,
//! and all that is in it: a whole module would take seconds, most of them for kernels that the program never launches.

use super::Cuda;
use super::sys::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUfunction, CUmodule};
use crate::driver_error::{Action, Load, PtxHeader};
use crate::machine_code::{self, MACHINE_CODE};
use crate::{Error, Result};
use core::ffi::c_void;
use core::ptr::null_mut;
use lanetree_simt::{Entry, Module};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Shared memory, in bytes, that a block may have without asking for more.
const SHARED_BY_DEFAULT: u32 = 48 * 1024;

/// A kernel on a device.
pub(super) struct Function {
    pub(super) raw: CUfunction,
    /// Bytes of dynamic shared memory that its launches may have; only ever raised.
    pub(super) shared_limit: AtomicU32,
    /// Held while the limit is raised.
    pub(super) raising: Mutex<()>,
}

// SAFETY: the driver's functions may be launched from any thread; they live as long as their module,
// which is never unloaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// What has been loaded on a device.
pub(super) struct Modules {
    /// Where there may be machine code.
    machine_code: Option<PathBuf>,
    /// By symbol. The path of every launch: a shared lock and one look-up.
    functions: RwLock<HashMap<&'static str, Arc<Function>>>,
    /// Machine code that is loaded, by module; `None` where there is none. Locked while a kernel is compiled, so that two
    /// threads do not compile the same.
    loaded: Mutex<HashMap<&'static str, Option<Handle>>>,
}

#[derive(Clone, Copy)]
struct Handle(CUmodule);

// SAFETY: a handle, only a number outside the driver, which may be called from any thread.
unsafe impl Send for Handle {}

impl Modules {
    /// Nothing is loaded yet.
    pub(super) fn new() -> Self {
        let machine_code = std::env::var_os(MACHINE_CODE).map(PathBuf::from);
        Self { machine_code, functions: RwLock::default(), loaded: Mutex::default() }
    }
}

impl Cuda {
    /// The kernel, loaded at the first call. The context is current.
    pub(super) fn function(&self, entry: &'static Entry) -> Result<Arc<Function>> {
        let functions = &self.modules.functions;
        let known = || functions.read().unwrap_or_else(PoisonError::into_inner).get(entry.symbol()).cloned();
        if let Some(known) = known() {
            return Ok(known);
        }
        let mut loaded = self.modules.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first.
        if let Some(known) = known() {
            return Ok(known);
        }
        let unknown = || Error::UnknownKernel { module: entry.module().name, kernel: entry.symbol() };
        let symbol = CString::new(entry.symbol()).map_err(|_| unknown())?;
        let module = entry.module();
        let Handle(module) = match *loaded.entry(module.name).or_insert_with(|| self.load_machine_code(module)) {
            Some(handle) => handle,
            None => {
                let text = module.kernel_text(entry.symbol()).ok_or_else(unknown)?;
                Handle(self.compile(module.name, &text.concat())?)
            }
        };
        let not_found = || Action::Find { module: entry.module().name, kernel: entry.symbol() };
        let mut raw = null_mut();
        // SAFETY: the pointer is valid for the call, the module is loaded, the name is terminated.
        self.check(unsafe { self.driver.cuModuleGetFunction(&raw mut raw, module, symbol.as_ptr()) }, not_found)?;
        let new = Arc::new(Function { raw, shared_limit: AtomicU32::new(SHARED_BY_DEFAULT), raising: Mutex::new(()) });
        let mut functions = functions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(functions.entry(entry.symbol()).or_insert(new).clone())
    }

    /// The machine code of a module, if there is a file that the driver takes.
    fn load_machine_code(&self, module: &Module) -> Option<Handle> {
        let folder = self.modules.machine_code.as_ref()?;
        let code = machine_code::find(folder, module, self.properties.compute_capability)?;
        let mut handle = null_mut();
        // SAFETY: the image is whole, as its header says how long it is; there are no options. An image that is damaged is refused.
        let loaded =
            unsafe { self.driver.cuModuleLoadDataEx(&raw mut handle, code.as_ptr().cast(), 0, null_mut(), null_mut()) };
        (loaded == 0).then_some(Handle(handle))
    }

    /// Loads PTX that is not part of the program.
    #[cfg(test)]
    pub(super) fn load_text(&self, name: &'static str, ptx: &str) -> Result<()> {
        self.enter()?;
        self.compile(name, ptx).map(drop)
    }

    /// Has the driver compile PTX for this GPU and load it.
    fn compile(&self, module: &'static str, ptx: &str) -> Result<CUmodule> {
        // The driver reads up to a NUL. Text behind one in the middle would not be compiled: neither is it
        // here.
        let text = CString::new(ptx.split('\0').next().unwrap_or("")).expect("the text up to a NUL has none");
        let mut log = vec![0_u8; 16 << 10];
        let mut names = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The second value is the size itself, in the bits of a pointer.
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
        let mut handle = null_mut();
        // SAFETY: the text is terminated; names and values are two each, and the log has the size given.
        let code = unsafe {
            self.driver.cuModuleLoadDataEx(
                &raw mut handle,
                text.as_ptr().cast(),
                names.len() as u32,
                names.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check(code, || {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Action::Load(Load {
                module,
                header: PtxHeader::parse(ptx),
                device: format!("{} ({})", self.properties.name, self.label),
                compute_capability: self.properties.compute_capability,
                driver_version: self.properties.driver_version,
                log: String::from_utf8_lossy(&log[..end]).trim().to_owned(),
            })
        })?;
        Ok(handle)
    }
}
