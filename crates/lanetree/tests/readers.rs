//! Readers on other streams see a tree before a batch of updates or after it, never between.
//!
//! On the host, on the emulator, and with the feature `cuda` on a GPU. Only there are readers' kernels truly on
//! their way while a batch comes: what a call has put into a stream runs after it has returned, when the tree is
//! no longer borrowed and may be updated. The sizes are such that a look-up takes the GPU some milliseconds.

use lanetree::harmonia::{BatchOrder, UpdatePath, UpdateScratch};
use lanetree::runtime::Error;
use lanetree::{Buffer, Device, DeviceKind, Harmonia, Stream};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, RwLock};

/// The devices of this machine. That there is no GPU is said, and fails if `LANETREE_REQUIRE_GPU` is set.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::host(), Device::emulated_with_seed(3)];
    if cfg!(feature = "cuda") {
        match Device::cuda(0) {
            Ok(device) => devices.push(device),
            Err(Error::NoDevice { .. } | Error::NoDriver { .. })
                if std::env::var_os("LANETREE_REQUIRE_GPU").is_none() =>
            {
                // Not `eprintln!`, which the test harness hides.
                let thread = std::thread::current();
                let _ = writeln!(std::io::stderr(), "skipped: no GPU: {:?}", thread.name().unwrap_or(""));
            }
            Err(error) => panic!("{error}"),
        }
    }
    devices
}

/// How large things are on a device.
struct Sizes {
    keys: u64,
    queries: usize,
    /// Look-ups that are on their way as a batch comes.
    look_ups: usize,
    batches: u64,
}

fn sizes(device: &Device) -> Sizes {
    match device.kind() {
        DeviceKind::Cuda => Sizes { keys: 1 << 22, queries: 1 << 20, look_ups: 64, batches: 10 },
        DeviceKind::Host | DeviceKind::Emulated => Sizes { keys: 300, queries: 400, look_ups: 2, batches: 10 },
    }
}

/// A tree of the multiples of 4, at first with the value 0. Each batch gives all of them its own number for a
/// value, so what a look-up finds is of one batch, if it saw no other.
struct Versioned {
    tree: Harmonia<u64, u64>,
    stream: Stream,
    sizes: Sizes,
    scratch: UpdateScratch<u64, u64>,
    version: u64,
}

/// The keys and values of a batch.
struct Batch(Buffer<u64>, Buffer<u64>);

impl Versioned {
    fn new(device: &Device) -> Self {
        let sizes = sizes(device);
        let keys: Vec<u64> = (0..sizes.keys).map(|i| i * 4).collect();
        let tree = Harmonia::builder().fill(0.7).build_sorted(device, &keys, &vec![0; keys.len()]).unwrap();
        let scratch = UpdateScratch::new(device, 2 * keys.len()).unwrap();
        Self { tree, stream: device.stream().unwrap(), sizes, scratch, version: 0 }
    }

    /// The batch with a number. The third, the sixth and the ninth also insert keys, as many as there are
    /// multiples of 4, for which the leaves have no room.
    fn batch(&self, version: u64) -> Batch {
        let beside = if version.is_multiple_of(3) { version / 3 % 4 } else { 0 };
        let keys: Vec<u64> = (0..self.sizes.keys)
            .flat_map(|i| [Some(i * 4), (beside > 0).then_some(i * 4 + beside)])
            .flatten()
            .collect();
        let device = self.tree.device();
        Batch(device.upload(&keys).unwrap(), device.upload(&vec![version; keys.len()]).unwrap())
    }

    /// Applies the next batch.
    fn update(&mut self, Batch(keys, values): &Batch) -> UpdatePath {
        self.version += 1;
        let report = match (self.tree.device().kind(), keys.as_slice(), values.as_slice()) {
            (DeviceKind::Host, Some(keys), Some(values)) => self.tree.insert_many(keys, values),
            _ => self.tree.apply_on(&self.stream, keys, values, None, &mut self.scratch),
        };
        report.unwrap().path
    }
}

/// Look-ups that are on their way in a stream of their own.
struct Reader {
    stream: Stream,
    queries: Buffer<u64>,
    outputs: Vec<Buffer<u64>>,
}

impl Reader {
    fn new(device: &Device, sizes: &Sizes, look_ups: usize) -> Self {
        // All of them hit, and every leaf is read.
        let queries: Vec<u64> =
            (0..sizes.queries as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % sizes.keys * 4).collect();
        Self {
            stream: device.stream().unwrap(),
            queries: device.upload(&queries).unwrap(),
            outputs: (0..look_ups).map(|_| device.alloc_zeroed(sizes.queries).unwrap()).collect(),
        }
    }

    /// Puts look-ups on their way; waits for none.
    fn launch(&mut self, tree: &Harmonia<u64, u64>) {
        for out in &mut self.outputs {
            tree.on(&self.stream).order(BatchOrder::Random).get(&self.queries, out, None, u64::MAX).unwrap();
        }
    }

    /// Waits for them, and sees that all have found the values of one batch.
    fn assert_saw(&self, version: u64) {
        self.stream.synchronize().unwrap();
        for (look_up, out) in self.outputs.iter().enumerate() {
            let values = out.to_vec().unwrap();
            let other = values.iter().find(|&&value| value != version);
            assert_eq!(other, None, "look-up {look_up} of version {version} on {}", self.stream.device());
        }
    }
}

#[test]
fn look_ups_in_flight_see_the_tree_before_the_batch_and_later_ones_after_it() {
    for device in devices() {
        let mut versioned = Versioned::new(&device);
        let mut before = Reader::new(&device, &versioned.sizes, versioned.sizes.look_ups);
        let mut after = Reader::new(&device, &versioned.sizes, 1);
        let mut paths = Vec::new();
        for version in 0..versioned.sizes.batches {
            let batch = versioned.batch(version + 1);
            before.launch(&versioned.tree);
            paths.push(versioned.update(&batch));
            after.launch(&versioned.tree);
            after.assert_saw(version + 1);
            before.assert_saw(version);
        }
        assert!(paths.contains(&UpdatePath::InPlace), "{paths:?}");
        assert!(paths.iter().any(|&path| path != UpdatePath::InPlace), "{paths:?}");
    }
}

#[test]
fn threads_that_keep_looking_up_see_one_batch_or_another() {
    for device in devices() {
        let versioned = Versioned::new(&device);
        let readers: Vec<Reader> = (0..3).map(|_| Reader::new(&device, &versioned.sizes, 1)).collect();
        let batches = versioned.sizes.batches;
        // What a program has that updates a tree while others read it: the lock is held while look-ups are put on
        // their way, not while they run.
        let (shared, done) = (RwLock::new(versioned), AtomicBool::new(false));
        let (looked, barrier) = (AtomicU64::new(0), Barrier::new(readers.len() + 1));
        std::thread::scope(|scope| {
            for mut reader in readers {
                let (shared, done, looked, barrier) = (&shared, &done, &looked, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    loop {
                        let last = done.load(Ordering::Acquire);
                        let version = {
                            let versioned = shared.read().unwrap();
                            reader.launch(&versioned.tree);
                            versioned.version
                        };
                        reader.assert_saw(version);
                        looked.fetch_add(1, Ordering::Relaxed);
                        if last {
                            break;
                        }
                    }
                });
            }
            barrier.wait();
            for version in 0..batches {
                let batch = shared.read().unwrap().batch(version + 1);
                // Look-ups between each two batches, whoever is quicker.
                while looked.load(Ordering::Relaxed) < version {
                    std::thread::yield_now();
                }
                shared.write().unwrap().update(&batch);
            }
            done.store(true, Ordering::Release);
        });
        let versioned = shared.into_inner().unwrap();
        assert_eq!(versioned.version, batches);
        assert!(looked.into_inner() >= batches);
    }
}
