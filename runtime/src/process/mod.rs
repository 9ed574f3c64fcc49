//! The process around the runtime: foreign code that unwinds, addresses that lead nowhere, forks, libraries, and the log.
//!
//! Memory that may not be there is read by the kernel, through a pipe: any address may come, memory that is mapped and not
//! readable too, and what lies there may be somebody's object. The writers of legacy statuses (in
//! `xla_ffi_legacy` and `xla_ffi/legacy/status.h`) ask `msync` instead, on purpose: they run inside
//! of a host's calls, where two descriptors may be two too many, and come to ask at one address in
//! 65536 only, at which nobody but this SDK has a status; to know that there is memory is enough.

pub(crate) mod guard;
pub(crate) mod load;

use std::fmt::Arguments;
use std::io::Write;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Refuses to use threads that another process, of which this one is a fork, has started.
pub(crate) fn check_owner(process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::FailedPrecondition,
        "this process was forked after the library started threads; use spawn or forkserver",
    ))
}

/// Says it to the program's logger. Where the program has none (the facade is off) it goes to standard error,
/// because the text has to be seen; `eprintln!` would panic where that is a pipe nobody reads any more.
#[cold]
pub(crate) fn log(level: log::Level, text: Arguments<'_>) {
    if log::max_level() == log::LevelFilter::Off {
        let _ = writeln!(std::io::stderr(), "xla-ffi: {text}");
        return;
    }
    log::log!(target: "xla_ffi", level, "{text}");
}

/// A warning.
#[cold]
pub fn warn(text: Arguments<'_>) {
    log(log::Level::Warn, text);
}

/// Copies `N` bytes from `address`, or tells that they cannot be read. The kernel does the reading:
/// a wild address is an error code, not a fault.
pub(crate) fn read_memory<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read_memory_into(address, &mut bytes).then_some(bytes)
}

/// As [`read_memory`], for as many bytes as there is room, which is far below a pipe's capacity; whether all could be read.
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
        // SAFETY: both ends were opened above.
        unsafe { libc::close(end) };
    }
    whole
}

/// Whether `address` lies in memory that may be executed: whether it is that of a function.
///
/// The dynamic loader is asked only where the system does not list its memory as Linux does: it knows no function of a
/// program that is linked without it, and takes data of a library for code.
pub(crate) fn is_function(address: usize) -> bool {
    let maps = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/proc/self/maps").ok(),
        false => None,
    };
    let Some(maps) = maps else {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: dladdr only compares the address.
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
        // Written to: what is only read may share pages with code, as linkers for AArch64 lay it out.
        static DATA: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        DATA.store(2, std::sync::atomic::Ordering::Relaxed);
        assert!(is_function(read_memory::<4> as *const () as usize));
        assert!(!is_function(DATA.as_ptr() as usize) && !is_function(16));
    }
}
