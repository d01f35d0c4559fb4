//! Building the nodes straight from sorted keys. All keys under a node are neighbours, and what the first and
//! the last of them have in common is the path to it: so a node is found from its span of keys alone, and
//! spans are independent of each other.
//!
//! Nodes of each type are numbered in pre-order. Spans of more than [`TASK`] keys are the top of the tree, made by one
//! thread. Spans below are tasks: first the nodes of all tasks are counted, so that each task knows the numbers of its
//! nodes; then they are filled.

use super::leaves::take;
use super::region::Region;
use core::ops::Range;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::parallel::*;
use lanetree_kernels_cuart::layout::{Header, Link, LinkType, N4, N16, N48, N256};
use lanetree_runtime::Device;

/// The most keys of a task.
const TASK: usize = 1 << 12;

/// The nodes of a tree.
pub(super) struct NodeBuffers {
    pub(super) n4: Region<N4>,
    pub(super) n16: Region<N16>,
    pub(super) n48: Region<N48>,
    pub(super) n256: Region<N256>,
}

/// Nodes of each kind, from [`LinkType::N4`] on.
type Counts = [usize; 4];

/// The keys under a node to be, which agree in their first `from` bytes; at least two. Its link goes to a
/// slot of a parent, or to the root.
#[derive(Clone)]
struct Span {
    keys: Range<usize>,
    from: usize,
    parent: Link,
    byte: u8,
}

/// How a node branches.
struct Branch {
    depth: usize,
    /// Whether the first key ends here.
    here: bool,
    /// The children's bytes, and where their keys begin and end.
    count: usize,
    bytes: [u8; 256],
    starts: [usize; 257],
}

impl Branch {
    fn new() -> Self {
        Self { depth: 0, here: false, count: 0, bytes: [0; 256], starts: [0; 257] }
    }

    fn find(&mut self, keys: ByteKeys<'_>, span: &Span) {
        let Range { start, end } = span.keys;
        let (first, last) = (keys.at(start), keys.at(end - 1));
        self.depth = span.from + common_prefix(&first[span.from..], &last[span.from..]);
        self.here = first.len() == self.depth;
        self.count = 0;
        let byte = |key: usize| keys.at(key)[self.depth];
        let last = last[self.depth];
        let mut at = start + usize::from(self.here);
        while at < end {
            let own = byte(at);
            self.bytes[self.count] = own;
            self.starts[self.count] = at;
            self.count += 1;
            at = if own == last { end } else { at + run(end - at, |i| byte(at + i) == own) };
        }
        self.starts[self.count] = end;
    }

    fn kind(&self) -> LinkType {
        LinkType::of_children(self.count)
    }

    fn children(&self) -> impl DoubleEndedIterator<Item = (u8, Range<usize>)> {
        (0..self.count).map(|i| (self.bytes[i], self.starts[i]..self.starts[i + 1]))
    }

    /// Pushes the children that are nodes onto a stack, the first one on top.
    fn push_children(&self, parent: Link, stack: &mut Vec<Span>) {
        for (byte, keys) in self.children().rev() {
            if keys.len() > 1 {
                stack.push(Span { keys, from: self.depth + 1, parent, byte });
            }
        }
    }

    /// The node, with its links to leaves.
    fn write(
        &self,
        keys: ByteKeys<'_>,
        span: &Span,
        leaf: &impl Fn(usize) -> Link,
        nodes: &mut Slices<'_>,
        link: Link,
    ) {
        let here = if self.here { leaf(span.keys.start) } else { Link::NONE };
        let header = Header::new(keys.at(span.keys.start), self.depth, here);
        let bytes = &self.bytes[..self.count];
        let at = nodes.at(link);
        match link.kind() {
            LinkType::N4 => nodes.n4[at] = N4::new(header, bytes, &self.leaves::<4>(leaf)[..self.count]),
            LinkType::N16 => nodes.n16[at] = N16::new(header, bytes, &self.leaves::<16>(leaf)[..self.count]),
            LinkType::N48 => nodes.n48[at] = N48::new(header, bytes, &self.leaves::<48>(leaf)[..self.count]),
            _ => nodes.n256[at] = N256::new(header, bytes, &self.leaves::<256>(leaf)[..self.count]),
        }
    }

    /// The links to children that are leaves, at most `N` of them; none for the others.
    fn leaves<const N: usize>(&self, leaf: &impl Fn(usize) -> Link) -> [Link; N] {
        let mut links = [Link::NONE; N];
        for (link, (_, keys)) in links.iter_mut().zip(self.children()) {
            if keys.len() == 1 {
                *link = leaf(keys.start);
            }
        }
        links
    }
}

/// The length of the common prefix of two strings.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const WORD: usize = 8;
    let len = a.len().min(b.len());
    let words = a[..len].chunks_exact(WORD).zip(b[..len].chunks_exact(WORD));
    let alike = words.take_while(|(a, b)| a == b).count() * WORD;
    alike + a[alike..len].iter().zip(&b[alike..len]).take_while(|(a, b)| a == b).count()
}

/// How many of the first `len` numbers have a property that only leading ones have, including 0. By doubling steps,
/// then bisection: short runs are common.
fn run(len: usize, has: impl Fn(usize) -> bool) -> usize {
    let mut low = 0;
    let mut step = 1;
    while low + step < len && has(low + step) {
        low += step;
        step *= 2;
    }
    let mut high = (low + step).min(len);
    // `low` has the property; `high` does not, or is the end.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if has(middle) { low = middle } else { high = middle }
    }
    high
}

/// Parts of the node buffers, and where they begin.
struct Slices<'a> {
    n4: &'a mut [N4],
    n16: &'a mut [N16],
    n48: &'a mut [N48],
    n256: &'a mut [N256],
    first: Counts,
}

/// The index of a node type among the node types.
fn number(kind: LinkType) -> usize {
    kind as usize - LinkType::N4 as usize
}

impl Slices<'_> {
    /// A node's place in the part of its kind.
    fn at(&self, node: Link) -> usize {
        node.index() as usize - self.first[number(node.kind())]
    }

    /// Sets a node's link to one of its children.
    fn link(&mut self, parent: Link, byte: u8, child: Link) {
        let at = self.at(parent);
        let slot_of = |keys: &[u8]| keys.iter().position(|&key| key == byte).expect("a child of the node");
        match parent.kind() {
            LinkType::N4 => self.n4[at].links[slot_of(&self.n4[at].header.keys4)] = child,
            LinkType::N16 => self.n16[at].links[slot_of(&self.n16[at].keys)] = child,
            LinkType::N48 => {
                let slot = usize::from(self.n48[at].slots[usize::from(byte)]) - 1;
                self.n48[at].links[slot] = child;
            }
            _ => self.n256[at].links[usize::from(byte)] = child,
        }
    }
}

/// A span that is a task, its topmost node, and how many nodes it has.
struct Task {
    span: Span,
    kind: LinkType,
    depth: usize,
    counts: Counts,
    first: Counts,
}

/// Builds the nodes above leaves, and returns the root.
pub(super) fn build(
    device: &Device,
    keys: ByteKeys<'_>,
    leaf: &(impl Fn(usize) -> Link + Sync),
) -> Result<(NodeBuffers, Link)> {
    let span = Span { keys: 0..keys.len(), from: 0, parent: Link::NONE, byte: 0 };
    let (mut tasks, mut all) = plan(keys, span.clone());
    tasks.par_iter_mut().with_min_len(8).for_each(|task| count(keys, task));
    for task in &tasks {
        all.iter_mut().zip(task.counts).for_each(|(all, count)| *all += count);
    }
    let mut nodes = NodeBuffers {
        n4: Region::full(device.alloc(all[0])?)?,
        n16: Region::full(device.alloc(all[1])?)?,
        n48: Region::full(device.alloc(all[2])?)?,
        n256: Region::full(device.alloc(all[3])?)?,
    };
    let root = match keys.len() {
        0 => Link::NONE,
        1 => leaf(0),
        _ => fill_top(keys, span, leaf, &mut nodes.slices(), &mut tasks),
    };
    let mut rest = nodes.slices();
    let parts: Vec<_> = tasks.iter().map(|task| (task, rest.split_off(task))).collect();
    parts.into_par_iter().with_min_len(8).for_each(|(task, mut part)| fill(keys, task, leaf, &mut part));
    Ok((nodes, root))
}

impl NodeBuffers {
    fn slices(&mut self) -> Slices<'_> {
        const HOST: &str = "the host's memory";
        Slices {
            n4: self.n4.as_mut_slice().expect(HOST),
            n16: self.n16.as_mut_slice().expect(HOST),
            n48: self.n48.as_mut_slice().expect(HOST),
            n256: self.n256.as_mut_slice().expect(HOST),
            first: [0; 4],
        }
    }
}

impl<'a> Slices<'a> {
    /// Takes the part of a task off the front, with everything before it.
    fn split_off(&mut self, task: &Task) -> Slices<'a> {
        let gap: Counts = core::array::from_fn(|kind| task.first[kind] - self.first[kind]);
        take(&mut self.n4, gap[0]);
        take(&mut self.n16, gap[1]);
        take(&mut self.n48, gap[2]);
        take(&mut self.n256, gap[3]);
        let part = Slices {
            n4: take(&mut self.n4, task.counts[0]),
            n16: take(&mut self.n16, task.counts[1]),
            n48: take(&mut self.n48, task.counts[2]),
            n256: take(&mut self.n256, task.counts[3]),
            first: task.first,
        };
        self.first = core::array::from_fn(|kind| task.first[kind] + task.counts[kind]);
        part
    }
}

/// The tasks of a span in pre-order, and the number of nodes above them.
fn plan(keys: ByteKeys<'_>, span: Span) -> (Vec<Task>, Counts) {
    let (mut tasks, mut top) = (Vec::new(), Counts::default());
    let mut branch = Branch::new();
    let mut stack = if span.keys.len() > 1 { vec![span] } else { Vec::new() };
    while let Some(span) = stack.pop() {
        if span.keys.len() <= TASK {
            tasks.push(Task { span, kind: LinkType::None, depth: 0, counts: [0; 4], first: [0; 4] });
            continue;
        }
        branch.find(keys, &span);
        top[number(branch.kind())] += 1;
        branch.push_children(Link::NONE, &mut stack);
    }
    (tasks, top)
}

/// Counts the nodes of a task.
fn count(keys: ByteKeys<'_>, task: &mut Task) {
    let mut branch = Branch::new();
    branch.find(keys, &task.span);
    (task.kind, task.depth) = (branch.kind(), branch.depth);
    let mut stack = vec![task.span.clone()];
    while let Some(span) = stack.pop() {
        branch.find(keys, &span);
        task.counts[number(branch.kind())] += 1;
        branch.push_children(Link::NONE, &mut stack);
    }
}

/// Fills the nodes above the tasks' nodes, gives the tasks' nodes their numbers, and returns the root.
fn fill_top(
    keys: ByteKeys<'_>,
    span: Span,
    leaf: &impl Fn(usize) -> Link,
    nodes: &mut Slices<'_>,
    tasks: &mut [Task],
) -> Link {
    let mut branch = Branch::new();
    let (mut next, mut root) = (Counts::default(), Link::NONE);
    let mut tasks = tasks.iter_mut();
    let mut stack = vec![span];
    while let Some(span) = stack.pop() {
        let link;
        if span.keys.len() <= TASK {
            let task = tasks.next().expect("as many tasks as planned");
            task.first = next;
            link = Link::new(task.kind, task.depth - span.from, next[number(task.kind)] as u64);
            next.iter_mut().zip(task.counts).for_each(|(next, count)| *next += count);
        } else {
            branch.find(keys, &span);
            let index = &mut next[number(branch.kind())];
            link = Link::new(branch.kind(), branch.depth - span.from, *index as u64);
            *index += 1;
            branch.write(keys, &span, leaf, nodes, link);
            branch.push_children(link, &mut stack);
        }
        if span.parent.is_none() {
            root = link;
        } else {
            nodes.link(span.parent, span.byte, link);
        }
    }
    root
}

/// Fills the nodes of a task.
fn fill(keys: ByteKeys<'_>, task: &Task, leaf: &impl Fn(usize) -> Link, nodes: &mut Slices<'_>) {
    let mut branch = Branch::new();
    let mut next = task.first;
    let mut stack = vec![Span { parent: Link::NONE, ..task.span.clone() }];
    while let Some(span) = stack.pop() {
        branch.find(keys, &span);
        let index = &mut next[number(branch.kind())];
        let link = Link::new(branch.kind(), branch.depth - span.from, *index as u64);
        *index += 1;
        branch.write(keys, &span, leaf, nodes, link);
        branch.push_children(link, &mut stack);
        // The topmost node is linked already, from above the task.
        if !span.parent.is_none() {
            nodes.link(span.parent, span.byte, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted() {
        for len in 1..40 {
            for members in 1..=len {
                assert_eq!(run(len, |i| i < members), members, "of {len}");
            }
        }
    }

    #[test]
    fn common_prefixes_are_counted() {
        let a: Vec<u8> = (0..40).collect();
        for alike in 0..40 {
            let mut b = a.clone();
            b[alike] ^= 1;
            assert_eq!(common_prefix(&a, &b), alike);
            assert_eq!(common_prefix(&a, &a[..alike]), alike);
        }
    }
}
