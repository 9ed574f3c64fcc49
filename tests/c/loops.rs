//! Loops on the host's thread pool in C and C++: each element is in one range, whatever the pool is like. Rust's have
//! tests beside them (`ffi/src/context/parallel.rs`); threads that meet are looked at by `tests/races`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use xla_ffi_runtime::{
    Attributes, DType, Error, Executor, Library, Outcome, Revision, Runtime, Shape, Stage,
};
use xla_ffi_testing::{compiler, root, target_folder};

/// The libraries of both languages, as far as there are compilers.
fn libraries(test: &str) -> Vec<PathBuf> {
    let include = root().join("include").display().to_string();
    let flags = ["-I".to_owned(), include, "-fvisibility=hidden".to_owned()];
    let folder = target_folder().join("tmp/loops");
    let sources = [("loops.c", "loops_c"), ("loops.cc", "loops_cpp")];
    let built = sources.map(|(source, name)| {
        let source = root().join("tests/c").join(source);
        compiler::shared_library(&folder, test, &source, name, &flags)
    });
    built.into_iter().flatten().collect()
}

type Task = Box<dyn FnOnce() + Send>;

/// A pool that keeps its tasks, and says that it has so many threads.
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

/// Each element once, in ranges that are no longer than they may be.
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

/// Tasks that begin when the loop is over, or never: the calling thread does all, and what comes late touches nothing.
#[test]
fn tasks_that_come_late_find_the_gate_closed() {
    for path in libraries("tasks_that_come_late_find_the_gate_closed") {
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

/// Where there is no pool the loop of C runs on the calling thread; in C++ the parameter is refused, as in Rust.
#[test]
fn without_a_pool() {
    let case = (1000, 7, 1000);
    for path in libraries("without_a_pool") {
        let runtime = Runtime::new(Revision::R0);
        let library = runtime.open(&path).unwrap();
        let outcome = cover(&library, case, None);
        if path.ends_with("libloops_c.so") {
            judge("C, r0", case, outcome);
        } else {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("thread pool"), "{error}");
        }
        std::mem::forget(runtime);
    }
}

/// The first exception comes out of the loop when no range is at work any more.
#[test]
fn an_exception_leaves_when_nobody_is_inside() {
    let Some(path) = libraries("an_exception_leaves_when_nobody_is_inside").pop() else {
        return;
    };
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(&path).unwrap();
    let handler = library.handler("throws", &[(Stage::Execute, "throws")]);
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
