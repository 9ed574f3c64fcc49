//! The functions of `runtime.h` for shutdown, logging and counters, for long-running programs.

use crate::runtime::xffi_rt;
use crate::status::{c_text, status_or_null, xffi_rt_status};
use crate::{null, object};
use host::{Error, ErrorCode};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use xla_ffi_sys::XLA_FFI_Error_Code;

/// Implements `xffi_rt_wait_for_calls`.
///
/// # Safety
/// The runtime must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_wait_for_calls(
    runtime: *const xffi_rt,
    milliseconds: i64,
) -> *mut xffi_rt_status {
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        runtime.0.wait_for_calls(limit)
    })
}

/// Implements `xffi_rt_shutdown`.
///
/// # Safety
/// The runtime must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_shutdown(
    runtime: *const xffi_rt,
    milliseconds: i64,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        let limit = u64::try_from(milliseconds).map_err(|_| {
            Error::invalid_argument(format!(
                "a shutdown waits with a limit, not {milliseconds} ms"
            ))
        })?;
        runtime.0.shutdown(Duration::from_millis(limit))
    })
}

/// `xffi_rt_handler_counts` in C: the outcomes of a handler's executions.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_handler_counts {
    name: *const c_char,
    in_flight: u64,
    succeeded: u64,
    failed: [u64; 17],
}

/// Implements `xffi_rt_counts`.
///
/// # Safety
/// The runtime must be null or owned by the caller. `told` must be safe to call with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_counts(
    runtime: *const xffi_rt,
    told: Option<unsafe extern "C" fn(user: *mut c_void, counts: *const xffi_rt_handler_counts)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        let told = told.ok_or_else(|| null("told"))?;
        for counts in runtime.0.counts() {
            let name = c_text(&counts.name);
            let mut row = xffi_rt_handler_counts {
                name: name.as_ptr(),
                in_flight: counts.in_flight,
                succeeded: counts.succeeded,
                failed: [0; 17],
            };
            for (code, count) in counts.failed {
                row.failed[code as usize] = count;
            }
            // SAFETY: guaranteed by the caller.
            unsafe { told(user, &raw const row) };
        }
        Ok(())
    })
}

/// `xffi_rt_execution` in C: a finished execution.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_execution {
    handler: *const c_char,
    run_id: i64,
    nanoseconds: u64,
    code: XLA_FFI_Error_Code,
}

type Observer = unsafe extern "C" fn(*mut c_void, *const xffi_rt_execution);

/// Implements `xffi_rt_observe`.
///
/// # Safety
/// The runtime must be null or owned by the caller. Any thread, also several at once, must be allowed to call `told`
/// with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_observe(
    runtime: *const xffi_rt,
    every: u32,
    told: Option<unsafe extern "C" fn(user: *mut c_void, execution: *const xffi_rt_execution)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?;
        let listener = Listener {
            told: told.ok_or_else(|| null("told"))?,
            user,
        };
        runtime.0.observe(every, move |it| {
            let listener: &Listener<Observer> = &listener;
            let name = c_text(it.handler);
            let execution = xffi_rt_execution {
                handler: name.as_ptr(),
                run_id: it.run_id,
                nanoseconds: u64::try_from(it.duration.as_nanos()).unwrap_or(u64::MAX),
                code: it.code.map_or(XLA_FFI_Error_Code::OK, ErrorCode::to_raw),
            };
            // SAFETY: guaranteed by the caller.
            unsafe { (listener.told)(listener.user, &raw const execution) };
        })
    })
}

// The severities of log messages, as numbers in C.
pub(crate) const XFFI_RT_LOG_ERROR: c_int = 1;
pub(crate) const XFFI_RT_LOG_WARNING: c_int = 2;
pub(crate) const XFFI_RT_LOG_INFO: c_int = 3;

/// A function of the program that receives log messages or finished executions, with its `user` pointer.
struct Listener<F> {
    told: F,
    user: *mut c_void,
}

// SAFETY: the contracts of `xffi_rt_set_logger` and `xffi_rt_observe` allow any thread to call the function.
unsafe impl<F> Send for Listener<F> {}
// SAFETY: the contracts of `xffi_rt_set_logger` and `xffi_rt_observe` allow several threads at once to call the
// function.
unsafe impl<F> Sync for Listener<F> {}

/// The logger that this library sets for the crate `log`. It passes messages to the function of the program.
struct Logger(RwLock<Option<Listener<Log>>>);

type Log = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

static LOGGER: Logger = Logger(RwLock::new(None));

thread_local! {
    /// Whether this thread is inside the program's log function.
    static IS_LOGGING: Cell<bool> = const { Cell::new(false) };
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // Messages that occur inside the program's log function are printed instead, to avoid an endless recursion.
        if !IS_LOGGING.get() {
            let listener = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(listener) = &*listener {
                let level = match record.level() {
                    log::Level::Error => XFFI_RT_LOG_ERROR,
                    log::Level::Warn => XFFI_RT_LOG_WARNING,
                    _ => XFFI_RT_LOG_INFO,
                };
                let text = c_text(&record.args().to_string());
                IS_LOGGING.set(true);
                // SAFETY: guaranteed by the caller of `xffi_rt_set_logger`.
                unsafe { (listener.told)(listener.user, level, text.as_ptr()) };
                IS_LOGGING.set(false);
                return;
            }
        }
        let _ = writeln!(std::io::stderr(), "xla-ffi: {}", record.args());
    }

    fn flush(&self) {}
}

/// Implements `xffi_rt_set_logger`.
///
/// # Safety
/// `told` must be null, or any thread must be allowed to call it with `user` until it is replaced.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_set_logger(
    told: Option<unsafe extern "C" fn(user: *mut c_void, level: c_int, text: *const c_char)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // The crate `log` is linked into this library, and its logger can be set once. Later calls fail and are
        // ignored.
        let _ = log::set_logger(&LOGGER);
        if IS_LOGGING.get() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "a logger that is being called cannot be replaced by its own call",
            ));
        }
        let level = told.map_or(log::LevelFilter::Off, |_| log::LevelFilter::Info);
        // The lock waits until the previous function is no longer running.
        let mut place = LOGGER.0.write().unwrap_or_else(PoisonError::into_inner);
        *place = told.map(|told| Listener { told, user });
        log::set_max_level(level);
        Ok(())
    })
}
