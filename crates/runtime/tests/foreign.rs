//! Memory of the caller's as buffers, and buffers' memory for others, on the machines that every machine has.

use lanetree_runtime::{Buffer, Device, Error, Pool};
use lanetree_simt::{Entry, GlobalMut, Hint, Instance, Kernel, LaunchShape, Module, Simt, kernel_args};

const LEN: usize = 100;

/// Memory that may be a buffer.
struct Memory([u32; LEN]);

impl Memory {
    fn new() -> Box<Self> {
        Box::new(Self(std::array::from_fn(|i| i as u32)))
    }
}

/// # Safety
/// The memory outlives the buffer, and nobody else uses it meanwhile.
unsafe fn buffer(device: &Device, memory: *mut Memory) -> Buffer<u32> {
    // SAFETY: that many elements, aligned, initialised; otherwise the caller's contract.
    unsafe { device.buffer_from_raw(memory.cast::<u32>(), LEN) }.unwrap()
}

/// Doubles each element.
struct Double;

kernel_args! {
    struct DoubleArgs {
        values: GlobalMut<u32>,
        len: u64,
    }
}

impl Kernel for Double {
    type Args = DoubleArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.len {
            // SAFETY: inside the array, and each thread has an element of its own.
            unsafe {
                let old = simt.load(args.values.as_const(), index, Hint::Default);
                simt.store(args.values, index, 2 * old, Hint::Default);
            }
        }
    }
}

static TEST: Module = Module { name: "test", ptx: "" };

impl Instance for Double {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<Double>(&TEST, "test__double");
        &ENTRY
    };
}

#[test]
fn the_callers_memory_is_a_buffer_and_is_left_alone_after_it() {
    for device in [Device::host(), Device::emulated(), Pool::new(&Device::emulated()).device()] {
        let memory = Box::into_raw(Memory::new());
        // SAFETY: the memory is freed after the buffer, and not used meanwhile.
        let mut buffer = unsafe { buffer(&device, memory) };
        assert_eq!((buffer.len(), buffer.addresses().start), (LEN, memory.addr()));
        assert_eq!(buffer.to_vec().unwrap(), (0..LEN as u32).collect::<Vec<_>>());
        let stream = device.stream().unwrap();
        let ones = device.upload(&[1_u32; 10]).unwrap();
        buffer.copy_from_buffer(&stream, 90, &ones, 0..10).unwrap();
        buffer.copy_range_from(0, &[7]).unwrap();
        assert_eq!(buffer.into_raw().unwrap().addr(), memory.addr());
        // SAFETY: the buffer is gone.
        let memory = unsafe { Box::from_raw(memory) };
        assert_eq!((memory.0[0], memory.0[1], memory.0[89], memory.0[90..].to_vec()), (7, 1, 89, vec![1; 10]));
        if let Some(pool) = device.pool() {
            drop(ones);
            assert_eq!(pool.stats().in_use, 0, "the pool has no part in the caller's memory");
        }
    }
}

#[test]
fn dropping_a_buffer_over_the_callers_memory_waits_for_the_streams_that_use_it() {
    for seed in 0..20 {
        let device = Device::emulated_with_seed(seed);
        let memory = Box::into_raw(Memory::new());
        // SAFETY: the memory is freed after the buffer, and not used meanwhile.
        let mut buffer = unsafe { buffer(&device, memory) };
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let args = DoubleArgs { values: buffer.write_on(&first).unwrap(), len: LEN as u64 };
        let shape = LaunchShape { blocks: 4, threads: 32, dynamic_shared: 0 };
        // SAFETY: the buffer has these elements.
        unsafe { first.launch::<Double>(shape, &args).unwrap() };
        buffer.fill_zero_range(&second, 0..3).unwrap();
        drop(buffer);
        // SAFETY: the buffer is gone.
        let memory = unsafe { Box::from_raw(memory) };
        assert_eq!(memory.0[..6], [0, 0, 0, 6, 8, 10], "seed {seed}");
        drop(memory);
        // The emulator does not take what comes there next for the buffer.
        device.synchronize().unwrap();
    }
}

#[test]
fn a_kernel_does_not_reach_the_callers_memory_after_the_buffer() {
    let device = Device::emulated();
    let memory = Box::into_raw(Memory::new());
    // SAFETY: the memory is freed after the buffer, and not used meanwhile.
    let mut buffer = unsafe { buffer(&device, memory) };
    let stream = device.stream().unwrap();
    let args = DoubleArgs { values: buffer.write_on(&stream).unwrap(), len: LEN as u64 };
    drop(buffer);
    // SAFETY: none: the emulator refuses the access.
    unsafe { stream.launch::<Double>(LaunchShape { blocks: 1, threads: 32, dynamic_shared: 0 }, &args).unwrap() };
    assert!(matches!(stream.synchronize(), Err(Error::Emulator(_))));
    // SAFETY: the buffer is gone.
    assert_eq!(unsafe { Box::from_raw(memory) }.0[50], 50);
}

#[test]
fn memory_that_no_buffer_may_have_is_refused() {
    for device in [Device::host(), Device::emulated()] {
        let memory = Box::into_raw(Memory::new());
        // SAFETY: inside the memory, and refused.
        let error = unsafe { device.buffer_from_raw(memory.byte_add(2).cast::<u32>(), LEN - 1) }.unwrap_err();
        let Error::Misaligned { address, needed: 4 } = error else { panic!("{error}") };
        assert_eq!(address, memory.addr() + 2);
        // SAFETY: refused.
        let error = unsafe { device.buffer_from_raw(std::ptr::null_mut::<u32>(), 1) }.unwrap_err();
        assert!(matches!(error, Error::Misaligned { address: 0, .. }), "{error}");
        // SAFETY: refused.
        let error = unsafe { device.buffer_from_raw(memory.cast::<u32>(), usize::MAX) }.unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        // SAFETY: no elements.
        let empty = unsafe { device.buffer_from_raw(memory.cast::<u32>(), 0) }.unwrap();
        assert!(empty.is_empty() && empty.into_raw().unwrap().is_null());
        // SAFETY: no buffer has it.
        drop(unsafe { Box::from_raw(memory) });
    }
}

#[test]
fn memory_that_only_lanetree_can_free_is_not_given_away() {
    let pool = Pool::new(&Device::emulated());
    for (device, advice) in [(Device::host(), "copy it"), (Device::emulated(), "copy it"), (pool.device(), "a pool")] {
        let error = device.upload(&[1_u32]).unwrap().into_raw().unwrap_err();
        assert!(matches!(error, Error::NotOwned { .. }), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
    assert_eq!(pool.bytes_in_use(), 0, "what was refused has gone back");
}

#[test]
fn lending_waits_as_a_kernel_would() {
    let (device, other) = (Device::emulated(), Device::emulated());
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let mut buffer = device.upload(&[1_u32; 8]).unwrap();
    buffer.fill_zero(&first).unwrap();
    assert_eq!(buffer.lend_on(&second).unwrap().addr(), buffer.addresses().start);
    // The second stream now comes after the first: to wait for it is to wait for both.
    second.synchronize().unwrap();
    // SAFETY: the buffer lives, and nothing runs.
    assert_eq!(unsafe { (buffer.addresses().start as *const u32).read() }, 0);
    assert_eq!(buffer.lend_mut_on(&first).unwrap().addr(), buffer.addresses().start);
    let error = buffer.lend_on(&other.stream().unwrap()).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
}
