//! Tests `xla-ffi doctor --wheel`, which reports problems for users of a wheel, the most severe first.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::wheel::Wheel;
use xla_ffi_testing::{root, skip};

const GOOD: &str = "mine-1.0-py3-none-manylinux_2_17_x86_64";
const MEMBER: &str = "mine/libmine.so";

/// Builds the handler of the project template for C, with additional source code. Returns the bytes of the library.
fn library(more: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let source = root().join("cli/templates/c/source.c");
    let source = std::fs::read_to_string(source).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = source.replace("@NAME@", "mine") + more;
    let flags = [&["-O2", "-fvisibility=hidden"], flags].concat();
    let built = library_of_text(folder.path(), "mine", "gcc", &text, &flags)?;
    Some(std::fs::read(built).unwrap())
}

fn run(wheel: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["doctor", "--jaxlib", "0.12.0", "--wheel"])
        .arg(wheel)
        .args(arguments)
        .output()
        .unwrap()
}

struct Report {
    code: Option<i32>,
    whole: Value,
    wheel: Value,
}

fn judge(wheel: Wheel, arguments: &[&str]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    judge_file(&wheel.pack(folder.path()), arguments)
}

fn judge_file(path: &Path, arguments: &[&str]) -> Report {
    let output = run(path, &[arguments, &["--format=json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    let whole: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    Report {
        code: output.status.code(),
        wheel: whole["wheels"][0].clone(),
        whole,
    }
}

impl Report {
    fn to_fix(&self) -> Vec<&str> {
        let keys = self.wheel["to_fix"].as_array().unwrap();
        keys.iter().map(|key| key.as_str().unwrap()).collect()
    }

    /// Returns the severity and text of the finding about the wheel that has the number `id`.
    fn of_wheel(&self, id: &str) -> (&str, String) {
        let findings = self.wheel["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["id"] == id);
        let found = found.unwrap_or_else(|| panic!("no {id}: {:#}", self.wheel));
        let words = format!("{}; {}; {}", found["what"], found["why"], found["fix"]);
        (found["severity"].as_str().unwrap(), words)
    }
}

#[test]
fn a_good_wheel_has_nothing_to_fix() {
    let Some(library) = library("", &[]) else {
        return skip("a_good_wheel_has_nothing_to_fix", "gcc is not there");
    };
    let told = judge(Wheel::named(GOOD).member(MEMBER, &library), &["--strict"]);
    assert_eq!(told.code, Some(0), "{:#}", told.whole);
    assert!(told.to_fix().is_empty(), "{:?}", told.to_fix());
    assert_eq!(told.wheel["python"], "py3-none");
    // The report must contain the library in the wheel, under the library's path in the wheel.
    let of = &told.whole["libraries"][0];
    let path = of["library"].as_str().unwrap();
    assert!(path.ends_with(&format!("{GOOD}.whl/{MEMBER}")), "{path}");
    assert_eq!(of["jaxlibs"][0]["loads"], "yes", "{of:#}");
    let whole = told.whole.to_string();
    assert!(
        !whole.contains("xla-ffi-wheel-"),
        "where it was unpacked: {whole}"
    );
}

#[test]
fn a_tag_that_promises_too_much_fails() {
    let newer = "\n#include <string.h>\n__attribute__((visibility(\"default\"))) void* keep(void* to, void* from, \
                 unsigned long n) { return memcpy(to, from, n); }\n";
    let Some(library) = library(newer, &["-fno-builtin"]) else {
        return skip("a_tag_that_promises_too_much_fails", "gcc is not there");
    };
    let cases = [
        (
            "py3-none-manylinux1_x86_64",
            "glibc 2.5",
            "manylinux_2_17_x86_64",
        ),
        ("py3-none-any", "every system", "platform wheel"),
        (
            "py3-none-manylinux_2_17_aarch64",
            "Linux on x86_64",
            "its own tag",
        ),
        ("py3-none-win_amd64", "win_amd64", "its own tag"),
        ("py3-none-musllinux_1_2_x86_64", "musl", "no wheel for musl"),
    ];
    for (tag, what, fix) in cases {
        let wheel = Wheel::named(&format!("mine-1.0-{tag}")).member(MEMBER, &library);
        let told = judge(wheel, &[]);
        let (weight, words) = told.of_wheel("XF401");
        assert_eq!((weight, told.code), ("fails", Some(1)), "{tag}");
        assert!(
            words.contains(what) && words.contains(fix),
            "{tag}: {words}"
        );
        assert_eq!(told.to_fix()[0], "XF401 mine.whl/wheel", "{tag}");
    }
    let module = "mine/mine.cpython-312-x86_64-linux-gnu.so";
    for (tag, is_wrong) in [
        ("py3-none", true),
        ("cp311-cp311", true),
        ("cp312-cp312", false),
    ] {
        let wheel = Wheel::named(&format!("mine-1.0-{tag}-manylinux_2_17_x86_64"))
            .member(MEMBER, &library)
            .member(module, &library);
        let fails = judge(wheel, &["--no-run"]).code == Some(1);
        assert_eq!(fails, is_wrong, "{tag}");
    }
}

/// Tests libraries that require versions of libstdc++. The test builds a library with these version names.
#[test]
fn a_tag_for_an_older_libstdcxx_fails() {
    let folder = tempfile::tempdir().unwrap();
    for (version, glibc, is_wrong) in [
        ("3.4.19", "2_17", false),
        ("3.4.20", "2_17", true),
        ("3.4.20", "2_24", false),
    ] {
        let script = folder.path().join("versions");
        let text = format!("GLIBCXX_{version} {{ global: size; }};\n");
        std::fs::write(&script, text).unwrap();
        let script = format!("-Wl,--version-script={}", script.display());
        let flags = ["-Wl,-soname,libstdc++.so.6", &script];
        let text = "int size(void) { return 1; }\n";
        let Some(stdcxx) = library_of_text(folder.path(), "stdcxx", "gcc", text, &flags) else {
            return skip("a_tag_for_an_older_libstdcxx_fails", "gcc is not there");
        };
        let text = "\nint size(void);\nint used(void) { return size(); }\n";
        let library = library(text, &[stdcxx.to_str().unwrap()]).unwrap();
        let wheel = Wheel::named(&format!("mine-1.0-py3-none-manylinux_{glibc}_x86_64"));
        let told = judge(wheel.member(MEMBER, &library), &["--no-run"]);
        let is_told = told.to_fix().contains(&"XF401 mine.whl/wheel");
        assert_eq!(is_told, is_wrong, "{version} {glibc}: {:#}", told.wheel);
        if is_wrong {
            let name = format!("GLIBCXX_{version}");
            assert!(told.of_wheel("XF401").1.contains(&name));
        }
    }
}

#[test]
fn a_tag_that_promises_too_little_is_told() {
    let Some(library) = library("", &[]) else {
        return skip("a_tag_that_promises_too_little_is_told", "gcc is not there");
    };
    for (tag, weight, words) in [
        ("py3-none-linux_x86_64", "risk", "package indexes refuse"),
        (
            "cp312-cp312-manylinux_2_17_x86_64",
            "risk",
            "work in every Python",
        ),
        ("py3-none-manylinux_2_34_x86_64", "note", "excludes systems"),
    ] {
        let wheel = Wheel::named(&format!("mine-1.0-{tag}")).member(MEMBER, &library);
        let told = judge(wheel, &[]);
        let found = told.of_wheel("XF402");
        assert!(
            found.0 == weight && found.1.contains(words),
            "{tag}: {found:?}"
        );
        assert_eq!(told.code, Some(0), "{tag}");
    }
}

#[test]
fn libraries_of_other_machines_are_named() {
    let Some(library) = library("", &[]) else {
        return skip("libraries_of_other_machines_are_named", "gcc is not there");
    };
    // The test sets the machine in the ELF header to EM_AARCH64, so that the library is for AArch64.
    let mut foreign = library.clone();
    foreign[18..20].copy_from_slice(&183_u16.to_le_bytes());
    let told = judge(Wheel::named(GOOD).member(MEMBER, &foreign), &[]);
    assert!(told.of_wheel("XF401").1.contains("Linux on aarch64"));
    assert_eq!(told.code, Some(1));
    // In a wheel for AArch64, the library for AArch64 is correct, but this machine cannot load the library.
    let there = Wheel::named("mine-1.0-py3-none-manylinux_2_17_aarch64").member(MEMBER, &foreign);
    let folder = tempfile::tempdir().unwrap();
    let there = there.pack(folder.path());
    let told = judge_file(&there, &[]);
    assert_eq!((told.of_wheel("XF404").0, told.code), ("note", Some(0)));
    assert!(told.to_fix().is_empty(), "{:?}", told.to_fix());
    let verdict = &told.whole["libraries"][0]["jaxlibs"][0];
    assert_eq!(verdict["loads"], "unknown", "{verdict}");
    assert_eq!(judge_file(&there, &["--strict"]).code, Some(1));
    let tag = GOOD.splitn(3, '-').nth(2).unwrap();
    for (pure, tag, is_wrong) in [
        (false, tag, false),
        (true, tag, true),
        (false, "py3-none-any", true),
    ] {
        let text = format!("Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\nTag: {tag}\n");
        let wheel = Wheel::named(GOOD).member(MEMBER, &library);
        let told = judge(
            wheel.member("mine-1.0.dist-info/WHEEL", text.as_bytes()),
            &[],
        );
        let found = told.to_fix().iter().any(|key| key.starts_with("XF405"));
        assert_eq!(found, is_wrong, "{text}");
    }
    let text = Wheel::named(GOOD).member(MEMBER, b"no library at all, but a text");
    let told = judge(text, &[]);
    assert_eq!((told.of_wheel("XF404").0, told.code), ("fails", Some(1)));
    let none = judge(Wheel::named(GOOD).member("mine/__init__.py", b""), &[]);
    assert_eq!((none.of_wheel("XF403").0, none.code), ("fails", Some(1)));
}

/// Tests a wheel that requires an NVIDIA package for CUDA's libraries. The RPATH of the wheel's library must contain
/// the package's folder.
#[test]
fn nvidia_wheels_bring_the_libraries_of_cuda() {
    let test = "nvidia_wheels_bring_the_libraries_of_cuda";
    let folder = tempfile::tempdir().unwrap();
    let soname = ["-Wl,-soname,libcudart.so.13"];
    let Some(cuda) = library_of_text(folder.path(), "cuda", "gcc", "int cuda;\n", &soname) else {
        return skip(test, "gcc is not there");
    };
    let metadata = |required: &str| {
        format!("Metadata-Version: 2.4\nName: mine\nVersion: 1.0\n{required}\nText.\n")
    };
    let required = metadata("Requires-Dist: nvidia-cuda-runtime<14,>=13\n");
    let described = metadata("\nRequires-Dist: nvidia-cuda-runtime\n");
    let rpath = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib";
    for (metadata, rpath, is_accepted) in [
        (&required, rpath, true),
        (&required, "-Wl,-rpath,$ORIGIN", false),
        (&described, rpath, false),
    ] {
        let flags = ["-Wl,--no-as-needed", cuda.to_str().unwrap(), rpath];
        let library = library("", &flags).unwrap();
        let wheel = Wheel::named(GOOD)
            .member(MEMBER, &library)
            .member("mine-1.0.dist-info/METADATA", metadata.as_bytes());
        let told = judge(wheel, &["--no-run"]);
        let mut to_fix = told.to_fix().into_iter();
        let is_missing = to_fix.any(|key| key == "XF104 mine.whl/wheel");
        assert_eq!(is_missing, !is_accepted, "{:#}", told.wheel);
    }
}

#[test]
fn the_worst_comes_first() {
    let more = "\n__attribute__((visibility(\"default\"), used)) const char pool[] = \"RAYON_NUM_THREADS\";\n\
                __attribute__((visibility(\"default\"))) void cblas_dgemm(void) {}\n";
    let flags = ["-Wl,-rpath,/opt/mine/lib", "-g"];
    let Some(library) = library(more, &flags) else {
        return skip("the_worst_comes_first", "gcc is not there");
    };
    let wheel = Wheel::named("mine-1.0-py3-none-any").member(MEMBER, &library);
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = wheel.pack(folder.path());
    let told = judge_file(&path, &[]);
    assert_eq!(
        told.to_fix(),
        [
            "XF401 mine.whl/wheel",
            "XF109 mine/libmine.so/library",
            "XF114 mine/libmine.so/library",
            "XF115 mine/libmine.so/library",
        ]
    );
    let output = run(&path, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    let place = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("no {words}: {text}"))
    };
    assert!(place("to fix, the most severe first") < place("1. XF401 proved fails: wheel: "));
    assert!(place("3. XF114 possible risk: mine/libmine.so: ") < place("jaxlib     revision"));
    // The report must contain the path of the search path only once.
    assert_eq!(text.matches("/opt/mine/lib").count(), 1, "{text}");
}

#[test]
fn what_is_no_wheel_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let hostile = Wheel::named(GOOD)
        .member("../outside.so", b"")
        .pack(folder.path());
    for (path, words) in [
        (write("mine.zip", b""), "does not end with .whl"),
        (
            write("mine-2.0-py3-none-any.whl", b"PK\x05\x06 and no more"),
            "zip archive",
        ),
        (
            folder.path().join("gone-1-py3-none-any.whl"),
            "No such file",
        ),
        (hostile, "Invalid file path"),
    ] {
        let output = run(&path, &["--format=json"]);
        assert_eq!(output.status.code(), Some(1), "{words}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["exit"]["kind"], "bad-input");
        let error = told["error"].as_str().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(words) && error.contains(name), "{error}");
    }
    assert!(!folder.path().parent().unwrap().join("outside.so").exists());
}
