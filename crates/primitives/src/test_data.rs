//! Helpers of the operations' tests.

use lanetree_base::{Buffer, Device, Result, Stream};
use lanetree_layout::{AnyKey, KeyWord};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

/// The devices of this machine: the CPU, and kernels in their natural order and in another.
pub(super) fn devices() -> Vec<Device> {
    vec![Device::host(), Device::emulated(), Device::emulated_with_seed(1)]
}

/// Whether all of a test's cases are worth their time on a device.
pub(super) fn is_thorough(device: &Device) -> bool {
    *device == Device::host() || device.to_string().contains("seed 0")
}

/// What tests draw from. The tests are not optimised, and what `StdRng` inlines into them took a fifth of their time.
pub(super) type Random = Xoshiro256PlusPlus;

pub(super) fn rng(seed: usize) -> Random {
    Random::seed_from_u64(seed as u64)
}

/// Sorted keys from a space of `space` keys around the middle of the key space, where signed keys change their sign.
pub(super) fn sorted<K: AnyKey>(len: usize, space: u64, rng: &mut Random) -> Vec<K> {
    let first = K::Bits::MAX.shr(1).wrapping_sub(K::Bits::truncate(space / 2));
    let mut keys: Vec<K> =
        (0..len).map(|_| K::decode(first.wrapping_add(K::Bits::truncate(rng.random_range(0..space))))).collect();
    keys.sort_unstable();
    keys
}

/// Any 32-bit words.
pub(super) fn words(len: usize, rng: &mut Random) -> Vec<u32> {
    (0..len).map(|_| rng.next_u32()).collect()
}

/// A buffer whose elements are not zero: what is not written shows.
pub(super) fn poisoned<T: bytemuck::Pod>(device: &Device, len: usize) -> Buffer<T> {
    let mut data = vec![T::zeroed(); len];
    bytemuck::cast_slice_mut::<T, u8>(&mut data).fill(0xa5);
    device.upload(&data).unwrap()
}

/// The first `len` elements, after checking that the others are untouched.
pub(super) fn written<T: bytemuck::Pod + PartialEq + core::fmt::Debug>(buffer: &Buffer<T>, len: usize) -> Vec<T> {
    let mut all = buffer.to_vec().unwrap();
    for element in all.drain(len..) {
        assert!(bytemuck::bytes_of(&element).iter().all(|&byte| byte == 0xa5), "{element:?} after {len} results");
    }
    all
}

/// The message of an error.
pub(super) fn message(result: Result<()>) -> String {
    result.unwrap_err().to_string()
}

/// A stream of the device.
pub(super) fn stream(device: &Device) -> Stream {
    device.stream().unwrap()
}
