//! Readers on other streams see a tree before a batch of updates or after it, never between: any index.
//!
//! On the host, on the emulator, and with the feature `cuda` on a GPU. Only there are readers' kernels truly on
//! their way while a batch comes: what a call has put into a stream runs after it has returned, when the tree is
//! no longer borrowed and may be updated. The sizes are such that a look-up takes the GPU some milliseconds.

use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::runtime::gpu_or_skip;
use lanetree::{BatchOrder, harmonia::UpdateScratch};
use lanetree::{Buffer, ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceKind, Harmonia, Stream};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, RwLock};

/// The devices of this machine.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::host(), Device::emulated_with_seed(3)];
    devices.extend(gpu_or_skip(Device::cuda(0)));
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

/// An index of numbers, as the tests see it.
trait Index: Send + Sync + Sized {
    /// Keys on a device.
    type Keys: Send + Sync;
    type Scratch: Send + Sync;
    const NAME: &'static str;

    /// An index of ascending keys with the value 0.
    fn build(device: &Device, keys: &[u64]) -> Self;
    fn keys(device: &Device, keys: &[u64]) -> Self::Keys;
    fn scratch(device: &Device, operations: usize) -> Self::Scratch;
    /// Looks keys up in a stream. May return before that is done.
    fn get(&self, stream: &Stream, keys: &Self::Keys, out: &mut Buffer<u64>);
    /// Gives keys a value, and inserts those that are not there, in a stream. How it was done, in a word.
    fn update(&mut self, stream: &Stream, batch: &Batch<Self>, scratch: &mut Self::Scratch) -> String;
}

impl Index for Harmonia<u64, u64> {
    type Keys = Buffer<u64>;
    type Scratch = UpdateScratch<u64, u64>;
    const NAME: &'static str = "Harmonia";

    fn build(device: &Device, keys: &[u64]) -> Self {
        Harmonia::builder().fill(0.7).build_sorted(device, keys, &vec![0; keys.len()]).unwrap()
    }

    fn keys(device: &Device, keys: &[u64]) -> Self::Keys {
        device.upload(keys).unwrap()
    }

    fn scratch(device: &Device, operations: usize) -> Self::Scratch {
        UpdateScratch::new(device, operations).unwrap()
    }

    fn get(&self, stream: &Stream, keys: &Self::Keys, out: &mut Buffer<u64>) {
        self.on(stream).order(BatchOrder::Random).get(keys, out).unwrap();
    }

    fn update(&mut self, stream: &Stream, batch: &Batch<Self>, scratch: &mut Self::Scratch) -> String {
        let report = match self.device().kind() {
            DeviceKind::Host => self.insert_many(&batch.numbers, &batch.values.to_vec().unwrap()),
            _ => self.apply_on(stream, lanetree::Batch::inserts(&batch.keys, &batch.values), scratch),
        };
        format!("{:?}", report.unwrap().path)
    }
}

impl Index for Cuart<u64> {
    type Keys = DeviceKeys;
    type Scratch = ChangeScratch;
    const NAME: &'static str = "CuART";

    fn build(device: &Device, keys: &[u64]) -> Self {
        let keys = ByteKeysBuf::encode(keys);
        Cuart::builder().build_sorted(device, &keys, &vec![0; keys.len()]).unwrap()
    }

    fn keys(device: &Device, keys: &[u64]) -> Self::Keys {
        DeviceKeys::upload(device, &ByteKeysBuf::encode(keys)).unwrap()
    }

    fn scratch(device: &Device, operations: usize) -> Self::Scratch {
        ChangeScratch::for_inserts(device, operations, UpdateEngine::Auto).unwrap()
    }

    fn get(&self, stream: &Stream, keys: &Self::Keys, out: &mut Buffer<u64>) {
        self.on(stream).get(keys, out).unwrap();
    }

    fn update(&mut self, stream: &Stream, batch: &Batch<Self>, scratch: &mut Self::Scratch) -> String {
        let Batch { numbers, keys, values, inserts } = batch;
        if self.device().kind() == DeviceKind::Host {
            let keys = ByteKeysBuf::encode(numbers);
            return format!("{:?}", self.insert_many(&keys, &values.to_vec().unwrap()).unwrap().path);
        }
        if *inserts {
            self.insert_on(stream, keys, values, scratch).unwrap();
            // What was inserted goes again, and the leaves that are left move.
            let others: Vec<u64> = numbers.iter().copied().filter(|number| number % 4 > 0).collect();
            let removed = self.remove_on(stream, &<Self as Index>::keys(stream.device(), &others)).unwrap();
            assert_eq!(removed, others.len() as u64);
            self.compact().unwrap();
            return "inserts, removals, compaction".into();
        }
        self.update_on(stream, keys, values, None, scratch).unwrap();
        "updates".into()
    }
}

/// An index of the multiples of 4, at first with the value 0. Each batch gives all of them its own number for a
/// value, so what a look-up finds is of one batch, if it saw no other.
struct Versioned<I: Index> {
    tree: I,
    device: Device,
    stream: Stream,
    sizes: Sizes,
    scratch: I::Scratch,
    version: u64,
}

/// The keys and values of a batch.
struct Batch<I: Index> {
    numbers: Vec<u64>,
    keys: I::Keys,
    values: Buffer<u64>,
    /// Whether some of them are new.
    inserts: bool,
}

impl<I: Index> Versioned<I> {
    fn new(device: &Device) -> Self {
        let sizes = sizes(device);
        let keys: Vec<u64> = (0..sizes.keys).map(|i| i * 4).collect();
        let (tree, scratch) = (I::build(device, &keys), I::scratch(device, 2 * keys.len()));
        Self { tree, device: device.clone(), stream: device.stream().unwrap(), sizes, scratch, version: 0 }
    }

    /// The batch with a number. The third, the sixth and the ninth also insert keys, as many as there are
    /// multiples of 4, for which a tree's leaves have no room.
    fn batch(&self, version: u64) -> Batch<I> {
        let offset = if version.is_multiple_of(3) { version / 3 % 4 } else { 0 };
        let numbers: Vec<u64> = (0..self.sizes.keys)
            .flat_map(|i| [Some(i * 4), (offset > 0).then_some(i * 4 + offset)])
            .flatten()
            .collect();
        let values = self.device.upload(&vec![version; numbers.len()]).unwrap();
        Batch { keys: I::keys(&self.device, &numbers), numbers, values, inserts: offset > 0 }
    }

    /// Applies the next batch.
    fn update(&mut self, batch: &Batch<I>) -> String {
        self.version += 1;
        self.tree.update(&self.stream, batch, &mut self.scratch)
    }
}

/// Look-ups that are on their way in a stream of their own.
struct Reader<I: Index> {
    stream: Stream,
    queries: I::Keys,
    outputs: Vec<Buffer<u64>>,
}

impl<I: Index> Reader<I> {
    fn new(device: &Device, sizes: &Sizes, look_ups: usize) -> Self {
        // All of them hit, and every leaf is read.
        let queries: Vec<u64> =
            (0..sizes.queries as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % sizes.keys * 4).collect();
        Self {
            stream: device.stream().unwrap(),
            queries: I::keys(device, &queries),
            outputs: (0..look_ups).map(|_| device.alloc_zeroed(sizes.queries).unwrap()).collect(),
        }
    }

    /// Puts look-ups on their way; waits for none.
    fn launch(&mut self, tree: &I) {
        for out in &mut self.outputs {
            tree.get(&self.stream, &self.queries, out);
        }
    }

    /// Waits for them, and sees that all have found the values of one batch.
    fn assert_saw(&self, version: u64) {
        self.stream.synchronize().unwrap();
        for (look_up, out) in self.outputs.iter().enumerate() {
            let values = out.to_vec().unwrap();
            let other = values.iter().find(|&&value| value != version);
            assert_eq!(other, None, "{}: look-up {look_up} of version {version} on {}", I::NAME, self.stream.device());
        }
    }
}

fn look_ups_in_flight<I: Index>() {
    for device in devices() {
        let mut versioned = Versioned::<I>::new(&device);
        let mut before = Reader::new(&device, &versioned.sizes, versioned.sizes.look_ups);
        let mut after = Reader::new(&device, &versioned.sizes, 1);
        let mut paths = BTreeSet::new();
        for version in 0..versioned.sizes.batches {
            let batch = versioned.batch(version + 1);
            before.launch(&versioned.tree);
            paths.insert(versioned.update(&batch));
            after.launch(&versioned.tree);
            after.assert_saw(version + 1);
            before.assert_saw(version);
        }
        assert!(paths.len() > 1 || device.kind() == DeviceKind::Host, "{}: {paths:?}", I::NAME);
    }
}

#[test]
fn look_ups_in_flight_see_the_tree_before_the_batch_and_later_ones_after_it() {
    look_ups_in_flight::<Harmonia<u64, u64>>();
    look_ups_in_flight::<Cuart<u64>>();
}

#[test]
fn threads_that_keep_looking_up_see_one_batch_or_another() {
    threads_keep_looking_up::<Harmonia<u64, u64>>();
    threads_keep_looking_up::<Cuart<u64>>();
}

fn threads_keep_looking_up<I: Index>() {
    for device in devices() {
        let versioned = Versioned::<I>::new(&device);
        let readers: Vec<Reader<I>> = (0..3).map(|_| Reader::new(&device, &versioned.sizes, 1)).collect();
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
                // Look-ups between any two batches, in either order.
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
