//! Libraries that know the revisions up to one, on every later revision: what worked on theirs works, or is refused by
//! name.

use super::features::FEATURES;
use super::subject::{Subject, seen};
use super::{bootstrap, cell, expected};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use xla_ffi_runtime::{Library, Revision, Runtime};
use xla_ffi_sys::{Feature, StateReading};
use xla_ffi_testing::{once, root, skip, target_folder};

/// Rows that use what libraries of old do not know.
const NEEDS: &[(&str, Feature)] = &[
    ("async: completed later by another thread", Feature::Futures),
    ("thread pool", Feature::ThreadPool),
    ("thread pool size", Feature::ThreadPoolSize),
    ("run id", Feature::RunId),
    ("device ordinal", Feature::DeviceOrdinal),
    ("custom options", Feature::CustomOptions),
];

/// Rows that leave state.
const STATE: [&str; 2] = ["state", "the same state type in two libraries"];

/// Returns true if a library that knows the revisions up to `newest` has to refuse a row on a later host.
fn is_refused(feature: &str, newest: Revision, host: Revision) -> bool {
    let needs = NEEDS.iter().find(|(name, _)| *name == feature);
    let unknown = needs.is_some_and(|(_, needs)| seen(newest, host) < needs.since());
    let state = STATE.contains(&feature) && {
        let unversioned = newest < Revision::R7 && host >= Revision::R7;
        unversioned || StateReading::of(host, newest.minor_version()) != StateReading::Right
    };
    // Version 0.0 is refused by every host that asks for it.
    newest == Revision::R0 || unknown || state
}

/// The word that a refusal of a row has to contain.
fn word(feature: &str, newest: Revision) -> &'static str {
    let needs = NEEDS.iter().find(|(name, _)| *name == feature);
    match needs {
        _ if newest == Revision::R0 => "version 0.0",
        Some((_, Feature::ThreadPoolSize | Feature::ThreadPool)) => "thread pool",
        Some((_, Feature::RunId)) => "run id",
        Some((_, Feature::DeviceOrdinal)) => "device ordinal",
        Some((_, Feature::CustomOptions)) => "custom options",
        Some((_, Feature::Futures)) => "no futures",
        _ if newest < Revision::R7 => "user types",
        _ => "tate",
    }
}

/// Sets the newest revision that a library knows.
fn set(library: &Library, newest: Revision) {
    let place = library
        .symbol("XLA_FFI_NEWEST_KNOWN")
        .expect("the variable");
    // SAFETY: the libraries of these tests export an int by this name, which nothing else writes.
    unsafe { &*place.cast::<AtomicI32>() }.store(newest as i32, Ordering::Relaxed);
}

fn check(language: &str, first: &Path, twin: &Path) {
    let Some(compiler) = option_env!("C_COMPILER") else {
        return skip(language, "no C compiler when the tests were built");
    };
    let bootstrap = bootstrap(compiler);
    let table = include_str!("../../jax/expected.txt");
    let (mut works, mut refused) = (0, 0);
    let mut differences = Vec::new();
    let mut times = std::collections::BTreeMap::<&str, f64>::new();
    for newest in Revision::ALL {
        for host in Revision::ALL.into_iter().filter(|host| *host > newest) {
            let runtime = Runtime::new(host);
            let subject = Subject {
                library: runtime.open(first).expect("the library opens"),
                twin: runtime.open(twin).expect("the twin opens"),
                bootstrap: runtime.open(&bootstrap).expect("the bootstrap opens"),
                newest,
                runtime,
            };
            set(&subject.library, newest);
            set(&subject.twin, newest);
            // Whoever is refused at registration is refused in every row.
            let rows = if newest == Revision::R0 {
                1
            } else {
                FEATURES.len()
            };
            for (feature, exercise) in &FEATURES[..rows] {
                let start = std::time::Instant::now();
                let (got, why) = cell(exercise(&subject));
                *times.entry(feature).or_default() += start.elapsed().as_secs_f64();
                let here = format!("{language}, knows {newest}, on {host}, {feature}");
                let wanted = match expected(table, language, feature, host) {
                    "ok" if is_refused(feature, newest, host) => "absent",
                    wanted => wanted,
                };
                if got != wanted {
                    differences.push(format!("{here}: expected {wanted}, got {got} {why}"));
                }
                match got {
                    "absent" if !is_refused(feature, newest, host) => {}
                    "absent" if why.contains(word(feature, newest)) => refused += 1,
                    "absent" => differences.push(format!("{here}: refused without a name: {why}")),
                    _ => works += 1,
                }
            }
            let findings = subject.runtime.take_findings();
            let findings = findings.iter();
            differences
                .extend(findings.map(|f| format!("{language}, knows {newest}, on {host}: {f}")));
        }
    }
    println!("{language}: {works} cells work, {refused} are refused by name");
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!("{times:?}");
    assert!(
        differences.is_empty(),
        "{}\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn rust_libraries_on_later_revisions() {
    let triple = env!("HOST_TRIPLE");
    let status = Command::new(std::env::var_os("CARGO").expect("cargo runs the tests"))
        .current_dir(root())
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "xla-ffi-fixtures",
        ])
        .args([
            "--example",
            "conformance",
            "--example",
            "conformance_twin",
            "--target",
            triple,
        ])
        .env("RUSTFLAGS", "--cfg xla_ffi_newest_known")
        .status();
    assert!(
        status.expect("cargo runs").success(),
        "the libraries do not build"
    );
    let folder = target_folder().join(triple).join("release/examples");
    let [first, twin] = ["libconformance.so", "libconformance_twin.so"];
    check("rust", &folder.join(first), &folder.join(twin));
}

/// The conformance library of a language, compiled with the variable.
fn compiled(extension: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let fixtures = root().join("tests/fixtures");
    let (source, header) = (
        fixtures.join("conformance").with_extension(extension),
        fixtures.join("newest_known.h"),
    );
    let name = format!("libknown_{extension}{}.so", flags.len());
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let include = Path::new(env!("SDK_INCLUDE_DIR"));
    let mut command = Command::new(compiler);
    command
        .args(flags)
        .args(["-O1", "-shared", "-fPIC", "-fvisibility=hidden"]);
    command.arg("-include").arg(&header).arg("-I").arg(include);
    command.arg(&source).args(["-lm", "-pthread"]);
    once::compile(
        &mut command,
        &[&source, &header, &fixtures, include],
        Some(&library),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    library
}

#[test]
fn c_libraries_on_later_revisions() {
    let Some(compiler) = option_env!("C_COMPILER") else {
        return skip("c", "no C compiler when the tests were built");
    };
    let [first, twin] =
        [&["-std=c99"][..], &["-std=c99", "-DTWIN"]].map(|flags| compiled("c", compiler, flags));
    check("c", &first, &twin);
}

#[test]
fn cpp_libraries_on_later_revisions() {
    let Some(compiler) = option_env!("CPP_COMPILER") else {
        return skip("cpp", "no C++ compiler when the tests were built");
    };
    let [first, twin] = [&["-std=c++17"][..], &["-std=c++17", "-DTWIN"]]
        .map(|flags| compiled("cc", compiler, flags));
    check("cpp", &first, &twin);
}
