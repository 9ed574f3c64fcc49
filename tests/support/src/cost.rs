//! Costs: a command's by the clock and in time of processors, and a function's in allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a command took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// By the clock.
    pub clock: Duration,
    /// Of processors, its children's included.
    pub computed: Duration,
}

/// Runs a line of the shell as `set_up` wants it, with `arguments` as `"$@"`.
///
/// # Panics
/// Where there is no shell, or the target folder cannot be written.
#[must_use]
pub fn shell(line: &str, arguments: &[&str], set_up: impl FnOnce(&mut Command)) -> (Output, Cost) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let folder = crate::target_folder().join("tmp/times");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let times = folder.join(format!("{}.{number}", std::process::id()));
    let mut command = Command::new("sh");
    // A line may end its shell: it gets one of its own.
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

/// What the shell's children took, user and system: the second line of `times`, `0m0.250s 0m0.040s`.
fn children(text: &str) -> Option<Duration> {
    let mut sum = 0.0;
    for time in text.lines().nth(1)?.split_whitespace() {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m')?;
        sum += minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?;
    }
    Some(Duration::from_secs_f64(sum))
}

impl Cost {
    /// Whether it stayed under `limit`: in time of processors always, and by the clock where nothing else wants them, since
    /// waiting for one is no fault of the command.
    #[must_use]
    pub fn is_under(self, limit: Duration) -> bool {
        self.is_under_on(1, limit)
    }

    /// The same of a command that keeps so many processors busy.
    #[must_use]
    pub fn is_under_on(self, processors: u32, limit: Duration) -> bool {
        self.computed < processors * limit && (self.clock < limit || is_loaded())
    }
}

/// Whether more wants to run on this machine than it has processors.
fn is_loaded() -> bool {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next();
    let load = load.and_then(|load| load.parse::<f64>().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    load.is_some_and(|load| load > processors as f64)
}

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts: a test makes it its `#[global_allocator]`.
pub struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// Allocations while a function ran, those of other threads included.
pub fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}
