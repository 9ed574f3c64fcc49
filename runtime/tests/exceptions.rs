//! Tests of C++ exceptions of any type that leave handlers, tasks and deleters. The runtime must report them, and the
//! program must continue.

mod support;

use std::time::Duration;
use support::{build, source};
use xla_ffi_runtime::{
    Attributes, CONTAINS_CXX_EXCEPTIONS, Call, ErrorCode, Finding, Hazard, Library, Runtime, Stage,
};
use xla_ffi_testing::skip;

/// Returns the runtime and the library. If the library cannot be built, prints the reason and returns `None`.
fn subject(test: &str) -> Option<(Runtime, Library)> {
    if !CONTAINS_CXX_EXCEPTIONS {
        skip(test, "the runtime was built without a C++ compiler");
        return None;
    }
    let flags = [
        format!("-I{}", source("../../include").display()),
        "-pthread".into(),
    ];
    let path = build("exceptions", &source("cxx/misuse.cc"), "misuse", &flags)?;
    let runtime = Runtime::default();
    let library = runtime.open(path).unwrap();
    Some((runtime, library))
}

fn call(library: &Library, symbol: &str) -> Call {
    let handler = library
        .handler(symbol, &[(Stage::Execute, symbol)])
        .unwrap();
    handler.instantiate(&Attributes::new()).unwrap().call()
}

#[test]
fn exceptions_of_any_type_leave_handlers() {
    let Some((_runtime, library)) = subject("exceptions_of_any_type_leave_handlers") else {
        return;
    };
    let rows = [
        ("throws_int", "of type i"),
        ("throws_struct", "of type 7Payload"),
        ("throws_text", "as a C string"),
        ("throws_null", "null"),
        ("throws_string", "as a string"),
    ];
    for round in 0..3 {
        for (symbol, text) in rows {
            let error = call(&library, symbol).run().unwrap_err();
            assert!(error.has(Hazard::Unwound), "{round} {symbol}: {error}");
            assert!(error.message().contains(text), "{symbol}: {error}");
        }
        // XLA converts exceptions that are derived from `std::exception` to errors.
        let error = call(&library, "throws_standard").run().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unknown);
        assert!(error.findings().is_empty() && error.message().contains("out of range"));
        let error = call(&library, "throws_wordless").run().unwrap_err();
        assert!(error.message().contains("(null)"), "{error}");
    }
}

#[test]
fn an_exception_at_the_metadata_call_refuses_the_handler() {
    let test = "an_exception_at_the_metadata_call_refuses_the_handler";
    let Some((_runtime, library)) = subject(test) else {
        return;
    };
    let symbols = [(Stage::Execute, "throws_at_metadata")];
    let error = library.handler("throws", &symbols).unwrap_err();
    assert!(error.has(Hazard::Unwound), "{error}");
}

/// Waits for `count` findings that occur outside calls, and returns them.
fn findings(runtime: &Runtime, count: usize) -> Vec<Finding> {
    let mut found = vec![];
    for _ in 0..2000 {
        found.extend(runtime.take_findings());
        if found.len() >= count {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(found.len(), count, "{found:?}");
    found
}

#[test]
fn exceptions_leave_tasks_and_deleters() {
    let Some((runtime, library)) = subject("exceptions_leave_tasks_and_deleters") else {
        return;
    };
    call(&library, "throws_in_tasks").run().unwrap();
    for finding in findings(&runtime, 2) {
        assert_eq!(finding.hazard, Hazard::Unwound);
        assert!(finding.message.contains("task"), "{finding}");
    }
    library
        .register_type("Thrown", "thrown_id", Some("thrown_info"))
        .unwrap();
    let symbols = [
        (Stage::Instantiate, "leaves_state"),
        (Stage::Execute, "does_nothing"),
    ];
    let handler = library.handler("leaves_state", &symbols).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    executable.call().run().unwrap();
    drop(executable);
    let [finding] = &findings(&runtime, 1)[..] else {
        unreachable!("one")
    };
    assert_eq!(finding.hazard, Hazard::Unwound);
    assert!(finding.message.contains("the deleter"), "{finding}");
}
