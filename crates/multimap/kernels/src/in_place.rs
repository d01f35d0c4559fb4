//! Inserts in place: runs of values that grow where they are, or move to where there is room.

use crate::layout::{begin, count, place, room};
use crate::rows::{Part, STEPS};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`PlanRuns`].
    pub struct PlanRunsArgs {
        /// The places of a batch's distinct keys: `[count]`; 0 for a key that is not in the map.
        pub places: Global<u64>,
        /// How many values the batch has for each: `[count]`.
        pub added: Global<u64>,
        /// How many keys.
        pub count: u64,
        /// Runs that begin below this position have no room behind their values.
        pub dense: u64,
        /// The most values that a key may have.
        pub most: u64,
        /// Out: `[count]`, the positions that a run takes at its new place; 0 for one that stays.
        pub needed: GlobalMut<u64>,
        /// Out: `[count]`, the values that it takes there; 0 for one that stays.
        pub moved: GlobalMut<u64>,
        /// In and out: `[1]`, lowered to the first key that would have more than `most` values.
        pub too_many: GlobalMut<u64>,
    }
}

/// Finds out which runs have room for a batch's values. One thread per key; any block.
#[derive(Debug)]
pub struct PlanRuns;

impl Kernel for PlanRuns {
    type Args = PlanRunsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key; the finding is accessed atomically only.
        unsafe {
            let old = simt.load(args.places, index, Hint::ReadOnly);
            let values = count(old) + simt.load(args.added, index, Hint::ReadOnly);
            let stays = begin(old) >= args.dense && count(old) > 0 && values <= room(count(old));
            simt.store(args.needed, index, if stays { 0 } else { room(values) }, Hint::Default);
            simt.store(args.moved, index, if stays { 0 } else { count(old) }, Hint::Default);
            if values > args.most {
                simt.atomic_min(args.too_many, 0, index, Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`PlaceRuns`].
    pub struct PlaceRunsArgs {
        /// As [`PlanRunsArgs::places`].
        pub places: Global<u64>,
        /// As [`PlanRunsArgs::added`].
        pub added: Global<u64>,
        /// How many keys.
        pub count: u64,
        /// The exclusive prefix sums of [`PlanRunsArgs::needed`]: `[count + 1]`.
        pub offsets: Global<u64>,
        /// The first position that no run takes.
        pub used: u64,
        /// Out: `[count]`, the places with the batch's values.
        pub new_places: GlobalMut<u64>,
        /// Out: `[count]`, where the batch's values of each key go.
        pub ends: GlobalMut<u64>,
    }
}

/// Gives runs their new places. One thread per key; any block.
#[derive(Debug)]
pub struct PlaceRuns;

impl Kernel for PlaceRuns {
    type Args = PlaceRunsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key.
        unsafe {
            let old = simt.load(args.places, index, Hint::ReadOnly);
            let offset = simt.load(args.offsets, index, Hint::ReadOnly);
            let stays = simt.load(args.offsets, index + 1, Hint::ReadOnly) == offset;
            let first = if stays { begin(old) } else { args.used + offset };
            let values = count(old) + simt.load(args.added, index, Hint::ReadOnly);
            simt.store(args.new_places, index, place(first, values), Hint::Default);
            simt.store(args.ends, index, first + count(old), Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`CopyRuns`].
    pub struct CopyRunsArgs<V> {
        /// `[values_len]`.
        pub values: Global<V>,
        /// Values to copy from.
        pub values_len: u64,
        /// Where each row's values begin there: `[rows]`, shifted left by `shift`.
        pub begins: Global<u64>,
        /// Sums of the rows' lengths: `[rows + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many rows, at least one.
        pub rows: u64,
        /// Where each row's values go: `[rows]`, shifted left by `to_shift`.
        pub to: Global<u64>,
        /// Values of all rows, at most.
        pub total: u64,
        /// Out: `[out_len]`; may be the values, if no row is copied to where another one is copied from.
        pub out: GlobalMut<V>,
        /// Values of the output.
        pub out_len: u64,
        /// Bits below `begins`.
        pub shift: u32,
        /// Bits below `to`.
        pub to_shift: u32,
    }
}

/// Copies rows of values from anywhere to anywhere: [`OUTPUTS`](crate::OUTPUTS) values per warp; any block of whole warps.
#[derive(Debug)]
pub struct CopyRuns<V>(PhantomData<V>);

impl<V: Word> Kernel for CopyRuns<V> {
    type Args = CopyRunsArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: rows and offsets are as many as the arguments say; positions are checked; rows do not overlap.
        unsafe {
            let total = simt.load(args.offsets, args.rows, Hint::ReadOnly).min(args.total);
            let Some(part) = Part::new(simt, args.offsets, args.rows, total) else { return };
            let mut at = part.first + u64::from(simt.lane());
            for _ in 0..STEPS {
                if at >= part.end {
                    return;
                }
                let (row, within) = part.row(simt, args.offsets, at);
                let from = (simt.load(args.begins, row, Hint::ReadOnly) >> args.shift) + within;
                let to = (simt.load(args.to, row, Hint::ReadOnly) >> args.to_shift) + within;
                if from < args.values_len && to < args.out_len {
                    simt.store(args.out, to, simt.load(args.values, from, Hint::Default), Hint::Default);
                }
                at += u64::from(WARP);
            }
        }
    }
}
