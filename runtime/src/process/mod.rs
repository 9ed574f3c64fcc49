//! The process of the runtime: foreign code that unwinds, invalid addresses, forks, libraries, and the log.
//!
//! Memory that may be invalid is read by the kernel, through a pipe. Any address is possible, including
//! mapped memory that is not readable and memory that contains other objects.
//!
//! The writers of legacy statuses (in `xla_ffi_legacy` and `xla_ffi/legacy/status.h`) deliberately use
//! `msync` instead. They run inside calls of a host, which may not have two file descriptors to spare. They
//! check only one address in 65536, at which only this SDK has a status, so it is enough to know that memory
//! is mapped.

pub(crate) mod guard;
#[cfg(feature = "libraries")]
pub(crate) mod load;

use std::fmt::Arguments;
use std::io::Write;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Rejects the use of threads that this process does not have, because it is a fork of the process that
/// started them.
pub(crate) fn check_owner(process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::FailedPrecondition,
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}

/// Logs a text to the program's logger. If the program has no logger, the text is written to standard error,
/// so that it is not lost. `eprintln!` is not used because it panics if standard error is a closed pipe.
#[cold]
pub(crate) fn log(level: log::Level, text: Arguments<'_>) {
    if log::max_level() == log::LevelFilter::Off {
        let _ = writeln!(std::io::stderr(), "xla-ffi: {text}");
        return;
    }
    log::log!(target: "xla_ffi", level, "{text}");
}

/// Logs a warning.
#[cold]
pub fn warn(text: Arguments<'_>) {
    log(log::Level::Warn, text);
}

/// Returns a copy of `N` bytes from `address`, or `None` if they cannot be read. The kernel reads them, so an
/// invalid address is an error code, not a fault.
pub(crate) fn read_memory<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read_memory_into(address, &mut bytes).then_some(bytes)
}

/// Reads as many bytes as `bytes` has, like [`read_memory`], and returns true if all could be read. The size
/// must be far below the capacity of a pipe.
pub(crate) fn read_memory_into(address: usize, bytes: &mut [u8]) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe(pipe.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the kernel checks the address.
    let written = unsafe { libc::write(pipe[1], address as *const libc::c_void, bytes.len()) };
    let whole = written == bytes.len() as isize && {
        // SAFETY: `bytes` has room for its own length.
        let read = unsafe { libc::read(pipe[0], bytes.as_mut_ptr().cast(), bytes.len()) };
        read == bytes.len() as isize
    };
    for end in pipe {
        // SAFETY: both ends were opened above, and are closed once.
        unsafe { libc::close(end) };
    }
    whole
}

/// Returns true if `address` is in executable memory and may therefore be a function.
///
/// The dynamic loader is used only if the system does not list its memory as Linux does. It does not know the
/// functions of statically linked programs, and it accepts addresses of data in libraries.
pub(crate) fn is_function(address: usize) -> bool {
    let maps = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/proc/self/maps").ok(),
        false => None,
    };
    let Some(maps) = maps else {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `dladdr` only compares the address.
        return unsafe { libc::dladdr(address as *const libc::c_void, info.as_mut_ptr()) != 0 };
    };
    maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let number = |hex| usize::from_str_radix(hex, 16).ok();
        let within = range.is_some_and(|(start, end)| {
            number(start).is_some_and(|start| start <= address)
                && number(end).is_some_and(|end| address < end)
        });
        within && words.next().is_some_and(|rights| rights.contains('x'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_and_nothing_else() {
        let value = 0x0102_0304_u32.to_ne_bytes();
        assert_eq!(read_memory::<4>(value.as_ptr() as usize), Some(value));
        assert_eq!(read_memory::<4>(16), None);
        // Atomic, so that it is in writable memory: on AArch64, linkers may place read-only data in the same
        // pages as code.
        static DATA: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        DATA.store(2, std::sync::atomic::Ordering::Relaxed);
        assert!(is_function(read_memory::<4> as *const () as usize));
        assert!(!is_function(DATA.as_ptr() as usize) && !is_function(16));
    }
}
