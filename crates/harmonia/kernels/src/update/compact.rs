//! The operations with an effect, without the others.

use super::{Effect, has_effect};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`MarkEffects`].
    pub struct MarkEffectsArgs {
        /// From [`Locate`](super::Locate): `[count]`.
        pub effects: Global<u32>,
        /// Out: `[count]`, 1 where the operation has an effect, else 0.
        pub flags: GlobalMut<u32>,
        /// How many operations.
        pub count: u64,
    }
}

/// Marks the operations with an effect: the prefix sums of these flags are the positions to which [`Compact`] moves
/// them. One thread per operation; any block.
#[derive(Debug)]
pub struct MarkEffects;

impl Kernel for MarkEffects {
    type Args = MarkEffectsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is an operation.
            unsafe {
                let effect = simt.load(args.effects, index, Hint::ReadOnly);
                simt.store(args.flags, index, u32::from(!has_effect(effect, Effect::None)), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Compact`].
    pub struct CompactArgs<K, V> {
        /// As [`LocateArgs::keys`](super::LocateArgs::keys).
        pub keys: Global<K>,
        /// As [`LocateArgs::order`](super::LocateArgs::order).
        pub order: Global<u32>,
        /// New values, in the batch's order: `[count]`.
        pub values: Global<V>,
        /// How many operations.
        pub count: u64,
        /// The prefix sums of [`MarkEffectsArgs::flags`], and their total: `[count + 1]`.
        pub offsets: Global<u64>,
        /// From [`Locate`](super::Locate): `[count]` each.
        pub effects: Global<u32>,
        /// See [`CompactArgs::effects`].
        pub leaves: Global<u32>,
        /// See [`CompactArgs::effects`].
        pub parents: Global<u32>,
        /// Out: as [`Changes`](super::Changes), `[count]` each, keys as ordered words; and for the prefix sums of a rebuild, 1 for an
        /// insert and 2^32 for a removal.
        pub out_keys: GlobalMut<K>,
        /// See [`CompactArgs::out_keys`].
        pub out_values: GlobalMut<V>,
        /// See [`CompactArgs::out_keys`].
        pub out_effects: GlobalMut<u32>,
        /// See [`CompactArgs::out_keys`].
        pub out_leaves: GlobalMut<u32>,
        /// See [`CompactArgs::out_keys`].
        pub out_parents: GlobalMut<u32>,
        /// See [`CompactArgs::out_keys`].
        pub out_nets: GlobalMut<u64>,
        /// As [`TreeRef::flip`](crate::TreeRef::flip).
        pub flip: K,
    }
}

/// Compacts the operations with an effect. One thread per operation; any block.
#[derive(Debug)]
pub struct Compact<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Compact<K, V> {
    type Args = CompactArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` and its position are operations; offsets of operations with an effect are below their number.
        unsafe {
            let effect = simt.load(args.effects, index, Hint::ReadOnly);
            if has_effect(effect, Effect::None) {
                return;
            }
            let to = simt.load(args.offsets, index, Hint::ReadOnly);
            let place = u64::from(simt.load(args.order, index, Hint::ReadOnly));
            let key = simt.load(args.keys, index, Hint::ReadOnly).xor(args.flip);
            simt.store(args.out_keys, to, key, Hint::Default);
            simt.store(args.out_values, to, simt.load(args.values, place, Hint::ReadOnly), Hint::Default);
            simt.store(args.out_effects, to, effect, Hint::Default);
            let net =
                u64::from(has_effect(effect, Effect::Insert)) | u64::from(has_effect(effect, Effect::Remove)) << 32;
            simt.store(args.out_nets, to, net, Hint::Default);
            simt.store(args.out_leaves, to, simt.load(args.leaves, index, Hint::ReadOnly), Hint::Default);
            simt.store(args.out_parents, to, simt.load(args.parents, index, Hint::ReadOnly), Hint::Default);
        }
    }
}
