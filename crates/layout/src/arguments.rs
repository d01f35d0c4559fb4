//! The arguments of kernels: what of them the emulator and the host's checks must know.

/// How a kernel uses a pointer of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes.
    ReadWrite,
}

/// The arguments of a kernel, one `#[repr(C)]` struct passed by value, or a field of them. Structs get it by
/// [`kernel_args!`](crate::kernel_args), which visits every field, so that no pointer can be forgotten.
///
/// # Safety
/// The type is as large on the host as on the device, and [`KernelArgs::pointers`] names every pointer in it through which
/// a kernel accesses memory.
pub unsafe trait KernelArgs: Copy + Send + Sync + 'static {
    /// Calls `visit` with each pointer, null ones included, and how the kernel uses it. The emulator lets a kernel
    /// touch the buffers named here and no others.
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access));
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        // SAFETY: no pointers.
        unsafe impl KernelArgs for $number {
            #[inline(always)]
            fn pointers(&self, _: &mut dyn FnMut(usize, Access)) {}
        }
    )*};
}
numbers!(u32, u64, u128);

// SAFETY: every element is visited.
unsafe impl<T: KernelArgs, const N: usize> KernelArgs for [T; N] {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.iter().for_each(|element| element.pointers(visit));
    }
}

/// Declares a struct as the arguments of a kernel, or as a part of them: `#[repr(C)]`, `Clone`, `Copy`, `Debug` and
/// [`KernelArgs`](crate::KernelArgs), whose fields all are. Type parameters are words, or other arguments.
///
/// ```
/// lanetree_layout::kernel_args! {
///     /// A table and what is asked of it.
///     pub struct Args<K> {
///         /// What is looked for.
///         pub key: K,
///         /// How many entries the table has.
///         pub len: u64,
///     }
/// }
/// # let args = Args { key: 1_u64, len: 2 };
/// # lanetree_layout::KernelArgs::pointers(&args, &mut |_, _| unreachable!("there are no pointers"));
/// ```
#[macro_export]
macro_rules! kernel_args {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$($word:ident),+>)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name $(<$($word),+>)? {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        // SAFETY: `repr(C)`, of fields that all are arguments; every one is visited.
        unsafe impl $(<$($word: $crate::KernelArgs),+>)? $crate::KernelArgs for $name $(<$($word),+>)? {
            #[inline(always)]
            fn pointers(&self, visit: &mut dyn FnMut(usize, $crate::Access)) {
                $($crate::KernelArgs::pointers(&self.$field, visit);)*
            }
        }
    };
}
