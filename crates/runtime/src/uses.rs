//! The streams that use a buffer. This makes calls safe that return before their work is done.
//!
//! A call borrows its buffers until it returns, but its work continues after that. So each buffer remembers the streams
//! that have used it, and the next use, in another stream or by the CPU, waits for theirs. In the common case of a
//! single stream this is a comparison of two numbers: no event is recorded, nothing is allocated. (cudarc's `CudaSlice`
//! records an event for every use, and waits for two at the next.)

use crate::machine::Machine;
use crate::stream::Queue;
use crate::{Result, Stream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Streams that are known without the lock: the number that a host batch keeps in flight in one thread, and a few more.
const KNOWN: usize = 6;

/// The streams that use a buffer.
#[derive(Default)]
pub(crate) struct Uses {
    /// Numbers of queues in `list` that may read without the lock: work that they are given runs after the last write.
    /// Padded with zeros. Threads that share the buffer only ever add entries.
    known: [AtomicU64; KNOWN],
    list: Mutex<List>,
    /// Whether streams of other devices have used it. They are in the list, or the last one there waits for them.
    by_peers: AtomicBool,
}

#[derive(Default)]
struct List {
    /// Wrote last.
    writer: Option<Arc<Queue>>,
    /// The streams that have read since, each once; the writer is not among them.
    readers: Vec<Arc<Queue>>,
}

/// How the CPU is to wait before it touches a buffer.
pub(crate) enum Wait {
    /// Not at all: everything that it must wait for is done.
    Done,
    /// By working in the order of this queue and waiting for this queue.
    InOrderOf(Arc<Queue>),
}

impl Uses {
    fn list(&self) -> MutexGuard<'_, List> {
        // A panic while the lock is held leaves, at worst, a list with too many entries.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no stream uses the buffer that has not been waited for.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.known.iter().all(|known| known.load(Ordering::Acquire) == 0)
    }

    /// Orders the next work in `stream` after the last write, and remembers that the stream reads.
    #[inline]
    pub(crate) fn read(&self, stream: &Stream) -> Result<()> {
        let id = stream.queue().id();
        // Acquire: the queue was made to wait for the writer before its number was stored.
        if self.known.iter().any(|known| known.load(Ordering::Acquire) == id) {
            return Ok(());
        }
        self.add_reader(stream.queue())
    }

    #[cold]
    fn add_reader(&self, queue: &Arc<Queue>) -> Result<()> {
        let mut list = self.list();
        let is_new = |other: &Arc<Queue>| other.id() != queue.id();
        if let Some(writer) = list.writer.as_ref().filter(|writer| is_new(writer)) {
            queue.run_after(writer)?;
        }
        if list.writer.iter().chain(&list.readers).all(is_new) {
            if list.readers.len() >= KNOWN && list.readers.len().is_power_of_two() {
                // A program may take a new stream for every batch, so streams whose work is done are forgotten.
                list.readers.retain(|reader| !reader.is_over());
            }
            list.readers.push(queue.clone());
        }
        self.know(&list);
        Ok(())
    }

    /// Makes streams of the list known, the last ones first. A stream that is no longer known takes the lock.
    fn know(&self, list: &List) {
        let mut last = list.readers.iter().rev().chain(&list.writer);
        // Stores are under the lock.
        self.known.iter().for_each(|known| known.store(last.next().map_or(0, |it| it.id()), Ordering::Release));
    }

    /// Orders the next work in `stream` after all uses so far, and remembers that the stream writes.
    #[inline]
    pub(crate) fn write(&mut self, stream: &Stream) -> Result<()> {
        let queue = stream.queue();
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        if list.readers.is_empty() && list.writer.as_ref().is_some_and(|writer| writer.id() == queue.id()) {
            return Ok(());
        }
        for other in list.writer.iter().chain(&list.readers) {
            if other.id() != queue.id() {
                queue.run_after(other)?;
            }
        }
        list.readers.clear();
        list.writer = Some(queue.clone());
        self.known = Default::default();
        *self.known[0].get_mut() = queue.id();
        Ok(())
    }

    /// Remembers that streams of other devices use it, which are in the list, or for which the last one there waits.
    pub(crate) fn come_from_peers(&self) {
        self.by_peers.store(true, Ordering::Relaxed);
    }

    /// Whether streams of other machines are among those that use the buffer.
    pub(crate) fn are_of_peers(&mut self, own: &Arc<dyn Machine>) -> bool {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        list.writer.iter().chain(&list.readers).any(|user| !user.is_of(own))
    }

    /// Waits for all uses if streams of other devices may still use the memory.
    pub(crate) fn quiesce_peers(&mut self) {
        if *self.by_peers.get_mut() {
            self.quiesce();
        }
    }

    /// How the CPU waits to read.
    pub(crate) fn before_host_read(&self) -> Wait {
        if self.is_unused() {
            return Wait::Done;
        }
        self.list().writer.clone().map_or(Wait::Done, Wait::InOrderOf)
    }

    /// How the CPU waits before it writes. If several streams use the buffer, it has waited for all but the returned
    /// one.
    pub(crate) fn before_host_write(&mut self) -> Result<Wait> {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut users = list.writer.iter().chain(&list.readers);
        let Some(first) = users.next() else { return Ok(Wait::Done) };
        users.try_for_each(|user| user.synchronize())?;
        Ok(Wait::InOrderOf(first.clone()))
    }

    /// Waits for all uses, and forgets them. The next call that returns errors reports a failure.
    pub(crate) fn synchronize(&mut self) -> Result<()> {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        list.writer.iter().chain(&list.readers).try_for_each(|user| user.synchronize())?;
        self.forget();
        Ok(())
    }

    /// Waits for all uses, and forgets them. The next call that returns errors reports a failure.
    pub(crate) fn quiesce(&mut self) {
        if !self.is_unused() {
            let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
            list.writer.iter().chain(&list.readers).for_each(|user| user.quiesce());
            self.forget();
        }
    }

    /// Waits for the last write. The next call that returns errors reports a failure.
    pub(crate) fn quiesce_write(&self) {
        if let Wait::InOrderOf(writer) = self.before_host_read() {
            writer.quiesce();
            // So that the next one need not wait. The writer stays as a reader: its number is among the known.
            let mut list = self.list();
            if list.writer.take_if(|it| it.id() == writer.id()).is_some() {
                list.readers.push(writer);
            }
        }
    }

    /// Forgets all uses, which are done.
    pub(crate) fn forget(&mut self) {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        list.readers.clear();
        list.writer = None;
        self.known = Default::default();
        *self.by_peers.get_mut() = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn streams_that_have_come_to_their_end_are_forgotten() {
        let device = Device::emulated();
        let uses = Uses::default();
        let kept = device.stream().unwrap();
        uses.read(&kept).unwrap();
        for _ in 0..1000 {
            let stream = device.stream().unwrap();
            uses.read(&stream).unwrap();
            uses.read(&kept).unwrap();
            let list = uses.list();
            assert!(list.readers.len() <= 2 * KNOWN, "{} readers", list.readers.len());
            assert!(list.readers.iter().any(|reader| reader.id() == kept.queue().id()));
        }
    }

    #[test]
    fn work_that_another_library_puts_into_a_stream_is_waited_for_each_time() {
        let device = Device::emulated();
        let (theirs, ours) = (device.stream().unwrap(), device.stream().unwrap());
        let mut buffer = device.alloc_zeroed::<u32>(8).unwrap();
        let mut copy = device.alloc_zeroed::<u32>(8).unwrap();
        for _ in 0..3 {
            let at = buffer.lend_mut_on(&theirs).unwrap();
            // SAFETY: bytes of the buffer, which remembers the stream. Nobody counts the work: as another library's.
            unsafe { device.machine.zero(at.cast(), 32, theirs.raw()).unwrap() };
            // The emulator refuses a copy that nothing orders after it.
            copy.copy_from_buffer(&ours, 0, &buffer, 0..8).unwrap();
        }
    }
}
