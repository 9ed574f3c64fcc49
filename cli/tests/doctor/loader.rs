//! Tests requirements on the loader: versions of glibc, processors, private symbols, and files without section headers.

use crate::{FIXED, Report, build, doctor};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use xla_ffi_testing::skip;
use xla_ffi_testing::wheel::Wheel;

const TAG: &str = "manylinux_2_34_x86_64";

/// Returns the severity of the finding with the number `id`; `None` if there is none. The finding must contain all of
/// `words`.
fn severity<'v>(findings: &'v Value, id: &str, words: &[&str]) -> Option<&'v str> {
    let mut all = findings.as_array().unwrap().iter();
    let one = all.find(|one| one["id"] == id)?;
    let text = one.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    one["severity"].as_str()
}

/// Returns the findings about a library that is not in a wheel.
fn alone(library: &Path) -> Value {
    doctor(library, &["--no-run"]).value["findings"].clone()
}

/// Packs the library in a wheel with the platform tag `tag`. Returns the report, and the findings about the wheel.
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
    let words = ["glibc 2.36", "GLIBC_ABI_DT_RELR"];
    assert_eq!(severity(&alone(&library), "XF107", &words), Some("risk"));
    let (told, findings) = in_wheel(&library, TAG);
    let words = ["manylinux_2_36", "nopack-relative-relocs"];
    let failure = severity(&findings, "XF401", &words);
    assert_eq!((failure, told.code), (Some("fails"), Some(1)));
    let (told, findings) = in_wheel(&library, "manylinux_2_36_x86_64");
    assert_eq!(
        (severity(&findings, "XF401", &[]), told.code),
        (None, Some(0))
    );
    // The loader ignores a missing version that only weak references require. In the file, the flag VER_FLG_WEAK
    // follows the hash of the version's name.
    let mut bytes = std::fs::read(&library).unwrap();
    let hash = "GLIBC_ABI_DT_RELR".bytes().fold(0_u32, |hash, letter| {
        let hash = (hash << 4) + u32::from(letter);
        (hash ^ ((hash & 0xf000_0000) >> 24)) & 0x0fff_ffff
    });
    let mut words = bytes.windows(4);
    let entry = words.position(|word| word == hash.to_le_bytes()).unwrap();
    bytes[entry + 4] = 2;
    std::fs::write(&library, bytes).unwrap();
    assert_eq!(severity(&alone(&library), "XF107", &[]), Some("note"));
}

#[test]
fn the_required_processor_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, flags: &[&str]| {
        let flags = [&["-DMINOR=1"], flags].concat();
        build(folder.path(), name, "gcc", FIXED, &flags)
    };
    let Some(newer) = build("newer", &["-Wl,-z,x86-64-v3"]) else {
        return skip("the_required_processor_is_a_finding", "gcc is not there");
    };
    let used = build("used", &["-march=x86-64-v3", "-Wa,-mx86-used-note=yes"]).unwrap();
    let level = ["x86-64-v3"];
    for (library, risk, failure) in [(&newer, Some("risk"), Some("fails")), (&used, None, None)] {
        assert_eq!(severity(&alone(library), "XF120", &level), risk);
        let (told, findings) = in_wheel(library, TAG);
        assert_eq!(severity(&findings, "XF401", &level), failure);
        assert_eq!(told.code, Some(i32::from(failure.is_some())));
        assert_eq!(severity(&told.value["findings"], "XF120", &[]), None);
    }
}

#[test]
fn private_symbols_of_glibc_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__asm__(\".symver ro, _rtld_global_ro@GLIBC_PRIVATE\");
        extern char ro[]; void* probe(void* frame) { return ro; }";
    let Some(library) = build(folder.path(), "private", "gcc", source, &[]) else {
        return skip("private_symbols_of_glibc_are_named", "gcc is not there");
    };
    let name = ["_rtld_global_ro"];
    assert_eq!(severity(&alone(&library), "XF121", &name), Some("risk"));
    for (tag, fails) in [(TAG, true), ("linux_x86_64", false)] {
        let (told, findings) = in_wheel(&library, tag);
        let is_failure = severity(&findings, "XF401", &name) == Some("fails");
        assert_eq!(
            (is_failure, told.code),
            (fails, Some(fails.into())),
            "{tag}"
        );
        let is_risk = severity(&told.value["findings"], "XF121", &name).is_some();
        assert_eq!(is_risk, !fails, "{tag}");
    }
}

/// Removes the section headers of a library, like `strip --strip-section-headers`. Older versions of binutils lack this
/// option.
fn without_section_headers(library: &Path) {
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
        for key in "needs glibc libstdcxx manifests handlers jaxlibs".split(' ') {
            assert_eq!(told.value[key], whole.value[key], "{hashes}: {key}");
        }
        let run = |command: &str, arguments: &[&str]| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_xla-ffi"));
            let output = program.arg(command).arg(&library).args(arguments).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(run("inspect", &[]).contains("by: f32"));
        let call = "--arg=f32[2]=1,2;--ret=f32[2];--attrs={by = 3.0 : f32}";
        let call: Vec<&str> = call.split(';').collect();
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
        let arguments = [wheel.to_str().unwrap(), "--handler", "fixed"];
        let told = doctor(Path::new("--wheel"), &arguments);
        let jaxlibs = told.value["jaxlibs"].as_array().unwrap();
        assert_eq!(
            (jaxlibs.len(), &jaxlibs[0]["jaxlib"]),
            (1, &expected.into())
        );
    }
}
