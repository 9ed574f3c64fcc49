//! `xla-ffi doctor` on libraries built here: what it finds, how sure it is, and its exit codes.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use xla_ffi_testing::{root, skip};

/// Builds a library of C, or of C++ where `compiler` is one; `None` where it is not there.
fn build(
    folder: &Path,
    name: &str,
    compiler: &str,
    source: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let is_cpp = compiler.ends_with("++");
    let file = folder.join(format!("{name}.{}", if is_cpp { "cc" } else { "c" }));
    std::fs::write(&file, source).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let output = Command::new(compiler)
        .args(["-shared", "-fPIC", "-w"])
        .arg(&file)
        .arg("-o")
        .arg(&library)
        .arg(format!("-I{}", root().join("include").display()))
        .args(flags)
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(library)
}

struct Told {
    code: Option<i32>,
    /// What is said of the one library.
    value: Value,
    whole: Value,
    stderr: String,
}

fn run(library: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("doctor")
        .arg(library)
        .args(arguments)
        .output()
        .unwrap()
}

fn doctor(library: &Path, arguments: &[&str]) -> Told {
    let output = run(library, &[arguments, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{stderr}");
    let whole: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    Told {
        code: output.status.code(),
        value: whole["libraries"][0].clone(),
        whole,
        stderr,
    }
}

impl Told {
    /// Level and weight of the finding that says `what`.
    fn finding(&self, what: &str) -> Option<(String, String)> {
        let findings = self.value["findings"].as_array().unwrap();
        let finding = findings
            .iter()
            .find(|finding| finding["what"].as_str().unwrap().contains(what))?;
        assert!(!finding["why"].as_str().unwrap().is_empty());
        Some((
            finding["level"].as_str().unwrap().to_owned(),
            finding["weight"].as_str().unwrap().to_owned(),
        ))
    }

    fn proved_to_fail(&self, what: &str) {
        let expected = ("proved".to_owned(), "fails".to_owned());
        assert_eq!(
            self.finding(what),
            Some(expected),
            "{what}: {:#}",
            self.value
        );
        assert_eq!(self.code, Some(1));
    }

    fn loads(&self, version: &str, handler: &str) -> &str {
        let verdict = self.value["jaxlibs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|v| v["jaxlib"] == version && v["handler"] == handler)
            .unwrap();
        verdict["loads"].as_str().unwrap()
    }

    fn risks(&self, version: &str, handler: &str) -> Vec<(String, String)> {
        let verdicts = self.value["jaxlibs"].as_array().unwrap();
        verdicts
            .iter()
            .filter(|v| v["jaxlib"] == version && v["handler"] == handler)
            .flat_map(|v| v["risks"].as_array().unwrap())
            .map(|risk| {
                (
                    risk["level"].as_str().unwrap().to_owned(),
                    risk["what"].as_str().unwrap().to_owned(),
                )
            })
            .collect()
    }
}

const FIXED: &str = r#"
#include "xla/ffi/api/c_api.h"
XLA_FFI_Error* fixed(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version = MINOR;
    extension->metadata->traits = 0;
  }
  return 0;
}
XLA_FFI_Error* negotiating(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version =
        frame->api ? frame->api->api_version.minor_version : 1;
    extension->metadata->traits = 0;
  }
  return 0;
}
"#;

#[test]
fn versions_decide_where_it_loads() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=3"];
    let Some(library) = build(folder.path(), "fixed", "gcc", FIXED, &flags) else {
        return skip("versions_decide_where_it_loads", "gcc is not there");
    };
    let arguments = ["--handler", "fixed", "--handler", "negotiating"];
    let told = doctor(&library, &arguments);
    let both = doctor(
        &library,
        &["--handler", "execute=negotiating,instantiate=fixed"],
    );
    let stages = &both.value["handlers"][0]["stages"];
    assert_eq!(stages["instantiate"], "fixed", "{stages}");
    assert_eq!(both.loads("0.12.0", "negotiating"), "yes");
    assert_eq!(both.loads("0.8.1", "negotiating"), "no");
    for (version, fixed) in [
        ("0.4.31", "yes"),
        ("0.4.33", "no"),
        ("0.8.0", "no"),
        ("0.8.1", "no"),
        ("0.9.1", "yes"),
        ("0.12.0", "yes"),
    ] {
        assert_eq!(told.loads(version, "fixed"), fixed, "{version}");
        assert_eq!(told.loads(version, "negotiating"), "yes", "{version}");
    }
    assert_eq!(told.value["jaxlibs"].as_array().unwrap().len(), 24);
    assert!(told.risks("0.12.0", "negotiating").is_empty());
    assert_eq!(told.code, Some(1));
    assert!(told.finding("answers 0.3 whatever").is_some());
    // On one jaxlib that takes it the answer is yes, on one that does not it is no.
    let one = |version| doctor(&library, &["--handler", "fixed", "--jaxlib", version]);
    assert_eq!(one("0.10.2").code, Some(0));
    assert_eq!(one("0.8.1").code, Some(1));
    assert_eq!(one("0.12.7").value["jaxlibs"][0]["level"], "possible");
    // Nothing was run: the answer is open.
    let still = doctor(&library, &["--handler", "fixed", "--no-run"]);
    assert_eq!(still.loads("0.12.0", "fixed"), "unknown");
    assert_eq!(still.code, Some(0));
}

#[test]
fn an_answer_past_the_metadata_is_a_proved_risk() {
    // As the headers of jaxlib 0.8.0 do: version 0.1, and the state's type whoever asks.
    let source = FIXED.replace(
        "extension->metadata->traits = 0;",
        "extension->metadata->traits = 0; extension->metadata->state_type_id.type_id = 0;",
    );
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "past", "gcc", &source, &["-DMINOR=1"]) else {
        return skip(
            "an_answer_past_the_metadata_is_a_proved_risk",
            "gcc is not there",
        );
    };
    let told = doctor(&library, &["--handler", "fixed"]);
    // It registers there; whether it survives depends on what the write hits: all that were measured do
    // (tests/jax/verdicts.txt), so that it is no proved failure.
    assert_eq!(told.loads("0.5.1", "fixed"), "unknown");
    assert!(told.risks("0.5.1", "fixed").contains(&(
        "proved".to_owned(),
        "it overwrites the runtime's memory when it is asked for its metadata".to_owned()
    )));
    assert_eq!(told.loads("0.8.0", "fixed"), "yes");
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let strict = doctor(&library, &["--handler", "fixed", "--fail-on", "risk"]);
    assert_eq!(strict.code, Some(1));
    assert!(strict.stderr.contains("XF207"), "{}", strict.stderr);
}

#[test]
fn an_old_version_threatens_state() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=1"];
    let Some(library) = build(folder.path(), "old", "gcc", FIXED, &flags) else {
        return skip("an_old_version_threatens_state", "gcc is not there");
    };
    let told = doctor(&library, &["--handler", "fixed"]);
    let about = |version: &str| -> Vec<String> {
        let risks = told.risks(version, "fixed").into_iter();
        risks
            .filter(|(_, what)| what.contains("State_Set"))
            .map(|(level, _)| level)
            .collect()
    };
    assert_eq!(about("0.8.0"), Vec::<String>::new());
    // 0.2 reads the arguments of 0.1, whose additional field comes last.
    assert_eq!(about("0.8.1"), Vec::<String>::new());
    assert_eq!(about("0.9.1"), ["possible"]);
    assert_eq!(about("0.12.0"), ["possible"]);
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
    for (symbol, what) in [
        ("crash", "SIGSEGV"),
        ("hang", "did not answer"),
        ("quit", "status 0"),
        ("silent", "not answered"),
    ] {
        let arguments = ["--handler", symbol, "--timeout", "1", "--jaxlib", "0.12.0"];
        let told = doctor(&library, &arguments);
        assert_eq!(told.code, Some(1), "{symbol}");
        assert_eq!(told.loads("0.12.0", symbol), "no", "{symbol}");
        assert!(told.stderr.contains(what), "{symbol}: {}", told.stderr);
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    // One that is not there is told once, and the others are judged.
    for nowhere in ["nowhere", "execute=silent,instantiate=nowhere"] {
        let told = doctor(&library, &["--handler", nowhere, "--handler", "silent"]);
        told.proved_to_fail("exports no symbol 'nowhere'");
        let times = told.stderr.matches("exports no symbol").count();
        assert_eq!(times, 1, "{}", told.stderr);
        assert_eq!(told.loads("0.12.0", "silent"), "no");
    }
    let source = "__attribute__((constructor)) static void start(void) { *(volatile int*)0 = 1; }";
    let library = build(folder.path(), "start", "gcc", source, &[]).unwrap();
    doctor(&library, &[]).proved_to_fail("does not load here");
    let source = "#include <unistd.h>\n\
        __attribute__((constructor)) static void start(void) { for (;;) sleep(1); }";
    let library = build(folder.path(), "stuck", "gcc", source, &[]).unwrap();
    doctor(&library, &["--timeout", "1"]).proved_to_fail("does not load here");
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
            "absl's C++",
        ),
        (
            "xla",
            "void _ZN3xla5Shape5ClearEv(void); void f(void) { _ZN3xla5Shape5ClearEv(); }",
            "XLA's C++",
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
    assert_eq!(told.finding("Python process alone"), Some(expected));
    let source = "extern void* XLA_FFI_GetApi(void) __attribute__((weak)); \
        void* f(void) { return XLA_FFI_GetApi ? XLA_FFI_GetApi() : 0; }";
    let library = build(folder.path(), "weak", "gcc", source, &[]).unwrap();
    let told = doctor(&library, &["--no-run"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(told.finding("where there is one").is_some());
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
        "folder in which the program happens to run (\"relative\")",
        "SONAME is libother.so.1",
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
    doctor(&needs, &["--no-run"]).proved_to_fail("libgone.so is not found");
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
    doctor(&library, &["--no-run"]).proved_to_fail("manifest cannot be read");
    let library = with("noise", "\"this is no manifest\"").unwrap();
    doctor(&library, &["--no-run"]).proved_to_fail("manifest cannot be read");
    // A manifest that names a symbol which is not there.
    let payload = r#"{"library":"l","sdk":"0.1.0","handlers":[{"name":"h","platforms":["cpu"],"stages":{"execute":"nowhere"},"args":[],"rets":[],"attrs":[],"floor":"r2"}]}"#;
    let bytes = format!(
        "\"XLAFFIMF\\1\\0\\0\\0\\{:03o}\\0\\0\\0\" {payload:?}",
        payload.len()
    );
    let library = with("absent", &bytes).unwrap();
    let told = doctor(&library, &[]);
    told.proved_to_fail("names the symbol nowhere");
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
            "no object file",
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
    for arguments in [&["--jaxlib", "new"][..], &["--timeout", "0"]] {
        let output = run(Path::new("x.so"), arguments);
        assert_eq!(output.status.code(), Some(2));
    }
    let output = run(Path::new("x.so"), &["--jaxlib", "0.4.20"]);
    assert_eq!(output.status.code(), Some(1));
}

const UPSTREAM: &str = r#"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
struct S { int x; static ffi::TypeId id; };
ffi::TypeId S::id = {};
static ffi::Error Run(S* s, ffi::ResultBuffer<ffi::F32> y) { return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    run, Run, ffi::Ffi::Bind().Ctx<ffi::State<S>>().Ret<ffi::Buffer<ffi::F32>>());
"#;

#[test]
fn state_of_upstreams_headers_is_proved() {
    let Some(headers) = std::env::var_os("XLA_FFI_JAXLIB_HEADERS").map(PathBuf::from) else {
        return skip(
            "state_of_upstreams_headers_is_proved",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    // What is searched first is upstream's folder; ours is only the last.
    let include = format!("-isystem{}", headers.join("0.5.1").display());
    let source = folder.path().join("up.cc");
    std::fs::write(&source, UPSTREAM).unwrap();
    for (name, flags) in [("plain", &["-g"][..]), ("stripped", &["-O2", "-s"])] {
        let library = folder.path().join(format!("lib{name}.so"));
        let Ok(output) = Command::new("g++")
            .args(["-std=c++17", "-shared", "-fPIC", "-w", &include])
            .args(flags)
            .arg(&source)
            .arg("-o")
            .arg(&library)
            .output()
        else {
            return skip("state_of_upstreams_headers_is_proved", "g++ is not there");
        };
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let told = doctor(&library, &["--handler", "run"]);
        assert_eq!(told.loads("0.12.0", "run"), "yes");
        let risks = told.risks("0.12.0", "run");
        assert!(
            risks.contains(&(
                "proved".to_owned(),
                "the runtime misreads its State_Set and State_Get: an error at best, a crash at worst".to_owned()
            )),
            "{risks:?}"
        );
        let own: Vec<_> = told.risks("0.6.2", "run");
        assert_eq!(own.len(), 1, "{own:?}");
        assert!(own[0].1.contains("registered before it"), "{own:?}");
        assert_eq!(told.code, Some(1));
        if name == "plain" {
            assert_eq!(told.value["compiled_with"], serde_json::json!(["r4"]));
        }
    }
}

#[test]
fn nothing_is_green_that_was_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "gate", "gcc", FIXED, &["-DMINOR=1"]) else {
        return skip("nothing_is_green_that_was_not_judged", "gcc is not there");
    };
    let newest = ["--jaxlib", "0.12.0"];
    let handler = ["--handler", "negotiating"];
    let cases: [(&[&str], &str); 3] = [
        (&[], "XF002"),
        (&["--handler", "negotiating", "--no-run"], "XF001"),
        // A release that nobody has seen yet is not proved to load it.
        (&["--handler", "negotiating", "--jaxlib", "0.99.0"], "XF003"),
    ];
    for (arguments, id) in cases {
        let told = doctor(&library, &[arguments, &newest].concat());
        assert_eq!(told.code, Some(0), "{id}: {}", told.stderr);
        assert!(
            told.stderr.contains(" not judged, which --strict"),
            "{}",
            told.stderr
        );
        assert!(told.stderr.contains(id), "{}", told.stderr);
        let told = doctor(&library, &[arguments, &newest, &["--strict"]].concat());
        assert_eq!(told.code, Some(1), "{id}");
        assert_eq!(told.whole["exit"]["kind"], "not-judged", "{id}");
        assert!(told.stderr.contains(id), "{}", told.stderr);
        // Nor does a list excuse it: one that names it is refused, and a baseline does not take it.
        let list = folder.path().join("list").display().to_string();
        let with = |more: &[&str]| doctor(&library, &[arguments, &newest, more].concat());
        let told = with(&["--strict", "--write-baseline", &list]);
        assert_eq!(told.code, Some(1), "{id}: {}", told.stderr);
        let baseline = std::fs::read_to_string(&list).unwrap();
        assert!(!baseline.contains(id), "{baseline}");
        std::fs::write(&list, format!("# ours\n{id} */*: nobody knows\n")).unwrap();
        for option in ["--allow", "--baseline"] {
            let output = run(&library, &[arguments, &newest, &[option, &list]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let told = format!("line 2: {id} says that something was not judged");
            assert!(
                output.status.code() == Some(1) && said.contains(&told),
                "{said}"
            );
        }
    }
    let told = doctor(&library, &[&handler[..], &newest, &["--strict"]].concat());
    assert_eq!(
        (told.code, &told.whole["exit"]["kind"]),
        (Some(0), &"ok".into()),
        "{}",
        told.stderr
    );
    let told = doctor(&library, &["--handler", "nowhere", "--strict"]);
    assert_eq!(
        (told.code, &told.whole["exit"]["kind"]),
        (Some(1), &"findings".into())
    );
}

#[test]
fn ranges_are_judged_release_by_release() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "ranges", "gcc", FIXED, &["-DMINOR=3"]) else {
        return skip("ranges_are_judged_release_by_release", "gcc is not there");
    };
    let told = |ranges: &[&str]| {
        let mut arguments = vec!["--handler", "fixed", "--strict"];
        for range in ranges {
            arguments.extend(["--jaxlib", range]);
        }
        doctor(&library, &arguments)
    };
    let jaxlibs = |told: &Told| told.value["jaxlibs"].as_array().unwrap().len();
    let good = told(&["0.9.1.."]);
    assert_eq!(
        (good.code, jaxlibs(&good)),
        (Some(0), 10),
        "{}",
        good.stderr
    );
    let bad = told(&["..0.9.2"]);
    assert_eq!((bad.code, jaxlibs(&bad)), (Some(1), 24), "{}", bad.stderr);
    let both = told(&["0.9.1..0.9.2", "0.12.0"]);
    assert_eq!((both.code, jaxlibs(&both)), (Some(0), 3), "{}", both.stderr);
    assert_eq!(told(&["0.90.."]).code, Some(1));
}

#[test]
fn what_is_known_stays_quiet_and_what_is_new_fails() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=3", "-Wl,-rpath,/nowhere/at/all"];
    let Some(library) = build(folder.path(), "known", "gcc", FIXED, &flags) else {
        return skip(
            "what_is_known_stays_quiet_and_what_is_new_fails",
            "gcc is not there",
        );
    };
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let base = [
        "--handler",
        "fixed",
        "--jaxlib",
        "0.12.0",
        "--fail-on",
        "risk",
    ];
    let told = |more: &[&str]| doctor(&library, &[&base, more].concat());
    let plain = told(&[]);
    assert_eq!(plain.code, Some(1));
    assert!(
        plain.stderr.contains("XF109") && plain.stderr.contains("XF201"),
        "{}",
        plain.stderr
    );
    let allow = file(
        "allow",
        "# ours\nXF109 libknown.so/library: the folder is there where it runs\nXF201 */fixed: upstream's\nXF104 a.so/x: gone\n",
    );
    let quiet = told(&["--allow", &allow]);
    assert_eq!(quiet.code, Some(0), "{}", quiet.stderr);
    assert!(
        quiet
            .stderr
            .contains("XF109 libknown.so/library: the folder is there"),
        "{}",
        quiet.stderr
    );
    assert!(
        quiet
            .stderr
            .contains("nothing needs this line any more: XF104 a.so/x"),
        "{}",
        quiet.stderr
    );
    // Without a reason nothing is allowed.
    let bare = file("bare", "XF109 libknown.so/library\n");
    let refused = run(&library, &[&base[..], &["--allow", &bare]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("REASON"));
    let baseline = folder.path().join("baseline").display().to_string();
    assert_eq!(told(&["--write-baseline", &baseline]).code, Some(0));
    assert_eq!(told(&["--baseline", &baseline]).code, Some(0));
    let worse = doctor(
        &library,
        &[
            "--handler",
            "fixed",
            "--jaxlib",
            "0.8.1",
            "--fail-on",
            "risk",
            "--baseline",
            &baseline,
        ],
    );
    assert_eq!(worse.code, Some(1));
    assert!(
        worse.stderr.contains("XF202") && !worse.stderr.contains("XF109 libknown.so, "),
        "{}",
        worse.stderr
    );
}

#[test]
fn several_libraries_have_handlers_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(one) = build(folder.path(), "one", "gcc", FIXED, &["-DMINOR=3"]) else {
        return skip(
            "several_libraries_have_handlers_of_their_own",
            "gcc is not there",
        );
    };
    let other = FIXED.replace("negotiating(", "mine(");
    let two = build(folder.path(), "two", "gcc", &other, &["-DMINOR=1"]).unwrap();
    let two = two.to_str().unwrap();
    let told = doctor(
        &one,
        &[
            two,
            "--handler",
            "negotiating",
            "--handler",
            "libtwo.so:mine",
            "--strict",
            "--jaxlib",
            "0.8.1",
        ],
    );
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let libraries = told.whole["libraries"].as_array().unwrap();
    assert_eq!(libraries.len(), 2);
    assert_eq!(libraries[0]["handlers"][0]["name"], "negotiating");
    assert_eq!(libraries[1]["handlers"][0]["name"], "mine");
    let nobody = run(&one, &[two, "--handler", "libthree.so:x"]);
    assert_eq!(nobody.status.code(), Some(1));
}

#[test]
fn what_breaks_elsewhere_is_no_matter_here() {
    // The headers of 0.8.0 write behind the metadata of r1 to r5.
    let source = FIXED.replace(
        "extension->metadata->traits = 0;",
        "extension->metadata->traits = 0; extension->metadata->state_type_id.type_id = 0;",
    );
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "elsewhere", "gcc", &source, &["-DMINOR=1"]) else {
        return skip(
            "what_breaks_elsewhere_is_no_matter_here",
            "gcc is not there",
        );
    };
    let output = run(&library, &["--handler", "fixed", "--jaxlib", "0.12.0"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0));
    assert!(!text.contains("proved fails"), "{text}");
    // Words about a handler do not eat the names of symbols.
    let output = run(&library, &["--handler", "nowhere"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("exports no symbol 'nowhere'"), "{told}");
    assert!(!told.contains("symbol the handler"), "{told}");
}

#[test]
fn state_is_found_without_symbols() {
    // C, stripped: nothing tells of the state but running instantiate, as `run --revision r10` does.
    let source = r#"
#include "xla/ffi/api/c_api.h"
#include <stddef.h>
struct old { size_t size; void* extension; void* ctx; XLA_FFI_TypeId* id; void* state; void (*deleter)(void*); };
static XLA_FFI_TypeId id = {7};
static void drop(void* state) { (void)state; }
static int answered(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (!extension || extension->extension_base.type != XLA_FFI_Extension_Metadata) return 0;
  extension->metadata->api_version.major_version = 0;
  extension->metadata->api_version.minor_version = 1;
  extension->metadata->traits = 0;
  return 1;
}
XLA_FFI_Error* work(XLA_FFI_CallFrame* frame) { answered(frame); return 0; }
XLA_FFI_Error* make(XLA_FFI_CallFrame* frame) {
  static int state;
  if (answered(frame)) return 0;
  struct old args = {sizeof args, 0, frame->ctx, &id, &state, drop};
  return frame->api->XLA_FFI_State_Set((XLA_FFI_State_Set_Args*)&args);
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = build(folder.path(), "state", "gcc", source, &["-s", "-O2"]) else {
        return skip("state_is_found_without_symbols", "gcc is not there");
    };
    let on = |version| {
        let handler = [
            "--handler",
            "execute=work,instantiate=make",
            "--jaxlib",
            version,
        ];
        doctor(&library, &handler)
    };
    for version in ["0.9.1", "0.11.2", "0.12.0"] {
        let told = on(version);
        assert_eq!(told.code, Some(1), "{version}");
        assert!(told.stderr.contains("XF204"), "{}", told.stderr);
    }
    for version in ["0.6.2", "0.8.2"] {
        let told = on(version);
        assert_eq!(told.code, Some(0), "{version}: {}", told.stderr);
        let risks = told.risks(version, "work");
        assert!(
            risks.iter().all(|(_, what)| !what.contains("State_Set")),
            "{risks:?}"
        );
    }
}

#[test]
fn ci_reads_findings_in_its_own_forms() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-DMINOR=3", "-Wl,-rpath,/nowhere/at/all"];
    let Some(library) = build(folder.path(), "forms", "gcc", FIXED, &flags) else {
        return skip("ci_reads_findings_in_its_own_forms", "gcc is not there");
    };
    let arguments = ["--handler", "fixed", "--jaxlib", "0.8.1"];
    let output = run(&library, &[&arguments[..], &["--format", "sarif"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run_of = &sarif["runs"][0];
    let rules = run_of["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run_of["results"].as_array().unwrap();
    for result in results {
        let id = &result["ruleId"];
        assert!(rules.iter().any(|rule| rule["id"] == *id), "{id}");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert!(place.as_str().unwrap().ends_with("libforms.so"));
    }
    let level = |id: &str| {
        &results
            .iter()
            .find(|result| result["ruleId"] == id)
            .unwrap()["level"]
    };
    assert_eq!(level("XF202"), "error");
    assert_eq!(level("XF109"), "warning");
    let output = run(
        &library,
        &[&arguments[..], &["--format", "github"]].concat(),
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().all(|line| line.starts_with("::")), "{text}");
    assert!(
        text.contains("::error file=") && text.contains("title=XF202::"),
        "{text}"
    );
    // What cannot be read is told to programs too.
    let output = run(&folder.path().join("nowhere.so"), &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(value["exit"]["kind"], "bad-input");
    assert!(
        value["error"].as_str().unwrap().contains("cannot read"),
        "{value}"
    );
}
