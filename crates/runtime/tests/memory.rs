//! Buffers, streams and events on the machines that every machine has.

use lanetree_runtime::{Buffer, Device, DeviceKind, Error, Event, PinnedBuffer, Stream};

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

#[test]
fn buffers_hold_what_was_copied_into_them() {
    for device in devices() {
        let data: Vec<u64> = (0..1000).collect();
        let mut buffer = device.upload(&data).unwrap();
        assert_eq!((buffer.len(), buffer.bytes(), buffer.is_empty()), (1000, 8000, false));
        assert_eq!(buffer.device(), &device);
        assert_eq!(buffer.to_vec().unwrap(), data);
        assert_eq!(buffer.as_slice().unwrap(), data);
        assert!(buffer.addresses().start.is_multiple_of(256) && buffer.addresses().len() == buffer.bytes());
        let stream = device.stream().unwrap();
        assert_eq!(buffer.read_on(&stream).unwrap().as_ptr().addr(), buffer.addresses().start);
        assert_eq!(buffer.write_on(&stream).unwrap().as_ptr().addr(), buffer.addresses().start);

        buffer.as_mut_slice().unwrap()[0] = 7;
        buffer.copy_range_from(998, &[1, 2]).unwrap();
        let mut part = [0; 3];
        buffer.copy_range_to(997, &mut part).unwrap();
        assert_eq!(part, [997, 1, 2]);
        buffer.copy_range_to(0, &mut part).unwrap();
        assert_eq!(part, [7, 1, 2]);
        let mut all = vec![0; 1000];
        buffer.copy_to(&mut all).unwrap();
        assert_eq!(all[..3], [7, 1, 2]);
        let stream = device.stream().unwrap();
        buffer.fill_zero_range(&stream, 1..2).unwrap();
        buffer.copy_to(&mut all).unwrap();
        assert_eq!(all[..3], [7, 0, 2]);
        assert!(matches!(buffer.fill_zero_range(&stream, 999..1001), Err(Error::OutOfRange { .. })));
        buffer.fill_zero(&stream).unwrap();
        assert!(buffer.to_vec().unwrap().iter().all(|&x| x == 0));
    }
}

#[test]
fn memory_is_zero_where_that_is_asked_for_and_on_the_emulator_nowhere_else() {
    assert!(!Device::emulated().alloc::<u32>(100_000).unwrap().to_vec().unwrap().contains(&0));
    for device in devices() {
        assert!(device.alloc_zeroed::<u32>(100_000).unwrap().to_vec().unwrap().iter().all(|&x| x == 0));
        assert!(device.pinned::<u32>(100_000).unwrap().iter().all(|&x| x == 0));
    }
}

#[test]
fn empty_buffers_are_legal_everywhere() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = device.upload::<u64>(&[]).unwrap();
        assert!(
            buffer.is_empty()
                && buffer.read_on(&stream).unwrap().is_null()
                && buffer.write_on(&stream).unwrap().is_null()
        );
        buffer.copy_from(&[]).unwrap();
        buffer.copy_to(&mut []).unwrap();
        buffer.copy_range_to(0, &mut []).unwrap();
        buffer.fill_zero(&stream).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), []);
        assert_eq!(buffer.as_slice().unwrap(), []);
        assert_eq!(buffer.as_mut_slice().unwrap(), []);
        let mut pinned = device.pinned::<u64>(0).unwrap();
        assert!(pinned.is_empty());
        buffer.upload_async(&stream, 0, &pinned, 0..0).unwrap();
        buffer.download_async(&stream, 0..0, &mut pinned, 0).unwrap();
        let other = device.alloc::<u64>(0).unwrap();
        buffer.copy_from_buffer(&stream, 0, &other, 0..0).unwrap();
        assert_eq!(device.alloc::<[u32; 0]>(5).unwrap().to_vec().unwrap().len(), 5);
    }
}

#[test]
fn asynchronous_copies_move_the_ranges_named() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut source = device.pinned::<u32>(10).unwrap();
        source.iter_mut().zip(100..).for_each(|(to, from)| *to = from);
        let mut buffer = device.alloc_zeroed::<u32>(8).unwrap();
        let mut copy = device.alloc_zeroed::<u32>(8).unwrap();
        let mut back = device.pinned::<u32>(4).unwrap();
        buffer.upload_async(&stream, 1, &source, 3..7).unwrap();
        copy.copy_from_buffer(&stream, 2, &buffer, 0..6).unwrap();
        copy.download_async(&stream, 3..6, &mut back, 1).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [0, 103, 104, 105, 106, 0, 0, 0]);
        assert_eq!(copy.to_vec().unwrap(), [0, 0, 0, 103, 104, 105, 106, 0]);
        assert_eq!(back[..], [0, 103, 104, 105]);
    }
}

#[test]
fn lengths_must_match_and_ranges_lie_inside() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = device.upload(&[1_u32, 2, 3]).unwrap();
        let error = buffer.copy_from(&[1, 2]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 3, actual: 2, .. }));
        assert_eq!(error.to_string(), "copying to a buffer: needs 3 elements, got 2");
        let error = buffer.copy_to(&mut [0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "copying from a buffer: needs 3 elements, got 4");
        let error = buffer.copy_range_to(2, &mut [0; 2]).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { start: 2, len: 2, buffer_len: 3, .. }));
        let error = buffer.copy_range_from(usize::MAX, &[0; 2]).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { len: 2, .. }));
        let mut pinned = device.pinned::<u32>(4).unwrap();
        assert!(matches!(buffer.upload_async(&stream, 0, &pinned, 0..4), Err(Error::OutOfRange { len: 4, .. })));
        assert!(matches!(buffer.upload_async(&stream, 0, &pinned, 3..5), Err(Error::OutOfRange { buffer_len: 4, .. })));
        assert!(matches!(buffer.download_async(&stream, 0..3, &mut pinned, 2), Err(Error::OutOfRange { .. })));
        assert!(matches!(buffer.download_async(&stream, 0..3, &mut pinned, usize::MAX), Err(Error::OutOfRange { .. })));
        let other = device.upload(&[0_u32; 2]).unwrap();
        assert!(matches!(
            buffer.copy_from_buffer(&stream, 0, &other, 0..3),
            Err(Error::OutOfRange { buffer_len: 2, .. })
        ));
        assert!(matches!(
            buffer.copy_from_buffer(&stream, 2, &other, 0..2),
            Err(Error::OutOfRange { buffer_len: 3, .. })
        ));
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    }
}

#[test]
fn absurd_sizes_are_out_of_memory() {
    for device in devices() {
        for len in [1 << 57, 1 << 60, usize::MAX] {
            let error = device.alloc::<u64>(len).unwrap_err();
            let Error::OutOfMemory { requested, .. } = error else { panic!("{error}") };
            assert_eq!(requested, len as u128 * 8);
            assert!(error.to_string().contains(&requested.to_string()), "{error}");
            assert!(matches!(device.pinned::<u64>(len), Err(Error::OutOfMemory { .. })));
        }
    }
}

#[test]
fn devices_say_what_they_are() {
    assert_eq!(Device::host().kind(), DeviceKind::Host);
    assert!(Device::host().to_string().starts_with("host ("), "{}", Device::host());
    assert_eq!(Device::emulated_with_seed(7).to_string(), "emulated (seed 7)");
    assert_eq!(Device::emulated().kind(), DeviceKind::Emulated);
    assert_eq!(format!("{:?}", Device::emulated()), "Device[emulated (seed 0)]");
    assert_eq!(Device::host(), Device::host());
    assert_ne!(Device::emulated(), Device::emulated());
    for device in devices() {
        let properties = device.properties().unwrap();
        assert_eq!(properties.name, device.name());
        assert!(properties.multiprocessors >= 1);
        let is_host = device.kind() == DeviceKind::Host;
        assert_eq!(properties.compute_capability == (0, 0), is_host);
        assert_eq!(properties.shared_bytes_per_block == 0, is_host);
        let memory = device.memory().unwrap();
        assert!(memory.free <= memory.total);
        device.synchronize().unwrap();
    }
    let buffer = Device::emulated().upload(&[1_u8]).unwrap();
    assert_eq!(format!("{buffer:?}"), "Buffer<u8>[1 on emulated (seed 0)]");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn without_the_feature_cuda_a_gpu_is_refused_and_the_best_device_is_the_host() {
    let error = Device::cuda(0).unwrap_err();
    assert!(matches!(error, Error::CudaNotCompiled));
    assert!(error.to_string().contains("--features cuda"), "{error}");
    let best = Device::best();
    assert_eq!(best, Device::host());
    assert!(matches!(best.clone().why_no_gpu(), Some(Error::CudaNotCompiled)));
    assert_eq!(format!("{best:?}"), format!("Device[{best}, as there is no GPU: {error}]"));
    assert!(Device::host().why_no_gpu().is_none(), "it was asked for");
}

#[test]
fn devices_do_not_mix() {
    let (a, b) = (Device::emulated(), Device::emulated_with_seed(1));
    let mut buffer = a.alloc::<u32>(1).unwrap();
    let error = buffer.fill_zero(&b.stream().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "zeroing a buffer: the devices differ, emulated (seed 0) and emulated (seed 1); use one device for both"
    );
    let event = a.event().unwrap();
    assert!(matches!(event.record(&b.stream().unwrap()), Err(Error::WrongDevice { .. })));
    assert!(matches!(b.stream().unwrap().wait(&event), Err(Error::WrongDevice { .. })));
    assert!(matches!(Event::elapsed_ms(&event, &b.event().unwrap()), Err(Error::WrongDevice { .. })));
}

#[test]
fn events_measure_the_time_between_two_records() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (start, end) = (device.event().unwrap(), device.event().unwrap());
        assert!(matches!(Event::elapsed_ms(&start, &end), Err(Error::NotRecorded { .. })));
        start.record(&stream).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        end.record(&stream).unwrap();
        stream.wait(&end).unwrap();
        end.synchronize().unwrap();
        let elapsed = Event::elapsed_ms(&start, &end).unwrap();
        assert!((5.0..5000.0).contains(&elapsed), "{elapsed} ms");
    }
}

#[test]
fn a_foreign_stream_is_a_stream() {
    for device in devices() {
        // SAFETY: these devices ignore the handle.
        let stream = unsafe { device.stream_from_raw(std::ptr::null_mut()) }.unwrap();
        assert!(stream.as_raw().is_null());
        stream.synchronize().unwrap();
        assert_eq!(stream.device(), &device);
    }
}

#[test]
fn everything_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Device>();
    check::<Buffer<u64>>();
    check::<PinnedBuffer<u64>>();
    check::<Stream>();
    check::<Event>();
    check::<Error>();
}
