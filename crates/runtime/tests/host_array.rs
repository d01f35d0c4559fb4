//! Arrays in host memory: their pages, and kernels that read them.

use lanetree_runtime::{Buffer, Device, Error, Failure, GrantedPages, HostArray, Pages, Pool, Stream};
use lanetree_simt::{Entry, Global, GlobalMut, Hint, Instance, Kernel, LaunchShape, Module, Simt, kernel_args};

const HUGE: usize = 2 << 20;
const PAGES: [Pages; 3] = [Pages::Small, Pages::Transparent, Pages::Huge];

/// Adds one array to another.
struct Add;

kernel_args! {
    struct AddArgs {
        from: Global<u32>,
        to: GlobalMut<u32>,
        len: u64,
    }
}

impl Kernel for Add {
    type Args = AddArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.len {
            // SAFETY: inside both arrays, and each thread has an element of its own.
            unsafe {
                let from = simt.load(args.from, index, Hint::Default);
                let to = simt.load(args.to.as_const(), index, Hint::Default);
                simt.store(args.to, index, to.wrapping_add(from), Hint::Default);
            }
        }
    }
}

static TEST: Module = Module { name: "test", ptx: "" };

impl Instance for Add {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<Add>(&TEST, "test__add");
        &ENTRY
    };
}

/// Puts a launch of 64 threads into a stream: `to += from`.
fn add(stream: &Stream, from: Global<u32>, to: &mut Buffer<u32>) -> Result<(), Error> {
    let args = AddArgs { from, to: to.write_on(stream)?, len: to.len() as u64 };
    // SAFETY: what the emulator does not check, the tests keep: the streams that read the array are known.
    unsafe { stream.launch::<Add>(LaunchShape { blocks: 2, threads: 32, dynamic_shared: 0 }, &args) }
}

/// An array of 50 elements, each of this value.
fn array_of(value: u32) -> HostArray<u32> {
    let mut array = HostArray::zeroed(50, Pages::Transparent).unwrap();
    array.fill(value);
    array
}

#[test]
fn arrays_are_zero_and_aligned_and_hold_what_is_written() {
    for pages in PAGES {
        for len in [1, 2, 511, 512, 1001, HUGE / 4 - 1, HUGE / 4, HUGE / 4 + 1, 5 * HUGE / 8 + 3, 4 * HUGE] {
            let mut array = HostArray::<u32>::zeroed(len, pages).unwrap();
            assert_eq!((array.len(), array.bytes(), array.is_empty()), (len, 4 * len, false));
            let is_huge = pages != Pages::Small && array.bytes() >= HUGE;
            let alignment = if is_huge { HUGE } else { 4096 };
            assert!(array.as_ptr().addr().is_multiple_of(alignment), "{array:?}");
            assert!(array.iter().all(|&value| value == 0), "{array:?}");
            array.iter_mut().zip(7..).for_each(|(to, from)| *to = from);
            assert!(array.iter().zip(7..).all(|(&got, want)| got == want), "{array:?}");
        }
    }
}

#[test]
fn empty_arrays_are_legal() {
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().unwrap();
        let mut array = HostArray::<u64>::zeroed(0, Pages::default()).unwrap();
        assert!(array.is_empty() && array.bytes() == 0 && array.iter().next().is_none());
        assert_eq!(array.pages().huge_bytes, None);
        assert!(matches!(array.read_on(&stream), Err(Error::NotPinned { bytes: 0, .. })));
        array.pin(&device).unwrap();
        assert!(array.read_on(&stream).unwrap().is_null());
        array.fill(1);
        array.unpin();
        assert_eq!(HostArray::<[u32; 0]>::zeroed(5, Pages::Huge).unwrap().len(), 5);
    }
}

#[test]
fn impossible_lengths_are_out_of_memory() {
    for pages in PAGES {
        for len in [isize::MAX as usize / 8, 1 << 60, usize::MAX] {
            let error = HostArray::<u64>::zeroed(len, pages).unwrap_err();
            let Error::OutOfMemory { requested, device, .. } = &error else { panic!("{error}") };
            assert!(*requested == len as u128 * 8 && device.starts_with("host ("), "{error}");
        }
    }
}

#[test]
fn an_array_says_which_pages_it_has() {
    for asked in PAGES {
        let mut large = HostArray::<u8>::zeroed(3 * HUGE + 1, asked).unwrap();
        large.fill(1);
        let GrantedPages { asked: said, granted, huge_bytes } = large.pages();
        println!("{}", large.pages());
        assert_eq!(said, asked);
        assert!(match asked {
            Pages::Small => granted == Pages::Small,
            Pages::Transparent => granted != Pages::Huge,
            Pages::Huge => true,
        });
        assert_eq!(huge_bytes.is_some(), cfg!(target_os = "linux"));
        let most = match granted {
            Pages::Small => 0,
            Pages::Transparent | Pages::Huge => 4 * HUGE as u64,
        };
        assert!(huge_bytes.is_none_or(|bytes| bytes <= most), "{}", large.pages());
        assert!(granted != Pages::Huge || huge_bytes == Some(most), "{}", large.pages());

        let small = HostArray::<u8>::zeroed(HUGE - 1, asked).unwrap();
        assert_eq!((small.pages().asked, small.pages().granted), (asked, Pages::Small));
    }
    let pages = GrantedPages { asked: Pages::Huge, granted: Pages::Transparent, huge_bytes: Some(4096) };
    assert_eq!(
        pages.to_string(),
        "transparent huge pages in place of the reserved huge pages that were asked for; 4096 bytes are in huge pages now"
    );
    let pages = GrantedPages { asked: Pages::Small, granted: Pages::Small, huge_bytes: None };
    assert_eq!(pages.to_string(), "small pages, as asked");
}

#[test]
fn an_array_is_pinned_for_one_device_at_a_time() {
    let devices = [Device::host(), Device::emulated(), Pool::new(&Device::emulated()).device()];
    let mut array = array_of(1);
    assert_eq!(array.pinned_for(), None);
    array.unpin();
    for device in devices.iter().chain(&devices) {
        let stream = device.stream().unwrap();
        let error = array.read_on(&stream).unwrap_err();
        assert!(matches!(error, Error::NotPinned { bytes: 200, .. }), "{error}");
        assert!(error.to_string().contains(&device.to_string()), "{error}");
        for _ in 0..2 {
            array.pin(device).unwrap();
            assert_eq!(array.pinned_for(), Some(device));
            assert!(array.pinned_for().unwrap().pool().is_none());
            assert_eq!(array.read_on(&stream).unwrap().as_ptr().addr(), array.as_ptr().addr());
        }
        assert!(format!("{array:?}").contains(&format!("pinned for {device}")), "{array:?}");
        array.fill(2);
        assert_eq!(array[..], [2; 50]);
    }
    array.unpin();
    assert_eq!(array.pinned_for(), None);
    assert_eq!(format!("{array:?}"), "HostArray<u32>[50 in small pages]");
}

#[test]
fn a_kernel_reads_a_pinned_array_and_no_other() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut sum = device.alloc_zeroed::<u32>(50).unwrap();
    let mut array = array_of(7);
    let unpinned = Global::new(array.as_ptr());
    let is_fault = |stream: &Stream, from: Global<u32>, to: &mut Buffer<u32>| {
        add(stream, from, to).unwrap();
        matches!(stream.synchronize(), Err(Error::Emulator(_)))
    };
    assert!(is_fault(&stream, unpinned, &mut sum), "not pinned");

    array.pin(&device).unwrap();
    add(&stream, array.read_on(&stream).unwrap(), &mut sum).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sum.to_vec().unwrap(), [7; 50]);
    let mut longer = device.alloc_zeroed::<u32>(51).unwrap();
    assert!(is_fault(&stream, array.read_on(&stream).unwrap(), &mut longer), "one element too many");

    array.unpin();
    assert!(is_fault(&stream, unpinned, &mut sum), "no longer pinned");
    array.pin(&device).unwrap();
    array.pin(&Device::emulated()).unwrap();
    assert!(is_fault(&stream, unpinned, &mut sum), "pinned for another device");
}

#[test]
fn what_changes_an_array_waits_for_the_streams_that_read_it() {
    for seed in 0..50 {
        let device = Device::emulated_with_seed(seed);
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let mut sums = streams.each_ref().map(|_| device.alloc_zeroed::<u32>(50).unwrap());
        let mut array = array_of(1);
        for round in 0..4 {
            array.pin(&device).unwrap();
            for (stream, sum) in streams.iter().zip(&mut sums) {
                add(stream, array.read_on(stream).unwrap(), sum).unwrap();
            }
            // Reading the array waits for nothing: neither does it run what is queued.
            assert_eq!(array[..], [1; 50]);
            match round {
                0 => array.fill(1),
                1 => array.unpin(),
                2 => array.pin(&Device::emulated()).unwrap(),
                _ => drop(core::mem::replace(&mut array, array_of(9))),
            }
            if round == 0 {
                // Not by what `to_vec` waits for.
                sums.iter().for_each(|sum| {
                    // SAFETY: the buffer lives, and nothing runs meanwhile.
                    assert_eq!(unsafe { (sum.addresses().start as *const u32).read() }, 1);
                });
            }
        }
        sums.iter().for_each(|sum| assert_eq!(sum.to_vec().unwrap(), [4; 50], "seed {seed}"));
    }
}

#[test]
fn an_array_that_cannot_be_pinned_can_still_be_used() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut array = array_of(7);
    device.inject(Some(Failure::Allocation(0)));
    let error = array.pin(&device).unwrap_err();
    let Error::CannotPin { bytes: 200, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("200 bytes of host memory for emulated (seed 0)"), "{error}");
    assert_eq!(device.inject(None), None, "it has come to pass");
    assert_eq!(array.pinned_for(), None);
    assert!(matches!(array.read_on(&stream), Err(Error::NotPinned { .. })));
    array[0] = 8;
    array.pin(&device).unwrap();

    let other = Device::emulated_with_seed(1);
    other.inject(Some(Failure::Allocation(0)));
    assert!(matches!(array.pin(&other), Err(Error::CannotPin { .. })));
    assert_eq!(array.pinned_for(), None, "for the first device neither");
    array.pin(&device).unwrap();
    let mut sum = device.alloc_zeroed::<u32>(50).unwrap();
    add(&stream, array.read_on(&stream).unwrap(), &mut sum).unwrap();
    assert_eq!(sum.to_vec().unwrap()[..2], [8, 7]);

    let failed = Failure::at_every_point(
        |device| (device.clone(), array_of(7)),
        |(device, array)| array.pin(device),
        |(_, array), error| {
            assert!(matches!(error, Error::CannotPin { .. }) && array.pinned_for().is_none(), "{error}");
            assert_eq!(array[..], [7; 50]);
        },
    );
    assert_eq!(failed.len(), 1);
}

#[test]
fn arrays_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<HostArray<u64>>();
    let mut array = array_of(7);
    array.pin(&Device::emulated()).unwrap();
    std::thread::spawn(move || assert_eq!(array[..], [7; 50])).join().unwrap();
}
