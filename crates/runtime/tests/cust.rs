//! Lanetree and cust in one program, on a GPU.
#![cfg(feature = "cust")]

use cust::context::{Context, CurrentContext};
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy, DevicePointer};
use cust::module::Module;
use cust::stream::StreamFlags;
use lanetree_runtime::{Device, Error, Pool, cust as shared, gpu_or_skip};
use std::sync::Arc;

/// The GPU, whose context is current.
fn device() -> Option<Device> {
    let device = gpu_or_skip(Device::cuda(0))?;
    CurrentContext::set_current(&shared::context(&device).unwrap()).unwrap();
    Some(device)
}

/// The arguments of the kernel `test__add_index`: adds its index and the constant to every element.
#[derive(Clone, Copy)]
#[repr(C)]
struct AddIndex {
    values: DevicePointer<u32>,
    len: u32,
    constant: u32,
}
// SAFETY: an address and numbers.
unsafe impl DeviceCopy for AddIndex {}

/// A kernel, launched by cust.
struct Kernel(Module);

impl Kernel {
    fn load() -> Self {
        Self(Module::from_ptx(include_str!("../src/cuda/tests.ptx"), &[]).unwrap())
    }

    /// Adds 5 and the index to each element, that many times.
    ///
    /// # Safety
    /// The address has `len` elements, and is for work in this stream.
    unsafe fn queue(&self, stream: &cust::stream::Stream, values: DevicePointer<u32>, len: usize, times: usize) {
        let function = self.0.get_function("test__add_index").unwrap();
        let mut args = AddIndex { values, len: len as u32, constant: 5 };
        for _ in 0..times {
            let blocks = len.div_ceil(128) as u32;
            // SAFETY: the kernel takes this one parameter, by value; the caller vouches for the address.
            unsafe { stream.launch(&function, blocks, 128, 0, &[(&raw mut args).cast()]).unwrap() };
        }
    }
}

fn sums(times: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|index| times * (5 + index)).collect()
}

#[test]
fn a_context_and_a_device_are_the_same_gpu() {
    let Some(device) = device() else { return };
    let context = shared::context(&device).unwrap();
    assert_eq!(shared::device(&context).unwrap(), device);
    drop(context);
    // A program that has opened its GPU by itself.
    let own = Context::new(cust::device::Device::get_device(0).unwrap()).unwrap();
    let found = shared::device(&own).unwrap();
    assert_eq!(found, device);
    drop(own);
    assert_eq!(found.upload(&[1_u32, 2]).unwrap().to_vec().unwrap(), [1, 2]);
    // On a thread that has no current context.
    std::thread::spawn(move || assert_eq!(shared::device(&shared::context(&found).unwrap()).unwrap(), found))
        .join()
        .unwrap();
}

#[test]
fn custs_kernels_and_lanetrees_work_take_turns_over_a_buffer() {
    const LEN: usize = 1 << 23;
    let Some(device) = device() else { return };
    let kernel = Kernel::load();
    let theirs = Arc::new(cust::stream::Stream::new(StreamFlags::DEFAULT, None).unwrap());
    let stream = shared::stream(&device, theirs.clone()).unwrap();
    let other = device.stream().unwrap();
    let mut buffer = device.alloc_zeroed::<u32>(LEN).unwrap();
    let mut copy = device.alloc::<u32>(LEN).unwrap();
    // Each round's kernels take milliseconds: a stream that does not wait for them, in the second round, say, since
    // it has waited in the first, copies what is not there yet.
    for round in 0..5 {
        let at = shared::write_on(&mut buffer, &stream).unwrap();
        // SAFETY: the address is for this stream, and the buffer is not used before all is queued.
        unsafe { kernel.queue(&theirs, at, LEN, 300) };
        copy.copy_from_buffer(&other, 0, &buffer, 0..LEN).unwrap();
        buffer.fill_zero(&other).unwrap();
        assert!(copy.to_vec().unwrap() == sums(300, LEN), "round {round}: the copy comes after the kernels");

        // Zeroed by the other stream, then used by cust again, and read by the CPU, in the order of the calls.
        let at = shared::write_on(&mut buffer, &stream).unwrap();
        // SAFETY: as above.
        unsafe { kernel.queue(&theirs, at, LEN, 100) };
        assert!(buffer.to_vec().unwrap() == sums(100, LEN), "round {round}: kernels come after the zeroing");

        // cust reads; Lanetree overwrites.
        let at = shared::read_on(&buffer, &stream).unwrap();
        let mut read = device.alloc_zeroed::<u32>(LEN).unwrap();
        let to = shared::write_on(&mut read, &stream).unwrap();
        // SAFETY: both addresses are for this stream, and have these elements.
        unsafe {
            kernel.queue(&theirs, to, LEN, 300);
            let from = cust::memory::DeviceSlice::from_raw_parts(at, LEN);
            let mut to = cust::memory::DeviceSlice::from_raw_parts(to, LEN);
            cust::memory::AsyncCopyDestination::async_copy_from(&mut to, &from, &theirs).unwrap();
        }
        buffer.fill_zero(&other).unwrap();
        assert!(read.to_vec().unwrap() == sums(100, LEN), "round {round}: what overwrites comes after what reads");
    }
}

#[test]
fn a_shared_stream_lives_for_as_long_as_either_has_it() {
    const LEN: usize = 1 << 20;
    let Some(device) = device() else { return };
    let kernel = Kernel::load();
    let mut buffer = device.alloc_zeroed::<u32>(LEN).unwrap();
    for round in 1..5 {
        let theirs = Arc::new(cust::stream::Stream::new(StreamFlags::DEFAULT, None).unwrap());
        let stream = shared::stream(&device, theirs.clone()).unwrap();
        let at = shared::write_on(&mut buffer, &stream).unwrap();
        // SAFETY: the address is for this stream, and the buffer is not used before all is queued.
        unsafe { kernel.queue(&theirs, at, LEN, 100) };
        drop(theirs);
        if round % 2 == 0 {
            stream.synchronize().unwrap();
        }
        drop(stream);
        assert!(buffer.to_vec().unwrap() == sums(100 * round, LEN), "round {round}");
    }
    let theirs = Arc::new(cust::stream::Stream::new(StreamFlags::DEFAULT, None).unwrap());
    drop(shared::stream(&device, theirs.clone()).unwrap());
    theirs.synchronize().expect("it has not been destroyed");
}

#[test]
fn memory_goes_from_one_to_the_other_without_a_copy() {
    const LEN: usize = 1 << 20;
    let Some(device) = device() else { return };
    let data = sums(1, LEN);
    let memory = DeviceBuffer::from_slice(&data).unwrap();
    let at = memory.as_device_ptr().as_raw() as usize;
    let mut buffer = shared::buffer(&device, memory).unwrap();
    assert_eq!((buffer.addresses().start, buffer.len()), (at, LEN));
    assert!(buffer.to_vec().unwrap() == data);
    buffer.fill_zero_range(&device.stream().unwrap(), 0..10).unwrap();
    let mut memory = shared::into_device_buffer(buffer).unwrap();
    assert_eq!((memory.as_device_ptr().as_raw() as usize, memory.len()), (at, LEN));
    let host = memory.as_host_vec().unwrap();
    assert!(host[..10] == [0; 10] && host[10..] == data[10..]);

    // Lanetree's own, and memory that only visits.
    let own = shared::into_device_buffer(device.upload(&[1_u32, 2, 3]).unwrap()).unwrap();
    assert_eq!(own.as_host_vec().unwrap(), [1, 2, 3]);
    memory.copy_from(&data).unwrap();
    device.synchronize().unwrap();
    {
        // SAFETY: the memory outlives the buffer and is not used meanwhile; all work over it is done.
        let visiting = unsafe { device.buffer_from_raw(memory.as_device_ptr().as_mut_ptr(), LEN) }.unwrap();
        assert!(visiting.to_vec().unwrap() == data);
        let error = shared::into_device_buffer(visiting).unwrap_err();
        assert!(matches!(error, Error::NotOwned { .. }), "{error}");
    }
    assert!(memory.as_host_vec().unwrap() == data, "the memory is cust's as before");

    // Nothing of it is a pool's, which cannot give memory away.
    let pool = Pool::new(&device);
    drop(shared::buffer(&pool.device(), memory).unwrap());
    assert_eq!(pool.stats().allocations, 0);
    let error = shared::into_device_buffer(pool.device().upload(&[1_u32]).unwrap()).unwrap_err();
    assert!(matches!(error, Error::NotOwned { .. }), "{error}");

    let empty = shared::buffer(&device, DeviceBuffer::<u32>::from_slice(&[]).unwrap()).unwrap();
    assert!(empty.is_empty() && shared::into_device_buffer(empty).unwrap().is_empty());
}

#[test]
fn only_gpus_share() {
    let Some(gpu) = device() else { return };
    for device in [Device::host(), Device::emulated()] {
        let error = shared::context(&device).unwrap_err();
        assert!(matches!(error, Error::NotAGpu { .. }), "{error}");
        assert!(error.to_string().contains(&device.to_string()), "{error}");
        let theirs = Arc::new(cust::stream::Stream::new(StreamFlags::DEFAULT, None).unwrap());
        assert!(matches!(shared::stream(&device, theirs), Err(Error::NotAGpu { .. })));
        let memory = DeviceBuffer::from_slice(&[1_u32]).unwrap();
        assert!(matches!(shared::buffer(&device, memory), Err(Error::NotAGpu { .. })));
        let mut buffer = device.upload(&[1_u32]).unwrap();
        let stream = device.stream().unwrap();
        assert!(matches!(shared::read_on(&buffer, &stream), Err(Error::NotAGpu { .. })));
        assert!(matches!(shared::write_on(&mut buffer, &stream), Err(Error::NotAGpu { .. })));
        assert!(matches!(shared::into_device_buffer(buffer), Err(Error::NotAGpu { .. })));
    }
    let buffer = gpu.upload(&[1_u32]).unwrap();
    let error = shared::read_on(&buffer, &Device::host().stream().unwrap()).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
}

#[test]
fn what_belongs_to_another_context_is_refused() {
    let Some(device) = device() else { return };
    let raw = cust::device::Device::get_device(0).unwrap();
    let flags = cust::context::legacy::ContextFlags::SCHED_AUTO;
    let _other = cust::context::legacy::Context::create_and_push(flags, raw).unwrap();
    let theirs = Arc::new(cust::stream::Stream::new(StreamFlags::DEFAULT, None).unwrap());
    let memory = DeviceBuffer::from_slice(&[1_u32; 100]).unwrap();
    let error = shared::stream(&device, theirs).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    let error = shared::buffer(&device, memory).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    assert!(error.to_string().contains("another context"), "{error}");
    device.upload(&[1_u32]).expect("the device still works");
}
