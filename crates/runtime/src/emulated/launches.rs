//! Launches on an emulated device: which buffers a kernel uses, of this device and of those whose memory it reaches.

use super::schedule::{Launch, Schedule, Use};
use super::{Emulated, RawStream};
#[allow(unused_imports, reason = "the documentation names it")]
use crate::Error;
use crate::Result;
use crate::machine::Machine;
use core::any::Any;
use lanetree_simt::emulator::Region;
use lanetree_simt::{Access, Call, LaunchShape};
use std::sync::{Arc, PoisonError, Weak};

impl Emulated {
    /// The launch of a kernel in a stream, and what it uses of this device's buffers.
    ///
    /// # Errors
    /// [`Error::Unordered`] over a buffer of another device.
    pub(super) fn launch_task(
        &self,
        stream: RawStream,
        call: Call<'_>,
        shape: LaunchShape,
    ) -> Result<(Launch, Vec<Use>)> {
        let (entry, args) = (call.entry(), call.args());
        let mut pointers = Vec::new();
        // SAFETY: they are the entry's.
        unsafe { entry.pointers(args, &mut |address, access| pointers.push((address, access))) };
        let uses =
            |regions: &[Region]| regions.iter().map(|region| (region.start, region.writable)).collect::<Vec<Use>>();
        let (mut regions, clock) = {
            let schedule = self.schedule();
            (take_regions(&schedule, &mut pointers), schedule.clock_of(stream.0.addr()))
        };
        let own = uses(&regions);
        // The others point into other devices' buffers, or into none.
        for peer in self.peers() {
            let mut schedule = emulated(&peer).schedule();
            let of_peer = take_regions(&schedule, &mut pointers);
            schedule.check_abroad(entry.symbol(), clock.clone(), &uses(&of_peer))?;
            regions.extend(of_peer);
        }
        let mut copy = vec![0_u128; entry.args_bytes().div_ceil(16)].into_boxed_slice();
        // SAFETY: that many bytes each; of arguments, whose padding is copied as it is.
        unsafe { core::ptr::copy_nonoverlapping(args.cast::<u8>(), copy.as_mut_ptr().cast(), entry.args_bytes()) };
        Ok((Launch { entry, shape, args: copy, regions }, own))
    }

    /// The devices whose memory kernels reach.
    fn peers(&self) -> Vec<Arc<dyn Machine>> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets kernels reach the memory of another device.
    pub(super) fn add_peer(&self, peer: &Arc<dyn Machine>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|known| known.strong_count() > 0);
        let peer = Arc::downgrade(peer);
        if peers.iter().all(|known| !known.ptr_eq(&peer)) {
            peers.push(peer);
        }
    }

    /// Whether an address is in a buffer that kernels reach.
    pub(super) fn has_in_reach(&self, address: usize) -> bool {
        let has = |device: &Self| device.schedule().allocation_of(address).is_some();
        has(self) || self.peers().iter().any(|peer| has(emulated(peer)))
    }
}

/// A machine that is of the same kind as an emulated one.
pub(super) fn emulated(peer: &Arc<dyn Machine>) -> &Emulated {
    (&**peer as &dyn Any).downcast_ref().expect("peers are of the same kind")
}

/// The buffers of a device that arguments point into, each once; these pointers are taken out. A pointer into none gives no region: the
/// emulator reports the access, if there is one.
fn take_regions(schedule: &Schedule, pointers: &mut Vec<(usize, Access)>) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    pointers.retain(|&(address, access)| {
        let Some((start, bytes)) = schedule.allocation_of(address) else { return true };
        let writable = access == Access::ReadWrite;
        match regions.iter_mut().find(|region| region.start == start) {
            Some(region) => region.writable |= writable,
            None => regions.push(Region { start, bytes, writable }),
        }
        false
    });
    regions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Card;

    #[test]
    fn pointers_resolve_to_whole_allocations_each_once() {
        let device = Emulated::new(0, Card::SMALLEST);
        let a = device.alloc(100, true).unwrap();
        let b = device.alloc(50, true).unwrap();
        let (start_a, start_b) = (a.addr().get(), b.addr().get());
        let (read, write) = (Access::Read, Access::ReadWrite);
        let mut pointers = vec![(0, write), (start_a + 40, read), (start_b + 50 + 1, write), (start_a, write)];
        let regions = take_regions(&device.schedule(), &mut pointers);
        assert_eq!(regions.len(), 1, "null and a pointer into no buffer give no region");
        assert_eq!((regions[0].start, regions[0].bytes, regions[0].writable), (start_a, 100, true));
        for (at, bytes) in [(a, 100), (b, 50)] {
            // SAFETY: allocated above with this size, and used no more.
            unsafe { device.free(at, bytes) };
        }
        assert!(device.schedule().allocation_of(start_a).is_none());
    }
}
