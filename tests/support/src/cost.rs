//! Measures costs: the elapsed time and CPU time of a command, and the allocations of a function.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The times that a command takes.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Elapsed time.
    pub clock: Duration,
    /// CPU time, including child processes.
    pub computed: Duration,
}

/// Runs a shell line with `arguments` as `"$@"`, after `set_up` has configured the command.
///
/// # Panics
/// Panics if there is no shell, or if the target folder is not writable.
#[must_use]
pub fn shell(line: &str, arguments: &[&str], set_up: impl FnOnce(&mut Command)) -> (Output, Cost) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let folder = crate::target_folder().join("tmp/times");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let times = folder.join(format!("{}.{number}", std::process::id()));
    let mut command = Command::new("sh");
    // The line may exit its shell, so it runs in a subshell.
    let line = format!("({line}\n)\nstatus=$?\ntimes > \"$XLA_FFI_TIMES\"\nexit $status");
    command
        .args(["-c", &line, "sh"])
        .args(arguments)
        .env("XLA_FFI_TIMES", &times);
    set_up(&mut command);
    let start = Instant::now();
    let output = command.output().expect("a shell");
    let clock = start.elapsed();
    let text = std::fs::read_to_string(&times).expect("what the shell wrote");
    let _ = std::fs::remove_file(&times);
    let computed = children(&text).expect("what `times` writes");
    (output, Cost { clock, computed })
}

/// Returns the user and system time of the shell's children: the second line of `times`, such as `0m0.250s 0m0.040s`.
fn children(text: &str) -> Option<Duration> {
    let mut sum = 0.0;
    for time in text.lines().nth(1)?.split_whitespace() {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m')?;
        sum += minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?;
    }
    Some(Duration::from_secs_f64(sum))
}

impl Cost {
    /// Returns true if the command stayed under `limit`.
    ///
    /// The CPU time must always be under the limit. The elapsed time is compared only if the machine is not loaded,
    /// because waiting for a processor does not depend on the command.
    #[must_use]
    pub fn is_under(self, limit: Duration) -> bool {
        self.is_under_on(1, limit)
    }

    /// Returns true if the command stayed under `limit`, as [`is_under`](Self::is_under), for a command that uses
    /// `processors` processors.
    #[must_use]
    pub fn is_under_on(self, processors: u32, limit: Duration) -> bool {
        self.computed < processors * limit && (self.clock < limit || is_loaded())
    }
}

/// Returns true if this machine has more runnable tasks than processors.
fn is_loaded() -> bool {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next();
    let load = load.and_then(|load| load.parse::<f64>().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    load.is_some_and(|load| load > processors as f64)
}

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with a counter. A test uses it as its `#[global_allocator]`.
pub struct Counting;

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// Returns the number of allocations while a function ran, including those of other threads.
pub fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}
