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
        // SAFETY: the benchmark's libraries export handlers under these names.
        let handler = unsafe { self.library.get::<Call>(symbol.as_bytes()) };
        Ok(*handler.with_context(|| format!("{}: no handler {symbol}", self.name))?)
    }

    /// Returns the function `bench_sink` of the library, which returns a number derived from the values that the last
    /// call decoded.
    pub(crate) fn sink(&self) -> Result<Sink> {
        // SAFETY: the benchmark's libraries export a function of the type `Sink` under this name.
        Ok(*unsafe { self.library.get::<Sink>(b"bench_sink") }?)
    }
}

/// Parses the last arguments of the programs `decode` and `scale`: SEED VARIANT=LIBRARY…
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

/// Measures `calls` calls of a handler, and returns the nanoseconds per call.
pub(crate) fn measure(handler: Call, frame: *mut XLA_FFI_CallFrame, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        // SAFETY: the frame is complete, its host still exists, and handlers do not modify the frame.
        let error = unsafe { handler(black_box(frame)) };
        if !error.is_null() {
            // SAFETY: the benchmark's host created the error, and no code uses the error again.
            unsafe { host::destroy(error) };
        }
        // SAFETY: the call that used the frame has returned.
        black_box(unsafe { host::take_future(frame) });
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Pins this program to the core on which it runs, so that all measurements use the same core.
pub(crate) fn pin() -> Result<()> {
    // SAFETY: sched_getcpu has no preconditions.
    let core = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
    // SAFETY: the type `cpu_set_t` consists of bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a local variable; the macro ignores cores beyond the size of the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: `set` is a local variable, and the size of the set is passed.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    ensure!(failed == 0, "cannot bind the program to core {core}");
    Ok(())
}
