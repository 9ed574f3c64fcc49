//! Libraries with the same handlers, one per language and compiler, and the cost of their calls.

use anyhow::{Context, Result, ensure};
use libloading::Library;
use std::hint::black_box;
use std::time::Instant;
use xla_ffi_sys::XLA_FFI_CallFrame;

use crate::host::{self, Call, Sink};

/// A library built with one language, compiler and header.
pub(crate) struct Variant {
    pub(crate) name: String,
    library: Library,
}

impl Variant {
    pub(crate) fn open(argument: &str) -> Result<Self> {
        let (name, path) = argument
            .split_once('=')
            .context("expected VARIANT=LIBRARY")?;
        // SAFETY: the library is part of this project and has no initializers with side effects.
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

    /// Returns the library's `bench_sink`, which reports the values that the last call decoded.
    pub(crate) fn sink(&self) -> Result<Sink> {
        // SAFETY: the libraries export a function of this type under this name.
        Ok(*unsafe { self.library.get::<Sink>(b"bench_sink") }?)
    }
}

/// Parses the last arguments of both programs: SEED VARIANT=LIBRARY…
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

/// Returns the nanoseconds per call of one measurement.
pub(crate) fn measure(handler: Call, frame: *mut XLA_FFI_CallFrame, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        // SAFETY: the frame is complete and belongs to a live host; handlers do not modify it.
        let error = unsafe { handler(black_box(frame)) };
        if !error.is_null() {
            // SAFETY: the error belongs to our host and is not used again.
            unsafe { host::destroy(error) };
        }
        // SAFETY: the frame belongs to a call that has returned.
        black_box(unsafe { host::take_future(frame) });
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Pins this program to its current core, so that all measurements use the same core.
pub(crate) fn pin() -> Result<()> {
    // SAFETY: sched_getcpu has no preconditions.
    let core = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
    // SAFETY: the set consists of bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours; the macro ignores cores beyond its size.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is ours, and its size is passed.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    ensure!(failed == 0, "cannot bind the program to core {core}");
    Ok(())
}
