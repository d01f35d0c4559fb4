//! Collectives through LLVM's own NVVM intrinsics, for both code generators.
//!
//! LLVM knows that these are convergent. rust-cuda's `cuda_std` has them otherwise: votes as inline assembly,
//! shuffles and barriers as external functions, which LLVM may copy into branches; and its `warp_shuffle_up`
//! passes the clamp of the other modes, so that every lane gets its own value.

unsafe extern "C" {
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    safe fn vote_ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    safe fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    safe fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    safe fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    safe fn shfl_bfly(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    safe fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    safe fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    safe fn match_any_i32(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    safe fn match_any_i64(mask: u32, value: u64) -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    safe fn bar_warp_sync(mask: u32);
}

/// The clamp operand of `shfl` that makes one segment of the whole warp, for all modes but `up`.
const WHOLE_WARP: u32 = 0x1f;

#[inline(always)]
pub(super) fn ballot(mask: u32, predicate: bool) -> u32 {
    vote_ballot(mask, predicate)
}
#[inline(always)]
pub(super) fn any(mask: u32, predicate: bool) -> bool {
    vote_any(mask, predicate)
}
#[inline(always)]
pub(super) fn all(mask: u32, predicate: bool) -> bool {
    vote_all(mask, predicate)
}
#[inline(always)]
pub(super) fn shuffle(mask: u32, value: u32, source: u32) -> u32 {
    shfl_idx(mask, value, source, WHOLE_WARP)
}
#[inline(always)]
pub(super) fn shuffle_xor(mask: u32, value: u32, lanes: u32) -> u32 {
    shfl_bfly(mask, value, lanes, WHOLE_WARP)
}
#[inline(always)]
pub(super) fn shuffle_up(mask: u32, value: u32, delta: u32) -> u32 {
    shfl_up(mask, value, delta, 0)
}
#[inline(always)]
pub(super) fn shuffle_down(mask: u32, value: u32, delta: u32) -> u32 {
    shfl_down(mask, value, delta, WHOLE_WARP)
}
#[inline(always)]
pub(super) fn match_any_u32(mask: u32, value: u32) -> u32 {
    match_any_i32(mask, value)
}
#[inline(always)]
pub(super) fn match_any_u64(mask: u32, value: u64) -> u32 {
    match_any_i64(mask, value)
}
#[inline(always)]
pub(super) fn sync_warp(mask: u32) {
    bar_warp_sync(mask);
}
