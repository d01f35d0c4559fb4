//! Launching a kernel.

use super::module::Function;
use super::sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use super::{Cuda, RawStream};
use crate::Result;
use crate::driver_error::Action;
use crate::machine::check_shape;
use core::ffi::c_int;
use core::ptr::null_mut;
use lanetree_simt::{Call, Entry, LaunchShape};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Cuda {
    /// # Safety
    /// As [`Machine::launch`](crate::machine::Machine::launch).
    pub(super) unsafe fn launch_kernel(&self, stream: RawStream, call: Call<'_>, shape: LaunchShape) -> Result<()> {
        let entry = call.entry();
        let shared = check_shape((self, self.properties.shared_bytes_per_block), entry, shape)?;
        self.enter()?;
        let function = self.function(entry)?;
        if shared > function.shared_limit.load(Ordering::Acquire) {
            self.raise_shared_limit(&function, entry, shared)?;
        }
        // The arguments are one parameter of the kernel, a struct passed by value: one pointer to it.
        let mut parameters = [call.args().cast_mut().cast()];
        // SAFETY: the function takes this one parameter, of the type that the call points to; the caller
        // vouches for the stream and for what the kernel does.
        let code = unsafe {
            self.driver.cuLaunchKernel(
                function.raw,
                shape.blocks,
                1,
                1,
                shape.threads,
                1,
                1,
                // All of it is dynamic: the kernel's own part lies in front.
                shared,
                stream.0.cast(),
                parameters.as_mut_ptr(),
                null_mut(),
            )
        };
        self.check(code, || {
            let LaunchShape { blocks, threads, .. } = shape;
            let symbol = entry.symbol();
            let shared = if shared == 0 { String::new() } else { format!(" and {shared} bytes of shared memory") };
            self.doing(&format!("launching {symbol} with {blocks} blocks of {threads} threads{shared} on"))
        })
    }

    /// Lets a kernel's blocks have `shared` bytes, which the device allows. Under a lock, and never down: a launch with more, of
    /// another thread, may be on its way.
    fn raise_shared_limit(&self, function: &Function, entry: &'static Entry, shared: u32) -> Result<()> {
        let _raising = function.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if shared <= function.shared_limit.load(Ordering::Acquire) {
            return Ok(());
        }
        let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded, and the value at most what the device allows.
        let code = unsafe { self.driver.cuFuncSetAttribute(function.raw, attribute, shared as c_int) };
        self.check(code, || {
            Action::Other(format!("asking for {shared} bytes of shared memory for {}", entry.symbol()))
        })?;
        function.shared_limit.store(shared, Ordering::Release);
        Ok(())
    }
}
