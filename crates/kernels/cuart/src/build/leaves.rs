//! Leaves of keys of one width of at most 32 bytes.

use core::marker::PhantomData;
use lanetree_simt::{Access, Global, GlobalMut, Hint, Kernel, KernelArgs, KeysRef, Order, Scope, Simt, Word};

/// Arguments of [`Leaves`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LeavesArgs<V> {
    /// Keys in ascending order: strings of `width` bytes, as [`KeysRef`] has them, or integers.
    pub keys: Global<u64>,
    /// `[count]`.
    pub values: Global<V>,
    /// Out: `[count]` leaves of the size for the width.
    pub leaves: GlobalMut<u64>,
    /// Out, to be set to the largest words before: the smallest index of a key that is below the one before,
    /// and of one that equals it.
    pub findings: GlobalMut<u64>,
    /// How many.
    pub count: u64,
    /// Of integers, the exclusive-or mask between the highest word (of at most 64 bits) and that of an
    /// unsigned integer of the same order.
    pub flip: u64,
    /// Bytes of a key; 4, 8 or 16 of integers.
    pub width: u32,
    /// 1 for integers, 0 for strings.
    pub integers: u32,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<V: Word> KernelArgs for LeavesArgs<V> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        visit(self.keys.as_ptr().addr(), Access::Read);
        visit(self.values.as_ptr().addr(), Access::Read);
        visit(self.leaves.as_ptr().addr(), Access::ReadWrite);
        visit(self.findings.as_ptr().addr(), Access::ReadWrite);
    }
}

/// Per thread. A key as words of a leaf: bytes in their order, the first one lowest.
///
/// # Safety
/// There is such a key.
#[inline(always)]
unsafe fn load<S: Simt, V: Word, const WORDS: usize>(simt: S, args: &LeavesArgs<V>, index: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    // SAFETY: the caller's promise.
    unsafe {
        if args.integers == 0 {
            let keys = KeysRef { bytes: args.keys, offsets: Global::null(), width: args.width, offset_bytes: 0 };
            let key = keys.at(simt, index);
            return core::array::from_fn(|word| key.word(simt, 8 * word as u32));
        }
        if WORDS == 1 {
            words[0] = if args.width == 4 {
                let key = simt.load(args.keys.cast::<u32>(), index, Hint::NoAllocate);
                u64::from((key ^ args.flip as u32).swap_bytes())
            } else {
                (simt.load(args.keys, index, Hint::NoAllocate) ^ args.flip).swap_bytes()
            };
        } else {
            let halves = simt.load_vector(args.keys, 2 * index, Hint::NoAllocate);
            words[0] = (halves[1] ^ args.flip).swap_bytes();
            words[WORDS.min(2) - 1] = halves[0].swap_bytes();
        }
    }
    words
}

/// Fills the leaves, whose index is their rank, and finds keys out of order: a thread for each leaf; any
/// block. `WORDS` are the 8-byte words of a leaf's key.
#[derive(Debug)]
pub struct Leaves<V, const WORDS: usize>(PhantomData<V>);

impl<V: Word, const WORDS: usize> Kernel for Leaves<V, WORDS> {
    type Args = LeavesArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key, with a value and a leaf; the findings are accessed atomically only.
        unsafe {
            let words = load::<S, V, WORDS>(simt, args, index);
            let value = simt.load(args.values, index, Hint::NoAllocate).widen();
            if WORDS == 1 {
                simt.store_vector(args.leaves, 2 * index, [words[0], value], Hint::Default);
            } else if WORDS == 2 {
                simt.store_vector(args.leaves, 4 * index, [words[0], words[1 % WORDS]], Hint::Default);
                simt.store_vector(args.leaves, 4 * index + 2, [value, index], Hint::Default);
            } else {
                simt.store_vector(args.leaves, 8 * index, [words[0], words[1 % WORDS]], Hint::Default);
                simt.store_vector(args.leaves, 8 * index + 2, [words[2 % WORDS], words[3 % WORDS]], Hint::Default);
                simt.store_vector(args.leaves, 8 * index + 4, [value, index], Hint::Default);
                simt.store_vector(args.leaves, 8 * index + 6, [0; 2], Hint::Default);
            }
            if index == 0 {
                return;
            }
            let before = load::<S, V, WORDS>(simt, args, index - 1);
            // From the last word to the first: an earlier one that differs overrules.
            let (mut below, mut equal) = (false, true);
            for word in (0..WORDS).rev() {
                let (own, other) = (words[word].swap_bytes(), before[word].swap_bytes());
                below = own < other || own == other && below;
                equal &= own == other;
            }
            if below || equal {
                simt.atomic_min(args.findings, u64::from(equal), index, Order::Relaxed, Scope::Device);
            }
        }
    }
}
