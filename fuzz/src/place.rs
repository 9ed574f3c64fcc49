//! Where code comes from, for libFuzzer, which asks for it by a function of this name where there is one: with that
//! it tells of each edge whether it is one of the readers or of the libraries that they stand on.
//!
//! Unsafe: the function, whose pointers are libFuzzer's.

use addr2line::Loader;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

/// What is written for an edge of the standard library or of a library of others.
const FOREIGN: &str = "-";

unsafe extern "C" {
    /// The program's first byte, which the linker names: addresses of its file begin here.
    #[link_name = "__executable_start"]
    static START: u8;
}

thread_local! {
    /// The debug information of this program.
    static LOADER: Option<Loader> = std::env::current_exe()
        .ok()
        .and_then(|program| Loader::new(program).ok());
}

/// The line of this repository that the instruction at `address` was written in, however it was inlined.
fn place(address: usize) -> Option<String> {
    let address = address.checked_sub((&raw const START).addr())? as u64;
    LOADER.with(|loader| {
        let location = loader.as_ref()?.find_location(address).ok()??;
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
        let file = Path::new(location.file?).strip_prefix(repository).ok()?;
        // What attacks is not what is attacked.
        if file.starts_with("fuzz") {
            return None;
        }
        Some(format!("{}:{}", file.display(), location.line.unwrap_or(0)))
    })
}

/// Writes the place of `address`, or `-`, with what `format` has before it: libFuzzer's formats have one `%`-word that
/// matters here, their last.
///
/// # Safety
/// `format` is a string that ends with a null byte; `size` bytes may be written from `out` on.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_symbolize_pc(
    address: *const c_void,
    format: *const c_char,
    out: *mut c_char,
    size: usize,
) {
    // SAFETY: the caller's promise.
    let format = unsafe { CStr::from_ptr(format) }.to_bytes();
    // SAFETY: the same.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), size) };
    let before = format
        .split(|&byte| byte == b'%')
        .next()
        .unwrap_or_default();
    let place = place(address.addr());
    let place = place.as_deref().unwrap_or(FOREIGN).as_bytes();
    let end = [0];
    for (to, from) in out.iter_mut().zip(before.iter().chain(place).chain(&end)) {
        *to = *from;
    }
}

/// libFuzzer tells nothing without it, and does not call it for what is asked here.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_get_module_and_offset_for_pc(
    _: *const c_void,
    _: *mut c_char,
    _: usize,
    _: *mut *const c_void,
) -> c_int {
    0
}
