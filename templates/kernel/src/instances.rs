//! What is compiled: the kernel for each word of keys, as MODULE__KERNEL in the file ptx/MODULE.ptx.

use crate::kernel::SumByGroup;
use lanetree::kernel::instance;

instance!(groups_u32__sum, groups_u32, SumByGroup<u32>);
instance!(groups_u64__sum, groups_u64, SumByGroup<u64>);
