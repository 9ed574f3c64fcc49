//! Tests libraries for other machines, which zig builds. The sources must compile without warnings, and the facts read
//! from the files must be correct. No library is executed.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use xla_ffi_testing::wheel::Wheel;
use xla_ffi_testing::zig::{Target, Zig, fat};
use xla_ffi_testing::{root, skip};

/// The libraries that the tests of this file share: a C example, built for every machine.
struct Built {
    _folder: tempfile::TempDir,
    folder: PathBuf,
    c: Vec<(Target, PathBuf)>,
}

fn built(test: &str) -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let zig = Zig::find()?;
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().to_owned();
        let source = root().join("c_examples/rms_norm.c");
        let c = Target::ALL.map(|target| (target, zig.library(&folder, target, &source)));
        Some(Built {
            _folder: temporary,
            folder,
            c: c.into(),
        })
    });
    if built.is_none() {
        skip(test, "no zig (set XLA_FFI_ZIG; the wheel ziglang has it)");
    }
    built.as_ref()
}

impl Built {
    fn of(&self, target: Target) -> &Path {
        let mut all = self.c.iter();
        &all.find(|(known, _)| *known == target).unwrap().1
    }

    fn fat(&self) -> PathBuf {
        let [arm, intel] = [Target::Aarch64MacOs, Target::X86_64MacOs]
            .map(|target| std::fs::read(self.of(target)).unwrap());
        let path = self.folder.join("fat.dylib");
        std::fs::write(&path, fat(&[&arm, &intel])).unwrap();
        path
    }
}

fn xla_ffi(arguments: &[&str], library: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(arguments)
        .arg(library)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Returns the number and text of each finding of the doctor about a file.
fn findings(arguments: &[&str], library: &Path) -> Vec<(String, String)> {
    let output = xla_ffi(&[&["doctor", "--format=json"], arguments].concat(), library);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = value["libraries"][0]["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    found
        .map(|finding| (text(finding, "id"), text(finding, "what")))
        .collect()
}

#[test]
fn manifests_are_found_and_the_machine_is_told_first() {
    let Some(built) = built("manifests_are_found_and_the_machine_is_told_first") else {
        return;
    };
    let fat = built.fat();
    let mut all: Vec<(&str, &Path)> = vec![("x86-64 macOS and AArch64 macOS", &fat)];
    for (target, path) in &built.c {
        let machine = match target {
            Target::Aarch64Linux => "AArch64 Linux",
            Target::Aarch64MacOs => "AArch64 macOS",
            Target::X86_64MacOs => "x86-64 macOS",
            Target::X86_64Windows => "x86-64 Windows",
        };
        all.push((machine, path));
    }
    let arm = cfg!(target_arch = "aarch64");
    for (machine, path) in all {
        let is_here = arm && machine == "AArch64 Linux";
        if is_here || (arm && path == fat) {
            continue;
        }
        let output = xla_ffi(&["inspect"], path);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let first = text.lines().next().unwrap();
        assert!(
            first.contains(&format!("it is built for {machine}, but this machine is")),
            "{first}"
        );
        for told in [
            "library rms_norm",
            "attrs     eps: f32 = 0.00001",
            "vjp by rms_norm_backward",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        let value: Value =
            serde_json::from_slice(&xla_ffi(&["inspect", "--format=json"], path).stdout).unwrap();
        assert!(
            machine.starts_with(value["machine"].as_str().unwrap()),
            "{value:#}"
        );
        assert_eq!(
            value["handlers"][0]["accepted_by"],
            Value::Null,
            "{value:#}"
        );

        let output = xla_ffi(&["doctor"], path);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let first = text
            .lines()
            .skip_while(|line| *line != "findings")
            .nth(1)
            .unwrap();
        assert!(
            first.contains("XF116 proved fails") && first.contains(machine),
            "{text}"
        );
        // With `--no-run`, the doctor must examine a library for another machine like any other library.
        let output = xla_ffi(&["doctor", "--no-run"], path);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("2 handlers"), "{}", said(&output));

        // Commands that run the library must report that it is for another machine, before the system's loader fails.
        let output = xla_ffi(&["run", "--handler", "rms_norm"], path);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("built for"), "{}", said(&output));
    }
}

#[test]
fn what_macos_asks_of_a_library() {
    let Some(built) = built("what_macos_asks_of_a_library") else {
        return;
    };
    let zig = Zig::find().unwrap();
    let folder = &built.folder;
    let target = Target::Aarch64MacOs;
    let object = folder.join("rms_norm.aarch64-macos.cc.o");
    let link = |name: &str, flags: &[&str]| {
        zig.link(folder, target, name, std::slice::from_ref(&object), flags)
    };
    let has = |path: &Path, id: &str, what: &str| {
        let found = findings(&["--no-run"], path);
        let is = found
            .iter()
            .any(|(known, told)| known == id && told.contains(what));
        assert_eq!(is, !what.is_empty(), "{id} {what}: {found:?}");
    };
    let none = |path: &Path, id: &str| {
        let found = findings(&["--no-run"], path);
        assert!(
            found.iter().all(|(known, _)| known != id),
            "{id}: {found:?}"
        );
    };
    let whole = built.of(target);
    none(whole, "XF118");
    none(whole, "XF109");

    let newer = link("newer", &["-target", "aarch64-macos.14.2"]);
    has(
        &newer,
        "XF117",
        "requires macOS 14.2, but jaxlib's wheels require only 11.0",
    );
    let older = link("older", &["-target", "aarch64-macos.11.0"]);
    none(&older, "XF117");

    let other = link("other", &["-install_name", "@rpath/libother.dylib"]);
    let other = other.display().to_string();
    let needs = link("needs", &[&other]);
    has(&needs, "XF109", "@rpath/libother.dylib and has no rpath");
    let needs = link("finds", &[&other, "-Wl,-rpath,@loader_path"]);
    none(&needs, "XF109");
    let needs = link("elsewhere", &[&other, "-Wl,-rpath,/opt/homebrew/lib"]);
    has(&needs, "XF109", "libraries in /opt/homebrew/lib");
    let fixed = link("fixed", &["-install_name", "/opt/lib/libfixed.dylib"]);
    let needs = link("needs_fixed", &[&fixed.display().to_string()]);
    has(
        &needs,
        "XF109",
        "/opt/lib/libfixed.dylib, which other machines may not have",
    );

    // The test changes the code after signing, so that the signature does not match the code.
    let mut bytes = std::fs::read(whole).unwrap();
    let at = bytes
        .windows(8)
        .position(|bytes| bytes == b"XLAFFIMF")
        .unwrap();
    bytes[at + 40] ^= 1;
    let changed = folder.join("changed.dylib");
    std::fs::write(&changed, &bytes).unwrap();
    has(&changed, "XF118", "invalid code signature");
    let output = xla_ffi(&["doctor", "--no-run"], &changed);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // The load command of the code signature, 0x1d with 16 bytes, is replaced by an optional load command, 0x26.
    let mut bytes = std::fs::read(whole).unwrap();
    let command = [0x1d, 0, 0, 0, 0x10, 0, 0, 0];
    let at = bytes.windows(8).position(|bytes| bytes == command).unwrap();
    bytes[at] = 0x26;
    let unsigned = folder.join("unsigned.dylib");
    std::fs::write(&unsigned, &bytes).unwrap();
    has(&unsigned, "XF118", "is not signed");
}

/// Tests that the guard compiles, which catches C++ exceptions in the embedded runtime. If the guard did not compile,
/// the runtime would silently be built without it. Apple's C++ library, unlike libstdc++, has no type for a cancelled
/// thread.
#[test]
fn the_guard_of_the_runtime_compiles_for_macos() {
    let Some(zig) = Zig::find() else {
        return skip(
            "the_guard_of_the_runtime_compiles_for_macos",
            "no zig (set XLA_FFI_ZIG; the wheel ziglang has it)",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("runtime/src/process/guard.cc");
    for target in [Target::Aarch64MacOs, Target::X86_64MacOs] {
        assert!(zig.object(folder.path(), target, &source, &[]).exists());
    }
}

/// Tests that a correct wheel for macOS or Windows has no findings, although the names of system libraries differ from
/// Linux.
#[test]
fn wheels_for_macos_and_windows() {
    let Some(built) = built("wheels_for_macos_and_windows") else {
        return;
    };
    let zig = Zig::find().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-target", "aarch64-macos.11.0"];
    let object = [built.folder.join("rms_norm.aarch64-macos.cc.o")];
    let arm = zig.link(folder.path(), Target::Aarch64MacOs, "arm", &object, &flags);
    let newer = zig.link(
        folder.path(),
        Target::Aarch64MacOs,
        "newer",
        &object,
        &["-target", "aarch64-macos.14.2"],
    );
    let dll = built.of(Target::X86_64Windows);
    let fat = built.fat();
    let user = folder.path().join("user.c");
    let text = "int theirs(void);\n__declspec(dllexport) int uses(void);\nint uses(void) { return theirs(); }\n";
    std::fs::write(&user, text).unwrap();
    let user = zig.object(folder.path(), Target::X86_64Windows, &user, &[]);
    let import = zig.import_library(folder.path(), "blas.dll", "theirs");
    let needs = zig.link(
        folder.path(),
        Target::X86_64Windows,
        "needs",
        &[user, import],
        &[],
    );
    for (tag, file, library, told) in [
        ("macosx_11_0_arm64", "libmine.dylib", &*arm, None),
        ("win_amd64", "mine.dll", dll, None),
        ("macosx_12_0_universal2", "libmine.dylib", &*fat, None),
        (
            "macosx_11_0_arm64",
            "libmine.dylib",
            &*newer,
            Some((
                "XF401",
                "macosx_11_0_arm64, but mine/libmine.dylib requires macOS 14.2",
            )),
        ),
        (
            "macosx_12_0_universal2",
            "libmine.dylib",
            &*arm,
            Some((
                "XF401",
                "macosx_12_0_universal2, where mine/libmine.dylib does not load",
            )),
        ),
        (
            "win_amd64",
            "mine.dll",
            &*arm,
            Some(("XF401", "win_amd64, where mine/mine.dll does not load")),
        ),
        (
            "win_amd64",
            "mine.dll",
            &*needs,
            Some((
                "XF104",
                "lacks blas.dll, which mine/mine.dll requires; its imports; other machines may not have it; add it to the \
                 wheel with `delvewheel repair`",
            )),
        ),
    ] {
        let bytes = std::fs::read(library).unwrap();
        let wheel = Wheel::named(&format!("mine-1.0-py3-none-{tag}"));
        let wheel = wheel
            .member(&format!("mine/{file}"), &bytes)
            .pack(folder.path());
        let output = xla_ffi(&["doctor", "--format=json", "--wheel"], &wheel);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = value["wheels"][0]["findings"].as_array().unwrap().iter();
        let found: Vec<(&str, String)> = found
            .filter(|finding| ["XF401", "XF104"].contains(&finding["id"].as_str().unwrap()))
            .map(|finding| {
                let words = ["what", "why", "fix"].map(|key| finding[key].as_str().unwrap_or(""));
                (finding["id"].as_str().unwrap(), words.join("; "))
            })
            .collect();
        match told {
            None => assert!(found.is_empty(), "{tag}: {found:?}"),
            Some((id, words)) => assert!(
                found.len() == 1 && found[0].0 == id && found[0].1.contains(words),
                "{tag}: {found:?}"
            ),
        }
    }
}
