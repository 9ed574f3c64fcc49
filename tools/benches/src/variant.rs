//! Libraries of the same handlers, one a language and compiler, and what a call of one costs.

use anyhow::{Context, Result, ensure};
use libloading::Library;
use std::hint::black_box;
use std::time::Instant;
use xla_ffi_sys::XLA_FFI_CallFrame;

use crate::host::{self, Call, Sink};

/// One language, compiler and header.
pub(crate) struct Variant {
    pub(crate) name: String,
    library: Library,
}

impl Variant {
    pub(crate) fn open(argument: &str) -> Result<Self> {
        let (name, path) = argument
            .split_once('=')
            .context("expected VARIANT=LIBRARY")?;
        // SAFETY: a library of this project: loading it runs no code of its own.
        let library = unsafe { Library::new(path) }.with_context(|| format!("{name}: {path}"))?;
        Ok(Self {
            name: name.to_owned(),
            library,
        })
    }

    pub(crate) fn handler(&self, symbol: &str) -> Result<Call> {
        // SAFETY: the libraries export handlers under these names.
        let handler = unsafe { self.library.get::<Call>(symbol.as_bytes()) };
        Ok(*handler.with_context(|| format!("{}: no handler {symbol}", self.name))?)
    }

    /// The function that gives what the last call decoded.
    pub(crate) fn sink(&self) -> Result<Sink> {
        // SAFETY: the libraries export a function of this type under this name.
        Ok(*unsafe { self.library.get::<Sink>(b"bench_sink") }?)
    }
}

/// What both programs end their command line with: SEED VARIANT=LIBRARY…
pub(crate) fn seed_and_variants(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(u64, Vec<Variant>)> {
    let seed = arguments.next().context("no seed")?.parse()?;
    let variants: Vec<Variant> = arguments
        .map(|argument| Variant::open(&argument))
        .collect::<Result<_>>()?;
    ensure!(!variants.is_empty(), "no library");
    Ok((seed, variants))
}

/// Nanoseconds of one call, in one measurement.
pub(crate) fn measure(handler: Call, frame: *mut XLA_FFI_CallFrame, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        // SAFETY: a whole frame of a live host; handlers do not change what they get.
        let error = unsafe { handler(black_box(frame)) };
        if !error.is_null() {
            // SAFETY: the error came from our host.
            unsafe { host::destroy(error) };
        }
        // SAFETY: the frame of the call that has returned.
        black_box(unsafe { host::take_future(frame) });
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Binds this program to the core that it runs on, so that its measurements are of one core.
pub(crate) fn pin() -> Result<()> {
    // SAFETY: a question without arguments.
    let core = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
    // SAFETY: a set of bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of our own; cores beyond it are ignored.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: a set of our own, of the size told.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    ensure!(failed == 0, "cannot bind the program to core {core}");
    Ok(())
}
