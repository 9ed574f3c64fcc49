//! The functions of `runtime.h` for runtimes and for the registration of handlers.

use crate::library::xffi_rt_library;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, list, object, take_back, text};
use host::legacy::{Function, Signature};
use host::{Bundle, Error, Revision, Runtime, Stage};
use std::ffi::{c_char, c_int, c_void};
use xla_ffi_sys::{XLA_FFI_Api, XLA_FFI_Handler_Bundle, XlaFfiLegacyTarget};

/// The number for the newest revision, for `xffi_rt_create`.
pub(crate) const XFFI_RT_NEWEST: c_int = -1;

// The numbers of signatures for `xffi_rt_register_legacy`. They are literals, because cbindgen does not resolve
// paths.
pub(crate) const XFFI_RT_LEGACY_UNKNOWN: u32 = 0;
pub(crate) const XFFI_RT_LEGACY_CPU: u32 = 1;
pub(crate) const XFFI_RT_LEGACY_CPU_STATUS: u32 = 2;
pub(crate) const XFFI_RT_LEGACY_GPU: u32 = 3;
pub(crate) const XFFI_RT_LEGACY_GPU_STATUS: u32 = 4;
pub(crate) const XFFI_RT_LEGACY_CPU_UNIFIED: u32 = 5;

const _: () = {
    assert!(XFFI_RT_LEGACY_UNKNOWN == XlaFfiLegacyTarget::UNKNOWN);
    assert!(XFFI_RT_LEGACY_CPU == Signature::Cpu as u32);
    assert!(XFFI_RT_LEGACY_CPU_STATUS == Signature::CpuStatus as u32);
    assert!(XFFI_RT_LEGACY_GPU == Signature::Gpu as u32);
    assert!(XFFI_RT_LEGACY_GPU_STATUS == Signature::GpuStatus as u32);
    assert!(XFFI_RT_LEGACY_CPU_UNIFIED == Signature::CpuUnified as u32);
    assert!(Signature::ALL.len() == 5);
};

/// `xffi_rt` in C: a runtime.
#[derive(Debug)]
pub(crate) struct xffi_rt(pub(crate) Runtime);
const _: () = crate::any_thread::<xffi_rt>();

/// Implements `XLA_FFI_GetApi`: returns the function table of the program's global runtime.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn XLA_FFI_GetApi() -> *const XLA_FFI_Api {
    Runtime::global().api()
}

/// Implements `xffi_rt_register_legacy`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`. The function must have the given signature.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_register_legacy(
    runtime: *mut xffi_rt,
    name: *const c_char,
    platform: *const c_char,
    function: *mut c_void,
    signature: u32,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: guaranteed by the caller.
        let platform = unsafe { text(platform, "platform") }?;
        let known = Signature::from_raw(signature);
        if known.is_none() && signature != XFFI_RT_LEGACY_UNKNOWN {
            let most = Signature::ALL.len();
            return Err(Error::invalid_argument(format!(
                "signature {signature}: there are 0 to {most}"
            )));
        }
        // SAFETY: guaranteed by the caller.
        let function = unsafe { Function::at(function, known) }?;
        runtime.0.register_legacy(name, platform, function)
    })
}

/// The maximum number of threads in a thread pool.
const MOST_THREADS: usize = 1024;

/// Returns the number of threads in a thread pool, or an error if the number is out of range.
pub(crate) fn known_threads(threads: usize) -> Result<usize, Error> {
    if (1..=MOST_THREADS).contains(&threads) {
        return Ok(threads);
    }
    Err(Error::invalid_argument(format!(
        "{threads} threads: there are 1 to {MOST_THREADS}"
    )))
}

fn known_revision(revision: c_int) -> Result<Revision, Error> {
    let known = match revision {
        XFFI_RT_NEWEST => Some(Revision::NEWEST),
        other => usize::try_from(other)
            .ok()
            .and_then(|index| Revision::ALL.get(index))
            .copied(),
    };
    known.ok_or_else(|| Error::invalid_argument(format!("revision {revision}: there are 0 to 10")))
}

/// Implements `xffi_rt_create`.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_create(
    revision: c_int,
    out: *mut *mut xffi_rt,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        let runtime = Runtime::new(known_revision(revision)?);
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, xffi_rt(runtime)) }
    })
}

/// Implements `xffi_rt_create_with_threads`.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_create_with_threads(
    revision: c_int,
    threads: usize,
    out: *mut *mut xffi_rt,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        let revision = known_revision(revision)?;
        let runtime = Runtime::with_threads(revision, known_threads(threads)?);
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, xffi_rt(runtime)) }
    })
}

/// Implements `xffi_rt_version`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn xffi_rt_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Implements `xffi_rt_take_findings`.
///
/// # Safety
/// The runtime must be null or owned by the caller. `told` must be safe to call with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_take_findings(
    runtime: *const xffi_rt,
    told: Option<unsafe extern "C" fn(*mut c_void, *const c_char)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = &unsafe { object(runtime, "runtime") }?.0;
        let told = told.ok_or_else(|| crate::null("told"))?;
        for finding in runtime.take_findings() {
            let text = crate::status::c_text(&finding.to_string());
            // SAFETY: guaranteed by the caller.
            unsafe { told(user, text.as_ptr()) };
        }
        Ok(())
    })
}

/// Implements `xffi_rt_global`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn xffi_rt_global() -> *mut xffi_rt {
    Box::into_raw(Box::new(xffi_rt(Runtime::global().clone())))
}

/// Implements `xffi_rt_destroy`.
///
/// # Safety
/// The runtime must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_destroy(runtime: *mut xffi_rt) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(runtime) };
}

/// Implements `xffi_rt_api`.
///
/// # Safety
/// The runtime must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_api(runtime: *const xffi_rt) -> *const XLA_FFI_Api {
    // SAFETY: guaranteed by the caller.
    let runtime = unsafe { runtime.as_ref() };
    runtime.map_or(std::ptr::null(), |runtime| runtime.0.api())
}

/// Implements `xffi_rt_register`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`; the bundle's functions must be handlers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_register(
    runtime: *mut xffi_rt,
    name: *const c_char,
    platform: *const c_char,
    bundle: *const XLA_FFI_Handler_Bundle,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: guaranteed by the caller.
        let platform = unsafe { text(platform, "platform") }?;
        // SAFETY: guaranteed by the caller.
        let bundle = unsafe { bundle_of(bundle) }?;
        runtime.0.register(name, platform, bundle)
    })
}

/// Implements `xffi_rt_require`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_require(
    runtime: *const xffi_rt,
    platform: *const c_char,
    names: *const *const c_char,
    count: usize,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        // SAFETY: guaranteed by the caller.
        let platform = unsafe { text(platform, "platform") }?;
        // SAFETY: guaranteed by the caller.
        let names = unsafe { list(names, count, "names") }?.iter();
        // SAFETY: guaranteed by the caller.
        let names = names.map(|name| unsafe { text(*name, "a name") });
        let names: Vec<&str> = names.collect::<Result<_, _>>()?;
        runtime.0.require(platform, names)
    })
}

/// Implements `xffi_rt_register_library`.
///
/// # Safety
/// Runtime and library must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_register_library(
    runtime: *mut xffi_rt,
    library: *const xffi_rt_library,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        // SAFETY: guaranteed by the caller.
        let library = unsafe { object(library, "library") }?;
        runtime.0.register_library(&library.library)
    })
}

/// Converts a bundle of the caller.
///
/// # Safety
/// `bundle` must be null or point to a bundle of handlers.
pub(crate) unsafe fn bundle_of(bundle: *const XLA_FFI_Handler_Bundle) -> Result<Bundle, Error> {
    // SAFETY: guaranteed by the caller.
    let raw = unsafe { object(bundle, "bundle") }?;
    let mut bundle = Bundle::default();
    for (stage, function) in [
        (Stage::Instantiate, raw.instantiate),
        (Stage::Prepare, raw.prepare),
        (Stage::Initialize, raw.initialize),
        (Stage::Execute, raw.execute),
        (Stage::Record, raw.record),
    ] {
        if let Some(function) = function {
            // SAFETY: guaranteed by the caller.
            bundle = unsafe { bundle.with(stage, function) };
        }
    }
    Ok(bundle)
}
