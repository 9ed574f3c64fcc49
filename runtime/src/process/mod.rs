//! Process-wide functions: catching panics and C++ exceptions, reading invalid addresses, detecting forks, loading
//! libraries, and logging.
//!
//! Memory that may be invalid is read by the operating system's kernel, through a pipe. The address may be any
//! number, for example that of unreadable memory or of unrelated objects.
//!
//! The writers of legacy statuses (in `xla_ffi_legacy` and `xla_ffi/legacy/status.h`) deliberately use `msync`
//! instead. They run inside calls of a host, which may not have two unused file descriptors. They only check
//! addresses that are multiples of 65536, where only this SDK places a status. At such an address, it is sufficient
//! that memory is mapped.

pub(crate) mod guard;
#[cfg(feature = "libraries")]
pub(crate) mod load;

use std::fmt::Arguments;
use std::io::Write;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Returns an error if `process`, which started the threads, is not this process. A fork does not have the threads of
/// its parent.
pub(crate) fn check_owner(process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::FailedPrecondition,
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}

/// Logs a text to the program's logger. If the program has no logger, the text is written to standard error.
/// `eprintln!` is not used, because it panics if standard error is a closed pipe.
#[cold]
pub(crate) fn log(level: log::Level, text: Arguments<'_>) {
    if log::max_level() == log::LevelFilter::Off {
        let _ = writeln!(std::io::stderr(), "xla-ffi: {text}");
        return;
    }
    log::log!(target: "xla_ffi", level, "{text}");
}

/// Logs a warning with the program's logger, or to standard error.
#[cold]
pub fn warn(text: Arguments<'_>) {
    log(log::Level::Warn, text);
}

/// Returns a copy of `N` bytes from `address`, or `None` if they cannot be read. The kernel reads the bytes, so that
/// an invalid address results in an error code instead of a fault.
pub(crate) fn read_memory<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read_memory_into(address, &mut bytes).then_some(bytes)
}

/// Reads as many bytes as `bytes` has, like [`read_memory`]. Returns true if all bytes were read. The size must be
/// far below the capacity of a pipe.
pub(crate) fn read_memory_into(address: usize, bytes: &mut [u8]) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe(pipe.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the kernel checks the address, and returns an error if it is invalid.
    let written = unsafe { libc::write(pipe[1], address as *const libc::c_void, bytes.len()) };
    let whole = written == bytes.len() as isize && {
        // SAFETY: `bytes` has room for its own length.
        let read = unsafe { libc::read(pipe[0], bytes.as_mut_ptr().cast(), bytes.len()) };
        read == bytes.len() as isize
    };
    for end in pipe {
        // SAFETY: this function opened both ends, and closes each of them once.
        unsafe { libc::close(end) };
    }
    whole
}

/// Returns true if `address` is in executable memory and may therefore be a function.
///
/// On systems without Linux's list of mapped memory, `dladdr` is used instead. It fails for functions of statically
/// linked programs, and also accepts addresses of data in libraries.
pub(crate) fn is_function(address: usize) -> bool {
    let maps = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/proc/self/maps").ok(),
        false => None,
    };
    let Some(maps) = maps else {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `dladdr` does not dereference the address.
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
        // The variable is atomic, so that it is in writable memory: on AArch64, linkers may place read-only data in
        // the same pages as code.
        static DATA: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        DATA.store(2, std::sync::atomic::Ordering::Relaxed);
        assert!(is_function(read_memory::<4> as *const () as usize));
        assert!(!is_function(DATA.as_ptr() as usize) && !is_function(16));
    }
}
