//! Tests of handlers with XLA's C++ headers of all available revisions. Each library runs on the revision of its
//! headers and on every other revision.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use support::{build, source};
use xla_ffi_runtime::{
    Attributes, Call, DType, ErrorCode, Executable, Hazard, HostAllocator, Library, Outcome,
    Result, Revision, Runtime, Shape, Stage, Stream, Tensor, UserData,
};
use xla_ffi_testing::headers::{self, Headers};

/// Builds the libraries of the handlers with the headers of every available version.
fn libraries(test: &str) -> Vec<(Headers, PathBuf)> {
    build_with(headers::all(test).unwrap_or_default())
}

fn build_with(headers: Vec<Headers>) -> Vec<(Headers, PathBuf)> {
    let mut built = vec![];
    for headers in headers {
        let flags = [
            format!("-I{}", headers.include.display()),
            format!("-DREVISION={}", headers.revision as u8),
        ];
        let name = format!("handlers-{}", headers.version);
        let Some(path) = build("upstream", &source("cxx/handlers.cc"), &name, &flags) else {
            return vec![];
        };
        built.push((headers, path));
    }
    built
}

/// A library with handlers, loaded into a runtime.
struct Host {
    runtime: Runtime,
    library: Library,
}

impl Host {
    fn new(revision: Revision, path: &PathBuf) -> Result<Self> {
        let runtime = Runtime::new(revision);
        let library = runtime.open(path)?;
        Ok(Self { runtime, library })
    }

    fn executable(&self, symbol: &str, attributes: &str) -> Result<Executable> {
        let handler = self.library.handler(symbol, &[(Stage::Execute, symbol)])?;
        handler.instantiate(&Attributes::parse(attributes)?)
    }

    fn call(&self, symbol: &str, attributes: &str) -> Result<Call> {
        Ok(self.executable(symbol, attributes)?.call())
    }
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len() as i64], values).unwrap()
}

fn shape(dtype: DType, dims: &[i64]) -> Shape {
    Shape::new(dtype, dims).unwrap()
}

fn first<T: xla_ffi_runtime::Element>(outcome: &Outcome) -> Vec<T> {
    outcome.rets[0].to_vec().expect("the element type")
}

fn scale(host: &Host) -> Result<Vec<f32>> {
    let call = host.call("scale", "{factor = 2.0 : f32}")?;
    Ok(first(
        &call
            .arg(f32s(&[1.0, 2.0, 3.0]))
            .ret(shape(DType::F32, &[3]))
            .run()?,
    ))
}

fn later(host: &Host) -> Result<Vec<f32>> {
    let call = host.call("later", "{}")?;
    Ok(first(
        &call
            .arg(f32s(&[1.0, 2.0]))
            .ret(shape(DType::F32, &[2]))
            .run()?,
    ))
}

/// Creates two executables of the counter. Runs the first twice and the second once, and returns the counts.
fn count(host: &Host, headers: Revision) -> Result<Vec<i64>> {
    let info = (headers >= Revision::R7).then_some("counter_info");
    host.library
        .register_type("Counter", "_ZN7Counter2idE", info)?;
    let stages = [
        (Stage::Execute, "counter_execute"),
        (Stage::Instantiate, "counter_instantiate"),
    ];
    let handler = host.library.handler("counter", &stages)?;
    let run = |executable: &Executable| -> Result<i64> {
        Ok(first::<i64>(&executable.call().ret(shape(DType::S64, &[1])).run()?)[0])
    };
    let one = handler.instantiate(&Attributes::new().with("start", 5_i64))?;
    let two = handler.instantiate(&Attributes::new().with("start", 70_i64))?;
    Ok(vec![run(&one)?, run(&one)?, run(&two)?])
}

fn s64(call: Call) -> Result<i64> {
    Ok(first::<i64>(&call.ret(shape(DType::S64, &[1])).run()?)[0])
}

#[test]
fn each_revisions_handlers_run_on_their_revision() {
    for (headers, path) in libraries("each_revisions_handlers_run_on_their_revision") {
        let revision = headers.revision;
        let host = Host::new(revision, &path).unwrap();
        assert_eq!(scale(&host).unwrap(), [2.0, 4.0, 6.0], "{revision}");
        if revision >= Revision::R1 {
            assert_eq!(count(&host, revision).unwrap(), [5, 6, 70], "{revision}");
            let call = host
                .call("blocking", "{}")
                .unwrap()
                .ret(shape(DType::F32, &[1]));
            assert_eq!(first::<f32>(&call.run().unwrap()), [1.0], "{revision}");
        }
        if revision >= Revision::R2 {
            assert_eq!(later(&host).unwrap(), [2.0, 3.0], "{revision}");
            let error = host
                .call("later_error", "{}")
                .unwrap()
                .arg(f32s(&[1.0]))
                .run();
            let error = error.unwrap_err();
            assert_eq!(
                (error.code(), error.is_from_handler()),
                (ErrorCode::DataLoss, true)
            );
            assert!(error.message().contains("lost later"));
        }
        if revision >= Revision::R4 {
            let call = host.call("pooled", "{}").unwrap();
            let x: Vec<_> = (0..500_u16).map(f32::from).collect();
            let doubled: Vec<_> = x.iter().map(|x| x * 2.0).collect();
            let outcome = call
                .arg(f32s(&x))
                .ret(shape(DType::F32, &[500]))
                .run()
                .unwrap();
            assert_eq!(first::<f32>(&outcome), doubled);
            assert_eq!(
                s64(host.call("run_id", "{}").unwrap().run_id(42)).unwrap(),
                42
            );
        }
        if revision >= Revision::R5 {
            let call = host
                .call("device_ordinal", "{}")
                .unwrap()
                .device_ordinal(2048);
            assert_eq!(s64(call).unwrap(), 2048);
        }
        if revision >= Revision::R10 {
            let options = Attributes::new().with("n", 9_i64);
            let call = host.call("options", "{}").unwrap();
            assert_eq!(s64(call.custom_options(&options)).unwrap(), 9);
            assert!(
                s64(host.call("options", "{}").unwrap()).is_err(),
                "none given"
            );
        }
    }
}

#[test]
fn errors_exceptions_and_missing_parts_are_told() {
    for (headers, path) in libraries("errors_exceptions_and_missing_parts_are_told") {
        let revision = headers.revision;
        let host = Host::new(revision, &path).unwrap();
        let run = |symbol: &str, x: f32| {
            host.call(symbol, "{}")
                .unwrap()
                .arg(f32s(&[x]))
                .run()
                .unwrap_err()
        };
        let error = run("fail", 1.0);
        let code = if revision < Revision::R2 {
            ErrorCode::Internal
        } else {
            ErrorCode::NotFound
        };
        assert_eq!(
            (error.code(), error.message()),
            (code, "nothing here"),
            "{revision}"
        );
        // XLA converts exceptions that are derived from `std::exception` to errors. Other exceptions unwind through
        // XLA into Python.
        for (x, text) in [(1.0, "thrown on purpose"), (-1.0, "of type i")] {
            let error = run("throwing", x);
            let code = match (x > 0.0, revision < Revision::R2) {
                (true, false) => ErrorCode::Unknown,
                _ => ErrorCode::Internal,
            };
            assert!(
                error.has(Hazard::Unwound) == (x < 0.0)
                    && error.code() == code
                    && error.message().contains(text),
                "{revision}: {error}"
            );
        }
        let scratch = |allocator: Option<Arc<HostAllocator>>| {
            let call = host
                .call("scratch", "{}")
                .unwrap()
                .ret(shape(DType::F32, &[1]));
            match allocator {
                Some(allocator) => call.allocator(allocator).run(),
                None => call.run(),
            }
        };
        let allocator = Arc::new(HostAllocator::default());
        assert_eq!(
            first::<f32>(&scratch(Some(allocator.clone())).unwrap()),
            [3.0]
        );
        assert_eq!(allocator.living(), 0);
        assert!(scratch(None).is_err());
        let streamed = || host.call("streamed", "{}").unwrap();
        // SAFETY: the handler does not dereference the handle, but only returns it.
        let stream = unsafe { Stream::borrowed(0x77 as *mut _) };
        assert_eq!(s64(streamed().stream(stream)).unwrap(), 0x77);
        assert!(s64(streamed()).unwrap_err().message().contains("stream"));
        if revision >= Revision::R1 {
            let call = host.call("scale", "{factor = 2.0 : f64}").unwrap();
            let error = call
                .arg(f32s(&[1.0]))
                .ret(shape(DType::F32, &[1]))
                .run()
                .unwrap_err();
            assert!(
                error.is_from_handler() && error.message().contains("F64"),
                "{error}"
            );
        }
    }
}

#[test]
fn user_data_reaches_handlers_by_type() {
    for (headers, path) in libraries("user_data_reaches_handlers_by_type") {
        let revision = headers.revision;
        let host = Host::new(revision, &path).unwrap();
        let id = host
            .library
            .register_type("Greeting", "_ZN8Greeting2idE", None)
            .unwrap();
        let mut greeting = 31_i64;
        let mut data = UserData::new(&host.runtime);
        // SAFETY: the number outlives the calls of this test.
        unsafe { data.insert_borrowed(id, (&raw mut greeting).cast()) }.unwrap();
        let call = || host.call("greet", "{}").unwrap();
        assert_eq!(
            s64(call().user_data(Arc::new(data))).unwrap(),
            31,
            "{revision}"
        );
        assert!(
            s64(call()).unwrap_err().message().contains("user data"),
            "{revision}"
        );
        let mut owned = UserData::new(&host.runtime);
        // SAFETY: the library does not use this type.
        unsafe { owned.insert("number", 7_i64) }.unwrap();
        assert_ne!(host.runtime.type_id("number").unwrap(), id);
    }
}

#[test]
fn state_ends_with_its_executable_and_types_are_checked() {
    for (headers, path) in libraries("state_ends_with_its_executable_and_types_are_checked") {
        if headers.revision < Revision::R1 {
            continue;
        }
        let host = Host::new(headers.revision, &path).unwrap();
        let living = host.library.symbol("counters_living").unwrap();
        // SAFETY: the symbol is a function without parameters that returns an `i64`.
        let living: extern "C" fn() -> i64 = unsafe { std::mem::transmute(living) };
        let before = living();
        count(&host, headers.revision).unwrap();
        assert_eq!(living(), before, "{}", headers.revision);
        // Without the other stages, the execute stage finds no state.
        let call = host.call("counter_execute", "{start = 1 : i64}").unwrap();
        let error = call.ret(shape(DType::S64, &[1])).run().unwrap_err();
        assert!(error.message().contains("State is not set"), "{error}");
    }
}

#[test]
fn a_promise_that_is_never_kept_runs_into_the_limit() {
    for (headers, path) in libraries("a_promise_that_is_never_kept_runs_into_the_limit") {
        if headers.revision < Revision::R2 {
            continue;
        }
        let host = Host::new(headers.revision, &path).unwrap();
        let call = host.call("never", "{}").unwrap().arg(f32s(&[1.0]));
        let error = call
            .time_limit(Some(Duration::from_millis(30)))
            .run()
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    }
}

/// The outcome of a handler with headers of one revision on a host of a different revision.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// The handler runs and returns the correct numbers.
    Runs,
    /// The host refuses the handler, or the handler returns an error.
    Refused,
    /// On XLA, the handler would crash or would only work by chance.
    Hazard,
}

/// Returns the outcome of `work` in a fork of this process, because some combinations corrupt memory.
fn fate(work: impl FnOnce() -> Result<bool>) -> Fate {
    // SAFETY: the child only runs `work` and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the alarm ends only the child process, if it hangs.
        unsafe { libc::alarm(30) };
        let code = match work() {
            Ok(true) => 0,
            Ok(false) => 3,
            Err(error) if error.findings().is_empty() => 1,
            Err(_) => 2,
        };
        // SAFETY: `_exit` ends the child without the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Fate::Runs,
        (true, 1) => Fate::Refused,
        // A finding, or the end of the child process, corresponds to a crash or undefined behaviour on XLA.
        (true, 2) | (false, _) => Fate::Hazard,
        _ => panic!("wrong numbers"),
    }
}

/// Returns the expected outcome of a registration. It depends on the revisions of the headers and of the host.
fn registration(headers: Revision, host: Revision) -> Fate {
    let (answered, own) = (headers.minor_version(), host.minor_version());
    match (headers as u8, host as u8) {
        (_, 0) => Fate::Runs,
        // Headers that do not support metadata queries read their operands in a metadata query. On version 0.1, they
        // also have no function table for an error.
        (0, _) if own == 1 => Fate::Hazard,
        (0, _) => Fate::Refused,
        (6.., 1..=5) => Fate::Hazard,
        _ if own == 1 && answered != 1 => Fate::Refused,
        _ if answered > own => Fate::Refused,
        _ => Fate::Runs,
    }
}

fn stateful(headers: Revision, host: Revision) -> Fate {
    match registration(headers, host) {
        Fate::Runs => {}
        other => return other,
    }
    match (headers as u8, host as u8) {
        (_, 0) => Fate::Hazard,
        // Types of these headers have no deleter, which r7 requires. JAX rejects types that are registered by these
        // headers.
        (1..=6, 7) => Fate::Refused,
        (1..=6, 8..) => Fate::Hazard,
        // jaxlib 0.9.1 rejects arguments of 40 bytes. Hosts since jaxlib 0.10.2 accept them.
        (7, 8) => Fate::Refused,
        _ => Fate::Runs,
    }
}

fn asynchronous(headers: Revision, host: Revision) -> Fate {
    match registration(headers, host) {
        Fate::Runs => {}
        other => return other,
    }
    match (headers as u8, host as u8) {
        (_, 0 | 1) => Fate::Hazard,
        // The slots of the table moved by one between r2 and r3. A different function is therefore called, which
        // rejects the size of the arguments.
        (2, 3..) | (3.., 2) => Fate::Refused,
        _ => Fate::Runs,
    }
}

#[test]
fn every_pair_of_headers_and_host() {
    let test = "every_pair_of_headers_and_host";
    let libraries = build_with(headers::one_of_each(headers::all(test).unwrap_or_default()));
    let mut wrong = vec![];
    for (headers, path) in &libraries {
        let built = headers.revision;
        let mut row = format!("{built:>4}");
        for revision in Revision::ALL {
            let on = |work: fn(&Host, Revision) -> Result<bool>| {
                fate(|| work(&Host::new(revision, path)?, built))
            };
            let mut cells = vec![
                (
                    "stateless",
                    on(|host, _| Ok(scale(host)? == [2.0, 4.0, 6.0])),
                    registration(built, revision),
                ),
                (
                    "stateful",
                    on(|host, built| Ok(count(host, built)? == [5, 6, 70])),
                    stateful(built, revision),
                ),
            ];
            if built >= Revision::R2 {
                let got = on(|host, _| Ok(later(host)? == [2.0, 3.0]));
                cells.push(("async", got, asynchronous(built, revision)));
            }
            row.push(' ');
            for (what, got, expected) in cells {
                row.push(match got {
                    Fate::Runs => '+',
                    Fate::Refused => '-',
                    Fate::Hazard => '!',
                });
                if got != expected {
                    wrong.push(format!(
                        "{what} of {built} on {revision}: {got:?}, expected {expected:?}"
                    ));
                }
            }
        }
        println!("{row}");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
