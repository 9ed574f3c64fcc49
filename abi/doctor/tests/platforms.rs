//! The facts of Mach-O and PE files.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xla_ffi_doctor::library::{self, Machine, Processor, Signature, System};
use xla_ffi_doctor::manifest;
use xla_ffi_testing::skip;
use xla_ffi_testing::zig::{Target, Zig, fat};

/// A description without a handler that needs nothing of any system, in the section of each.
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

/// A Mach-O file, a fat one of two, and a DLL.
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
        let ours = Machine::this().map_or(Processor::X86_64, |machine| machine.processor);
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
        // Descriptions are for readers of the file.
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

/// Every part is read: many that are the same bytes would take for ever.
#[test]
fn fat_files_of_many_parts_are_refused() {
    let test = "fat_files_of_many_parts_are_refused";
    for thin in samples(test)
        .iter()
        .filter(|sample| sample.name == "thin.dylib")
    {
        let error = |count| {
            let parts: Vec<&[u8]> = vec![&thin.bytes; count];
            library::read(Path::new("many"), &fat(&parts)).map_err(|error| error.to_string())
        };
        assert!(error(16).is_ok());
        let error = error(17).unwrap_err();
        assert!(error.contains("a fat file of 17 parts"), "{error}");
    }
}
