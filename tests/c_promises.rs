//! What becomes of promises in C that go astray, on every revision: nobody's memory goes while a thread of the handler's
//! writes there, nothing is lost, and the handler is told.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use xla_ffi_runtime::{
    Attributes, DType, Error, Hazard, PreparedCall, Revision, Runtime, Shape, Stage,
};
use xla_ffi_testing::{compiler, root};

const RETURNED: i32 = 0;
const KEPT_BACK: i32 = 1;
const FREED: i32 = 2;
const ERROR_IN_PLACE: i32 = 3;
const ERROR_BEHIND: i32 = 4;
const TWO: i32 = 5;
const NO_PROMISE: i32 = 6;
const FAILED_FIRST: i32 = 7;
const DONE_FIRST: i32 = 8;
const AGAIN: i32 = 9;
const AT_THE_SAME_TIME: i32 = 10;
const RETURNED_TWICE: i32 = 11;
const FREED_BEHIND: i32 = 12;
const FREED_BEFORE: i32 = 13;
const DONE_AND_FREED: i32 = 14;
const LATE: i32 = 0x100;
const FAILS: i32 = 0x200;
const AT_ONCE: i32 = 0x400;
const NOT_ASKED: i32 = 0x800;

fn library(test: &str) -> Option<PathBuf> {
    let flags = [
        "-I".to_owned(),
        root().join("include").display().to_string(),
        "-fvisibility=hidden".to_owned(),
        "-pthread".to_owned(),
    ];
    let folder = xla_ffi_testing::target_folder().join("tmp/c-promises");
    let source = root().join("tests/c_promises.c");
    compiler::shared_library(&folder, test, &source, "c_promises", &flags)
}

/// A call of a stage, and what it came to when it was run.
fn called(
    revision: Revision,
    library: &Path,
    (stage, symbol): (Stage, &str),
    attributes: &str,
) -> (Option<PreparedCall>, Result<(), Error>) {
    let runtime = Runtime::new(revision);
    let library = runtime.open(library).unwrap();
    // Libraries know a copy of XLA by the address of its table: keep it.
    std::mem::forget(runtime);
    let stages = [(Stage::Execute, "astray"), (stage, symbol)];
    let handler = library.handler("astray", &stages).unwrap();
    let attributes = Attributes::parse(attributes).unwrap();
    let executable = match handler.instantiate(&attributes) {
        Ok(executable) => executable,
        Err(error) => return (None, Err(error)),
    };
    let call = executable.call().ret(Shape::new(DType::S32, []).unwrap());
    let mut prepared = call.prepare().unwrap();
    let outcome = prepared.invoke();
    (Some(prepared), outcome)
}

/// What a call came to, and its result.
fn astray(revision: Revision, library: &Path, how: i32, more: &str) -> (Result<(), Error>, i32) {
    let attributes = format!("{{how = {how} : i32{more}}}");
    let stage = (Stage::Execute, "astray");
    let (prepared, outcome) = called(revision, library, stage, &attributes);
    let mut prepared = prepared.expect("there is no stage before execute");
    // Behind an error that has a future beside it the call is open.
    let _ = prepared.wait_for(None);
    let bytes = prepared.ret_bytes(0).unwrap().to_vec();
    (outcome, i32::from_ne_bytes(bytes.try_into().unwrap()))
}

#[test]
fn a_promise_that_is_not_returned_is_waited_for_and_told() {
    let Some(library) = library("a_promise_that_is_not_returned_is_waited_for_and_told") else {
        return;
    };
    for revision in Revision::ALL {
        for how in [
            KEPT_BACK | LATE,
            KEPT_BACK | AT_ONCE,
            KEPT_BACK | LATE | FAILS,
        ] {
            let (outcome, y) = astray(revision, &library, how, "");
            let error = outcome.expect_err("nobody was told of the promise");
            let text = error.message();
            assert!(
                text.contains("astray: a promise was made and not returned"),
                "{error}"
            );
            assert_eq!((error.code().name(), y), ("INTERNAL", 7), "{revision}");
        }
        let (outcome, y) = astray(revision, &library, FREED, "");
        outcome.expect("nobody was given the promise");
        assert_eq!(y, 7, "{revision}");
    }
}

#[test]
fn promises_are_returned_once_and_in_calls_that_are_well() {
    let Some(library) = library("promises_are_returned_once_and_in_calls_that_are_well") else {
        return;
    };
    for revision in Revision::ALL {
        for how in [
            RETURNED | LATE,
            RETURNED | AT_ONCE,
            TWO | LATE,
            TWO | AT_ONCE,
        ] {
            let (outcome, y) = astray(revision, &library, how, "");
            outcome.unwrap_or_else(|error| panic!("{revision}, {how:#x}: {error}"));
            assert_eq!(y, 7, "{revision}, {how:#x}");
        }
        for how in [RETURNED | FAILS, TWO | FAILS | LATE] {
            let error = astray(revision, &library, how, "").0.unwrap_err();
            assert_eq!(error.message(), "as it was told to", "{revision}, {how:#x}");
        }
        let error = astray(revision, &library, NO_PROMISE, "").0.unwrap_err();
        assert_eq!(error.message(), "no memory for a promise");
        // A call that is refused has no future: it is over when its error is told.
        let how = RETURNED | NOT_ASKED | LATE;
        let (outcome, y) = astray(revision, &library, how, ", more = 1 : i32");
        let error = outcome.expect_err("the attribute is not the handler's");
        assert!(
            error.message().contains("what xffi_decoded gives"),
            "{error}"
        );
        assert!(!error.has(Hazard::ErrorAndFuture), "{error}");
        assert_eq!(y, 7, "{revision}");
        // Nor has a stage that is not execute one.
        if revision >= Revision::R1 {
            let stage = (Stage::Instantiate, "early");
            let attributes = format!("{{how = {FREED} : i32}}");
            let (_, outcome) = called(revision, &library, stage, &attributes);
            outcome.unwrap_or_else(|error| panic!("{revision}: {error}"));
        }
    }
}

/// A promise that is completed again is what it was, and no other call's, whose memory may be its own.
#[test]
fn the_first_completion_counts() {
    let Some(library) = library("the_first_completion_counts") else {
        return;
    };
    for revision in Revision::ALL {
        let (outcome, y) = astray(revision, &library, DONE_FIRST, "");
        outcome.unwrap_or_else(|error| panic!("{revision}: {error}"));
        assert_eq!(y, 7, "{revision}");
        let error = astray(revision, &library, FAILED_FIRST, "").0.unwrap_err();
        assert_eq!(error.message(), "the first", "{revision}");
        for how in [AGAIN, AGAIN | FAILS | LATE, AGAIN | FAILS | LATE] {
            let (outcome, y) = astray(revision, &library, how, "");
            let said = outcome.err().map(|error| error.message().to_owned());
            let told = (how & FAILS != 0).then(|| "as it was told to".to_owned());
            assert_eq!((said, y), (told, 7), "{revision}");
        }
    }
}

/// Two threads that complete a promise at once: it has the code and the message of one of them.
#[test]
fn of_two_completions_at_once_one_is_heard() {
    let Some(library) = library("of_two_completions_at_once_one_is_heard") else {
        return;
    };
    for revision in [Revision::R1, Revision::R3, Revision::NEWEST] {
        for _ in 0..40 {
            let (outcome, y) = astray(revision, &library, AT_THE_SAME_TIME, "");
            let error = outcome.expect_err("both fail it");
            let letter = error.message().chars().next().expect("a message");
            let whole =
                error.message().len() == 1 << 20 && !error.message().contains(|c| c != letter);
            assert!(whole, "{revision}: a message is torn");
            let code = match letter {
                'w' => "ABORTED",
                'l' => "DEADLINE_EXCEEDED",
                other => panic!("{revision}: {other}"),
            };
            let code = if revision < Revision::R2 {
                "INTERNAL"
            } else {
                code
            };
            assert_eq!((error.code().name(), y), (code, 7), "{revision}");
        }
    }
}

/// Promises that are returned or freed twice. So many of them, that the memory of the first is free or another's.
#[test]
fn a_promise_is_returned_or_freed_once() {
    let Some(library) = library("a_promise_is_returned_or_freed_once") else {
        return;
    };
    for revision in [Revision::R1, Revision::R3, Revision::NEWEST] {
        for n in 0..20 {
            let late = if n == 0 { LATE } else { 0 };
            for how in [
                RETURNED_TWICE | late,
                RETURNED_TWICE | AT_ONCE,
                FREED_BEFORE,
            ] {
                let (outcome, y) = astray(revision, &library, how, "");
                let error = outcome.expect_err("it was returned or freed before");
                let told = "astray: a promise was returned that had been returned or freed before: return it once";
                assert_eq!(error.message(), told, "{revision}");
                assert_eq!((error.code().name(), y), ("INTERNAL", 7), "{revision}");
            }
            for how in [
                FREED_BEHIND | late,
                FREED_BEHIND | AT_ONCE,
                DONE_AND_FREED | AT_ONCE,
            ] {
                let (outcome, y) = astray(revision, &library, how, "");
                outcome.unwrap_or_else(|error| panic!("{revision}, {how:#x}: {error}"));
                assert_eq!(y, 7, "{revision}, {how:#x}");
            }
            let how = FREED_BEHIND | FAILS | late;
            let error = astray(revision, &library, how, "").0.unwrap_err();
            assert_eq!(error.message(), "as it was told to", "{revision}");
        }
    }
}

#[test]
fn errors_beside_promises_are_told() {
    let Some(library) = library("errors_beside_promises_are_told") else {
        return;
    };
    for revision in Revision::ALL {
        for how in [
            ERROR_IN_PLACE | LATE,
            ERROR_IN_PLACE | AT_ONCE,
            ERROR_BEHIND | LATE,
        ] {
            let attributes = format!("{{how = {how} : i32}}");
            let stage = (Stage::Execute, "astray");
            let (prepared, outcome) = called(revision, &library, stage, &attributes);
            let error = outcome.unwrap_err();
            assert_eq!(error.message(), "nothing there", "{revision}");
            let behind = how == ERROR_BEHIND | LATE && revision >= Revision::R2;
            assert_eq!(error.has(Hazard::ErrorAndFuture), behind, "{revision}");
            let prepared = prepared.expect("there is no stage before execute");
            assert_eq!(prepared.is_open(), behind, "{revision}");
            if how == ERROR_IN_PLACE | LATE {
                // Of its thread nobody knows but who has read standard error.
                std::mem::forget(prepared);
            }
        }
    }
}

/// A handler of the C headers that is compiled as C++ may throw: its host would end.
#[test]
fn what_a_handler_throws_is_its_error() {
    let test = "what_a_handler_throws_is_its_error";
    let folder = xla_ffi_testing::target_folder().join("tmp/c-promises");
    let source = root().join("tests/c_throws.cc");
    let include = root().join("include").display().to_string();
    let flags = ["-I".to_owned(), include, "-pthread".to_owned()];
    let Some(library) = compiler::shared_library(&folder, test, &source, "c_throws", &flags) else {
        return;
    };
    for revision in [Revision::R1, Revision::R2, Revision::NEWEST] {
        let runtime = Runtime::new(revision);
        let library = runtime.open(&library).unwrap();
        let handler = library.handler("throws", &[(Stage::Execute, "throws")]);
        let handler = handler.unwrap();
        for (what, told) in [
            (0, None),
            (1, Some("throws: a C++ exception: too bad")),
            (
                2,
                Some("throws: a C++ exception of a type that is not std::exception"),
            ),
            (3, Some("throws: a C++ exception: words")),
            (4, Some("throws: out of memory: std::bad_alloc")),
            (5, Some("throws: a C++ exception: early")),
            (6, Some("throws: a C++ exception: behind a promise")),
            (7, Some("throws: a C++ exception: behind a future")),
            (8, Some("throws: a C++ exception: (null)")),
            (9, Some("throws: out of memory: (null)")),
        ] {
            // Without futures the promise would have been waited for.
            if what == 7 && revision < Revision::R2 {
                continue;
            }
            let attributes = Attributes::new().with("what", what);
            let call = handler.instantiate(&attributes).unwrap().call();
            let outcome = call.ret(Shape::new(DType::S32, []).unwrap()).run();
            match (outcome, told) {
                (Ok(outcome), None) => assert_eq!(outcome.rets[0].to_vec(), Some(vec![7_i32])),
                (Err(error), Some(told)) => {
                    assert_eq!(error.message(), told, "{revision}");
                    let memory = matches!(what, 4 | 9) && revision >= Revision::R2;
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
        let run = |symbol: &str| {
            let handler = library.handler(symbol, &[(Stage::Execute, symbol)]);
            let call = handler.unwrap().instantiate(&Attributes::new());
            let call = call.unwrap().call();
            call.ret(Shape::new(DType::S32, []).unwrap()).run()
        };
        // The thread ends in its handler, which is no exception of C++; its objects are destroyed.
        let outcome = run("ends_its_thread").unwrap();
        assert_eq!(outcome.rets[0].to_vec(), Some(vec![1_i32]), "{revision}");
        for (symbol, words) in [
            ("words_legacy", "words_legacy: a C++ exception: words"),
            (
                "wordless_legacy",
                "wordless_legacy: a C++ exception: (null)",
            ),
            ("memory_legacy", "memory_legacy: out of memory: (null)"),
        ] {
            assert_eq!(run(symbol).unwrap_err().message(), words, "{revision}");
        }
        let told = run("has_no_function").unwrap_err();
        let words = "has_no_function: the handler's function is a null pointer";
        assert_eq!(told.message(), words, "{revision}");
        std::mem::forget(runtime);
    }
}

#[test]
fn an_error_that_nobody_returns_is_a_warning() {
    let Some(compiler) = compiler::compiler(false, "an_error_that_nobody_returns_is_a_warning")
    else {
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
