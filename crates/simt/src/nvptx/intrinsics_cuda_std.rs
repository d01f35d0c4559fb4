//! Indexes and collectives through rust-cuda's `cuda_std`, for its NVVM code generator.
//!
//! Its ballot is inline assembly that LLVM may copy into branches: kernels call collectives in
//! uniform control flow only, where that changes nothing.

use cuda_std::{thread, warp};

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
pub(super) fn ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_vote_ballot(mask, predicate) }
}
#[inline(always)]
pub(super) fn any(mask: u32, predicate: bool) -> bool {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_vote_any(mask, predicate) }
}
#[inline(always)]
pub(super) fn all(mask: u32, predicate: bool) -> bool {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_vote_all(mask, predicate) }
}
#[inline(always)]
pub(super) fn shuffle(mask: u32, value: u32, source: u32) -> u32 {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_shuffle_idx(mask, value, source, 32) }.0
}
#[inline(always)]
pub(super) fn shuffle_xor(mask: u32, value: u32, lanes: u32) -> u32 {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_shuffle_xor(mask, value, lanes, 32) }.0
}
#[inline(always)]
pub(super) fn shuffle_up(mask: u32, value: u32, delta: u32) -> u32 {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_shuffle_up(mask, value, delta, 32) }.0
}
#[inline(always)]
pub(super) fn shuffle_down(mask: u32, value: u32, delta: u32) -> u32 {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_shuffle_down(mask, value, delta, 32) }.0
}
#[inline(always)]
pub(super) fn match_any_u32(mask: u32, value: u32) -> u32 {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::warp_match_any(mask, value) }
}
#[inline(always)]
pub(super) fn match_any_u64(mask: u32, value: u64) -> u32 {
    // Words are equal where both halves are.
    match_any_u32(mask, value as u32) & match_any_u32(mask, (value >> 32) as u32)
}
#[inline(always)]
pub(super) fn sync_warp(mask: u32) {
    // SAFETY: a warp collective, as the trait documents.
    unsafe { warp::sync_warp(mask) }
}
#[inline(always)]
pub(super) fn barrier() {
    thread::sync_threads();
}
