//! Failure injection, as in the tests of curl and SQLite. Each form of handler is called with its first, second, …
//! allocation, thread start or host call failing. The process must survive, nothing may leak, and a call that reports
//! success must have the right result. Each failure has a separate process, because first calls differ from later
//! calls.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod form;
mod interpose;

use form::{Form, call, forms};
use interpose::{Failure, INJECTED, Kind};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xla_ffi_runtime::{HostAllocator, Runtime, TypeInfo};
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::{rust_examples, skip, target_folder};

/// The outcome of a process that calls one form.
#[derive(Debug)]
struct Report {
    /// The outcome of the first call.
    outcome: String,
    /// The number of calls of each kind, for the first call of the form and for a later call.
    counts: [[usize; 4]; 2],
    /// The number of allocations that each round after the first round does not free.
    kept: isize,
    faults: String,
}

impl Report {
    fn to_text(&self) -> String {
        let parts = (&self.outcome, self.counts, self.kept, &self.faults);
        serde_json::to_string(&parts).expect("JSON")
    }

    fn parse(text: &str) -> Option<Self> {
        let (outcome, counts, kept, faults) = serde_json::from_str(text).ok()?;
        Some(Self {
            outcome,
            counts,
            kept,
            faults,
        })
    }
}

/// Returns true if a call with this failure may have this outcome.
fn is_allowed(form: &Form, outcome: &str, failure: Failure, control: &str) -> bool {
    let has = |code: &str| {
        outcome
            .strip_prefix("error ")
            .is_some_and(|text| text.starts_with(code))
    };
    let has_own_code = outcome.starts_with("error") && outcome.starts_with(&form.ends);
    outcome == control
        || match failure.kind {
            Kind::Host if form.optional => outcome.starts_with("right"),
            // `UNAVAILABLE`: the call failed, but the second attempt, which should find the reason, succeeded.
            Kind::Host => {
                let is_reported = outcome.starts_with("error") && outcome.contains(INJECTED);
                is_reported || has("RESOURCE_EXHAUSTED") || has("UNAVAILABLE")
            }
            Kind::Thread => outcome.starts_with("error"),
            // A failed allocation may lose the message of an error, but not its code.
            _ => has("RESOURCE_EXHAUSTED") || has_own_code,
        }
}

const LEAK: &str = "allocations leak";

/// Rounds per process. The first round makes the library's first calls, and each later round has a new runtime.
/// Allocations leak if a later round keeps more allocations than without a failure. glibc keeps thread-local data of
/// ended threads, but their number does not grow.
const ROUNDS: usize = 4;

/// Calls a form `ROUNDS` times, in each round with the failure and again without it.
fn exercise(form: &Form, path: &Path, failing: Option<(Failure, &Report)>) -> Report {
    let mut faults = vec![];
    let mut late = false;
    let mut report = Report {
        outcome: String::new(),
        counts: [[0; 4]; 2],
        kept: isize::MAX,
        faults: String::new(),
    };
    for round in 0..ROUNDS {
        let runtime = Runtime::default();
        // SAFETY: the runtime is new, so no other thread reads its table.
        unsafe { interpose::intercept(runtime.api().cast(), runtime.revision()) };
        // SAFETY: all objects of this name and id have the same type.
        unsafe { runtime.register_type("torture.number", 4242, TypeInfo::default()) }.expect("one");
        let library = runtime.open(path).expect("it loads");
        let scratch = Arc::new(HostAllocator::default());
        let before = interpose::live();
        interpose::start(failing.map(|(failure, _)| failure));
        let outcome = call(form, &library, &scratch, &mut late);
        let (first, slot) = (interpose::counts(), interpose::failed_slot());
        interpose::start(None);
        let again = call(form, &library, &scratch, &mut late);
        let mut check = |holds: bool, fault: String| faults.extend((!holds).then_some(fault));
        if let Some((failure, control)) = failing {
            let is_allowed = is_allowed(form, &outcome, failure, &control.outcome);
            check(
                is_allowed,
                format!("{slot:?}: {outcome} instead of {}", control.outcome),
            );
            check(again == control.outcome, format!("{outcome}, then {again}"));
        }
        let objects = xla_ffi_runtime::living_objects();
        check(
            objects == (0, 0),
            format!("errors and futures leak: {objects:?}"),
        );
        check(
            scratch.living() == 0,
            format!("{} scratch {LEAK}", scratch.living()),
        );
        faults.extend(runtime.take_findings().iter().map(ToString::to_string));
        if round == 0 {
            report.outcome = outcome;
            report.counts = [first, interpose::counts()];
        }
        drop((library, runtime));
        // Threads may end after they have completed their call. Threads of the pool may end after the runtime is
        // dropped.
        let most = failing.map_or(0, |(_, control)| before + control.kept);
        let patience = if failing.is_some() { 300 } else { 50 };
        let end = Instant::now() + Duration::from_millis(patience);
        while interpose::started() > 0 && interpose::live() > most && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        if round > 0 {
            report.kept = report.kept.min((interpose::live() - before).max(0));
        }
    }
    if late {
        faults.push("writes after the call has failed".to_owned());
    }
    if let Some((_, control)) = failing.filter(|(_, control)| report.kept > control.kept) {
        faults.push(format!("{} {LEAK}", report.kept - control.kept));
    }
    faults.dedup();
    report.faults = faults.join("; ");
    report
}

/// Runs `body` in a child process. Returns the child's output, with the result of `body` if it did not crash, and its
/// exit status.
fn in_child(body: impl FnOnce() -> String) -> (String, i32) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child only runs `body`, which does not depend on other threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process");
    if child == 0 {
        // SAFETY: both are open descriptors of this process.
        unsafe { libc::dup2(ends[1], 2) };
        // SAFETY: the function only sets a timeout, after which the process is killed.
        unsafe { libc::alarm(10) };
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("RUST_BACKTRACE", "0") };
        let text = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        let text = text.unwrap_or_else(|_| "PANIC".to_owned());
        let _ = std::io::stderr().write_all(format!("\nREPORT {text}").as_bytes());
        // SAFETY: the child exits without running the parent's exit handlers or flushing its buffers.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: the descriptor is open, and this process does not use it.
    unsafe { libc::close(ends[1]) };
    // SAFETY: the descriptor is open, and only this value owns it.
    let mut pipe = unsafe { std::fs::File::from_raw_fd(ends[0]) };
    let mut said = vec![];
    pipe.read_to_end(&mut said).expect("the pipe");
    let mut status = 0;
    // SAFETY: the process is a child of this process.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    (String::from_utf8_lossy(&said).into_owned(), status)
}

/// The behaviour of a language when the library's own allocations fail.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    /// Failed allocations are errors.
    Error,
    /// Failed allocations end the process through `handle_alloc_error`.
    Abort,
}

/// The ends of a process without memory: signal or exit status, and message. They come from Rust's
/// `handle_alloc_error`, and from glibc when a thread first uses a library's thread-local data.
const ABORTS: [(i32, &str); 3] = [
    (libc::SIGABRT, "memory allocation of"),
    (libc::SIGABRT, "failed to register TLS destructor"),
    (127 << 8, "cannot allocate memory for thread-local data"),
];

/// Calls one form of handler once per failure, and returns its row of the results table.
fn torture(form: &Form, path: &Path, promise: Promise, faults: &mut Vec<String>) -> String {
    let run = |failing| {
        let (said, status) = in_child(|| exercise(form, path, failing).to_text());
        let report = said
            .rsplit_once("REPORT ")
            .and_then(|(_, text)| Report::parse(text));
        report.filter(|_| status == 0).ok_or((said, status))
    };
    let control =
        run(None).unwrap_or_else(|(said, status)| panic!("{}: {status:x}: {said}", form.name));
    if control.outcome == "none" {
        return format!("{:18} not in this language", form.name);
    }
    assert!(
        control.outcome.starts_with(&form.ends),
        "{}: {control:?}",
        form.name
    );
    assert_eq!(control.faults, "", "{}", form.name);
    let (mut right, mut errors, mut aborts) = (0, 0, 0);
    for (kind, sticky) in Kind::ALL
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let is_allocation = matches!(kind, Kind::Allocation | Kind::AllocationElsewhere);
        let count = control.counts[0][kind as usize];
        for index in (0..count).filter(|_| !sticky || is_allocation && promise == Promise::Error) {
            let failure = Failure {
                kind,
                index,
                sticky,
            };
            let fault = match run(Some((failure, &control))) {
                Ok(report) => {
                    let is_right =
                        report.outcome.starts_with("right") || report.outcome == control.outcome;
                    right += usize::from(is_right);
                    errors += usize::from(!is_right);
                    report.faults
                }
                Err((said, status)) => {
                    let is_known =
                        |(end, text): &(i32, &str)| status == *end && said.contains(text);
                    if promise == Promise::Abort && is_allocation && ABORTS.iter().any(is_known) {
                        aborts += 1;
                        continue;
                    }
                    format!("ended with {status:x}: {said}")
                }
            };
            if !fault.is_empty() {
                let after = if sticky { " and all after it" } else { "" };
                faults.push(format!("{}, {kind:?} {index}{after}: {fault}", form.name));
            }
        }
    }
    let [first, later] = control
        .counts
        .map(|[here, elsewhere, threads, host]| (here + elsewhere, threads, host));
    format!(
        "{:18} {:>6} {:>6} {:>6} {:>6} {:>6}   {right:>5} {errors:>5} {aborts:>5}",
        form.name, first.0, later.0, first.1, first.2, later.2
    )
}

fn all(language: &str, library: impl Fn(&str) -> PathBuf, promise: Promise) {
    // Only one test at a time forks, because a child process inherits the locks that other threads hold.
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut faults = vec![];
    println!("{language:18} allocs  later threads  host  later   right error abort");
    for form in forms() {
        println!(
            "{}",
            torture(&form, &library(form.library), promise, &mut faults)
        );
    }
    assert!(
        faults.is_empty(),
        "{language}: {} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Tests the libraries that the build script has compiled, and the library of a source in this folder.
fn compiled(test: &str, compiler: Option<&str>, source: &str, suffix: &str) {
    let folder = target_folder().join("tmp/torture");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/torture")
        .join(source);
    let include = [format!("-I{}", env!("SDK_INCLUDE_DIR"))];
    let own = shared_library(&folder, test, &path, test, &include);
    let Some(own) = own.filter(|_| compiler.is_some()) else {
        return skip(test, "no compiler");
    };
    let library = |name: &str| match name {
        "torture" => own.clone(),
        _ => Path::new(env!("C_EXAMPLES_DIR")).join(format!("lib{name}{suffix}.so")),
    };
    all(test, library, Promise::Error);
}

#[test]
fn rust() {
    // Any library can be combined with the handlers in this program.
    let file = |name: &str| match name {
        "torture" => "libconformance.so".to_owned(),
        _ => format!("lib{name}.so"),
    };
    all(
        "rust",
        |name| rust_examples().join(file(name)),
        Promise::Abort,
    );
}

#[test]
fn c() {
    compiled("c", option_env!("C_COMPILER"), "handlers.c", "");
}

#[test]
fn cpp() {
    compiled("cpp", option_env!("CPP_COMPILER"), "handlers.cc", "_cpp");
}
