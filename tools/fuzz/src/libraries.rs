//! Fuzz targets for libraries, wheels, and ABI layouts in debug information, headers and snapshots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xla_ffi_abi::dwarf;
use xla_ffi_abi::header::Source;
use xla_ffi_abi::model::Header;
use xla_ffi_abi::snapshot::{parse, render};
use xla_ffi_doctor::Examination;
use xla_ffi_doctor::library::{self, System};
use xla_ffi_doctor::manifest::{self, Manifest};
use xla_ffi_doctor::wheel::{Inside, Wheel};
use xla_ffi_testing::wheel::Wheel as Packed;

/// Fuzzes libraries as `inspect` and `doctor` read them: symbols, dependencies, manifests.
///
/// For Mach-O files and DLLs, the target includes everything that the doctor checks without running the library. For
/// ELF files, it omits the required libraries, which are on the machine and not part of the input.
pub(crate) fn library(input: &[u8]) {
    let path = Path::new("fuzzed.so");
    match library::read(path, input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(facts) => {
            assert!(facts.functions.is_subset(&facts.exports));
            if facts.machine.system != System::Linux {
                // In a fat file, which contains libraries for several processors, only the first part was read. The
                // other parts may be invalid.
                let told = Examination::of_bytes(path, input);
                assert!(told.is_ok_and(|told| told.facts == facts) || !facts.others.is_empty());
            }
        }
    }
    if let Err(error) = manifest::read(input) {
        assert!(!error.to_string().is_empty());
    }
}

/// Fuzzes manifests. The first byte of an input selects whether a payload or a section follows. For a section, this
/// byte is the address.
pub(crate) fn manifest(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let found = match first {
        b'p' => manifest::parse(bytes).map(|one| vec![one]),
        address => manifest::read_section(bytes, address.into()),
    };
    match found {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(manifests) => {
            assert!(!manifests.is_empty());
            manifests.iter().for_each(check_manifest);
        }
    }
}

/// Asserts the properties of manifests that a loader may rely on.
fn check_manifest(manifest: &Manifest) {
    let mut names = BTreeSet::new();
    for handler in &manifest.handlers {
        assert!(!handler.name.is_empty() && names.insert(&handler.name));
        // The floor may be newer than this program, so looking up the floor must not panic.
        let _ = handler.floor_revision();
        for (stage, symbol) in handler.stages.iter() {
            assert!(!stage.is_empty() && !symbol.is_empty() && symbol.is_ascii());
            assert!(!symbol.contains(|c: char| c.is_control() || c.is_whitespace()));
        }
    }
}

/// Platform tags: one per system, one for any system, and one for every machine of a system.
const TAGS: [&str; 6] = [
    "manylinux_2_17_x86_64",
    "macosx_11_0_arm64",
    "macosx_10_14_universal2",
    "win_amd64",
    "linux_aarch64",
    "any",
];

/// Wheels, one for each platform tag, and the path of the library in each wheel.
struct Wheels {
    folder: tempfile::TempDir,
    wheels: Vec<Wheel>,
}

impl Wheels {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let wheels = TAGS.map(|tag| {
            let packed = Packed::named(&format!("mine-1.0-py3-none-{tag}"));
            let packed = packed.member("mine/libmine.so", b"").pack(folder.path());
            Wheel::open(&packed).expect("a wheel")
        });
        Self {
            wheels: wheels.into(),
            folder,
        }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("libmine.so")
    }
}

thread_local! {
    static WHEELS: Wheels = Wheels::new();
}

/// Fuzzes a library in a wheel. The first byte of the input selects the tag with which `doctor --wheel` compares the
/// library.
///
/// The tests of `doctor` cover damage to the archive itself.
pub(crate) fn wheel(input: &[u8]) {
    WHEELS.with(|all| {
        let Some((tag, library)) = input.split_first() else {
            return;
        };
        let place = all.place();
        std::fs::write(&place, library).expect("the folder");
        let inside = Inside::read("mine/libmine.so".to_owned(), place);
        let wheel = &all.wheels[usize::from(*tag) % all.wheels.len()];
        let found = wheel.findings(inside.as_slice());
        assert!(found.iter().all(|finding| !finding.what.is_empty()));
    });
}

/// Fuzzes the debug information of a library.
pub(crate) fn debug_information(input: &[u8]) {
    match dwarf::read_library(input) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(found) => assert!(found.iter().all(|abi| !abi.structs.is_empty())),
    }
}

/// Fuzzes the text of headers, in the form that libclang parses.
pub(crate) fn header(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let unit = Source::from_text(Path::new("fuzzed.h"), text.into_owned()).unit();
    let (includes, rest): (Vec<&str>, Vec<&str>) =
        unit.lines().partition(|line| line.starts_with("#include "));
    assert_eq!(includes.len(), 3, "two of the language, and the header");
    // The text may contain only names of the header's macros, in three lines per macro.
    for macros in rest.chunks(3) {
        let name = macros[0].strip_prefix("#ifdef ").expect("a macro");
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            "{name:?}"
        );
        assert!(
            macros[1].contains(&format!("= ({name}) ")),
            "{:?}",
            macros[1]
        );
        assert_eq!(macros[2], "#endif");
    }
}

/// Fuzzes snapshots of headers, as `abi import` writes them and `abi check` reads them.
pub(crate) fn snapshot(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match parse("name", text) {
        Err(broken) => assert!(!broken.to_string().is_empty()),
        Ok(abi) => {
            let again = render("name", Header::Main, "0.4.31", None, &abi);
            assert_eq!(parse("name", &again).expect("what is written is read"), abi);
        }
    }
}
