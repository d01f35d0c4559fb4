//! PTX modules and the kernels in them, each loaded once per device.

use super::Cuda;
use super::sys::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUfunction, CUmodule};
use crate::driver_error::{Action, Load, PtxHeader};
use crate::{Error, Result};
use core::ffi::c_void;
use core::ptr::null_mut;
use lanetree_simt::Entry;
use std::collections::HashMap;
use std::ffi::CString;
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
#[derive(Default)]
pub(super) struct Modules {
    /// By symbol. The path of every launch: a shared lock and one look-up.
    functions: RwLock<HashMap<&'static str, Arc<Function>>>,
    /// By name. Locked while a module is compiled, so that two threads do not compile the same.
    loaded: Mutex<HashMap<&'static str, Handle>>,
}

#[derive(Clone, Copy)]
struct Handle(CUmodule);

// SAFETY: a handle, only a number outside the driver, which may be called from any thread.
unsafe impl Send for Handle {}

impl Cuda {
    /// The kernel, loaded at the first call. The context is current.
    pub(super) fn function(&self, entry: &'static Entry) -> Result<Arc<Function>> {
        let functions = &self.modules.functions;
        if let Some(known) = functions.read().unwrap_or_else(PoisonError::into_inner).get(entry.symbol()) {
            return Ok(known.clone());
        }
        let module = self.module(entry)?;
        let not_found = || Action::Find { module: entry.module().name, kernel: entry.symbol() };
        let Ok(symbol) = CString::new(entry.symbol()) else {
            return Err(Error::UnknownKernel { module: entry.module().name, kernel: entry.symbol() });
        };
        let mut raw = null_mut();
        // SAFETY: the pointer is valid for the call, the module is loaded, the name is terminated.
        self.check(unsafe { self.driver.cuModuleGetFunction(&raw mut raw, module.0, symbol.as_ptr()) }, not_found)?;
        let new = Function { raw, shared_limit: AtomicU32::new(SHARED_BY_DEFAULT), raising: Mutex::new(()) };
        let mut functions = functions.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first; its limit is the one that counts.
        Ok(functions.entry(entry.symbol()).or_insert_with(|| Arc::new(new)).clone())
    }

    fn module(&self, entry: &'static Entry) -> Result<Handle> {
        let mut loaded = self.modules.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let module = entry.module();
        if let Some(&known) = loaded.get(module.name) {
            return Ok(known);
        }
        let handle = self.compile(module.name, module.ptx)?;
        loaded.insert(module.name, handle);
        Ok(handle)
    }

    /// Loads PTX that is not part of the program under a name.
    #[cfg(test)]
    pub(super) fn load_text(&self, name: &'static str, ptx: &str) -> Result<()> {
        self.enter()?;
        let handle = self.compile(name, ptx)?;
        self.modules.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name, handle);
        Ok(())
    }

    /// Has the driver compile PTX for this GPU and load it.
    fn compile(&self, module: &'static str, ptx: &str) -> Result<Handle> {
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
        Ok(Handle(handle))
    }
}
