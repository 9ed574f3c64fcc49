//! Loads shared libraries, which stay loaded until the process ends.

use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{Error, ErrorCode, Result};

fn load(path: &Path) -> std::result::Result<libloading::os::unix::Library, libloading::Error> {
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL;
    // SAFETY: loading a library runs its code, which is the purpose of this function. The caller guarantees that the
    // library is trusted.
    unsafe { libloading::os::unix::Library::open(Some(path), flags) }
}

/// Returns an error for files for which the loader's messages are unclear.
fn inspect_file(path: &Path) -> Result<()> {
    let shown = path.display();
    let opening = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorCode::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            _ => ErrorCode::Unavailable,
        };
        Error::new(code, format!("{shown}: {error}")).with_source(error)
    };
    let no_library =
        |why: &str| Error::invalid_argument(format!("{shown} is not a shared library: {why}"));
    // The file type is checked before opening, because opening a pipe without a writer blocks.
    if !path.metadata().map_err(opening)?.is_file() {
        return Err(no_library("it is not a regular file"));
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(20).read_to_end(&mut head));
    read.map_err(opening)?;
    if cfg!(target_os = "linux") {
        if head.len() < 20 || !head.starts_with(b"\x7fELF") {
            return Err(no_library(match head.get(..4) {
                Some([0xcf, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe | 0xbf]) => {
                    "it is built for macOS, and this is Linux"
                }
                Some([b'M', b'Z', ..]) => "it is built for Windows, and this is Linux",
                _ => "it does not begin as an ELF file",
            }));
        }
        // For a library of a different architecture, the loader reports that the file does not exist.
        let ours = if cfg!(target_arch = "x86_64") {
            62
        } else {
            183
        };
        let machine = u16::from_le_bytes([head[18], head[19]]);
        if machine != ours {
            return Err(no_library(&format!(
                "it is built for another processor (ELF machine {machine}, this is {ours})"
            )));
        }
    }
    Ok(())
}

type Image = Arc<ManuallyDrop<libloading::os::unix::Library>>;

/// A library that this process has loaded from `path`. The library stays loaded, so that its device number and inode
/// remain unique.
struct Loaded {
    path: PathBuf,
    device_and_inode: (u64, u64),
    image: Image,
}

static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

fn loaded() -> MutexGuard<'static, Vec<Loaded>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads a library, which stays loaded.
///
/// If the file is already loaded, this function returns the same library. If the file at the path was replaced, a
/// copy of the new file is loaded. For the original path, the system's loader would return the old library.
pub fn load_for_good(path: &Path) -> Result<Image> {
    inspect_file(path)?;
    let shown = path.display();
    let unavailable = |error: std::io::Error| {
        Error::new(ErrorCode::Unavailable, format!("{shown}: {error}")).with_source(error)
    };
    // The loader compares paths as text, but the meaning of a relative path depends on the working directory.
    let path = std::path::absolute(path).map_err(unavailable)?;
    let status = path.metadata().map_err(unavailable)?;
    let device_and_inode = (status.dev(), status.ino());
    let mut is_replaced = false;
    for known in loaded().iter() {
        if known.device_and_inode == device_and_inode {
            return Ok(known.image.clone());
        }
        is_replaced |= known.path == path;
    }
    let copy = match is_replaced {
        true => Some(Copy::beside(&path).map_err(unavailable)?),
        false => None,
    };
    let file = copy.as_ref().map_or(path.as_path(), |copy| &copy.0);
    let image = load(file).map_err(|error| {
        Error::invalid_argument(format!("{shown} cannot be loaded: {error}")).with_source(error)
    })?;
    let image = Arc::new(ManuallyDrop::new(image));
    loaded().push(Loaded {
        path,
        device_and_inode,
        image: image.clone(),
    });
    Ok(image)
}

/// A copy of a library under a new path, which the loader does not associate with a loaded library. The copy is
/// deleted after it is loaded.
struct Copy(PathBuf);

impl Copy {
    /// Copies the file to the same directory, so that the loader finds dependencies by `$ORIGIN`. If this fails,
    /// copies the file to the temporary directory.
    fn beside(path: &Path) -> std::io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut bytes = std::fs::read(path)?;
        without_unique_symbols(&mut bytes);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".xla-ffi-{}-{count}.so", std::process::id());
        let write = |folder: &Path| {
            let copy = Self(folder.join(&name));
            std::fs::write(&copy.0, &bytes).map(|()| copy)
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        write(folder).or_else(|_| write(&std::env::temp_dir()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Converts unique symbols (STB_GNU_UNIQUE), which exist once per process, to ordinary symbols. C++ compilers use
/// unique symbols for inline variables. With them, the copy would share the variables of the library that it
/// replaces.
fn without_unique_symbols(elf: &mut [u8]) {
    fn number<const N: usize>(elf: &[u8], at: usize) -> Option<usize> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(elf.get(at..at.checked_add(N)?)?);
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    }
    let symbols_of = |elf: &[u8], section: usize| {
        const DYNSYM: usize = 11;
        let header = number::<8>(elf, 40)?.checked_add(64 * section)?;
        let is_symbols = number::<4>(elf, header + 4)? == DYNSYM;
        is_symbols.then_some(())?;
        Some((
            number::<8>(elf, header + 24)?,
            number::<8>(elf, header + 32)?,
        ))
    };
    for section in 0..number::<2>(elf, 60).unwrap_or(0) {
        let Some((start, size)) = symbols_of(elf, section) else {
            continue;
        };
        for symbol in 0..size / 24 {
            match elf.get_mut(start.saturating_add(24 * symbol + 4)) {
                Some(info) if *info >> 4 == 10 => *info = 1 << 4 | (*info & 15),
                _ => {}
            }
        }
    }
}
