//! Buffers, streams and events on a GPU. Launches are tested in `src/cuda/tests.rs`, whose kernels are no
//! part of the program.

use lanetree_runtime::{Device, DeviceKind, Error, Event, gpu_or_skip};
#[cfg(all(feature = "cuda", not(feature = "cust")))]
use std::io::Write;

/// The GPU.
fn device() -> Option<Device> {
    let device = gpu_or_skip(Device::cuda(0));
    assert!(device.is_some() || Device::best() == Device::host());
    device
}

/// The feature `cust` links the driver: without one, its programs do not start.
#[cfg(all(feature = "cuda", not(feature = "cust")))]
#[test]
fn without_a_driver_the_error_says_so_and_the_best_device_is_the_host() {
    // Twice, as a failure is not kept.
    for _ in 0..2 {
        let Err(error @ Error::NoDriver { .. }) = Device::cuda(0) else {
            let name = std::thread::current().name().unwrap_or("").to_owned();
            let _ = writeln!(std::io::stderr(), "skipped: there is a driver: {name:?}");
            return;
        };
        let message = error.to_string();
        assert!(message.contains("no working CUDA driver"), "{message}");
        assert!(!cfg!(target_os = "linux") || message.contains("libcuda.so.1"), "{message}");
        let best = Device::best();
        assert_eq!(best, Device::host());
        assert_eq!(best.why_no_gpu().unwrap().to_string(), message);
    }
}

#[test]
fn the_callers_memory_is_a_buffer_and_is_left_alone_after_it() {
    let Some(device) = device() else { return };
    const LEN: usize = 1 << 20;
    let owner = device.upload(&vec![1_u32; LEN]).unwrap();
    let start = owner.addresses().start as *mut u32;
    let stream = device.stream().unwrap();
    {
        // SAFETY: memory of `owner`, which outlives the buffer and is not used meanwhile.
        let mut buffer = unsafe { device.buffer_from_raw(start, LEN) }.unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1; LEN]);
        buffer.fill_zero_range(&stream, 5..LEN).unwrap();
    }
    assert_eq!(owner.to_vec().unwrap()[..7], [1, 1, 1, 1, 1, 0, 0]);

    // SAFETY: as above.
    let slice = unsafe { device.buffer_from_raw(start.wrapping_add(1), 5) }.unwrap();
    assert_eq!(slice.to_vec().unwrap(), [1, 1, 1, 1, 0]);
    drop(slice);
    // SAFETY: refused.
    let error = unsafe { device.buffer_from_raw(start.wrapping_byte_add(2), 1) }.unwrap_err();
    assert!(matches!(error, Error::Misaligned { needed: 4, .. }), "{error}");
    let of_nobody = 256 as *mut u32;
    // SAFETY: refused.
    let error = unsafe { device.buffer_from_raw(of_nobody, 1) }.unwrap_err();
    assert!(matches!(error, Error::Cuda { code: 1, .. }), "{error}");
    device.upload(&[1_u32]).expect("the device still works");
}

#[test]
fn memory_that_is_given_away_can_come_back() {
    let Some(device) = device() else { return };
    let stream = device.stream().unwrap();
    let mut buffer = device.upload(&[7_u32; 1000]).unwrap();
    buffer.fill_zero_range(&stream, 0..999).unwrap();
    let start = buffer.into_raw().unwrap();
    // SAFETY: nobody else has it. (It is never freed.)
    let buffer = unsafe { device.buffer_from_raw(start, 1000) }.unwrap();
    assert_eq!(buffer.to_vec().unwrap()[998..], [0, 7]);
    let pool = lanetree_runtime::Pool::new(&device);
    let error = pool.device().upload(&[1_u32]).unwrap().into_raw().unwrap_err();
    assert!(matches!(error, Error::NotOwned { .. }), "{error}");
}

#[test]
fn the_gpu_says_what_it_is() {
    let Some(device) = device() else { return };
    assert_eq!(device.kind(), DeviceKind::Cuda);
    assert_eq!(Device::best(), device);
    assert!(Device::best().why_no_gpu().is_none());
    assert_eq!(Device::cuda(0).unwrap(), device, "one device for each ordinal");
    let properties = device.properties().unwrap();
    let memory = device.memory().unwrap();
    println!("{device}: {properties:?}, {memory:?}");
    assert_eq!(device.to_string(), format!("{} (cuda:0)", properties.name));
    assert!(properties.multiprocessors > 0 && properties.l2_bytes > 0 && properties.shared_bytes_per_block >= 48 << 10);
    assert!(properties.compute_capability >= (7, 0) && properties.driver_version >= (11, 0));
    assert!(memory.free <= memory.total && memory.total <= properties.total_memory);
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let Some(_) = device() else { return };
    let error = Device::cuda(1000).unwrap_err();
    assert!(matches!(error, Error::NoSuchDevice { ordinal: 1000, count: 1.. }), "{error}");
}

#[test]
fn buffers_hold_what_was_copied_into_them() {
    let Some(device) = device() else { return };
    for len in [1, 1000, 10_000_000] {
        let data: Vec<u64> = (0..len).collect();
        let mut buffer = device.upload(&data).unwrap();
        assert!(buffer.as_slice().is_none() && buffer.as_mut_slice().is_none());
        assert!(buffer.addresses().start.is_multiple_of(256) && buffer.addresses().len() == buffer.bytes());
        assert!(buffer.to_vec().unwrap() == data);
        buffer.copy_range_from(len as usize - 1, &[7]).unwrap();
        let mut last = [0];
        buffer.copy_range_to(len as usize - 1, &mut last).unwrap();
        assert_eq!(last, [7]);
        assert!(matches!(buffer.copy_from(&data[1..]), Err(Error::LengthMismatch { .. })));
        let stream = device.stream().unwrap();
        buffer.fill_zero(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(buffer.to_vec().unwrap().iter().all(|&x| x == 0));
        assert!(device.alloc_zeroed::<u64>(len as usize).unwrap().to_vec().unwrap().iter().all(|&x| x == 0));
    }
}

#[test]
fn empty_buffers_are_legal() {
    let Some(device) = device() else { return };
    let mut buffer = device.upload::<u32>(&[]).unwrap();
    assert_eq!(buffer.addresses(), 0..0);
    buffer.copy_from(&[]).unwrap();
    buffer.fill_zero(&device.stream().unwrap()).unwrap();
    assert!(buffer.to_vec().unwrap().is_empty());
    assert!(device.pinned::<u32>(0).unwrap().is_empty());
}

#[test]
fn asynchronous_copies_run_in_the_streams_order() {
    let Some(device) = device() else { return };
    const LEN: usize = 1 << 20;
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let done = device.event().unwrap();
    let mut source = device.pinned::<u32>(LEN).unwrap();
    source.iter_mut().zip(0..).for_each(|(to, from)| *to = from);
    let mut a = device.alloc::<u32>(LEN).unwrap();
    let mut b = device.alloc_zeroed::<u32>(LEN).unwrap();
    let mut back = device.pinned::<u32>(LEN).unwrap();
    a.upload_async(&first, 0, &source, 0..LEN).unwrap();
    done.record(&first).unwrap();
    second.wait(&done).unwrap();
    b.copy_from_buffer(&second, 1, &a, 0..LEN - 1).unwrap();
    b.download_async(&second, 0..LEN, &mut back, 0).unwrap();
    second.synchronize().unwrap();
    assert_eq!(back[0], 0);
    assert!(back[1..].iter().zip(0..).all(|(&got, want)| got == want));
}

#[test]
fn events_measure_the_gpus_time() {
    let Some(device) = device() else { return };
    let stream = device.stream().unwrap();
    let (start, end) = (device.event().unwrap(), device.event().unwrap());
    assert!(matches!(Event::elapsed_ms(&start, &end), Err(Error::NotRecorded { .. })));
    let mut buffer = device.alloc::<u8>(1 << 28).unwrap();
    start.record(&stream).unwrap();
    (0..10).for_each(|_| buffer.fill_zero(&stream).unwrap());
    end.record(&stream).unwrap();
    let elapsed = Event::elapsed_ms(&start, &end).unwrap();
    println!("{elapsed} ms for ten times 256 MiB of zeros");
    assert!((0.1..1000.0).contains(&elapsed), "{elapsed} ms");
}

#[test]
fn too_much_memory_is_refused_with_the_numbers() {
    let Some(device) = device() else { return };
    let total = device.properties().unwrap().total_memory;
    for len in [total as usize, 1 << 60] {
        let error = device.alloc::<u64>(len).unwrap_err();
        println!("{error}");
        let Error::OutOfMemory { requested, free, total, .. } = error else { panic!("{error}") };
        assert_eq!(requested, len as u128 * 8);
        assert!(free > 0 && free <= total);
    }
    device.upload(&[1_u32]).expect("the device still works");
}

#[test]
fn a_callers_stream_is_used_and_left_alone() {
    let Some(device) = device() else { return };
    let own = device.stream().unwrap();
    let mut buffer = device.upload(&[1_u32; 100]).unwrap();
    {
        // SAFETY: `own` outlives it.
        let foreign = unsafe { device.stream_from_raw(own.as_raw()) }.unwrap();
        buffer.fill_zero(&foreign).unwrap();
    }
    own.synchronize().expect("it has not been destroyed");
    assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
    // SAFETY: null is the default stream.
    let default = unsafe { device.stream_from_raw(std::ptr::null_mut()) }.unwrap();
    buffer.fill_zero(&default).unwrap();
    default.synchronize().unwrap();
    device.synchronize().unwrap();
}

#[test]
fn any_thread_may_use_a_device() {
    let Some(device) = device() else { return };
    let buffer = device.upload(&[1_u32, 2, 3]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
                drop(device.upload(&[0_u8; 1000]).unwrap());
            });
        }
    });
    std::thread::spawn(move || drop(buffer)).join().unwrap();
}
