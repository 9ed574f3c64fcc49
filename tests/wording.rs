//! Rust, C and C++ answer with the same words and codes where a host lacks what they need.

use std::path::{Path, PathBuf};
use xla_ffi::__private::wording;
use xla_ffi::{DeviceOrdinal, RunId, prelude::*};
use xla_ffi_runtime::{Attributes, Bundle, Code, Revision, Runtime, Stage};
use xla_ffi_sys::Feature;
use xla_ffi_testing::compiler;

#[xla_ffi::handler]
fn run_id(_id: RunId) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn device_ordinal(_ordinal: DeviceOrdinal) -> Result<()> {
    Ok(())
}

/// The handlers of a language as a library, built anew: the headers are what is tested.
fn library(test: &str, language: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wording");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wording/lacks");
    let source = source.with_extension(language);
    let name = format!("{test}_{language}");
    let _ = std::fs::remove_file(folder.join(format!("lib{name}.so")));
    let flags = [format!("-I{}", env!("SDK_INCLUDE_DIR"))];
    compiler::shared_library(&folder, test, &source, &name, &flags)
}

/// What a handler of a library answers on a revision.
fn answer(library: &Path, name: &str, revision: Revision) -> xla_ffi_runtime::Error {
    let runtime = Runtime::new(revision);
    let opened = runtime.open(library).expect("it loads");
    let handler = opened
        .handler(name, &[(Stage::Execute, name)])
        .expect("it registers");
    let error = called(&handler);
    // Libraries know a copy of XLA by the address of its table: keep it.
    std::mem::forget(runtime);
    error
}

fn called(handler: &xla_ffi_runtime::Handler) -> xla_ffi_runtime::Error {
    let executable = handler
        .instantiate(&Attributes::new())
        .expect("it has no such stage");
    executable.call().run().expect_err("the host lacks it")
}

#[test]
fn a_lacking_feature_is_told_in_the_same_words() {
    let test = "a_lacking_feature_is_told_in_the_same_words";
    let libraries: Vec<_> = ["c", "cc"]
        .iter()
        .filter_map(|language| library(test, language))
        .collect();
    let rust: [(&str, Feature, Bundle); 2] = [
        (
            "run_id",
            Feature::RunId,
            xla_ffi::internal::bundle::<run_id>(),
        ),
        (
            "device_ordinal",
            Feature::DeviceOrdinal,
            xla_ffi::internal::bundle::<device_ordinal>(),
        ),
    ];
    for revision in [Revision::R1, Revision::R2, Revision::R3, Revision::R4] {
        for (name, feature, bundle) in rust {
            if revision >= feature.since() {
                continue;
            }
            let words = format!(
                "{}{}{}{}{}0.1 ({})",
                wording::feature(feature),
                wording::FIRST_JAXLIB,
                feature.since().first_jaxlib(),
                wording::THIS_HOST,
                wording::VERSION,
                wording::Releases(revision)
            );
            let runtime = Runtime::new(revision);
            let handler = runtime.handler(name, bundle).expect("it registers");
            let mut answers = vec![called(&handler)];
            answers.extend(libraries.iter().map(|path| answer(path, name, revision)));
            for error in answers {
                assert!(
                    error.message().ends_with(&words),
                    "{revision}: {error}\nwanted: {words}"
                );
            }
        }
    }
}

#[test]
fn errors_without_a_code_are_internal() {
    let test = "errors_without_a_code_are_internal";
    for path in ["c", "cc"]
        .iter()
        .filter_map(|language| library(test, language))
    {
        // Hosts tell the code from r9 on.
        for (revision, code) in [
            (Revision::R2, Code::Internal),
            (Revision::R8, Code::Internal),
            (Revision::R9, Code::NotFound),
        ] {
            let error = answer(&path, "code", revision);
            let wanted = format!("code {}", code.raw().0);
            assert!(
                error.message().contains(&wanted),
                "{} {revision}: {error}",
                path.display()
            );
        }
    }
}
