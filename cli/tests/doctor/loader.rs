//! What loaders look at: versions of glibc, processors, private symbols, and files without section headers.

use crate::{FIXED, Report, build, doctor};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xla_ffi_testing::skip;
use xla_ffi_testing::wheel::Wheel;

/// Returns the severity of the finding with this number, and all its text.
fn found(findings: &Value, id: &str) -> Option<(String, String)> {
    let mut all = findings.as_array().unwrap().iter();
    let one = all.find(|one| one["id"] == id)?;
    Some((one["severity"].as_str()?.to_owned(), one.to_string()))
}

/// Examines a library in a wheel with this tag.
fn in_wheel(library: &Path, tag: &str) -> (Report, Value) {
    let folder = tempfile::tempdir().unwrap();
    let wheel = Wheel::named(&format!("mine-1.0-py3-none-{tag}"))
        .member("mine/libmine.so", &std::fs::read(library).unwrap())
        .pack(folder.path());
    let told = doctor(Path::new("--wheel"), &[wheel.to_str().unwrap(), "--no-run"]);
    let findings = told.whole["wheels"][0]["findings"].clone();
    (told, findings)
}

#[test]
fn versions_without_a_symbol_raise_the_floor() {
    let test = "versions_without_a_symbol_raise_the_floor";
    let folder = tempfile::tempdir().unwrap();
    let relocated =
        format!("{FIXED}\nchar* getenv(const char*);\nvoid* held[] = {{fixed, &held, getenv}};");
    let flags = ["-DMINOR=1", "-Wl,-z,pack-relative-relocs"];
    let Some(library) = build(folder.path(), "relr", "gcc", &relocated, &flags) else {
        return skip(test, "gcc is not there");
    };
    let told = doctor(&library, &["--no-run"]);
    assert_eq!(told.value["glibc"], serde_json::json!([2, 36]));
    let (severity, text) = found(&told.value["findings"], "XF107").unwrap();
    assert!(
        severity == "risk" && text.contains("GLIBC_ABI_DT_RELR"),
        "{text}"
    );
    let (told, findings) = in_wheel(&library, "manylinux_2_34_x86_64");
    let (severity, text) = found(&findings, "XF401").unwrap();
    assert_eq!((severity.as_str(), told.code), ("fails", Some(1)));
    assert!(
        text.contains("manylinux_2_36") && text.contains("nopack-relative-relocs"),
        "{text}"
    );
    let (told, findings) = in_wheel(&library, "manylinux_2_36_x86_64");
    assert_eq!((found(&findings, "XF401"), told.code), (None, Some(0)));
    // A weak reference refuses nothing: vna_flags, which follow the hash of the name, are VER_FLG_WEAK.
    let mut bytes = std::fs::read(&library).unwrap();
    let hash = "GLIBC_ABI_DT_RELR".bytes().fold(0_u32, |hash, letter| {
        let hash = (hash << 4) + u32::from(letter);
        (hash ^ ((hash & 0xf000_0000) >> 24)) & 0x0fff_ffff
    });
    let entry = bytes
        .windows(4)
        .position(|word| word == hash.to_le_bytes())
        .unwrap();
    bytes[entry + 4] = 2;
    std::fs::write(&library, bytes).unwrap();
    let told = doctor(&library, &["--no-run"]);
    assert_ne!(told.value["glibc"], serde_json::json!([2, 36]));
    assert_eq!(
        found(&told.value["findings"], "XF107").map(|one| one.0),
        Some("note".to_owned())
    );
}

#[test]
fn the_required_processor_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, flags: &[&str]| {
        build(
            folder.path(),
            name,
            "gcc",
            FIXED,
            &[&["-DMINOR=1"], flags].concat(),
        )
    };
    let Some(newer) = build("newer", &["-Wl,-z,x86-64-v3"]) else {
        return skip("the_required_processor_is_a_finding", "gcc is not there");
    };
    let told = doctor(&newer, &["--no-run"]);
    let (severity, text) = found(&told.value["findings"], "XF120").unwrap();
    assert!(severity == "risk" && text.contains("x86-64-v3"), "{text}");
    let (told, findings) = in_wheel(&newer, "manylinux_2_34_x86_64");
    let (severity, text) = found(&findings, "XF401").unwrap();
    assert_eq!((severity.as_str(), told.code), ("fails", Some(1)));
    assert!(text.contains("x86-64-v3"), "{text}");
    assert_eq!(found(&told.value["findings"], "XF120"), None);
    let flags = ["-march=x86-64-v3", "-Wa,-mx86-used-note=yes"];
    let used = build("used", &flags).unwrap();
    let told = doctor(&used, &["--no-run"]);
    assert_eq!(found(&told.value["findings"], "XF120"), None);
    let (told, findings) = in_wheel(&used, "manylinux_2_34_x86_64");
    assert_eq!((found(&findings, "XF401"), told.code), (None, Some(0)));
}

#[test]
fn private_symbols_of_glibc_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__asm__(\".symver ro, _rtld_global_ro@GLIBC_PRIVATE\");
        extern char ro[]; void* probe(void* frame) { return ro; }";
    let Some(library) = build(folder.path(), "private", "gcc", source, &[]) else {
        return skip("private_symbols_of_glibc_are_named", "gcc is not there");
    };
    let told = doctor(&library, &["--no-run"]);
    let (severity, text) = found(&told.value["findings"], "XF121").unwrap();
    assert!(
        severity == "risk" && text.contains("_rtld_global_ro"),
        "{text}"
    );
    for (tag, fails) in [("manylinux_2_34_x86_64", true), ("linux_x86_64", false)] {
        let (told, findings) = in_wheel(&library, tag);
        let failure = found(&findings, "XF401");
        assert_eq!(
            (failure.is_some(), told.code),
            (fails, Some(i32::from(fails))),
            "{tag}"
        );
        assert!(failure.is_none_or(|(_, text)| text.contains("_rtld_global_ro")));
        assert_eq!(
            found(&told.value["findings"], "XF121").is_none(),
            fails,
            "{tag}"
        );
    }
}

/// As `strip --strip-section-headers`, which older versions of binutils lack.
pub(crate) fn without_section_headers(library: &Path) {
    let mut bytes = std::fs::read(library).unwrap();
    bytes[40..48].fill(0);
    bytes[58..64].copy_from_slice(&[64, 0, 0, 0, 0, 0]);
    std::fs::write(library, bytes).unwrap();
}

#[test]
fn section_headers_are_not_needed() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Scale(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
    ffi::Ffi::Bind().Attr<float>("by").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_LIBRARY(scaling, XLA_FFI_HANDLER(scale));
"#;
    for hashes in ["gnu", "sysv"] {
        let flags = ["-std=c++17", &format!("-Wl,--hash-style={hashes}")];
        let Some(library) = build(folder.path(), hashes, "g++", source, &flags) else {
            return skip("section_headers_are_not_needed", "g++ is not there");
        };
        let whole = doctor(&library, &[]);
        without_section_headers(&library);
        let told = doctor(&library, &[]);
        assert_eq!((told.code, told.loads("0.12.0", "scale")), (Some(0), "yes"));
        for key in [
            "needs",
            "glibc",
            "libstdcxx",
            "manifests",
            "handlers",
            "jaxlibs",
        ] {
            assert_eq!(told.value[key], whole.value[key], "{hashes}: {key}");
        }
        let run = |command: &str, arguments: &[&str]| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
            let output = program
                .arg(command)
                .arg(&library)
                .args(arguments)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(run("inspect", &[]).contains("by: f32"));
        let call = [
            "--arg",
            "f32[2]=1,2",
            "--ret",
            "f32[2]",
            "--attrs",
            "{by = 3.0 : f32}",
        ];
        assert!(run("run", &call).contains("[3, 6]"));
    }
}

#[test]
fn the_header_in_a_nightly_jaxlib_decides() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "fixed", "gcc", FIXED, &["-DMINOR=2"]) else {
        return skip("the_header_in_a_nightly_jaxlib_decides", "gcc is not there");
    };
    let fields = "_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Stream_Get);\n".repeat(20);
    let header = format!("#define XLA_FFI_API_MINOR 2\n{fields}");
    for (version, expected) in [("0.9.1.dev20260101", "0.8.1"), ("0.9.1", "0.9.1")] {
        let wheel = Wheel::named(&format!("jaxlib-{version}-py3-none-manylinux_2_27_x86_64"))
            .member("jaxlib/libjax.so", &std::fs::read(&library).unwrap())
            .member("jaxlib/include/xla/ffi/api/c_api.h", header.as_bytes())
            .pack(folder.path());
        let told = doctor(
            Path::new("--wheel"),
            &[wheel.to_str().unwrap(), "--handler", "fixed"],
        );
        assert_eq!(
            told.value["jaxlibs"][0]["jaxlib"], expected,
            "{:#}",
            told.whole
        );
        assert_eq!(told.value["jaxlibs"].as_array().unwrap().len(), 1);
    }
}
