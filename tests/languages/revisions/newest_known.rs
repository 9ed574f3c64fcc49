//! Tests libraries that know only revisions up to a limit, on every later revision. A feature that works on the newest
//! known revision must also work on later revisions, or be refused with an error that names the feature.

use super::features::FEATURES;
use super::subject::{Subject, seen};
use super::{bootstrap, cell, expected};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use xla_ffi_runtime::{Library, Revision, Runtime};
use xla_ffi_sys::Feature;
use xla_ffi_testing::{once, root, skip, target_folder};

/// Features that older revisions lack, and a text that the refusal contains.
const NEEDS: &[(&str, Feature, &str)] = &[
    (
        "async: completed later by another thread",
        Feature::Futures,
        "no futures",
    ),
    ("thread pool", Feature::ThreadPool, "thread pool"),
    ("thread pool size", Feature::ThreadPoolSize, "thread pool"),
    ("run id", Feature::RunId, "run id"),
    ("device ordinal", Feature::DeviceOrdinal, "device ordinal"),
    ("custom options", Feature::CustomOptions, "custom options"),
];

/// Features that set state.
const STATE: [&str; 2] = ["state", "the same state type in two libraries"];

/// Returns a text that the refusal of a feature must contain if the library knows revisions up to `newest` and the
/// host is later. Returns `None` if the feature must work.
fn refusal(row: &str, newest: Revision, host: Revision) -> Option<&'static str> {
    let needs = NEEDS.iter().find(|(name, ..)| *name == row);
    match needs {
        // A library of r0 reports version 0.0. Every host that checks versions refuses the library.
        _ if newest == Revision::R0 => Some("version 0.0"),
        Some((_, needs, word)) if seen(newest, host) < needs.since() => Some(*word),
        // From r8 on, hosts support all layouts of types and state. Earlier hosts misread older layouts.
        _ if STATE.contains(&row)
            && newest < Revision::R8
            && newest.minor_version() < host.minor_version() =>
        {
            Some("user types")
        }
        _ => None,
    }
}

/// Sets the newest revision that a library knows.
fn set(library: &Library, newest: Revision) {
    let place = library
        .symbol("XLA_FFI_NEWEST_KNOWN")
        .expect("the variable");
    // SAFETY: the libraries of these tests export an int with this name, and no other code writes it.
    unsafe { &*place.cast::<AtomicI32>() }.store(newest as i32, Ordering::Relaxed);
}

fn check(language: &str) {
    let (Some(compiler), Some([first, twin])) = (option_env!("C_COMPILER"), libraries(language))
    else {
        return skip(language, "no compiler when the tests were built");
    };
    let bootstrap = bootstrap(compiler);
    let (mut works, mut refused) = (0, 0);
    let mut differences = Vec::new();
    for newest in Revision::ALL {
        for host in Revision::ALL.into_iter().filter(|host| *host > newest) {
            let runtime = Runtime::new(host);
            let subject = Subject::open(runtime, [&first, &twin], &bootstrap, newest);
            set(&subject.library, newest);
            set(&subject.twin, newest);
            // A library of r0 is refused at registration, so the cell is the same for every feature.
            let rows = if newest == Revision::R0 {
                1
            } else {
                FEATURES.len()
            };
            for (feature, exercise) in &FEATURES[..rows] {
                let (got, why) = cell(exercise(&subject));
                let here = format!("{language}, knows {newest}, on {host}, {feature}");
                let refusal = refusal(feature, newest, host);
                let wanted = match expected(language, feature, host) {
                    "ok" if refusal.is_some() => "absent",
                    wanted => wanted,
                };
                if got != wanted {
                    differences.push(format!("{here}: expected {wanted}, got {got} {why}"));
                }
                match (got, refusal) {
                    ("absent", Some(word)) if why.contains(word) => refused += 1,
                    ("absent", Some(word)) => {
                        differences.push(format!("{here}: no {word:?}: {why}"))
                    }
                    ("ok", _) => works += 1,
                    _ => {}
                }
            }
            let findings = subject.runtime.take_findings();
            let findings = findings.iter();
            differences
                .extend(findings.map(|f| format!("{language}, knows {newest}, on {host}: {f}")));
        }
    }
    println!("{language}: {works} cells work, {refused} are refused by name");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Returns the conformance library of a language and its twin, built with the variable of `newest_known.h`. Returns
/// `None` without a compiler.
fn libraries(language: &str) -> Option<[PathBuf; 2]> {
    match language {
        "c" => Some(compiled("c", option_env!("C_COMPILER")?, "-std=c99")),
        "cpp" => Some(compiled("cc", option_env!("CPP_COMPILER")?, "-std=c++17")),
        _ => Some(rust_libraries()),
    }
}

fn rust_libraries() -> [PathBuf; 2] {
    let triple = env!("HOST_TRIPLE");
    let mut command = Command::new(std::env::var_os("CARGO").expect("cargo runs the tests"));
    command.current_dir(root());
    command.args(["build", "--quiet", "--release", "--package"]);
    command.args(["xla-ffi-fixtures", "--example", "conformance"]);
    command.args(["--example", "conformance_twin", "--target", triple]);
    command.env("RUSTFLAGS", "--cfg xla_ffi_newest_known");
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "the libraries do not build");
    let folder = target_folder().join(triple).join("release/examples");
    ["libconformance.so", "libconformance_twin.so"].map(|name| folder.join(name))
}

fn compiled(extension: &str, compiler: &str, standard: &str) -> [PathBuf; 2] {
    let (fixtures, include) = (root().join("tests/fixtures"), root().join("include"));
    let source = fixtures.join("conformance").with_extension(extension);
    let inputs = [fixtures.as_path(), &include];
    ["", "-DTWIN"].map(|twin| {
        let name = format!("libnewest_known_{extension}{twin}.so");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut command = Command::new(compiler);
        command.args([standard, "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]);
        command.args((!twin.is_empty()).then_some(twin));
        command.arg("-include").arg(fixtures.join("newest_known.h"));
        command.arg("-I").arg(&include).arg(&source);
        command.args(["-lm", "-pthread"]);
        once::compile(&mut command, &inputs, Some(&library)).expect("the library compiles");
        library
    })
}

#[test]
fn rust_libraries_on_later_revisions() {
    check("rust");
}

#[test]
fn c_libraries_on_later_revisions() {
    check("c");
}

#[test]
fn cpp_libraries_on_later_revisions() {
    check("cpp");
}

/// Runs the features of the capped libraries on jaxlib: a tenth of the libraries on the newest jaxlib, or all libraries
/// on each jaxlib of `XLA_FFI_PYTHONS`.
#[test]
fn libraries_on_later_jaxlibs() {
    let of = |name| std::env::var_os(name).map(|list| std::env::split_paths(&list).collect());
    let all: Option<Vec<PathBuf>> = of("XLA_FFI_PYTHONS");
    let every = if all.is_some() { "1" } else { "10" };
    let Some(pythons) = all.or_else(|| of("XLA_FFI_PYTHON")) else {
        return skip("libraries_on_later_jaxlibs", "XLA_FFI_PYTHON is not set");
    };
    let Some(bootstrap) = option_env!("C_COMPILER").map(bootstrap) else {
        return skip(
            "libraries_on_later_jaxlibs",
            "no C compiler when the tests were built",
        );
    };
    let mut failed = Vec::new();
    for python in pythons {
        let mut command = Command::new(&python);
        command.arg(root().join("tests/jax/newest_known.py"));
        command.env("PYTHONPATH", root().join("python"));
        command
            .args(["--every", every, "--bootstrap"])
            .arg(&bootstrap);
        for language in ["rust", "c", "cpp"] {
            if let Some([first, twin]) = libraries(language) {
                command.arg(format!("{language}={},{}", first.display(), twin.display()));
            }
        }
        let status = command.status().expect("Python runs");
        failed.extend((!status.success()).then_some(python));
    }
    assert!(failed.is_empty(), "{failed:?}");
}
