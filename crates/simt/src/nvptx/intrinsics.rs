//! Indexes and the barrier through `core::arch`, for rustc's own code generator.

use core::arch::nvptx;

#[inline(always)]
pub(super) fn thread_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_thread_idx_x() as u32 }
}
#[inline(always)]
pub(super) fn block_dim() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_dim_x() as u32 }
}
#[inline(always)]
pub(super) fn block_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_x() as u32 }
}
#[inline(always)]
pub(super) fn grid_dim() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_grid_dim_x() as u32 }
}
#[inline(always)]
pub(super) fn barrier() {
    // SAFETY: a block collective, as the trait documents.
    unsafe { nvptx::_syncthreads() }
}
