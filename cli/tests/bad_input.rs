//! Tests that input which cannot be checked causes a clear error and exit status 1, as text and as JSON. The program
//! must not panic.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::compiler::{library_of_text, works};
use xla_ffi_testing::skip;

/// Runs a command for text and for JSON output. Both runs must exit with status 1, and the error must contain `told`.
fn refused(arguments: &[&str], told: &str) {
    let run = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(arguments)
            .args(more)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: ") || stderr.contains("\nerror: "),
            "{stderr}"
        );
        assert!(
            stderr.contains(told),
            "{arguments:?} does not say {told}: {stderr}"
        );
        output.stdout
    };
    run(&[]);
    let value: Value = serde_json::from_slice(&run(&["--format=json"])).unwrap();
    assert_eq!(value["exit"]["code"], 1, "{value:#}");
    assert_ne!(value["exit"]["kind"], "ok", "{value:#}");
    assert!(
        value["schema"].as_str().unwrap().starts_with("xla-ffi-"),
        "{value:#}"
    );
    assert!(
        value.to_string().contains(&told.replace('"', "\\\"")),
        "{told}: {value:#}"
    );
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn headers_maps_and_layouts_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| write(folder.path(), name, text.as_bytes());
    let header = file(
        "c_api.h",
        "#include \"not/there.h\"\nstruct XLA_FFI_Buffer { int a; };\n",
    );
    let reads = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["abi", "check", "--header", &header])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&reads.stderr);
    if said.contains("libclang cannot be loaded") {
        skip("headers_maps_and_layouts_that_do_not_fit", &said);
    } else {
        refused(&["abi", "check", "--header", &header], "not/there.h");
        refused(&["abi", "diff", "r9", &header], "not/there.h");
        refused(&["abi", "show", &header], "not/there.h");
    }
    let span = r#"{"structs": {"XLA_FFI_ByteSpan": {"size": 16, "fields": {"ptr": {"offset": 0}, "len": {"offset": 8}}}}}"#;
    let layout = file("layout.json", span);
    let check = ["abi", "check", "--layout", &layout];
    let map = file("map.json", r#"{"names": {"XLA_FFI_ByteSpam": "Span"}}"#);
    refused(
        &[&check[..], &["--names", &map]].concat(),
        "has names that are not in r10: XLA_FFI_ByteSpam",
    );
    let map = file("no-map.json", r#"{"nomes": {}}"#);
    refused(
        &[&check[..], &["--names", &map]].concat(),
        "the naming map does not parse",
    );
    for (from, to, told) in [
        ("8}", "4}", "XLA_FFI_ByteSpan.len is at byte 4, expected 8"),
        (
            "16",
            "18446744073709551615",
            "XLA_FFI_ByteSpan is 18446744073709551615 bytes, expected 16",
        ),
        ("16", "16.5", "the layout does not parse"),
        ("\"ptr\"", "\"pointer\"", "XLA_FFI_ByteSpan.ptr is missing"),
        ("}}}}", "}}}", "the layout does not parse"),
        (
            "ByteSpan",
            "ByteSpam",
            "XLA_FFI_ByteSpam is not in this revision",
        ),
    ] {
        let lie = file("lie.json", &span.replacen(from, to, 1));
        refused(&["abi", "check", "--layout", &lie], told);
    }
}

/// Builds a C library that uses the test mirror's structs, with additional compiler flags.
fn library(folder: &Path, flags: &[&str]) -> PathBuf {
    let mirrors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mirrors");
    let source = "#include \"mirror.h\"\nlong uses(Buffer* b, Args* a, Stage s) { return b->rank + a->size + s; }\n";
    let include = format!("-I{}", mirrors.display());
    let flags = [&[include.as_str()], flags].concat();
    library_of_text(folder, "mine", "gcc", source, &flags).unwrap()
}

#[test]
fn libraries_that_tell_nothing() {
    let name = "libraries_that_tell_nothing";
    if !works("gcc") {
        return skip(name, "gcc is not there");
    }
    let folder = tempfile::tempdir().unwrap();
    let names = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mirrors/names.json");
    let names = names.display().to_string();
    let check = |library: &str, told: &str| {
        refused(
            &["abi", "check", "--dwarf", library, "--names", &names],
            told,
        );
    };
    let whole = library(folder.path(), &["-g"]);
    let bytes = std::fs::read(&whole).unwrap();
    let changed = |name: &str, at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        write(folder.path(), name, &bytes)
    };
    // In an ELF file, byte 18 contains the machine, and byte 4 the class (32 or 64 bits).
    let arm = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    let told = if cfg!(target_arch = "aarch64") {
        "x86-64 Linux"
    } else {
        "AArch64 Linux"
    };
    let arm = changed("arm.so", 18, arm);
    let risc = changed("risc.so", 18, 243);
    let small = changed("small.so", 4, 1);
    for (library, told) in [
        (&arm, told),
        (&risc, "built for ELF machine 243"),
        (&small, "32-bit"),
        (
            &write(
                folder.path(),
                "windows.so",
                b"MZ and more of it, as there is in a file of Windows",
            ),
            "not an ELF",
        ),
        (
            &write(folder.path(), "cut.so", &bytes[..900]),
            "Invalid ELF ",
        ),
    ] {
        // `abi check` accepts a library for another machine, because layouts do not depend on the machine.
        if library != &arm {
            check(library, told);
        }
        refused(&["doctor", library], told);
        let whole = whole.display().to_string();
        refused(&["diff", &whole, library], told);
        refused(&["diff", library, &whole], told);
    }
    for (flags, told) in [
        (&["-g", "-s"][..], "build with -g and do not strip"),
        (&["-g0"], "build with -g and do not strip"),
        (&["-g", "-gsplit-dwarf"], "types are in .dwo files"),
        (
            &["-g", "-fdebug-types-section"],
            "types are in separate units",
        ),
        (&["-g", "-gz"], "it is compressed: link without -gz"),
    ] {
        check(&library(folder.path(), flags).display().to_string(), told);
    }
}

#[test]
fn commands_without_a_form_answer_in_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let empty = write(folder.path(), "empty.so", b"");
    let source = "void* crash(void* f) { *(volatile int*)0 = 1; return f; }";
    let library = library_of_text(folder.path(), "crash", "gcc", source, &[]);
    let library = library.map(|library| library.display().to_string());
    let mut cases = vec![
        vec!["inspect", &empty],
        vec!["check", &empty],
        vec!["bench", &empty],
    ];
    if let Some(library) = &library {
        cases.push(vec!["bench", library, "--handler", "crash"]);
    }
    for arguments in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
            .args(&arguments)
            .arg("--format=json")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{arguments:?}: {e}: {output:?}"));
        assert_eq!(value["exit"]["kind"], "bad-input", "{value:#}");
        let said = String::from_utf8_lossy(&output.stderr);
        let error = value["error"].as_str().unwrap();
        assert!(said.contains(error), "{said}: {error}");
    }
}
