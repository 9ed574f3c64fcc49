//! Facts of Mach-O, PE and damaged files. Reading a damaged file returns facts or an error, but never panics.
//!
//! `XLA_FFI_CASES` sets the number of damaged files.

use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xla_ffi_abi::dwarf;
use xla_ffi_doctor::library::{self, Machine, Processor, Signature, System};
use xla_ffi_doctor::{Examination, manifest};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::damage::{apply, cases, damage, runner};
use xla_ffi_testing::skip;
use xla_ffi_testing::zig::{Target, Zig, fat};

/// The C source of a library with a manifest. Its function is not a real handler, so the library needs no other
/// library.
const SOURCE: &str = r#"
#include "xla_ffi/manifest.h"
#include "xla_ffi/handler.h"
XFFI_EXPORT int handler(void);
int handler(void) { return 1; }
XFFI_LIBRARY(sample, XFFI_DESCRIBE(handler, XFFI_ARGS(XFFI_OPERAND("x", F32, ANY)), XFFI_RETS(XFFI_OPERAND("y", F32, 1)), XFFI_ATTRS(XFFI_ATTR("a", i32))));
"#;

struct Sample {
    name: &'static str,
    machine: Machine,
    bytes: Vec<u8>,
}

/// Builds a Mach-O file, a fat file with two parts, and a DLL. Without zig, reports a skip and returns nothing.
fn samples(test: &str) -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| {
        let Some(zig) = Zig::find() else {
            return Vec::new();
        };
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("sample.c");
        std::fs::write(&source, SOURCE).unwrap();
        let build = |target| {
            let object = zig.object(folder.path(), target, &source, &["-g"]);
            let library: PathBuf = zig.link(folder.path(), target, "sample", &[object], &[]);
            std::fs::read(library).unwrap()
        };
        let arm = build(Target::Aarch64MacOs);
        let intel = build(Target::X86_64MacOs);
        let sample = |name, system, processor, bytes| Sample {
            name,
            machine: Machine { system, processor },
            bytes,
        };
        let ours = Machine::current().map_or(Processor::X86_64, |machine| machine.processor);
        vec![
            sample("fat.dylib", System::MacOs, ours, fat(&[&arm, &intel])),
            sample("thin.dylib", System::MacOs, Processor::Aarch64, arm),
            sample(
                "sample.dll",
                System::Windows,
                Processor::X86_64,
                build(Target::X86_64Windows),
            ),
        ]
    });
    if samples.is_empty() {
        skip(test, "no zig (set XLA_FFI_ZIG; the wheel ziglang has it)");
    }
    samples
}

#[test]
fn facts_of_whole_files() {
    for Sample {
        name,
        machine,
        bytes,
    } in samples("facts_of_whole_files")
    {
        let facts = library::read(Path::new(name), bytes).unwrap();
        assert_eq!(facts.machine, *machine, "{name}");
        assert_eq!(
            facts.others.len(),
            usize::from(*name == "fat.dylib"),
            "{name}"
        );
        for all in [&facts.exports, &facts.functions, &facts.names] {
            assert!(all.contains("handler"), "{name}: {all:?}");
        }
        // Manifests are read from sections of the file, so their symbols need not be exported.
        assert!(
            facts
                .exports
                .iter()
                .all(|symbol| !symbol.contains("manifest")),
            "{facts:?}"
        );
        let signature = facts.apple.map(|apple| apple.signature);
        let expected = match (machine.system, machine.processor) {
            (System::MacOs, Processor::Aarch64) => Some(Signature::AdHoc),
            (System::MacOs, _) => Some(Signature::Missing),
            _ => None,
        };
        assert_eq!(signature, expected, "{name}");
        let manifests = manifest::read(bytes).unwrap();
        assert_eq!(manifests.len(), 1, "{name}");
        assert_eq!(manifests[0].library, "sample");
        assert_eq!(
            manifests[0].handlers[0].stages.iter().next(),
            Some(("execute", "handler"))
        );
    }
}

#[test]
fn versions_of_cxxabi_count_as_those_of_libstdcxx() {
    let floor = |versions: &[&str]| {
        let versions = versions.iter().map(|name| (*name).to_owned()).collect();
        let facts = library::Facts {
            versions,
            ..Default::default()
        };
        facts.floor("GLIBCXX_")
    };
    assert_eq!(
        floor(&["CXXABI_1.3", "GLIBCXX_3.4.21"]),
        Some(vec![3, 4, 21])
    );
    assert_eq!(
        floor(&["CXXABI_1.3.13", "GLIBCXX_3.4.21"]),
        Some(vec![3, 4, 29])
    );
    assert!(floor(&["CXXABI_1.3.99"]) > floor(&["GLIBCXX_3.4.99"]));
}

const DESCRIBED_LIBRARY: &str = r#"
#include "xla/ffi/api/c_api.h"
__attribute__((section(".xla_ffi_manifest"), used, aligned(16)))
const unsigned char xla_ffi_manifest[] = "XLAFFIMF\1\0\0\0\101\0\0\0"
  "{\"library\":\"l\",\"sdk\":\"0\",\"handlers\":[]}                          ";
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) { return frame->api ? NULL : NULL; }
"#;

/// Builds a small library with debug information and a manifest; `None` without a compiler.
fn library_to_damage() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let library = library_of_text(folder.path(), "sample", "gcc", DESCRIBED_LIBRARY, &["-g"])?;
    Some(std::fs::read(&library).unwrap())
}

#[test]
fn damaged_libraries_are_survived() {
    let Some(whole) = library_to_damage() else {
        return skip("damaged_libraries_are_survived", "gcc is not there");
    };
    let path = Path::new("damaged.so");
    assert!(library::read(path, &whole).is_ok());
    assert_eq!(manifest::read(&whole).unwrap().len(), 1);
    assert!(!dwarf::read_library(&whole).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.so");
    runner(cases(600, 100))
        .run(&prop::collection::vec(damage(), 1..5), |damages| {
            let mut bytes = whole.clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            let _ = library::read(path, &bytes);
            let _ = manifest::read(&bytes);
            let _ = dwarf::read_library(&bytes);
            Ok(())
        })
        .unwrap();
    runner(30)
        .run(&damage(), |damage| {
            let mut bytes = whole.clone();
            apply(&mut bytes, &damage);
            std::fs::write(&file, &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let _ = Examination::of(&file);
            Ok(())
        })
        .unwrap();
}
