//! Machine code of kernels that was compiled ahead of time, in a folder: a file for each module and architecture.

use lanetree_simt::Module;
#[cfg(feature = "cuda")]
use std::path::Path;

/// The environment variable that names a folder of machine code, if there is one; read when a GPU is opened. Without it, or
/// where the folder has no file for a module and a GPU, the driver compiles each kernel's PTX at its first launch.
pub const MACHINE_CODE: &str = "LANETREE_MACHINE_CODE";

/// The name of the file with a module's machine code for an architecture, such as 90. It has a hash of the PTX, so that
/// machine code of another version is not taken. The file is what `ptxas -arch=sm_90` makes of the module's PTX.
pub fn machine_code_file(module: &Module, architecture: u32) -> String {
    // FNV-1a: tells versions apart, and is no protection from whoever can write to the folder.
    let hash = module
        .ptx
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{}-{hash:016x}.sm_{architecture}.cubin", module.name)
}

/// The machine code of a module for a compute capability, from a folder: of the latest architecture that the GPU runs, which
/// is one of its own major version. A file that was cut short is not taken.
#[cfg(feature = "cuda")]
pub(crate) fn find(folder: &Path, module: &Module, (major, minor): (u32, u32)) -> Option<Vec<u8>> {
    let architectures = (0..=minor).rev().map(|minor| major * 10 + minor);
    architectures
        .map(|of| folder.join(machine_code_file(module, of)))
        .find_map(|file| std::fs::read(file).ok().filter(|code| is_whole(code)))
}

/// Whether the tables that the header of a 64-bit ELF file leads to end inside it: the driver is not told how long it is.
#[cfg(feature = "cuda")]
fn is_whole(code: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        let bytes = code.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    // The offset of a table, the size of its entries, and how many there are.
    let ends = |table: usize, size: usize| {
        let (offset, entry, count) = (number(table, 8)?, number(size, 2)?, number(size + 2, 2)?);
        offset.checked_add(entry * count)
    };
    let is_inside = |end: Option<u64>| end.is_some_and(|end| end <= code.len() as u64);
    code.starts_with(b"\x7fELF\x02\x01") && is_inside(ends(32, 54)) && is_inside(ends(40, 58))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_module_text_and_architecture() {
        let name = |ptx| machine_code_file(&Module { name: "m", ptx }, 90);
        assert_eq!(name("a"), "m-af63dc4c8601ec8c.sm_90.cubin");
        assert_ne!(name("a"), name("b"));
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn a_gpu_takes_machine_code_of_its_major_version_and_at_most_its_minor() {
        let folder = std::env::temp_dir().join(format!("lanetree-machine-code-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let module = Module { name: "m", ptx: "text" };
        for architecture in [80, 86, 90] {
            std::fs::write(folder.join(machine_code_file(&module, architecture)), elf(architecture as u8)).unwrap();
        }
        let found = |capability| find(&folder, &module, capability).map(|code| *code.last().unwrap());
        let expected = [((8, 0), 80), ((8, 6), 86), ((8, 9), 86), ((9, 0), 90)];
        for (capability, architecture) in expected {
            assert_eq!(found(capability), Some(architecture));
        }
        assert_eq!([found((7, 5)), found((10, 0))], [None, None]);
        assert_eq!(find(&folder, &Module { name: "m", ptx: "other text" }, (9, 0)), None);
        let whole = elf(90);
        assert!(is_whole(&whole));
        for short in [&whole[..whole.len() - 1], &whole[..60], &whole[..4], &[]] {
            std::fs::write(folder.join(machine_code_file(&module, 90)), short).unwrap();
            assert_eq!(found((9, 0)), None, "{} bytes", short.len());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A header, and a table of two sections of 64 bytes, the last byte of which is given.
    #[cfg(feature = "cuda")]
    fn elf(last: u8) -> Vec<u8> {
        let mut code = vec![0; 64 + 2 * 64];
        code[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (code[40], code[58], code[60]) = (64, 64, 2);
        *code.last_mut().unwrap() = last;
        code
    }
}
