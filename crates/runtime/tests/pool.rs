//! Pools on the machines that every machine has: the device and the host take the same way through them as a
//! GPU, whose own tests are in `src/cuda/tests.rs`.

use lanetree_runtime::{Buffer, Device, Error, Failure, Pool, PoolStats};
use std::sync::Barrier;

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

fn address<T: bytemuck::Pod>(buffer: &Buffer<T>) -> usize {
    buffer.addresses().start
}

#[test]
fn what_a_buffer_gives_back_the_next_one_gets() {
    for device in devices() {
        let pool = Pool::new(&device);
        let device = pool.device();
        assert_eq!(device.pool().map(Pool::bytes_in_use), Some(0));
        let first = device.upload(&[7_u64; 1000]).unwrap();
        assert!(address(&first).is_multiple_of(256));
        assert_eq!((first.bytes(), pool.bytes_in_use(), pool.bytes_cached()), (8000, 8192, 0));
        let at = address(&first);
        drop(first);
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (0, 8192));
        // Of another type and length; a block is at most a quarter larger than what is asked for.
        let second = device.upload(&vec![3_u32; 1700]).unwrap();
        assert_eq!(address(&second), at);
        assert_eq!(second.to_vec().unwrap(), [3; 1700]);
        let third = device.alloc::<u32>(1700).unwrap();
        assert_ne!(address(&third), at);
        drop((second, third));
        let small = device.alloc::<u8>(5000).unwrap();
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (5120, 8192 + 7168), "neither block fits");
        let PoolStats { allocations, reuses, .. } = pool.stats();
        assert_eq!((allocations, reuses), (3, 1));
        drop(small);
    }
}

#[test]
fn a_handle_with_a_pool_is_the_same_device() {
    for device in devices() {
        let (pool, other) = (Pool::new(&device), Pool::new(&device));
        let pooled = pool.device();
        assert_eq!(pooled, device);
        assert_eq!(pooled, other.device());
        assert_eq!(pooled.to_string(), device.to_string());
        assert!(device.pool().is_none());
        let stream = device.stream().unwrap();
        let (mut a, b) = (pooled.alloc_zeroed::<u32>(10).unwrap(), device.upload(&[1_u32; 10]).unwrap());
        a.copy_from_buffer(&stream, 0, &b, 0..10).unwrap();
        a.fill_zero_range(&pooled.stream().unwrap(), 0..5).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(a.to_vec().unwrap(), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
        // A pool of a pooled handle's device is a pool of the device.
        let nested = Pool::new(&pooled).device().upload(&[1_u8]).unwrap();
        assert_eq!((pool.bytes_in_use(), nested.len()), (512, 1));
    }
}

#[test]
fn what_has_come_back_is_pending_until_the_device_was_waited_for() {
    for device in devices() {
        let pool = Pool::new(&device);
        let device = pool.device();
        let cycle = || drop(device.alloc::<u8>(1000).unwrap());
        cycle();
        assert_eq!(pool.stats().waits, 0);
        cycle();
        assert_eq!((pool.stats().waits, pool.stats().allocations), (1, 1), "only a pending block fitted");
        device.synchronize().unwrap();
        cycle();
        assert_eq!(pool.stats().waits, 1, "the caller has waited");
        // One wait is enough for all that came back before it, and a block that is ready comes before it.
        let many: Vec<_> = (0..10).map(|_| device.alloc::<u8>(1000).unwrap()).collect();
        assert_eq!(pool.stats().waits, 2);
        drop(many);
        let many: Vec<_> = (0..10).map(|_| device.alloc::<u8>(1000).unwrap()).collect();
        assert_eq!((pool.stats().waits, pool.stats().allocations), (3, 10));
        // Of another size nothing fits, so there is nothing to wait for.
        drop(many);
        drop(device.alloc::<u8>(100_000).unwrap());
        assert_eq!((pool.stats().waits, pool.stats().allocations), (3, 11));
    }
}

#[test]
fn a_limit_is_kept_and_both_numbers_are_named() {
    for device in devices() {
        let pool = Pool::with_limit(&device, 10_000);
        assert_eq!((pool.limit(), Pool::new(&device).limit()), (Some(10_000), None));
        let device = pool.device();
        let kept = device.alloc::<u8>(4096).unwrap();
        let error = device.alloc::<u8>(6000).unwrap_err();
        assert!(
            matches!(error, Error::PoolLimit { requested: 6000, block: 6144, in_use: 4096, limit: 10_000, .. }),
            "{error}"
        );
        let expected = format!(
            "a pool of {device} with a limit of 10000 bytes has no room for 6000 bytes (6144 when rounded up to a block): 4096 are in use; drop buffers, or raise the limit"
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (4096, 0));
        // What is cached makes room.
        drop(device.alloc::<u8>(5000).unwrap());
        assert_eq!(pool.bytes_cached(), 5120);
        let second = device.alloc::<u8>(1000).unwrap();
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (4096 + 1024, 0));
        // Pinned memory is no device memory.
        let pinned = device.pinned::<u8>(100_000).unwrap();
        assert_eq!((pool.stats().pinned_in_use, pool.bytes_in_use()), (106_496, 5120));
        drop((kept, second, pinned));
    }
}

#[test]
fn trimming_gives_back_what_nobody_has() {
    for device in devices() {
        let pool = Pool::new(&device);
        let device = pool.device();
        let kept = device.upload(&[1_u32, 2, 3]).unwrap();
        drop((device.alloc::<u64>(1000).unwrap(), device.pinned::<u64>(100).unwrap()));
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached(), pool.stats().pinned_cached), (512, 8192, 1024));
        assert_eq!(pool.trim(), 8192 + 1024);
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached(), pool.stats().pinned_cached), (512, 0, 0));
        assert_eq!(pool.trim(), 0);
        assert_eq!(kept.to_vec().unwrap(), [1, 2, 3]);
        let description = format!("{pool:?}");
        assert_eq!(description, format!("Pool[512 bytes in use, 0 cached, on {device}]"));
    }
}

#[test]
fn a_device_without_room_gets_back_what_is_cached_before_the_error() {
    let device = Device::emulated();
    let pool = Pool::new(&device);
    let pooled = pool.device();
    drop((pooled.alloc::<u8>(5000).unwrap(), pooled.alloc::<u8>(9000).unwrap()));
    device.inject(Some(Failure::Allocation(0)));
    let buffer = pooled.alloc::<u8>(100_000).expect("the second try succeeds");
    assert_eq!((pool.bytes_cached(), pool.bytes_in_use()), (0, 106_496));
    drop(buffer);
    // Nothing cached of that kind: nothing to try again with, except the exact size.
    device.inject(Some(Failure::Allocation(0)));
    let error = pooled.pinned::<u8>(1024).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { requested: 1024, .. }), "{error}");
    device.inject(Some(Failure::Allocation(0)));
    drop(pooled.pinned::<u8>(1000).expect("1024 have no room, 1000 have"));
    assert_eq!(pool.stats().pinned_cached, 1000);
    assert_eq!((pool.bytes_cached(), pool.stats().pinned_in_use), (106_496, 0));

    for device in devices() {
        let pool = Pool::new(&device);
        let device = pool.device();
        drop(device.alloc::<u8>(5000).unwrap());
        for len in [1 << 57, 1 << 60, usize::MAX] {
            let error = device.alloc::<u64>(len).unwrap_err();
            let Error::OutOfMemory { requested, .. } = error else { panic!("{error}") };
            assert_eq!(requested, len as u128 * 8, "in the caller's numbers");
        }
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (0, 0));
        drop(device.alloc::<u8>(5000).unwrap());
        assert_eq!(pool.bytes_cached(), 5120);
    }
}

#[test]
fn buffers_outlive_the_pool_and_its_handles() {
    for device in devices() {
        let (buffer, pinned) = {
            let device = Pool::new(&device).device();
            (device.upload(&[5_u32; 1000]).unwrap(), device.pinned::<u32>(10).unwrap())
        };
        assert_eq!(buffer.to_vec().unwrap(), [5; 1000]);
        assert_eq!(pinned[..], [0; 10]);
        let pool = buffer.device().pool().unwrap().clone();
        drop(pinned);
        drop(buffer);
        assert_eq!((pool.bytes_in_use(), pool.bytes_cached(), pool.stats().pinned_cached), (0, 4096, 512));
    }
}

#[test]
fn zeroed_and_page_locked_memory_is_zero_when_it_comes_again() {
    for device in devices() {
        let device = Pool::new(&device).device();
        for _ in 0..3 {
            let mut buffer = device.alloc_zeroed::<u64>(500).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [0; 500]);
            buffer.copy_from(&[u64::MAX; 500]).unwrap();
            let mut pinned = device.pinned::<u64>(500).unwrap();
            assert_eq!(pinned[..], [0; 500]);
            pinned.fill(u64::MAX);
        }
        assert_eq!(device.pool().unwrap().stats().allocations, 2);
    }
}

#[test]
fn what_fits_a_limit_exactly_is_allocated() {
    for device in devices() {
        // 1_044_480 is rounded up to 2^20.
        for (kept, bytes) in [(0, (1 << 20) - 1), (4096, (1 << 20) - 4096), (512, 1_044_483)] {
            let pool = Pool::with_limit(&device, 1 << 20);
            let device = pool.device();
            let first = device.alloc::<u8>(kept).unwrap();
            let rounded = device.alloc::<u8>(1 << 20);
            assert!(rounded.is_ok() == (kept == 0), "{kept}");
            drop(rounded);
            let mut second = device.alloc::<u8>(bytes).unwrap();
            assert_eq!((second.len(), pool.bytes_in_use() <= 1 << 20), (bytes, true));
            second.copy_from(&vec![7; bytes]).unwrap();
            assert_eq!(second.to_vec().unwrap(), vec![7; bytes]);
            // Both sizes are too large: the error names them.
            let error = device.alloc::<u8>(900_000).unwrap_err();
            assert!(matches!(error, Error::PoolLimit { requested: 900_000, block: 917_504, .. }), "{error}");
            drop((first, second));
            assert_eq!(pool.bytes_in_use(), 0);
            // And again, from what is cached.
            assert_eq!(device.alloc::<u8>(bytes).unwrap().len(), bytes);
        }
    }
}

#[test]
fn the_emulators_pooled_memory_is_never_zero_by_chance() {
    let pool = Pool::new(&Device::emulated());
    for _ in 0..2 {
        assert_eq!(pool.device().alloc::<u8>(600).unwrap().to_vec().unwrap(), [0xa5; 600]);
    }
}

#[test]
fn empty_buffers_take_nothing_from_a_pool() {
    for device in devices() {
        let pool = Pool::with_limit(&device, 0);
        let device = pool.device();
        assert!(device.upload::<u32>(&[]).unwrap().addresses() == (0..0));
        assert!(device.pinned::<u32>(0).unwrap().is_empty());
        assert!(matches!(device.alloc::<u8>(1), Err(Error::PoolLimit { limit: 0, .. })));
        assert_eq!(pool.stats(), PoolStats::default());
    }
}

#[test]
fn the_peak_is_of_what_was_asked_for() {
    for device in devices() {
        let pool = Pool::new(&device);
        let device = pool.device();
        let kept = device.alloc::<u8>(1000).unwrap();
        drop(device.alloc::<u8>(5000).unwrap());
        assert_eq!((pool.stats().peak, pool.bytes_in_use()), (6000, 1024));
        pool.restart_peak();
        assert_eq!(pool.stats().peak, 1000);
        // A block that is used again counts as what it is now.
        drop(device.alloc::<u8>(4500).unwrap());
        assert_eq!((pool.stats().peak, pool.stats().reuses), (5500, 1));
        drop(kept);
        assert_eq!(pool.stats().peak, 5500);
    }
}

#[test]
fn threads_share_a_pool() {
    for device in devices() {
        let pool = Pool::new(&device);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                let (pool, barrier) = (&pool, &barrier);
                scope.spawn(move || {
                    let device = pool.device();
                    barrier.wait();
                    for round in 0..300_usize {
                        let len = 1 + (thread * 31 + round * 17) % 2000;
                        let word = (thread * 1000 + round) as u64;
                        let buffer = device.upload(&vec![word; len]).unwrap();
                        let mut pinned = device.pinned::<u64>(len).unwrap();
                        pinned.fill(word);
                        if round % 50 == 0 {
                            pool.trim();
                        }
                        std::thread::yield_now();
                        // Nobody else has the same memory.
                        assert!(buffer.to_vec().unwrap().iter().chain(pinned.iter()).all(|&each| each == word));
                    }
                });
            }
        });
        let PoolStats { in_use, cached, pinned_in_use, allocations, reuses, .. } = pool.stats();
        assert_eq!((in_use, pinned_in_use, allocations + reuses), (0, 0, 8 * 300 * 2));
        assert!(
            cached < 16 << 20 && reuses > allocations,
            "{cached} bytes, {allocations} allocations, {reuses} reuses"
        );
    }
}

#[test]
fn pools_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Pool>();
}
