//! What a kernel is, and the entry by which the host launches one.

#[cfg(not(target_os = "cuda"))]
use crate::Access;
#[cfg(all(not(target_os = "cuda"), feature = "emulator"))]
use crate::emulator::Program;
use crate::{KernelArgs, Simt};
#[cfg(not(target_os = "cuda"))]
use core::{any::TypeId, fmt, marker::PhantomData};

/// What the device's compiler may assume of the launches of a kernel: CUDA's `__launch_bounds__`.
///
/// Left to itself, ptxas packs a kernel into few registers and to that end puts each load close to its
/// use, one after the other. A stated number of blocks per multiprocessor makes the registers free up
/// to that point, and the loads go out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// Most threads of a block; a launch with more is an error.
    pub threads: u32,
    /// Blocks of that size that must fit on a multiprocessor at the same time.
    pub blocks: u32,
}

/// A kernel: an algorithm over [`Simt`], written once for every machine.
pub trait Kernel: 'static {
    /// Its arguments.
    type Args: KernelArgs;

    /// Bytes of shared memory that every launch needs, at offsets known at compile time.
    const STATIC_SHARED: u32 = 0;

    /// What the compiler may assume of every launch. Without, a kernel may be compiled to 255 registers per thread, of which a block
    /// of 256 threads has enough on every card; the emulator refuses larger ones.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = None;

    /// What one thread does.
    ///
    /// # Safety
    /// Every thread of the grid calls it once, with the same `args`, whose pointers are valid as the
    /// kernel's documentation says until the whole grid is done.
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args);
}

/// A kernel with all its parameters chosen, compiled for the device and for the emulator. Made by
/// [`instance!`](crate::instance).
#[cfg(not(target_os = "cuda"))]
pub trait Instance: Kernel {
    /// How it is launched.
    const ENTRY: &'static Entry;
}

/// A PTX module: kernels whose text is in one file. Made by [`modules!`](crate::modules).
#[cfg(not(target_os = "cuda"))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// The name: what the symbols of its kernels begin with, up to the double underscore.
    pub name: &'static str,
    /// The text, for the driver's compiler; empty without the feature `ptx`.
    pub ptx: &'static str,
}

#[cfg(not(target_os = "cuda"))]
impl Module {
    /// The symbols of the module's kernels, as they are in the text.
    pub fn symbols(&self) -> impl Iterator<Item = &'static str> {
        let entries = self.ptx.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
        entries.map(|line| line.split('(').next().unwrap_or(line).trim_end())
    }

    /// The text of one kernel in two parts: the module's declarations, which precede its kernels, and the kernel, which calls
    /// no function. `None` if the module has no such kernel. A driver compiles whatever it is given, a kernel in 0.1 to
    /// 0.4 seconds, so it is given one at a time.
    pub fn kernel_text(&self, symbol: &str) -> Option<[&'static str; 2]> {
        const ENTRY: &str = "\n.visible .entry ";
        let starts = || self.ptx.match_indices(ENTRY).map(|(at, _)| at + 1);
        let declarations = starts().next()?;
        let start = starts().find(|&start| {
            let name = &self.ptx[start + ENTRY.len() - 1..];
            name.strip_prefix(symbol).is_some_and(|rest| rest.trim_start().starts_with('('))
        })?;
        let end = starts().find(|&next| next > start).unwrap_or(self.ptx.len());
        Some([&self.ptx[..declarations], &self.ptx[start..end]])
    }
}

/// The name and the length of the text; not the text.
#[cfg(not(target_os = "cuda"))]
impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("name", &self.name).field("bytes", &self.ptx.len()).finish()
    }
}

/// A kernel with its type erased: what a machine must know to launch it.
///
/// It is a static of the kernel's crate, without type parameters. So what it leads to, the kernel as the emulator runs
/// it and the PTX of its module, is compiled there and only there, and is part of a program that names the entry.
#[cfg(not(target_os = "cuda"))]
#[derive(Debug)]
pub struct Entry {
    module: &'static Module,
    symbol: &'static str,
    static_shared: u32,
    launch_bounds: Option<LaunchBounds>,
    args: TypeId,
    args_bytes: usize,
    pointers: unsafe fn(*const (), &mut dyn FnMut(usize, Access)),
    #[cfg(feature = "emulator")]
    program: Program,
}

#[cfg(not(target_os = "cuda"))]
impl Entry {
    /// The entry of a kernel, which has this symbol in a module.
    pub const fn of<K: Kernel>(module: &'static Module, symbol: &'static str) -> Self {
        /// # Safety
        /// `args` points to an `A`.
        unsafe fn pointers<A: KernelArgs>(args: *const (), visit: &mut dyn FnMut(usize, Access)) {
            // SAFETY: the caller's contract.
            unsafe { &*args.cast::<A>() }.pointers(visit);
        }
        const { assert!(align_of::<K::Args>() <= align_of::<u128>(), "arguments are kept in words of 16 bytes") };
        Self {
            module,
            symbol,
            static_shared: K::STATIC_SHARED,
            launch_bounds: K::LAUNCH_BOUNDS,
            args: TypeId::of::<K::Args>(),
            args_bytes: size_of::<K::Args>(),
            pointers: pointers::<K::Args>,
            #[cfg(feature = "emulator")]
            program: Program::of::<K>(symbol),
        }
    }

    /// The PTX module that holds the kernel.
    pub const fn module(&self) -> &'static Module {
        self.module
    }

    /// The kernel's symbol there: the module's name, two underscores, and the rest.
    pub const fn symbol(&self) -> &'static str {
        self.symbol
    }

    /// Bytes of shared memory that every launch needs.
    pub const fn static_shared(&self) -> u32 {
        self.static_shared
    }

    /// What the compiler assumed of every launch.
    pub const fn launch_bounds(&self) -> Option<LaunchBounds> {
        self.launch_bounds
    }

    /// Bytes of the arguments; they are aligned to at most 16.
    pub const fn args_bytes(&self) -> usize {
        self.args_bytes
    }

    /// The kernel as the emulator runs it.
    #[cfg(feature = "emulator")]
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// [`KernelArgs::pointers`] of arguments.
    ///
    /// # Safety
    /// `args` points to arguments of this kernel.
    pub unsafe fn pointers(&self, args: *const (), visit: &mut dyn FnMut(usize, Access)) {
        // SAFETY: the caller's contract.
        unsafe { (self.pointers)(args, visit) }
    }
}

/// A kernel and its arguments: chosen, but not launched.
#[cfg(not(target_os = "cuda"))]
#[derive(Clone, Copy)]
pub struct Call<'a> {
    entry: &'static Entry,
    args: *const (),
    lifetime: PhantomData<&'a ()>,
}

#[cfg(not(target_os = "cuda"))]
impl<'a> Call<'a> {
    /// The call of an instance.
    pub const fn of<I: Instance>(args: &'a I::Args) -> Self {
        Self { entry: I::ENTRY, args: (&raw const *args).cast(), lifetime: PhantomData }
    }

    /// The call of a kernel that was chosen by the types of its arguments, among others.
    ///
    /// # Panics
    /// If these are not its arguments.
    pub fn new<A: KernelArgs>(entry: &'static Entry, args: &'a A) -> Self {
        assert!(entry.args == TypeId::of::<A>(), "{} has other arguments", entry.symbol);
        Self { entry, args: (&raw const *args).cast(), lifetime: PhantomData }
    }

    /// The kernel.
    pub const fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Its arguments, of the type that the entry has.
    pub const fn args(&self) -> *const () {
        self.args
    }
}

#[cfg(not(target_os = "cuda"))]
impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call[{}]", self.entry.symbol)
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks, at least 1.
    pub blocks: u32,
    /// Threads of a block, 1 to 1024.
    pub threads: u32,
    /// Bytes of dynamic shared memory, beyond the kernel's static ones.
    pub dynamic_shared: u32,
}

impl LaunchShape {
    /// Enough blocks of `threads` threads for `items` threads in all; at least one block.
    ///
    /// Returns `None` where that is more blocks than a grid may have (2^31 - 1).
    pub fn covering(items: u64, threads: u32) -> Option<Self> {
        let blocks = items.div_ceil(u64::from(threads)).max(1);
        (blocks < 1 << 31).then_some(Self { blocks: blocks as u32, threads, dynamic_shared: 0 })
    }
}

/// The text of a module, which lies in the folder `ptx` of the kernel's crate.
#[cfg(all(not(target_os = "cuda"), feature = "ptx"))]
#[doc(hidden)]
#[macro_export]
macro_rules! module_text {
    ($name:expr) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/ptx/", $name, ".ptx"))
    };
}

/// Nothing, without the feature `ptx`.
#[cfg(all(not(target_os = "cuda"), not(feature = "ptx")))]
#[doc(hidden)]
#[macro_export]
macro_rules! module_text {
    ($name:expr) => {
        ""
    };
}

/// Declares the PTX modules of a crate, in its module `modules`: a static [`Module`](crate::Module) for each name, and
/// `MODULES`, the list of them. The text of `harmonia_update`, say, is in `ptx/harmonia_update.ptx`, which `lanetree-ptx`
/// writes.
#[macro_export]
macro_rules! modules {
    ($($module:ident,)*) => {
        $(
            #[doc = concat!("The kernels of `", stringify!($module), ".ptx`.")]
            #[cfg(not(target_os = "cuda"))]
            #[allow(non_upper_case_globals, reason = "the name is the module's")]
            pub static $module: $crate::Module =
                $crate::Module { name: stringify!($module), ptx: $crate::module_text!(stringify!($module)) };
        )*
        /// The PTX modules of this crate.
        #[cfg(not(target_os = "cuda"))]
        pub static MODULES: [&$crate::Module; <[&str]>::len(&[$(stringify!($module)),*])] = [$(&$module),*];
    };
}

/// Makes an instance of a kernel: `instance!(module__name, module, KernelType)` gives it its entry, with this symbol, in
/// a module that [`modules!`](crate::modules) has declared in `crate::modules`. When the crate is compiled for the device,
/// it is the PTX entry itself.
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the modules are those of the kernel's crate")]
macro_rules! instance {
    ($symbol:ident, $module:ident, $kernel:ty) => {
        #[cfg(not(target_os = "cuda"))]
        impl $crate::Instance for $kernel {
            const ENTRY: &'static $crate::Entry = {
                static ENTRY: $crate::Entry =
                    $crate::Entry::of::<$kernel>(&crate::modules::$module, stringify!($symbol));
                &ENTRY
            };
        }

        $crate::ptx_entry!($symbol, $kernel);
    };
}

/// The PTX entry of an instance. Which of the two is this crate's choice: a crate of kernels may have no feature `cuda_std`.
#[cfg(not(feature = "cuda_std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! ptx_entry {
    ($symbol:ident, $kernel:ty) => {
        #[cfg(target_os = "cuda")]
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $symbol(args: <$kernel as $crate::Kernel>::Args) {
            $crate::nvptx::launch_bounds::<$kernel>();
            // SAFETY: the host launches the entry as the kernel's contract asks.
            unsafe { <$kernel as $crate::Kernel>::run($crate::nvptx::Nvptx::new(), &args) }
        }
    };
}

/// The same for rust-cuda.
#[cfg(feature = "cuda_std")]
#[doc(hidden)]
#[macro_export]
macro_rules! ptx_entry {
    ($symbol:ident, $kernel:ty) => {
        #[cfg(target_os = "cuda")]
        #[doc(hidden)]
        #[cuda_std::kernel]
        pub unsafe fn $symbol(args: <$kernel as $crate::Kernel>::Args) {
            $crate::nvptx::launch_bounds::<$kernel>();
            // SAFETY: the host launches the entry as the kernel's contract asks.
            unsafe { <$kernel as $crate::Kernel>::run($crate::nvptx::Nvptx::new(), &args) }
        }
    };
}

/// The entry of a kernel for the words of generic code: `entry_by_words!(K, V => Get<K, V, 8>)` is that of
/// `Get<u64, u32, 8>` where `K` is `u64` and `V` is `u32`. Chosen when the code is compiled: a program has the entries of
/// the words that it uses, and no others. A word that may have 128 bits comes first, with its bound:
/// `entry_by_words!(K: KeyWord, V => Get<K, V, 8>)`.
#[macro_export]
macro_rules! entry_by_words {
    (=> $kernel:ty) => {
        <$kernel as $crate::Instance>::ENTRY
    };
    ($word:ident: KeyWord $(, $rest:ident)* => $kernel:ty) => {
        const {
            match <$word as $crate::KeyWord>::BITS {
                32 => {
                    type $word = u32;
                    $crate::entry_by_words!($($rest),* => $kernel)
                }
                64 => {
                    type $word = u64;
                    $crate::entry_by_words!($($rest),* => $kernel)
                }
                _ => {
                    type $word = u128;
                    $crate::entry_by_words!($($rest),* => $kernel)
                }
            }
        }
    };
    ($word:ident $(, $rest:ident)* => $kernel:ty) => {
        const {
            match <$word as $crate::KeyWord>::BITS {
                32 => {
                    type $word = u32;
                    $crate::entry_by_words!($($rest),* => $kernel)
                }
                _ => {
                    type $word = u64;
                    $crate::entry_by_words!($($rest),* => $kernel)
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: Module = Module {
        name: "m",
        ptx: ".version 7.4\n.extern .shared .b8 all[];\n.visible .entry m__get(\n\t.param .b8 a\n)\n{\n\tret;\n}\n\
              .visible .entry m__get_sorted()\n{\n\tret;\n}\n",
    };

    #[test]
    fn the_text_of_a_kernel_is_the_declarations_and_the_kernel() {
        let head = ".version 7.4\n.extern .shared .b8 all[];\n";
        let of = |body| Some([head, body]);
        let get = ".visible .entry m__get(\n\t.param .b8 a\n)\n{\n\tret;\n}\n";
        assert_eq!(MODULE.kernel_text("m__get"), of(get));
        assert_eq!(MODULE.kernel_text("m__get_sorted"), of(".visible .entry m__get_sorted()\n{\n\tret;\n}\n"));
        for absent in ["m__ge", "m__get_", "", "version"] {
            assert_eq!(MODULE.kernel_text(absent), None);
        }
        assert_eq!(Module { name: "none", ptx: "" }.kernel_text("m__get"), None);
    }

    #[test]
    fn every_symbol_has_a_text() {
        assert!(MODULE.symbols().eq(["m__get", "m__get_sorted"]));
        assert!(MODULE.symbols().all(|symbol| MODULE.kernel_text(symbol).is_some()));
    }
}
