//! The descent through the regular tree: three accesses per level (section 5.3).

use crate::THREADS;
use crate::descend::IN_FLIGHT;
use crate::layout::{children_offset, fanout, last_lines, node_start, separators_offset, upper_lines, words};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Shared, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// The inner levels of the regular tree on the device: passed to kernels by value.
    pub struct RegularRef<K> {
        /// Nodes above the last inner level, by their numbers: ordered words.
        pub upper: Global<K>,
        /// Nodes of the last inner level, by their numbers.
        pub last: Global<K>,
        /// The root's number, among the last level's nodes if that is the only one.
        pub root: u32,
        /// Levels, at least one.
        pub height: u32,
        /// Exclusive-or mask between queries in the caller's form and ordered words.
        pub flip: K,
    }
}

kernel_args! {
    /// Arguments of [`DescendRegular`] and [`DescendRegularShared`].
    pub struct DescendRegularArgs<K> {
        /// The inner levels.
        pub tree: RegularRef<K>,
        /// Queries: `[count]`, in the caller's form.
        pub queries: Global<K>,
        /// How many, at least one.
        pub count: u64,
        /// The level to start from; 0 is the root's.
        pub from: u32,
        /// The node of each query in that level: `[count]`; null if all start from the root.
        pub nodes: Global<u32>,
        /// Out: `[count]`, the leaf of each query.
        pub leaves: GlobalMut<u32>,
    }
}

impl<K: Word> DescendRegularArgs<K> {
    /// A thread's query and the node where it starts. Threads past the last query take the last one, since they search
    /// nodes too: not every number is that of a node.
    ///
    /// # Safety
    /// The arguments are valid.
    #[inline(always)]
    unsafe fn query<S: Simt>(&self, simt: S, index: u64) -> (K, u32) {
        let place = if index < self.count { index } else { self.count - 1 };
        // SAFETY: the place of a query.
        unsafe {
            let query = simt.load(self.queries, place, Hint::ReadOnly).xor(self.tree.flip);
            let node = if self.nodes.is_null() { self.tree.root } else { simt.load(self.nodes, place, Hint::ReadOnly) };
            (query, node)
        }
    }
}

/// Finds the leaf of each query with ballots: a lane for each word of a line (8 or 16 lanes per query), a thread per query
/// in all; any block of whole warps.
#[derive(Debug)]
pub struct DescendRegular<K>(PhantomData<K>);

/// Searches nodes that start at these words: the number of the child of each. All lanes of a warp call it; each lane of a
/// group has the group's queries and nodes, and gets their children.
///
/// # Safety
/// The nodes are nodes of the array.
#[inline(always)]
unsafe fn search<S: Simt, K: Word>(
    simt: S,
    nodes: Global<K>,
    starts: [u64; IN_FLIGHT],
    keys: [K; IN_FLIGHT],
) -> [u32; IN_FLIGHT] {
    let width = const { words::<K>() };
    let (group, member) = (simt.lane() / width, simt.lane() % width);
    let below = |words: [K; IN_FLIGHT]| -> [u32; IN_FLIGHT] {
        core::array::from_fn(|j| {
            let below = simt.ballot(FULL_MASK, words[j] < keys[j]);
            (below >> (group * width) & (u32::MAX >> (WARP - width))).count_ones()
        })
    };
    // SAFETY: a word of a line for each lane of the group. A node's last separator is the largest word, so a line of
    // separators is found, and in it one that is not below the query.
    unsafe {
        let line = below(core::array::from_fn(|j| simt.load(nodes, starts[j] + u64::from(member), Hint::ReadOnly)));
        let at = below(core::array::from_fn(|j| {
            let word = u64::from(line[j] * width + member);
            simt.load(nodes, starts[j] + const { separators_offset::<K>() } + word, Hint::ReadOnly)
        }));
        core::array::from_fn(|j| line[j] * width + at[j])
    }
}

impl<K: Word> Kernel for DescendRegular<K> {
    type Args = DescendRegularArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let width = const { words::<K>() };
        let (group, member) = (simt.lane() / width, simt.lane() % width);
        let index = simt.global_index();
        // SAFETY: the arguments are valid.
        let (own, start) = unsafe { args.query(simt, index) };
        let mut leaf = 0;
        let mut round = 0;
        while round < width {
            // The group's queries are its own lanes' queries.
            let source = |j: usize| group * width + round + j as u32;
            let keys: [K; IN_FLIGHT] = core::array::from_fn(|j| simt.shuffle(FULL_MASK, own, source(j)));
            let mut nodes: [u32; IN_FLIGHT] = core::array::from_fn(|j| simt.shuffle(FULL_MASK, start, source(j)));
            let mut level = args.from;
            while level + 1 < tree.height {
                // SAFETY: nodes of a level above the last one; the child found is one of the node's.
                unsafe {
                    let starts = nodes.map(|node| node_start::<K>(node, const { upper_lines::<K>() }));
                    let children = search(simt, tree.upper, starts, keys);
                    nodes = core::array::from_fn(|j| {
                        let child = const { children_offset::<K>() } + u64::from(children[j]);
                        simt.load(tree.upper, starts[j] + child, Hint::ReadOnly).low()
                    });
                }
                level += 1;
            }
            if level < tree.height {
                let starts = nodes.map(|node| node_start::<K>(node, const { last_lines::<K>() }));
                // SAFETY: nodes of the last inner level.
                let lines = unsafe { search(simt, tree.last, starts, keys) };
                nodes = core::array::from_fn(|j| nodes[j] * const { fanout::<K>() } + lines[j]);
            }
            for (j, &node) in nodes.iter().enumerate() {
                if member == round + j as u32 {
                    leaf = node;
                }
            }
            round += IN_FLIGHT as u32;
        }
        // The lanes have branched by this before the collectives.
        let index = simt.opaque(index);
        if index < args.count {
            // SAFETY: the place of a query.
            unsafe { simt.store(args.leaves, index, leaf, Hint::Streaming) };
        }
    }
}

/// Finds the leaf of each query as the paper writes it, with flags in shared memory: a team of as many threads as a line
/// has words (8 or 16) for each, in blocks of [`THREADS`] threads.
#[derive(Debug)]
pub struct DescendRegularShared<K>(PhantomData<K>);

impl<K: Word> DescendRegularShared<K> {
    const TEAM: u32 = words::<K>();
    const TEAMS: u32 = THREADS / Self::TEAM;
    /// A team's flags: one before the first thread's, which stays 0, and one for each thread.
    const FLAGS: u32 = Self::TEAM + 1;

    /// The number of the first of a line's words that is not below the query: one thread of the team finds that its own is
    /// not, and the one before it is. All threads of a block call it; all get their team's result.
    ///
    /// # Safety
    /// The words of a team ascend, and the last one is not below the query.
    #[inline(always)]
    unsafe fn first<S: Simt>(simt: S, query: K, word: K) -> u32 {
        let flags = Shared::<u32>::at(0, Self::TEAMS * Self::FLAGS);
        let results = Shared::<u32>::at(flags.end(), Self::TEAMS);
        let (team, member) = (simt.thread_index() / Self::TEAM, simt.thread_index() % Self::TEAM);
        let flag = team * Self::FLAGS + member;
        let is_mine = query <= word;
        // SAFETY: the flags and the result are the team's, and barriers separate writing from reading.
        unsafe {
            simt.shared_store(flags, flag + 1, u32::from(is_mine));
            simt.barrier();
            if is_mine && simt.shared_load(flags, flag) == 0 {
                simt.shared_store(results, team, member);
            }
            simt.barrier();
            simt.shared_load(results, team)
        }
    }

    /// The number of the child of the node that starts at a word. As [`DescendRegularShared::first`].
    ///
    /// # Safety
    /// The node is one of the array.
    #[inline(always)]
    unsafe fn search<S: Simt>(simt: S, nodes: Global<K>, start: u64, query: K) -> u32 {
        let member = u64::from(simt.thread_index() % Self::TEAM);
        // SAFETY: a word of a line for each thread of the team. The last separator is the largest word, and so is the
        // last index; the line found has its index as the last word.
        unsafe {
            let line = Self::first(simt, query, simt.load(nodes, start + member, Hint::ReadOnly));
            let word = const { separators_offset::<K>() } + u64::from(line * Self::TEAM) + member;
            let at = Self::first(simt, query, simt.load(nodes, start + word, Hint::ReadOnly));
            line * Self::TEAM + at
        }
    }
}

impl<K: Word> Kernel for DescendRegularShared<K> {
    type Args = DescendRegularArgs<K>;

    const STATIC_SHARED: u32 = Self::TEAMS * (Self::FLAGS + 1) * 4;

    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let (team, member) = (simt.thread_index() / Self::TEAM, simt.thread_index() % Self::TEAM);
        let index = u64::from(simt.block_index()) * u64::from(Self::TEAMS) + u64::from(team);
        // SAFETY: the arguments are valid; the first flag is the team's.
        let (query, mut node) = unsafe { args.query(simt, index) };
        if member == 0 {
            let flags = Shared::<u32>::at(0, Self::TEAMS * Self::FLAGS);
            // SAFETY: the team's first flag, which this thread alone writes; a barrier follows before it is read.
            unsafe { simt.shared_store(flags, team * Self::FLAGS, 0) };
        }
        let mut level = args.from;
        while level + 1 < tree.height {
            let start = node_start::<K>(node, const { upper_lines::<K>() });
            // SAFETY: a node of a level above the last one; the child found is one of the node's.
            unsafe {
                let child = const { children_offset::<K>() } + u64::from(Self::search(simt, tree.upper, start, query));
                node = simt.load(tree.upper, start + child, Hint::ReadOnly).low();
            }
            level += 1;
        }
        if level < tree.height {
            let start = node_start::<K>(node, const { last_lines::<K>() });
            // SAFETY: a node of the last inner level.
            node = node * const { fanout::<K>() } + unsafe { Self::search(simt, tree.last, start, query) };
        }
        if member == 0 && index < args.count {
            // SAFETY: the place of a query.
            unsafe { simt.store(args.leaves, index, node, Hint::Default) };
        }
    }
}
