//! Indexes through rust-cuda's `cuda_std`, for its NVVM code generator; and the barrier as LLVM has it, for the
//! reason in [`super::collectives`].

use cuda_std::thread;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier0"]
    safe fn barrier0();
}

#[inline(always)]
pub(super) fn thread_index() -> u32 {
    thread::thread_idx_x()
}
#[inline(always)]
pub(super) fn block_dim() -> u32 {
    thread::block_dim_x()
}
#[inline(always)]
pub(super) fn block_index() -> u32 {
    thread::block_idx_x()
}
#[inline(always)]
pub(super) fn grid_dim() -> u32 {
    thread::grid_dim_x()
}
#[inline(always)]
pub(super) fn barrier() {
    barrier0();
}
