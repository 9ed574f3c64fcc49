//! Loads shared libraries, after a child process has loaded them unharmed.

use super::isolate::{hold_loader, isolated_probe};
use crate::{Code, Error, Result};
use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a library may take to load, and a handler to answer the metadata call.
pub const PROBE_LIMIT: Duration = Duration::from_secs(10);

fn load(path: &Path) -> std::result::Result<libloading::os::unix::Library, libloading::Error> {
    // A bare name would be searched for in the system's folders; a path never is.
    let path = if path.components().count() == 1 {
        Path::new(".").join(path)
    } else {
        path.into()
    };
    let _held = hold_loader();
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL;
    // SAFETY: running a library's code is what this runtime is for; that the library deserves it is
    // the judgement of whoever names it.
    unsafe { libloading::os::unix::Library::open(Some(path), flags) }
}

/// Tells what is wrong with a file that can be no library, in words better than the loader's.
fn inspect_file(path: &Path) -> Result<()> {
    let shown = path.display();
    let opening = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            std::io::ErrorKind::PermissionDenied => Code::PermissionDenied,
            _ => Code::Unavailable,
        };
        Error::new(code, format!("{shown}: {error}")).with_source(error)
    };
    let no_library = |why: &str| Error::invalid(format!("{shown} is not a shared library: {why}"));
    // Asked first: opening a pipe waits for whoever writes to it.
    if !path.metadata().map_err(opening)?.is_file() {
        return Err(no_library("it is not a regular file"));
    }
    let mut file = File::open(path).map_err(opening)?;
    let mut head = Vec::new();
    file.by_ref()
        .take(20)
        .read_to_end(&mut head)
        .map_err(|error| {
            Error::new(Code::Unavailable, format!("{shown}: {error}")).with_source(error)
        })?;
    if cfg!(target_os = "linux") {
        if head.len() < 20 {
            return Err(no_library("it is shorter than the head of one"));
        }
        match head[..4] {
            [0x7f, b'E', b'L', b'F'] => {}
            [0xcf, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe | 0xbf] => {
                return Err(no_library("it is built for macOS, and this is Linux"));
            }
            [b'M', b'Z', ..] => {
                return Err(no_library("it is built for Windows, and this is Linux"));
            }
            _ => return Err(no_library("it does not begin as an ELF file")),
        }
        if head[16] != 3 {
            let kind = match head[16] {
                1 => "it is an object file; link it with -shared",
                2 => "it is a program",
                _ => "its ELF type is another one",
            };
            return Err(no_library(kind));
        }
        let machine = u16::from_le_bytes([head[18], head[19]]);
        let ours = if cfg!(target_arch = "x86_64") {
            62
        } else {
            183
        };
        if machine != ours {
            return Err(no_library(&format!(
                "it is built for another processor (ELF machine {machine}, this is {ours})"
            )));
        }
    }
    Ok(())
}

/// Loads a library after a child process has loaded it unharmed; it stays loaded.
pub fn load_for_good(path: &Path) -> Result<Arc<ManuallyDrop<libloading::os::unix::Library>>> {
    inspect_file(path)?;
    let shown = path.display();
    let answer = isolated_probe(PROBE_LIMIT, || match load(path) {
        Ok(_library) => vec![],
        Err(error) => error.to_string().into_bytes(),
    })
    .map_err(|error| error.within(format_args!("loading {shown}")))?;
    if !answer.is_empty() {
        let why = String::from_utf8_lossy(&answer).into_owned();
        return Err(Error::invalid(format!("{shown} cannot be loaded: {why}")));
    }
    let loaded = load(path).map_err(|error| {
        Error::invalid(format!("{shown} cannot be loaded: {error}")).with_source(error)
    })?;
    Ok(Arc::new(ManuallyDrop::new(loaded)))
}
