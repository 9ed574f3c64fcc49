//! Tests the conformance libraries on every revision of the embedded runtime. The cells must equal the cells of real
//! runtimes in `tests/jax/expected.txt`.

mod features;
mod newest_known;
mod next_revision;
mod subject;

use features::FEATURES;
use std::path::{Path, PathBuf};
use std::process::Command;
use subject::{Check, Failure, Subject};
use xla_ffi_runtime::{ErrorCode, Revision, Runtime};
use xla_ffi_testing::{once, rust_examples, skip};

/// Builds the library of `tests/fixtures/upstream/bootstrap.c`.
fn bootstrap(compiler: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("tests/fixtures/upstream/bootstrap.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libbootstrap.so");
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-O0", "-shared", "-fPIC"]);
    command.arg(format!("-I{}", env!("SDK_INCLUDE_DIR")));
    command.arg(&source);
    let inputs = [source.as_path(), Path::new(env!("SDK_INCLUDE_DIR"))];
    once::compile(&mut command, &inputs, Some(&library)).unwrap_or_else(|error| panic!("{error}"));
    library
}

/// Cells that depend on jax or the loader instead of the ABI, with the first revision on which the embedded
/// runtime supports them.
const SINCE: &[(&str, Revision)] = &[
    // Older CPU runtimes of XLA abort on a token operand.
    ("tokens", Revision::R0),
    // jax added the three types later than XLA.
    ("dtypes F8E3M4, F8E4M3, F8E8M0FNU", Revision::R3),
    // jax supports the type from 0.5.3 on. The ABI supports it since r5, as it does all packed types.
    ("sub-byte: float4", Revision::R5),
];

/// Returns the numbers of a version.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.');
    parts.map(|part| part.parse().expect("a number")).collect()
}

/// Returns the cell that `tests/jax/expected.txt` expects for the first jaxlib of a revision; `ok` if no
/// rule applies.
fn expected(library: &str, feature: &str, revision: Revision) -> &'static str {
    if let Some((_, since)) = SINCE.iter().find(|(name, _)| *name == feature) {
        return if revision < *since { "absent" } else { "ok" };
    }
    let jaxlib = numbers(revision.first_jaxlib());
    let mut here = false;
    for line in include_str!("../jax/expected.txt").lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(names) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            here = names.split(',').any(|name| name.trim() == library);
            continue;
        }
        let Some((name, rules)) = line.split_once(" = ") else {
            continue;
        };
        if !here || name.trim() != feature {
            continue;
        }
        for rule in rules.split(';') {
            // The rest of the rule, in quotes, is the message of jaxlib.
            let rule = rule.split('"').next().unwrap_or_default();
            let words: Vec<&'static str> = rule.split_whitespace().collect();
            let parse = |name: &str| Revision::from_name(name).expect("a revision");
            let holds = match words[1..] {
                [] => true,
                ["before", to] => revision < parse(to),
                ["before", "jaxlib", to] => jaxlib < numbers(to),
                ["from", from] => revision >= parse(from),
                [range] => {
                    let (from, to) = range.split_once("..").expect("a range of revisions");
                    (parse(from)..=parse(to)).contains(&revision)
                }
                _ => panic!("a rule that is not known here: {rule}"),
            };
            if holds {
                return words[0];
            }
        }
    }
    "ok"
}

fn cell(outcome: Check) -> (&'static str, String) {
    match outcome {
        Ok(()) => ("ok", String::new()),
        Err(Failure::Wrong(why)) => ("wrong", why),
        Err(Failure::Moot) => ("moot", String::new()),
        Err(Failure::Answer(error)) => {
            let text = format!("{:?}: {}", error.code(), error.message());
            // r0 and r1 do not report the error code. The text names the first jaxlib that has the feature.
            let lacks = ["first jaxlib", "newer than this library"]
                .iter()
                .any(|words| error.message().contains(words));
            // A handler that requires a newer version than the host's is refused when it is registered.
            let refused = error.message().contains("it answers version");
            // The runtime's attribute parser runs before any handler.
            let unparsed = !error.is_from_handler()
                && error
                    .message()
                    .starts_with("Unsupported attribute type for attribute: ");
            let absent = error.code() == ErrorCode::Unimplemented
                || (error.code() == ErrorCode::Internal && lacks)
                || refused
                || unparsed;
            (if absent { "absent" } else { "error" }, text)
        }
    }
}

fn check(library: &str) {
    let (Some(compiler), Some([first, twin])) = (option_env!("C_COMPILER"), conformance(library))
    else {
        return skip(library, "no compiler when the tests were built");
    };
    let bootstrap = bootstrap(compiler);
    let mut differences = Vec::new();
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let subject = Subject::open(runtime, [&first, &twin], &bootstrap, Revision::NEWEST);
        for (feature, exercise) in FEATURES {
            let (got, why) = cell(exercise(&subject));
            let wanted = expected(library, feature, revision);
            if got != wanted {
                differences.push(format!(
                    "{library}, {revision}, {feature}: expected {wanted}, got {got} {why}"
                ));
            }
        }
        let findings = subject.runtime.take_findings();
        differences.extend(
            findings
                .iter()
                .map(|f| format!("{library}, {revision}: {f}")),
        );
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Returns the conformance library of a language and its twin, or `None` if there is no compiler.
fn conformance(language: &str) -> Option<[PathBuf; 2]> {
    let native = Path::new(env!("C_EXAMPLES_DIR"));
    let (folder, suffix) = match language {
        "c" => (option_env!("C_COMPILER").map(|_| native)?, ""),
        "cpp" => (option_env!("CPP_COMPILER").map(|_| native)?, "_cpp"),
        _ => (rust_examples(), ""),
    };
    Some(["", "_twin"].map(|twin| folder.join(format!("libconformance{twin}{suffix}.so"))))
}

#[test]
fn the_rust_library_on_every_revision() {
    check("rust");
}

#[test]
fn the_c_library_on_every_revision() {
    check("c");
}

#[test]
fn the_cpp_library_on_every_revision() {
    check("cpp");
}
