//! Kernels, each compiled by the driver and loaded at its first launch on a device, or ahead of it, several at a time.
//! The driver compiles all that is in a text: a whole module would take seconds, most of them for kernels that the program never
//! launches. `cuModuleLoadDataEx` compiles one text at a time, whatever the threads, and lets no other thread launch meanwhile;
//! `cuLibraryLoadData`, of CUDA 12, does neither. Both find the same in the driver's cache on disk.

use super::Cuda;
use super::sys::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUfunction, CUmodule, Libraries};
use crate::driver_error::{Action, Load, PtxHeader};
use crate::machine_code::{self, MACHINE_CODE};
use crate::{Error, Result};
use core::ffi::c_void;
use core::ptr::null_mut;
use lanetree_simt::{Entry, Module};
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

/// Threads that load kernels ahead, at most: with eight, 30 kernels take little longer than the longest.
const MOST_THREADS: usize = 8;

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
    /// What stands for the program's modules.
    #[cfg(feature = "ptx-folder")]
    pub(super) ptx: Option<super::ptx_folder::PtxFolder>,
    /// Where there may be machine code.
    machine_code: Option<PathBuf>,
    /// By symbol. The path of every launch: a shared lock and one look-up.
    functions: RwLock<HashMap<&'static str, Arc<Function>>>,
    /// A lock for each kernel that is loaded, or is to be, by symbol. Held while it is loaded, so that two threads do not compile the
    /// same.
    begun: Mutex<HashMap<&'static str, Arc<Mutex<()>>>>,
    /// Machine code that is loaded, by module; `None` where there is none.
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
        Self {
            #[cfg(feature = "ptx-folder")]
            ptx: None,
            machine_code,
            functions: RwLock::default(),
            begun: Mutex::default(),
            loaded: Mutex::default(),
        }
    }

    /// The module that kernels are loaded from: the program's, or what stands for it; `None` if that is missing.
    fn module<'a>(&'a self, embedded: &'a Module) -> Option<&'a Module> {
        #[cfg(feature = "ptx-folder")]
        if let Some(folder) = &self.ptx {
            return folder.get(embedded);
        }
        Some(embedded)
    }
}

/// The lock, also where a thread has panicked that held it: what it guards is whole at every point.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuda {
    /// The kernel, loaded at the first call. The context is current.
    pub(super) fn function(&self, entry: &'static Entry) -> Result<Arc<Function>> {
        let functions = &self.modules.functions;
        let known = || functions.read().unwrap_or_else(PoisonError::into_inner).get(entry.symbol()).cloned();
        if let Some(known) = known() {
            return Ok(known);
        }
        let own = lock(&self.modules.begun).entry(entry.symbol()).or_default().clone();
        let _loading = lock(&own);
        // Another thread may have been first.
        if let Some(known) = known() {
            return Ok(known);
        }
        let raw = self.load_function(entry)?;
        let new = Arc::new(Function { raw, shared_limit: AtomicU32::new(SHARED_BY_DEFAULT), raising: Mutex::new(()) });
        functions.write().unwrap_or_else(PoisonError::into_inner).insert(entry.symbol(), new.clone());
        Ok(new)
    }

    /// Loads the kernels whose loading has not begun, in this order and several at a time. Errors are dropped: the
    /// launch, which loads the kernel again, reports them. No thread goes on after this: one that is in the driver's
    /// compiler when the process ends crashes it.
    pub(super) fn load_together(&self, entries: &[&'static Entry]) {
        // An older driver compiles one at a time, and perhaps some that no launch needs.
        if Libraries::get().is_none() {
            return;
        }
        let mut new = Vec::new();
        {
            let mut begun = lock(&self.modules.begun);
            for &entry in entries {
                if let Place::Vacant(place) = begun.entry(entry.symbol()) {
                    place.insert(Arc::default());
                    new.push(entry);
                }
            }
        }
        if new.is_empty() {
            return;
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(MOST_THREADS).min(new.len());
        if threads == 1 {
            // Launches are as fast, and load only what they need.
            return;
        }
        let next = AtomicUsize::new(0);
        let load = || {
            if self.enter().is_err() {
                return;
            }
            // Relaxed: a number only.
            while let Some(entry) = new.get(next.fetch_add(1, Ordering::Relaxed)) {
                let _ = self.function(entry);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without it, the others have more to do.
                let _ = thread::Builder::new().spawn_scoped(scope, load);
            }
            load();
        });
    }

    /// Loads a kernel: from machine code if there is some, else from its PTX.
    fn load_function(&self, entry: &'static Entry) -> Result<CUfunction> {
        let unknown = || Error::UnknownKernel { module: entry.module().name, kernel: entry.symbol() };
        let module = self.modules.module(entry.module()).ok_or_else(unknown)?;
        let symbol = CString::new(entry.symbol()).map_err(|_| unknown())?;
        let handle = match self.machine_code_of(module) {
            Some(Handle(handle)) => handle,
            None => {
                let text = module.kernel_text(entry.symbol()).ok_or_else(unknown)?.concat();
                if let Some(function) = self.load_library(&text, &symbol) {
                    return Ok(function);
                }
                // Also the way to an error that has the compiler's log.
                self.compile(module.name, &text)?
            }
        };
        let mut raw = null_mut();
        let not_found = || Action::Find { module: module.name, kernel: entry.symbol() };
        // SAFETY: the pointer is valid for the call, the module is loaded, the name is terminated.
        self.check(unsafe { self.driver.cuModuleGetFunction(&raw mut raw, handle, symbol.as_ptr()) }, not_found)?;
        Ok(raw)
    }

    /// Has the driver compile the PTX of a kernel and load it, at the same time as other threads. `None` if the driver is too old for
    /// that, and after an error. The context is current.
    fn load_library(&self, ptx: &str, symbol: &CStr) -> Option<CUfunction> {
        let libraries = Libraries::get()?;
        let text = terminated(ptx);
        let (mut library, mut kernel, mut function) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the pointers are valid for the calls, the text and the name are terminated, there are no options, and of the
        // library nothing is used once it is unloaded.
        unsafe {
            let image = text.as_ptr().cast();
            let (none, no_values) = (null_mut(), null_mut());
            if libraries.cuLibraryLoadData(&raw mut library, image, none, no_values, 0, none, no_values, 0) != 0 {
                return None;
            }
            if libraries.cuLibraryGetKernel(&raw mut kernel, library, symbol.as_ptr()) != 0
                || libraries.cuKernelGetFunction(&raw mut function, kernel) != 0
            {
                let _ = libraries.cuLibraryUnload(library);
                return None;
            }
        }
        Some(function)
    }

    /// The machine code of a module, loaded at the first call, if there is some.
    fn machine_code_of(&self, module: &Module) -> Option<Handle> {
        self.modules.machine_code.as_ref()?;
        *lock(&self.modules.loaded).entry(module.name).or_insert_with(|| self.load_machine_code(module))
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
        let text = terminated(ptx);
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

/// PTX as the driver reads it: up to a NUL. Text behind one in the middle would not be compiled: neither is it here.
fn terminated(ptx: &str) -> CString {
    CString::new(ptx.split('\0').next().unwrap_or("")).expect("the text up to a NUL has none")
}
