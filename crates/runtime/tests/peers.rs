//! Copies between devices: what comes before them and after them, in every order in which their streams may run.

use lanetree_runtime::{Buffer, Device, Error, Failure, PeerPart, Pool, Result, Stream};

/// Two devices, and their seeds' orders.
fn for_each_order(test: impl Fn(Device, Device) -> Result<()>) {
    for seed in 0..40 {
        let two = || (Device::emulated_with_seed(seed), Device::emulated_with_seed(seed ^ 13));
        let (here, there) = two();
        test(here, there).unwrap();
        let (here, there) = two();
        test(Pool::new(&here).device(), Pool::new(&there).device()).unwrap();
    }
}

fn copy(to: &mut Buffer<u32>, stream: &Stream, from: &Buffer<u32>, by: &Stream) -> Result<()> {
    let range = 0..from.len();
    to.copy_from_peers(stream, &[PeerPart { from, range, stream: by, at: 0 }])
}

#[test]
fn a_copy_comes_after_what_both_sides_did_and_before_what_they_do() {
    for_each_order(|here, there| {
        let mut source = there.upload(&[1_u32; 64])?;
        let mut target = here.alloc_zeroed::<u32>(64)?;
        let (back, mut kept) = (there.upload(&[9_u32; 64])?, here.alloc_zeroed::<u32>(64)?);
        let (near, near_too) = (here.stream()?, here.stream()?);
        let (far, far_too) = (there.stream()?, there.stream()?);
        for round in 0..4 {
            // Zeroed in one stream, copied in another; written again in a third.
            source.copy_from_buffer(&far_too, 0, &back, 0..64)?;
            copy(&mut target, &near, &source, &far)?;
            source.fill_zero(&far_too)?;
            kept.copy_from_buffer(&near_too, 0, &target, 0..64)?;
            target.fill_zero(&near)?;
            if round % 2 == 1 {
                assert_eq!(kept.to_vec()?, [9; 64]);
            }
        }
        // There and back: each device waits for the other.
        let mut returned = there.alloc_zeroed::<u32>(64)?;
        copy(&mut target, &near, &back, &far)?;
        copy(&mut returned, &far_too, &target, &near_too)?;
        copy(&mut kept, &near, &returned, &far)?;
        assert_eq!(kept.to_vec()?, [9; 64]);
        // Nobody waits, and both go.
        copy(&mut kept, &near, &source, &far)?;
        Ok(())
    });
}

#[test]
fn a_buffer_can_be_dropped_during_a_copy() {
    for_each_order(|here, there| {
        let (near, far) = (here.stream()?, there.stream()?);
        let mut target = here.alloc::<u32>(64)?;
        copy(&mut target, &near, &there.upload(&[5; 64])?, &far)?;
        // The next user of the memory, if it is a pool's.
        let mut other = there.alloc::<u32>(64)?;
        other.fill_zero(&far)?;
        assert_eq!(target.to_vec()?, [5; 64]);
        copy(&mut target, &near, &there.upload(&[6; 64])?, &far)?;
        drop(target);
        assert_eq!(other.to_vec()?, [0; 64]);
        Ok(())
    });
}

#[test]
fn parts_of_several_devices_come_together() {
    for_each_order(|here, there| {
        let third = Device::emulated_with_seed(7);
        let (stream, streams) = (here.stream()?, [there.stream()?, third.stream()?, here.stream()?]);
        let from = [there.upload(&[1_u32, 2, 3])?, third.upload(&[4_u32, 5])?, here.upload(&[6_u32])?];
        let mut to = here.upload(&[0_u32; 6])?;
        let ranges = [1..3, 0..2, 0..1];
        let part = |i: usize| PeerPart { from: &from[i], range: ranges[i].clone(), stream: &streams[i], at: 2 * i };
        to.copy_from_peers(&stream, &[part(0), part(1), part(2)])?;
        assert_eq!(to.to_vec()?, [2, 3, 4, 5, 6, 0]);
        Ok(())
    });
}

#[test]
fn wrong_devices_and_ranges_are_errors_and_nothing_is_copied() -> Result<()> {
    let (here, there) = (Device::emulated(), Device::emulated());
    let (near, far) = (here.stream()?, there.stream()?);
    let (mut to, from) = (here.upload(&[0_u32; 2])?, there.upload(&[1_u32, 2, 3])?);
    let part = |range, stream, at| PeerPart { from: &from, range, stream, at };
    let wrong = |result| matches!(result, Err(Error::WrongDevice { .. }));
    assert!(wrong(to.copy_from_peers(&far, &[part(0..1, &far, 0)])));
    assert!(wrong(to.copy_from_peers(&near, &[part(0..1, &near, 0)])));
    let host = Device::host();
    let (on_host, by) = (host.upload(&[1_u32])?, host.stream()?);
    assert!(wrong(to.copy_from_peers(&near, &[PeerPart { from: &on_host, range: 0..1, stream: &by, at: 0 }])));
    for (range, at) in [(0..3, 0), (2..4, 0), (0..1, 2)] {
        let error = to.copy_from_peers(&near, &[part(0..1, &far, 0), part(range, &far, at)]);
        assert!(matches!(error, Err(Error::OutOfRange { .. })));
    }
    assert_eq!(to.to_vec()?, [0, 0]);
    to.copy_from_peers(&near, &[part(3..3, &far, 2)])?;
    Ok(())
}

#[test]
fn a_device_that_fails_is_the_copys_error() -> Result<()> {
    for fails_here in [true, false] {
        let (here, there) = (Device::emulated(), Device::emulated());
        let (near, far) = (here.stream()?, there.stream()?);
        let (mut to, from) = (here.upload(&[0_u32; 2])?, there.upload(&[1_u32, 2])?);
        let failing = if fails_here { &here } else { &there };
        failing.inject(Some(Failure::Transfer(0)));
        let copied = copy(&mut to, &near, &from, &far);
        assert_eq!(copied.is_err(), failing.inject(None).is_none());
        copy(&mut to, &near, &from, &far)?;
        assert_eq!(to.to_vec()?, [1, 2]);
    }
    Ok(())
}

#[test]
fn bytes_go_to_addresses_and_come_from_them() {
    for_each_order(|here, there| {
        let (near, far, far_too) = (here.stream()?, there.stream()?, there.stream()?);
        let source = here.upload(&[1_u32, 2, 3])?;
        let mut way = there.alloc::<u64>(2)?;
        let mut target = here.upload(&[0_u32; 4])?;
        let (from, to) = (source.read_on(&near)?.cast::<u8>(), target.write_on_from_peers(&near)?);
        // SAFETY: 12 bytes of each buffer; `near` comes after the copy to `target`.
        unsafe {
            way.copy_from_address(&far, from, 12, &near)?;
            way.copy_to_address(&far, 12, to.byte_add(4).cast(), &here)?;
            near.wait_for_copies(&far, to)?;
            // SAFETY: nothing is copied.
            let error = way.copy_from_address(&far_too, from, 17, &near);
            assert!(matches!(error, Err(Error::OutOfRange { len: 3, .. })), "{error:?}");
            let error = way.copy_to_address(&near, 12, to.cast(), &here);
            assert!(matches!(error, Err(Error::WrongDevice { .. })), "{error:?}");
        }
        // Comes after the copy that reads it.
        way.fill_zero(&far_too)?;
        let mut kept = here.alloc::<u32>(4)?;
        kept.copy_from_buffer(&near, 0, &target, 0..4)?;
        // It waits for the other device's copy.
        drop(target);
        assert_eq!(kept.to_vec()?, [0, 1, 2, 3]);
        Ok(())
    });
}

#[test]
fn devices_may_wait_for_each_other_in_turn() {
    for_each_order(|here, there| {
        let third = Device::emulated_with_seed(3);
        let devices = [&here, &there, &third];
        let streams = devices.map(|device| [device.stream().unwrap(), device.stream().unwrap()]);
        let mut buffers = devices.map(|device| device.alloc_zeroed::<u32>(64).unwrap());
        buffers[0].copy_from(&[8; 64])?;
        // Long chains, in both directions.
        for round in 0..60 {
            let (from, to) =
                if round < 30 { (round % 3, (round + 1) % 3) } else { ((60 - round) % 3, (59 - round) % 3) };
            let [one, other] = buffers.get_disjoint_mut([from, to]).unwrap();
            copy(other, &streams[to][round % 2], one, &streams[from][1 - round % 2])?;
        }
        for buffer in &buffers {
            assert_eq!(buffer.to_vec()?, [8; 64]);
        }
        Ok(())
    });
}
