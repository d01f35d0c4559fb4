//! Kernels over the memory of other devices, in every order in which their streams may run.

use lanetree_runtime::{Buffer, Device, Error, Failure, Pool, Result, Stream};
use lanetree_simt::{Entry, Global, GlobalMut, Hint, Instance, Kernel, LaunchShape, Module, Simt, kernel_args};

/// Copies an array, and adds one to each element.
struct Next;

kernel_args! {
    struct NextArgs {
        from: Global<u32>,
        to: GlobalMut<u32>,
    }
}

impl Kernel for Next {
    type Args = NextArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        // SAFETY: as many elements as threads.
        unsafe { simt.store(args.to, at, simt.load(args.from, at, Hint::Default) + 1, Hint::Default) };
    }
}

static TEST: Module = Module { name: "test", ptx: "" };

impl Instance for Next {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<Next>(&TEST, "test__next");
        &ENTRY
    };
}

const SHAPE: LaunchShape = LaunchShape { blocks: 2, threads: 32, dynamic_shared: 0 };

/// `to = from + 1`, in a stream of any device.
fn next(stream: &Stream, from: &Buffer<u32>, to: &mut Buffer<u32>) -> Result<()> {
    let args = NextArgs { from: from.read_on_peer(stream)?, to: to.write_on_peer(stream)? };
    // SAFETY: both have that many elements.
    unsafe { stream.launch::<Next>(SHAPE, &args) }
}

#[test]
fn kernels_of_several_devices_take_turns_over_a_buffer() {
    for seed in 0..40 {
        let (one, other) = (Device::emulated_with_seed(seed), Device::emulated_with_seed(seed ^ 13));
        for [here, there] in [[one.clone(), other.clone()], [Pool::new(&one).device(), Pool::new(&other).device()]] {
            let test = || -> Result<()> {
                let (near, far, far_too) = (here.stream()?, there.stream()?, there.stream()?);
                let (mut first, mut second) = (here.upload(&[0_u32; 64])?, there.alloc::<u32>(64)?);
                for round in 0..3 {
                    next(&far, &first, &mut second)?;
                    next(&near, &second, &mut first)?;
                    next(&far_too, &first, &mut second)?;
                    assert!(round != 1 || second.to_vec()? == [5; 64], "seed {seed}");
                }
                // Freed before the kernel of the other device has run; the memory is somebody else's then.
                let mut kept = here.alloc::<u32>(64)?;
                next(&near, &second, &mut kept)?;
                drop(second);
                let over = there.upload(&[77_u32; 64])?;
                assert_eq!((kept.to_vec()?, over.to_vec()?), (vec![8; 64], vec![77; 64]), "seed {seed}");
                Ok(())
            };
            test().unwrap();
        }
    }
}

#[test]
fn a_kernel_that_does_not_wait_for_another_devices_is_reported() {
    let (here, there) = (Device::emulated(), Device::emulated());
    let (near, far) = (here.stream().unwrap(), there.stream().unwrap());
    let (mut from, mut to) = (there.upload(&[1_u32; 64]).unwrap(), here.alloc::<u32>(64).unwrap());
    assert!(here.reaches(&there));
    from.fill_zero(&far).unwrap();
    // The address as a stream of its own device has it: `near` does not wait.
    let args = NextArgs { from: from.read_on(&far).unwrap(), to: to.write_on(&near).unwrap() };
    // SAFETY: both have that many elements.
    let error = unsafe { near.launch::<Next>(SHAPE, &args) }.expect_err("nothing orders them");
    assert!(matches!(error, Error::Unordered { .. }), "{error}");
    near.run_after(&far).unwrap();
    // SAFETY: as above.
    unsafe { near.launch::<Next>(SHAPE, &args) }.unwrap();
    assert_eq!(to.to_vec().unwrap(), [1; 64]);
}

#[test]
fn only_devices_of_one_kind_reach_each_other() {
    let (device, other, host) = (Device::emulated(), Device::emulated(), Device::host());
    assert!(device.reaches(&device) && device.reaches(&other) && host.reaches(&host));
    assert!(!device.reaches(&host) && !host.reaches(&device));
    let buffer = host.upload(&[1_u32]).unwrap();
    let error = buffer.read_on_peer(&device.stream().unwrap()).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    assert!(device.stream().unwrap().run_after(&host.stream().unwrap()).is_err());
    let (own, far) = (device.upload(&[1_u32]).unwrap(), other.upload(&[1_u32]).unwrap());
    assert!([&own, &far].iter().all(|buffer| buffer.is_in_reach_of(&device)) && !buffer.is_in_reach_of(&device));
    let mut memory = [1_u32; 4];
    // SAFETY: as many elements, which nobody else uses.
    let lent = unsafe { other.buffer_from_raw(&raw mut memory[0], 4) }.unwrap();
    assert!(lent.is_in_reach_of(&device), "known to its device");
}

#[test]
fn a_kernel_that_fails_over_another_devices_memory_is_its_own_devices_failure() {
    let (here, there) = (Device::emulated(), Device::emulated());
    let (far, mut to) = (there.stream().unwrap(), here.alloc::<u32>(64).unwrap());
    there.inject(Some(Failure::Kernel(0)));
    next(&far, &there.upload(&[1_u32; 64]).unwrap(), &mut to).unwrap();
    assert!(there.synchronize().is_err());
    here.synchronize().unwrap();
    there.inject(None);
}
