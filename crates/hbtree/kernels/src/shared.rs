//! The descent as the paper writes it: flags in shared memory (section 5.3, appendix D).

use crate::layout::words;
use crate::{DescendArgs, THREADS};
use core::marker::PhantomData;
use lanetree_simt::{Hint, Kernel, LaunchBounds, Shared, Simt, Word};

/// Finds the leaf of each query: a team of as many threads as a node has separators (8 or 16) for each, in blocks of
/// [`THREADS`] threads. Every node's last separator must be the largest word, so that a query has exactly one thread
/// that finds its own separator not below the query, and the one before it below.
#[derive(Debug)]
pub struct DescendShared<K>(PhantomData<K>);

impl<K: Word> DescendShared<K> {
    const TEAM: u32 = words::<K>();
    const TEAMS: u32 = THREADS / Self::TEAM;
    /// A team's flags: one before the first thread's, which stays 0, and one for each thread.
    const FLAGS: u32 = Self::TEAM + 1;
}

impl<K: Word> Kernel for DescendShared<K> {
    type Args = DescendArgs<K>;

    const STATIC_SHARED: u32 = Self::TEAMS * (Self::FLAGS + 1) * 4;

    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let flags = Shared::<u32>::at(0, Self::TEAMS * Self::FLAGS);
        let results = Shared::<u32>::at(flags.end(), Self::TEAMS);
        let (team, member) = (simt.thread_index() / Self::TEAM, simt.thread_index() % Self::TEAM);
        let flag = |member: u32| team * Self::FLAGS + member;
        let index = u64::from(simt.block_index()) * u64::from(Self::TEAMS) + u64::from(team);
        let (mut query, mut node) = (K::MIN, 0);
        // SAFETY: the place of a query; the flags and the result are the team's, and barriers separate writing from
        // reading.
        unsafe {
            if index < args.count {
                query = simt.load(args.queries, index, Hint::ReadOnly).xor(tree.flip);
                if !args.nodes.is_null() {
                    node = simt.load(args.nodes, index, Hint::ReadOnly);
                }
            }
            if member == 0 {
                simt.shared_store(flags, flag(0), 0);
            }
            let mut level = args.from;
            while level < tree.height {
                let first = simt.load(tree.levels, u64::from(level), Hint::ReadOnly);
                let slot = (u64::from(first) + u64::from(node)) * u64::from(Self::TEAM) + u64::from(member);
                let is_mine = query <= simt.load(tree.separators, slot, Hint::ReadOnly);
                simt.shared_store(flags, flag(member + 1), u32::from(is_mine));
                simt.barrier();
                if is_mine && simt.shared_load(flags, flag(member)) == 0 {
                    simt.shared_store(results, team, member);
                }
                simt.barrier();
                node = node * tree.fanout + simt.shared_load(results, team);
                level += 1;
            }
            if member == 0 && index < args.count {
                simt.store(args.leaves, index, node, Hint::Default);
            }
        }
    }
}
