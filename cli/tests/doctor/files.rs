//! Tests findings that depend only on the library's file: symbols, paths, flags and manifests. Also tests files that
//! are not libraries.

use crate::{FIXED, build, doctor, run};
use std::path::Path;
use std::time::{Duration, Instant};
use xla_ffi_testing::skip;

/// Tests that structs of extensions' headers are recognised like structs of the main header, and that layouts which no
/// jaxlib shipped are reported.
#[test]
fn headers_of_extensions_are_layouts_that_jaxlibs_shipped() {
    let test = "headers_of_extensions_are_layouts_that_jaxlibs_shipped";
    let folder = tempfile::tempdir().unwrap();
    let source = |header: &str, more: &str, args: &str| {
        format!(
            "#include \"xla/ffi/api/c_api.h\"\n#include \"xla/ffi/api/{header}\"\n{more}\n\
             XLA_FFI_Error* h(XLA_FFI_CallFrame* frame) {{\n\
             struct {{ {args} own; XLA_FFI_CallFrame* frame; }} kept = {{.frame = frame}};\n\
             return kept.frame->struct_size == sizeof kept ? 0 : 0; }}\n"
        )
    };
    let strange = "use layouts that no jaxlib shipped";
    for (name, header, args) in [
        (
            "coll",
            "collectives_c_api.h",
            "XLA_FFI_Communicator_Get_Args",
        ),
        ("record", "record_c_api.h", "XLA_FFI_KernelArgs"),
    ] {
        let text = source(header, "", args);
        let Some(library) = build(folder.path(), name, "gcc", &text, &["-g"]) else {
            return skip(test, "gcc is not there");
        };
        let told = doctor(&library, &["--no-run"]);
        assert_eq!(told.finding(strange), None, "{name}");
        assert!(
            told.finding("compiled with layouts of r10").is_some(),
            "{name}"
        );
    }
    let own = "typedef struct { size_t struct_size; int more; } XLA_FFI_Own_Args;";
    let text = source("record_c_api.h", own, "XLA_FFI_Own_Args");
    let library = build(folder.path(), "own", "gcc", &text, &["-g"]).unwrap();
    let told = doctor(&library, &["--no-run"]);
    assert!(told.finding(strange).is_some());
}

#[test]
fn a_process_that_dies_or_hangs_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <unistd.h>\n\
        void* crash(void* f) { *(volatile int*)0 = 1; return f; }\n\
        void* hang(void* f) { for (;;) sleep(1); return f; }\n\
        void* quit(void* f) { _exit(0); return f; }\n\
        void* silent(void* f) { return 0; }\n";
    let Some(library) = build(folder.path(), "bad", "gcc", source, &[]) else {
        return skip(
            "a_process_that_dies_or_hangs_is_a_finding",
            "gcc is not there",
        );
    };
    let start = Instant::now();
    for symbol in ["crash", "hang", "quit", "silent"] {
        let arguments = [
            "--handler",
            symbol,
            "--time-limit",
            "1",
            "--jaxlib",
            "0.12.0",
        ];
        let told = doctor(&library, &arguments);
        assert_eq!(told.code, Some(1), "{symbol}");
        assert_eq!(told.loads("0.12.0", symbol), "no", "{symbol}");
        assert!(told.stderr.contains("XF202"), "{symbol}: {}", told.stderr);
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    // A symbol that does not exist must be reported once, and other handlers must still be examined.
    for nowhere in ["nowhere", "execute=silent,instantiate=nowhere"] {
        let told = doctor(&library, &["--handler", nowhere, "--handler", "silent"]);
        told.proved_to_fail("does not export the symbol 'nowhere'");
        let times = told.stderr.matches("does not export").count();
        assert_eq!(times, 1, "{}", told.stderr);
        assert_eq!(told.loads("0.12.0", "silent"), "no");
    }
    let source = "__attribute__((constructor)) static void start(void) { *(volatile int*)0 = 1; }";
    let library = build(folder.path(), "start", "gcc", source, &[]).unwrap();
    doctor(&library, &[]).proved_to_fail("does not load on this machine");
    let source = "#include <unistd.h>\n\
        __attribute__((constructor)) static void start(void) { for (;;) sleep(1); }";
    let library = build(folder.path(), "stuck", "gcc", source, &[]).unwrap();
    // A timeout does not prove that the library fails to load, because loading may only be slow.
    let told = doctor(&library, &["--time-limit", "1"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let findings = told.value["findings"].as_array().unwrap();
    let found = findings.iter().find(|one| one["id"] == "XF112").unwrap();
    assert_eq!(
        (&found["confidence"], &found["severity"]),
        (&"possible".into(), &"risk".into())
    );
    assert_eq!(
        doctor(&library, &["--time-limit", "1", "--strict"]).code,
        Some(1)
    );
    let source = format!(
        "{FIXED}\n#include <unistd.h>\n__attribute__((constructor)) static void slow(void) {{ sleep(2); }}"
    );
    let library = build(folder.path(), "slow", "gcc", &source, &["-DMINOR=1"]).unwrap();
    let newest = ["--handler", "negotiating", "--jaxlib", "0.12.0"];
    let told = doctor(&library, &newest);
    assert_eq!(told.loads("0.12.0", "negotiating"), "yes");
    let told = doctor(&library, &[&newest[..], &["--time-limit", "1"]].concat());
    assert_eq!(
        (told.loads("0.12.0", "negotiating"), told.code),
        ("unknown", Some(0))
    );
}

#[test]
fn what_nobody_provides_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include \"xla/ffi/api/c_api.h\"\n\
        const void* use(void) { return XLA_FFI_GetApi(); }";
    let Some(library) = build(folder.path(), "getapi", "gcc", source, &[]) else {
        return skip("what_nobody_provides_is_named", "gcc is not there");
    };
    doctor(&library, &[]).proved_to_fail("XLA_FFI_GetApi");
    for (name, source, what) in [
        (
            "absl",
            "void _ZN4absl12lts_202301257CordRep3RefEv(void); void f(void) { _ZN4absl12lts_202301257CordRep3RefEv(); }",
            "symbols of absl",
        ),
        (
            "xla",
            "void _ZN3xla5Shape5ClearEv(void); void f(void) { _ZN3xla5Shape5ClearEv(); }",
            "symbols of XLA",
        ),
        (
            "status",
            "void XlaCustomCallStatusSetFailure(void*, const char*, long); \
             void f(void) { XlaCustomCallStatusSetFailure(0, 0, 0); }",
            "XlaCustomCallStatusSetFailure",
        ),
        (
            "else",
            "void nobody_has_this(void); void f(void) { nobody_has_this(); }",
            "symbols are undefined",
        ),
    ] {
        let library = build(folder.path(), name, "gcc", source, &[]).unwrap();
        doctor(&library, &["--no-run"]).proved_to_fail(what);
    }
    let source = "void* PyList_New(long); void* f(void) { return PyList_New(0); }";
    let library = build(folder.path(), "python", "gcc", source, &[]).unwrap();
    let told = doctor(&library, &["--no-run"]);
    let expected = ("possible".to_owned(), "risk".to_owned());
    assert_eq!(told.finding("Python process only"), Some(expected));
    let source = "extern void* XLA_FFI_GetApi(void) __attribute__((weak)); \
        void* f(void) { return XLA_FFI_GetApi ? XLA_FFI_GetApi() : 0; }";
    let library = build(folder.path(), "weak", "gcc", source, &[]).unwrap();
    let told = doctor(&library, &["--no-run"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
}

#[test]
fn paths_and_flags_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int f(void) { return 0; }";
    let flags = [
        "-Wl,-rpath,/nowhere/at/all:relative:$ORIGIN",
        "-Wl,-soname,libother.so.1",
        "-Wl,-z,execstack",
    ];
    let Some(library) = build(folder.path(), "paths", "gcc", source, &flags) else {
        return skip("paths_and_flags_are_looked_at", "gcc is not there");
    };
    let told = doctor(&library, &["--no-run"]);
    assert_eq!(told.code, Some(0));
    for what in [
        "/nowhere/at/all",
        "current folder of the program (\"relative\")",
        "executable stack",
    ] {
        assert!(told.finding(what).is_some(), "{what}: {:#}", told.value);
    }
    assert!(told.finding("$ORIGIN").is_none());
    let gone = build(
        folder.path(),
        "gone",
        "gcc",
        source,
        &["-Wl,-soname,libgone.so"],
    )
    .unwrap();
    let needs = build(
        folder.path(),
        "needs",
        "gcc",
        "int f(void); int g(void) { return f(); }",
        &[gone.to_str().unwrap()],
    )
    .unwrap();
    std::fs::remove_file(&gone).unwrap();
    doctor(&needs, &["--no-run"]).proved_to_fail("requires libgone.so");
}

#[test]
fn a_lying_manifest_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let with = |name: &str, bytes: &str| {
        let source = format!(
            "__attribute__((section(\".xla_ffi_manifest\"), used, aligned(16)))\n\
             const unsigned char {name}__xla_ffi_manifest[] = {bytes};"
        );
        build(folder.path(), name, "gcc", &source, &[])
    };
    let Some(library) = with("lie", "\"XLAFFIMF\\1\\0\\0\\0\\377\\377\\377\\377{}\"") else {
        return skip("a_lying_manifest_is_told", "gcc is not there");
    };
    doctor(&library, &["--no-run"]).proved_to_fail("unreadable manifest");
    let library = with("noise", "\"this is not a manifest\"").unwrap();
    doctor(&library, &["--no-run"]).proved_to_fail("unreadable manifest");
    // This manifest names two symbols that the library does not export.
    let payload = r#"{"library":"l","sdk":"0.1.0","register":"absent","handlers":[{"name":"h","platforms":["cpu"],"stages":{"execute":"nowhere"},"args":[],"rets":[],"attrs":[],"floor":"r2"}]}"#;
    let bytes = format!(
        "\"XLAFFIMF\\1\\0\\0\\0\\{:03o}\\0\\0\\0\" {payload:?}",
        payload.len()
    );
    let library = with("absent", &bytes).unwrap();
    let told = doctor(&library, &[]);
    told.proved_to_fail("the symbol nowhere of its execute stage");
    let findings = told.value["findings"].as_array().unwrap();
    let absent = findings.iter().filter(|one| one["id"] == "XF102");
    let absent: Vec<_> = absent.map(|one| one["severity"].as_str()).collect();
    assert_eq!(absent, [Some("fails"), Some("risk")], "{findings:#?}");
    assert_eq!(told.value["handlers"][0]["floor"], "r2");
}

#[test]
fn what_is_no_library_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    for (path, what) in [
        (folder.path().join("nowhere.so"), "cannot read"),
        (folder.path().to_owned(), "not a regular file"),
        (file("empty.so", b""), "empty"),
        (
            file("text.so", b"#!/bin/sh\necho this is a script\n"),
            "not an ELF",
        ),
        (file("archive.a", b"!<arch>\n"), "static archive"),
        (
            file("head.so", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"),
            "",
        ),
    ] {
        let output = run(&path, &[]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(what) && !told.contains("panicked"), "{told}");
    }
    for (arguments, words) in [
        (["--jaxlib", "new"], "a jaxlib version"),
        (["--jaxlib", "0.4.20"], "nearest: 0.4.31"),
        (["--jaxlib", "0.9.1.dev20260101"], "nearest: 0.9.0.1, 0.9.1"),
        (["--jaxlib", "0.12.7"], "nearest: 0.12.0.1"),
        (["--jaxlib", "0.90.."], "nearest: 0.12.0.1"),
        (["--jaxlib", "0.9.2..0.9.1"], "nearest: 0.9.1, 0.9.2"),
        (["--time-limit", "0"], "1..=3600"),
    ] {
        let output = run(Path::new("x.so"), &arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}
