//! Tests promises in C on every revision, loops on the host's thread pool in C and C++, and exceptions from handlers.
//!
//! Every element is in exactly one range, for any pool. `ffi/src/context/parallel.rs` has the tests for Rust;
//! `tests/races` checks for data races.

use crate::library;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use xla_ffi_runtime::{
    Attributes, DType, Error, Executor, Library, Outcome, Revision, Runtime, Shape, Stage,
};
use xla_ffi_testing::{compiler, root};

const RETURNED: i32 = 0;
const FREED: i32 = 1;
const NO_PROMISE: i32 = 2;
const LATE: i32 = 0x100;
const FAILS: i32 = 0x200;
const AT_ONCE: i32 = 0x400;
const NOT_ASKED: i32 = 0x800;

/// Calls `promised`; `more` is an additional handler for an earlier stage.
fn promised(
    revision: Revision,
    library: &Path,
    more: Option<(Stage, &str)>,
    attributes: &str,
) -> Result<Outcome, Error> {
    let runtime = Runtime::new(revision);
    let library = runtime.open(library)?;
    // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the address
    // is not reused.
    std::mem::forget(runtime);
    let mut stages = vec![(Stage::Execute, "promised")];
    stages.extend(more);
    let handler = library.handler("promised", &stages)?;
    let executable = handler.instantiate(&Attributes::parse(attributes)?)?;
    executable.call().ret(Shape::new(DType::S32, [])?).run()
}

#[test]
fn promises_complete_calls() {
    let Some(library) = library("promises_complete_calls", "threads.c") else {
        return;
    };
    for revision in Revision::ALL {
        for (how, told) in [
            (RETURNED | LATE, None),
            (RETURNED | AT_ONCE, None),
            (FREED, None),
            (RETURNED | FAILS, Some("ABORTED")),
            (RETURNED | FAILS | LATE, Some("ABORTED")),
            (NO_PROMISE, Some("RESOURCE_EXHAUSTED")),
        ] {
            let attributes = format!("{{how = {how} : i32}}");
            match (promised(revision, &library, None, &attributes), told) {
                (Ok(outcome), None) => assert_eq!(outcome.rets[0].to_vec(), Some(vec![7_i32])),
                (Err(error), Some(code)) if revision >= Revision::R2 => {
                    assert_eq!(error.code().name(), code, "{revision}, {how:#x}");
                }
                (Err(_), Some(_)) => {}
                (outcome, _) => panic!("{revision}, {how:#x}: {outcome:?}"),
            }
        }
        // A rejected call has no future: the call is finished when its error is returned.
        let how = RETURNED | NOT_ASKED | LATE;
        let attributes = format!("{{how = {how} : i32, more = 1 : i32}}");
        let error = promised(revision, &library, None, &attributes).unwrap_err();
        assert!(error.message().contains("`more`"), "{error}");
        // Only the execute stage has futures.
        if revision >= Revision::R1 {
            let early = Some((Stage::Instantiate, "early"));
            let outcome = promised(revision, &library, early, "{how = 1 : i32}");
            outcome.unwrap_or_else(|error| panic!("{revision}: {error}"));
        }
    }
}

/// A C++ handler of the C headers may throw. Without a conversion to an error, the exception would terminate the host.
#[test]
fn exceptions_become_errors_of_the_call() {
    let test = "exceptions_become_errors_of_the_call";
    let Some(library) = library(test, "threads.cc") else {
        return;
    };
    for revision in [Revision::R1, Revision::R2, Revision::NEWEST] {
        let runtime = Runtime::new(revision);
        let library = runtime.open(&library).unwrap();
        let handler = library.handler("throws", &[(Stage::Execute, "throws")]);
        let handler = handler.unwrap();
        for (what, told) in [
            (0, None),
            (1, Some("throws (execute): C++ exception: too bad")),
            (
                2,
                Some("throws (execute): C++ exception: of a type that is not std::exception"),
            ),
            (3, Some("throws (execute): C++ exception: words")),
            (4, Some("throws (execute): out of memory: std::bad_alloc")),
            (5, Some("throws (execute): C++ exception: early")),
        ] {
            let attributes = Attributes::new().with("what", what);
            let call = handler.instantiate(&attributes).unwrap().call();
            let outcome = call.ret(Shape::new(DType::S32, []).unwrap()).run();
            match (outcome, told) {
                (Ok(outcome), None) => assert_eq!(outcome.rets[0].to_vec(), Some(vec![7_i32])),
                (Err(error), Some(told)) => {
                    assert_eq!(error.message(), told, "{revision}");
                    let memory = what == 4 && revision >= Revision::R2;
                    let code = if memory {
                        "RESOURCE_EXHAUSTED"
                    } else {
                        "INTERNAL"
                    };
                    assert_eq!(error.code().name(), code, "{revision}, {what}");
                }
                (outcome, _) => panic!("{revision}, {what}: {outcome:?}"),
            }
        }
        let handler = library.handler("words_legacy", &[(Stage::Execute, "words_legacy")]);
        let call = handler.unwrap().instantiate(&Attributes::new());
        let outcome = call
            .unwrap()
            .call()
            .ret(Shape::new(DType::S32, []).unwrap())
            .run();
        let told = "words_legacy (execute): C++ exception: words";
        assert_eq!(outcome.unwrap_err().message(), told, "{revision}");
        std::mem::forget(runtime);
    }
}

#[test]
fn an_unreturned_error_is_a_warning() {
    let Some(compiler) = compiler::compiler(false, "an_unreturned_error_is_a_warning") else {
        return;
    };
    let warnings = |body: &str| {
        let mut child = std::process::Command::new(&compiler)
            .args(["-std=c99", "-S", "-o", "/dev/null", "-x", "c", "-I"])
            .arg(root().join("include"))
            .arg("-")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let source = format!(
            "#include \"xla_ffi/handler.h\"\n\
             static XLA_FFI_Error* f(xffi_call* call) {{ {body} return NULL; }}\n\
             XFFI_HANDLER(handler, f);\n"
        );
        let mut input = child.stdin.take().unwrap();
        input.write_all(source.as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(warnings("return xffi_decoded(call);"), "");
    for ignored in [
        "xffi_decoded(call);",
        "xffi_error(call, XLA_FFI_Error_Code_NOT_FOUND, \"no row\");",
        "xffi_promise_return(call, NULL);",
        "xffi_set_state(call, NULL, NULL);",
        "xffi_schedule(call, NULL, NULL);",
    ] {
        assert!(warnings(ignored).contains("unused-result"), "{ignored}");
    }
}

/// Returns the libraries with the loop, one per language that has a compiler.
fn libraries(test: &str) -> Vec<PathBuf> {
    let built = ["threads.c", "threads.cc"].map(|source| library(test, source));
    built.into_iter().flatten().collect()
}

type Task = Box<dyn FnOnce() + Send>;

/// A pool that stores its tasks without running them. The number is the thread count that the pool reports.
struct Late(Mutex<Vec<Task>>, usize);

impl Executor for Late {
    fn execute(&self, task: Task) {
        self.0.lock().unwrap().push(task);
    }

    fn num_threads(&self) -> usize {
        self.1
    }
}

struct Threads(usize);

impl Executor for Threads {
    fn execute(&self, task: Task) {
        std::thread::spawn(task);
    }

    fn num_threads(&self) -> usize {
        self.0
    }
}

fn cover(
    library: &Library,
    (count, grain, room): (i64, i64, i64),
    executor: Option<Arc<dyn Executor>>,
) -> Result<Outcome, Error> {
    let handler = library.handler("cover", &[(Stage::Execute, "cover")])?;
    let attributes = Attributes::new().with("count", count).with("grain", grain);
    handler
        .instantiate(&attributes)?
        .call()
        .executor(executor)
        .ret(Shape::new(DType::S64, [room])?)
        .ret(Shape::new(DType::S64, [3])?)
        .run()
}

/// Checks that each element was in exactly one range, and that no range is longer than allowed.
fn judge(what: &str, (count, grain, room): (i64, i64, i64), outcome: Result<Outcome, Error>) {
    let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
    let times: Vec<i64> = outcome.rets[0].to_vec().unwrap();
    let wanted: Vec<i64> = (0..room).map(|i| i64::from(i < count)).collect();
    assert_eq!(times, wanted, "{what}");
    let told: Vec<i64> = outcome.rets[1].to_vec().unwrap();
    let [ranges, elements, longest] = told[..] else {
        panic!("{what}: {told:?}");
    };
    assert_eq!(elements, count.max(0), "{what}");
    if count <= 0 {
        assert_eq!((ranges, longest), (0, 0), "{what}");
    } else if grain > 0 {
        assert_eq!(longest, grain.min(count), "{what}");
        assert_eq!(ranges, (count - 1) / grain + 1, "{what}");
    }
}

const CASES: [(i64, i64, i64); 12] = [
    (0, 1, 4),
    (-3, 1, 4),
    (1, 0, 1),
    (1, 7, 1),
    (1000, 1, 1000),
    (1000, 0, 1000),
    (1000, 7, 1000),
    (1000, 999, 1000),
    (1000, 2000, 1000),
    (1000, i64::MAX, 1000),
    (i64::MAX, i64::MAX / 5, 0),
    (i64::MAX, 0, 0),
];

#[test]
fn every_element_is_in_one_range() {
    for path in libraries("every_element_is_in_one_range") {
        for revision in [Revision::R1, Revision::R2, Revision::R3, Revision::NEWEST] {
            let runtime = Runtime::new(revision);
            let library = runtime.open(&path).unwrap();
            for case in CASES {
                let what = format!("{}, {revision}, {case:?}", path.display());
                judge(&what, case, cover(&library, case, None));
                for threads in [0, 1, 3] {
                    let pool: Arc<dyn Executor> = Arc::new(Threads(threads));
                    judge(&what, case, cover(&library, case, Some(pool)));
                }
            }
            std::mem::forget(runtime);
        }
    }
}

/// If tasks start after the loop has ended, or never, the calling thread does all the work. Late tasks access no memory
/// of the loop.
#[test]
fn late_tasks_do_nothing() {
    for path in libraries("late_tasks_do_nothing") {
        let runtime = Runtime::new(Revision::NEWEST);
        let library = runtime.open(&path).unwrap();
        for (case, threads) in CASES.iter().flat_map(|case| [(*case, 4), (*case, 100_000)]) {
            let late = Arc::new(Late(Mutex::default(), threads));
            let what = format!("{}, late, {case:?}", path.display());
            judge(&what, case, cover(&library, case, Some(late.clone())));
            let tasks = std::mem::take(&mut *late.0.lock().unwrap());
            let most = if case.0 > 1 && case.1 < case.0 {
                1..=threads.min(1024)
            } else {
                0..=0
            };
            assert!(most.contains(&tasks.len()), "{what}: {}", tasks.len());
            tasks.into_iter().for_each(|task| task());
        }
        std::mem::forget(runtime);
    }
}

/// Without a pool, the loop in C runs on the calling thread. In C++ and Rust, the thread pool parameter is rejected.
#[test]
fn loops_without_a_thread_pool() {
    let case = (1000, 7, 1000);
    for path in libraries("loops_without_a_thread_pool") {
        let runtime = Runtime::new(Revision::R0);
        let library = runtime.open(&path).unwrap();
        let outcome = cover(&library, case, None);
        if path.ends_with("libthreads_c.so") {
            judge("C, r0", case, outcome);
        } else {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("thread pool"), "{error}");
        }
        std::mem::forget(runtime);
    }
}

/// The first exception leaves the loop only after all running ranges have ended.
#[test]
fn exceptions_leave_the_loop_after_all_running_ranges() {
    let Some(path) = libraries("exceptions_leave_the_loop_after_all_running_ranges").pop() else {
        return;
    };
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(&path).unwrap();
    let handler = library.handler("ranges_throw", &[(Stage::Execute, "ranges_throw")]);
    let handler = handler.unwrap();
    for first in [0, 1, 17, 63, 64] {
        for _ in 0..20 {
            let attributes = Attributes::new().with("first", first as i64);
            let call = handler.instantiate(&attributes).unwrap().call();
            let outcome = call
                .executor(Some(Arc::new(Threads(3)) as Arc<dyn Executor>))
                .ret(Shape::new(DType::S64, []).unwrap())
                .run();
            match outcome {
                Ok(outcome) => {
                    assert_eq!(first, 64);
                    assert_eq!(outcome.rets[0].to_vec(), Some(vec![0_i64]));
                }
                Err(error) => {
                    let text = error.to_string();
                    let range = text.rsplit("range ").next().unwrap().trim();
                    assert!(range.parse::<i32>().unwrap() >= first, "{text}");
                }
            }
        }
    }
    std::mem::forget(runtime);
}
