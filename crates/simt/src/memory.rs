//! Names of memory: device pointers, shared arrays, cache hints, atomic orders and scopes.

use core::fmt;
use core::marker::PhantomData;
use lanetree_layout::{Access, KernelArgs, KeyWord};

/// A device pointer that a kernel reads through. One pointer wide on host and device; carries no
/// length on the device, where every index is computed in `layout`.
#[repr(transparent)]
pub struct Global<T>(*const T);

/// A device pointer that a kernel reads and writes through.
#[repr(transparent)]
pub struct GlobalMut<T>(*mut T);

macro_rules! pointer {
    ($name:ident, $raw:ty, $access:expr) => {
        impl<T> $name<T> {
            /// Wraps a device address. Safe, since only using the pointer is unsafe.
            #[inline(always)]
            pub const fn new(address: $raw) -> Self {
                Self(address)
            }
            /// The null pointer: an output that the caller does not want.
            #[inline(always)]
            pub const fn null() -> Self {
                Self(core::ptr::null_mut())
            }
            /// Whether this is [`Self::null`].
            #[inline(always)]
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
            /// The address itself.
            #[inline(always)]
            pub const fn as_ptr(self) -> $raw {
                self.0
            }
            /// The same address, for elements of another type.
            #[inline(always)]
            pub const fn cast<U>(self) -> $name<U> {
                $name(self.0.cast())
            }
            /// The address of the element so many further on.
            #[inline(always)]
            pub fn skip(self, elements: u64) -> Self {
                self.byte_add(elements * size_of::<T>() as u64)
            }
            /// The address `bytes` further on.
            #[inline(always)]
            pub fn byte_add(self, bytes: u64) -> Self {
                Self(self.0.wrapping_byte_add(bytes as usize))
            }
        }

        impl<T> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:p}", self.0)
            }
        }
        // SAFETY: the pointer is only a number until a kernel uses it, and the contract of every use
        // covers all threads of the grid.
        unsafe impl<T> Send for $name<T> {}
        // SAFETY: as above.
        unsafe impl<T> Sync for $name<T> {}
        // SAFETY: one pointer, which is visited.
        unsafe impl<T: 'static> KernelArgs for $name<T> {
            #[inline(always)]
            fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
                visit(self.0.addr(), $access);
            }
        }
    };
}

pointer!(Global, *const T, Access::Read);
pointer!(GlobalMut, *mut T, Access::ReadWrite);

impl<T> GlobalMut<T> {
    /// The same address, for reading.
    #[inline(always)]
    pub const fn as_const(self) -> Global<T> {
        Global(self.0)
    }
}

/// An array in the block's shared memory: a byte offset and a length in elements.
///
/// A kernel's static arrays lie at offsets that it fixes at compile time, below
/// [`Kernel::STATIC_SHARED`](crate::Kernel::STATIC_SHARED); dynamic shared memory, whose size the
/// launch chooses, begins there.
pub struct Shared<T> {
    offset: u32,
    len: u32,
    element: PhantomData<T>,
}

impl<T: KeyWord> Shared<T> {
    /// The array of `len` elements at a byte offset, which must be a multiple of the element's size.
    #[inline(always)]
    pub const fn at(offset: u32, len: u32) -> Self {
        Self { offset, len, element: PhantomData }
    }
    /// Elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }
    /// Whether the array has no elements.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
    /// The first byte past the array.
    #[inline(always)]
    pub const fn end(self) -> u32 {
        self.offset + self.len * T::BYTES as u32
    }
    /// The byte offset of an element.
    #[inline(always)]
    pub const fn byte_offset(self, index: u32) -> u32 {
        self.offset + index * T::BYTES as u32
    }
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}
impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared[{}; {}]", self.offset, self.len)
    }
}

/// How a global access should treat the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// `ld.global`: coherent within the kernel; the choice for memory that the kernel also writes.
    Default,
    /// `ld.global.nc`: memory that is constant while the kernel runs, cached in L1.
    ReadOnly,
    /// `ld.global.nc.L1::evict_first`: constant, and the first to leave L1 (for example leaves, which would evict the inner nodes). Where
    /// all queries go to a few lines, these stay there: each line of L2 is in one place, which could not serve all multiprocessors.
    EvictFirst,
    /// `ld.global.cs`, `st.global.cs`: touched once; the first to leave the caches.
    Streaming,
}

/// What an atomic access orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only the access itself is atomic.
    Relaxed,
    /// Later accesses of the thread come after it.
    Acquire,
    /// Earlier accesses of the thread come before it.
    Release,
    /// Both.
    AcquireRelease,
}

/// The threads among which an atomic access is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The block: `.cta`.
    Block,
    /// The whole device: `.gpu`.
    Device,
}
