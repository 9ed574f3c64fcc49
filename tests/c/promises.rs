//! Promises in C, and handlers in C that are compiled as C++ and throw, on every revision.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use xla_ffi_runtime::{Attributes, DType, Error, Outcome, Revision, Runtime, Shape, Stage};
use xla_ffi_testing::{compiler, root};

const RETURNED: i32 = 0;
const FREED: i32 = 1;
const NO_PROMISE: i32 = 2;
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
    let source = root().join("tests/c/promises.c");
    compiler::shared_library(&folder, test, &source, "c_promises", &flags)
}

/// A call of `promised`, behind an early stage where there is one.
fn promised(
    revision: Revision,
    library: &Path,
    more: Option<(Stage, &str)>,
    attributes: &str,
) -> Result<Outcome, Error> {
    let runtime = Runtime::new(revision);
    let library = runtime.open(library)?;
    // Libraries know a copy of XLA by the address of its table: keep it.
    std::mem::forget(runtime);
    let mut stages = vec![(Stage::Execute, "promised")];
    stages.extend(more);
    let handler = library.handler("promised", &stages)?;
    let executable = handler.instantiate(&Attributes::parse(attributes)?)?;
    executable.call().ret(Shape::new(DType::S32, [])?).run()
}

#[test]
fn promises_are_kept() {
    let Some(library) = library("promises_are_kept") else {
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
        // A call that is refused has no future: it is over when its error is told.
        let how = RETURNED | NOT_ASKED | LATE;
        let attributes = format!("{{how = {how} : i32, more = 1 : i32}}");
        let error = promised(revision, &library, None, &attributes).unwrap_err();
        assert!(error.message().contains("'more'"), "{error}");
        // Nor has a stage that is not execute one.
        if revision >= Revision::R1 {
            let early = Some((Stage::Instantiate, "early"));
            let outcome = promised(revision, &library, early, "{how = 1 : i32}");
            outcome.unwrap_or_else(|error| panic!("{revision}: {error}"));
        }
    }
}

/// A handler of the C headers that is compiled as C++ may throw: its host would end.
#[test]
fn what_a_handler_throws_is_its_error() {
    let test = "what_a_handler_throws_is_its_error";
    let folder = xla_ffi_testing::target_folder().join("tmp/c-promises");
    let source = root().join("tests/c/throws.cc");
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
        let told = "words_legacy: a C++ exception: words";
        assert_eq!(outcome.unwrap_err().message(), told, "{revision}");
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
