//! Tests `xla-ffi diff` with pairs of libraries: all kinds of differences, builds that do not load, version numbers and
//! exit statuses.

mod edits;

use edits::{edit, edits, manifest};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::skip;

const HANDLERS: &str = r#"
#include "xla/ffi/api/c_api.h"
XLA_FFI_Error* one(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* extension = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    extension->metadata->api_version.major_version = 0;
    extension->metadata->api_version.minor_version = MINOR;
    extension->metadata->traits = 0;
  }
  return 0;
}
XLA_FFI_Error* make(XLA_FFI_CallFrame* frame) { return one(frame); }
"#;

/// Builds a library with the test's handlers, and with a manifest if `manifest` is given. Returns `None` without a
/// compiler.
fn library(folder: &Path, name: &str, manifest: Option<&Value>, flags: &[&str]) -> Option<PathBuf> {
    with_manifest(folder, name, HANDLERS, manifest, flags)
}

fn with_manifest(
    folder: &Path,
    name: &str,
    source: &str,
    manifest: Option<&Value>,
    flags: &[&str],
) -> Option<PathBuf> {
    let mut source = source.to_owned();
    if let Some(manifest) = manifest {
        let payload = manifest.to_string();
        let mut bytes = b"XLAFFIMF\x02\0\0\0".to_vec();
        bytes.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        bytes.extend(payload.bytes());
        source.push_str(&format!(
            "__attribute__((section(\".xla_ffi_manifest\"), used, aligned(16)))\n\
             const unsigned char lib__xla_ffi_manifest[] = {{{}}};\n",
            bytes
                .iter()
                .map(|byte| byte.to_string())
                .collect::<Vec<_>>()
                .join(",")
        ));
    }
    let flags = match flags {
        [] => &["-DMINOR=5"],
        flags => flags,
    };
    library_of_text(folder, name, "gcc", &source, flags)
}

fn diff(old: &Path, new: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("diff")
        .args([old, new])
        .args(arguments)
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    output
}

fn told(old: &Path, new: &Path, arguments: &[&str]) -> Value {
    let output = diff(old, new, &[arguments, &["--format=json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn every_edit_of_a_manifest_asks_for_its_step() {
    let name = "every_edit_of_a_manifest_asks_for_its_step";
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = library(folder.path(), "old", Some(&manifest()), &[]) else {
        return skip(name, "gcc is not there");
    };
    assert_eq!(told(&old, &old, &["--no-run"])["differences"], json!([]));
    for (number, (at, with, step, what)) in edits().enumerate() {
        let mut edited = manifest();
        edit(&mut edited, at, &with);
        let new = library(folder.path(), &format!("new{number}"), Some(&edited), &[]).unwrap();
        let told = told(&old, &new, &["--no-run"]);
        let found = told["differences"].as_array();
        let found = found.unwrap_or_else(|| panic!("{at} {with}: {told:#}"));
        let has = |difference: &Value| difference["step"] == step && difference["what"] == what;
        if step.is_empty() {
            assert!(
                found.is_empty() && told["step"].is_null(),
                "{at} {with}: {told:#}"
            );
            continue;
        }
        assert!(
            found.iter().any(has),
            "{at} {with}: {step} {what}: {told:#}"
        );
        assert_eq!(told["step"], step, "{at} {with}: {told:#}");
        // The contract is the same, but an attribute has the name of a size in one build only.
        if (at, what) == ("/handlers/0/attrs/-", "shape contract") {
            let name = format!("`{}`", with["name"].as_str().unwrap());
            let mut whys = found.iter().map(|difference| &difference["why"]);
            assert!(
                whys.any(|why| why.as_str().unwrap().contains(&name)),
                "{told:#}"
            );
        }
    }
}

#[test]
fn the_version_number_and_the_exit_status_follow() {
    let name = "the_version_number_and_the_exit_status_follow";
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = library(folder.path(), "old", Some(&manifest()), &[]) else {
        return skip(name, "gcc is not there");
    };
    let mut edited = manifest();
    edit(&mut edited, "/handlers/0/open_attrs", &json!(true));
    let minor = library(folder.path(), "minor", Some(&edited), &[]).unwrap();
    let run = |new: &Path, arguments: &[&str]| {
        let output = diff(&old, new, &[&["--no-run"], arguments].concat());
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    assert_eq!(run(&minor, &[]).0, Some(0));
    assert_eq!(run(&minor, &["--fail-on", "major"]).0, Some(0));
    assert_eq!(run(&minor, &["--fail-on", "minor"]).0, Some(1));
    assert_eq!(run(&old, &["--fail-on", "patch"]).0, Some(0));
    assert_eq!(run(&minor, &["--old-version", "1.4"]).0, Some(2));
    let (_, text) = run(&minor, &["--old-version", "1.4.2"]);
    assert!(text.contains("suggested version: 1.5.0"), "{text}");
    assert!(
        text.contains("handler f\n  minor: other attributes: no became yes"),
        "{text}"
    );
    assert!(run(&old, &[]).1.contains("no differences for callers"));
    let json = told(
        &old,
        &minor,
        &["--no-run", "--fail-on", "minor", "--old-version", "1.4.2"],
    );
    assert_eq!(json["exit"], json!({ "code": 1, "kind": "findings" }));
    assert_eq!(
        (&json["step"], &json["version"]),
        (&json!("minor"), &json!("1.5.0"))
    );
    // Errors about unreadable files are also reported as JSON.
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    let json = told(&old, &text, &[]);
    assert_eq!(json["exit"]["kind"], "bad-input");
    assert_eq!(diff(&old, &text, &[]).status.code(), Some(1));
}

#[test]
fn answers_and_symbols_count_without_a_manifest() {
    let name = "answers_and_symbols_count_without_a_manifest";
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, flags: &[&str]| library(folder.path(), name, None, flags);
    let Some(old) = build("old", &["-DMINOR=frame->api->api_version.minor_version"]) else {
        return skip(name, "gcc is not there");
    };
    let new = build("new", &["-DMINOR=3", "-Dmake=start"]).unwrap();
    let told = |arguments: &[&str]| told(&old, &new, arguments);
    let lists = |told: &Value, step: &str, what: &str, key: &str, text: &str| {
        let found = told["differences"].as_array().unwrap();
        let mut found = found
            .iter()
            .filter(|d| d["step"] == step && d["what"] == what);
        found.any(|difference| {
            difference[key]
                .as_str()
                .is_some_and(|told| told.contains(text))
        })
    };
    let without = told(&[]);
    assert!(
        lists(&without, "major", "exported functions", "was", "make"),
        "{without:#}"
    );
    assert!(
        lists(&without, "minor", "exported functions", "now", "start"),
        "{without:#}"
    );
    let note = without["not_judged"].to_string();
    assert!(note.contains("with --handler"), "{note}");
    let asked = told(&["--handler", "one"]);
    assert!(
        lists(&asked, "major", "supported jaxlibs", "was", "0.8.1"),
        "{asked:#}"
    );
    assert!(
        !asked["differences"].to_string().contains("or later"),
        "{asked:#}"
    );
    let back = self::told(&new, &old, &["--handler", "one"]);
    assert!(
        lists(&back, "minor", "supported jaxlibs", "now", "0.8.1"),
        "{back:#}"
    );
    let nowhere = told(&["--handler", "nowhere"]);
    assert!(
        nowhere["error"]
            .as_str()
            .unwrap()
            .contains("neither library exports"),
        "{nowhere:#}"
    );
}

/// Builds a library that does not load, because of the C code `how`.
fn broken(folder: &Path, name: &str, how: &str) -> Option<PathBuf> {
    let flags = ["-DMINOR=5", "-Wl,-z,now"];
    let source = format!("{}\n{how}\n", HANDLERS);
    with_manifest(folder, name, &source, Some(&manifest()), &flags)
}

#[test]
fn a_build_that_does_not_load_breaks_every_call() {
    let test = "a_build_that_does_not_load_breaks_every_call";
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = library(folder.path(), "old", Some(&manifest()), &[]) else {
        return skip(test, "gcc is not there");
    };
    let ways = [
        (
            "undefined",
            "extern int nowhere(void); int (*held)(void) = nowhere;",
        ),
        (
            "hangs",
            "__attribute__((constructor)) static void hangs(void) { for (;;) __asm__(\"\"); }",
        ),
    ];
    for (name, how) in ways {
        let new = broken(folder.path(), name, how).unwrap();
        let arguments = ["--fail-on", "major", "--time-limit", "1"];
        let gate = |old: &Path, new: &Path, arguments: &[&str]| {
            let told = told(old, new, arguments);
            (told["exit"]["kind"].clone(), told["step"].clone())
        };
        assert_eq!(
            gate(&old, &new, &arguments),
            (json!("findings"), json!("major")),
            "{name}"
        );
        // If only the old build fails to load, the new build breaks no working call.
        assert_eq!(
            gate(&new, &old, &arguments),
            (json!("ok"), json!("minor")),
            "{name}"
        );
        // If neither build loads, the builds cannot be compared, so `--fail-on` fails the run.
        assert_eq!(gate(&new, &new, &arguments).0, "not-judged", "{name}");
        assert_eq!(gate(&new, &new, &["--time-limit", "1"]).0, "ok", "{name}");
    }
}

#[test]
fn requirements_of_loaders_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, flags: &[&str]| {
        let flags = [&["-DMINOR=5"], flags].concat();
        library(folder.path(), name, Some(&manifest()), &flags)
    };
    let Some(old) = build("old", &[]) else {
        return skip("requirements_of_loaders_are_compared", "gcc is not there");
    };
    let static_tls = "__attribute__((visibility(\"hidden\"), tls_model(\"initial-exec\"))) __thread long held = 1;
        __attribute__((visibility(\"hidden\"))) long* get_held(void) { return &held; }";
    let tls = format!("{HANDLERS}{static_tls}");
    let tls = with_manifest(folder.path(), "tls", &tls, Some(&manifest()), &[]).unwrap();
    let run = build("run", &["-Wl,-rpath,/home/me/build"]).unwrap();
    let own = build("own", &["-Wl,-rpath,$ORIGIN"]).unwrap();
    let needs: Vec<PathBuf> = [
        ("needs_own", "-Wl,-rpath,$ORIGIN"),
        ("needs", "-Wl,-rpath-link,."),
    ]
    .map(|(name, flag)| build(name, &[flag, "-Wl,--no-as-needed", "-lstdc++"]).unwrap())
    .into();
    let stack = build("stack", &["-Wl,-z,execstack"]).unwrap();
    let level = build("level", &["-Wl,-z,x86-64-v3"]).unwrap();
    let bare = library(folder.path(), "bare", None, &["-DMINOR=5"]).unwrap();
    let loader = "requirements of the loader";
    for (old, new, step, what, value) in [
        (&old, &tls, "major", loader, json!("static TLS")),
        (&tls, &old, "minor", loader, json!(null)),
        (&old, &stack, "major", loader, json!("executable stack")),
        (&old, &level, "major", loader, json!("x86-64-v2, x86-64-v3")),
        (&old, &run, "major", "RUNPATH", json!("/home/me/build")),
        (&old, &own, "patch", "RUNPATH", json!("$ORIGIN")),
        (&own, &old, "patch", "RUNPATH", json!(null)),
        (&needs[0], &needs[1], "major", "RUNPATH", json!(null)),
        (&old, &bare, "major", "manifest", json!(null)),
        (&bare, &old, "minor", "manifest", json!("lib")),
    ] {
        let told = told(old, new, &["--no-run"]);
        let found = told["differences"].as_array().unwrap();
        let found = found.iter().find(|one| one["what"] == what);
        let found = found.unwrap_or_else(|| panic!("{new:?}: {told:#}"));
        assert_eq!(
            (&found["step"], &found["now"]),
            (&json!(step), &value),
            "{new:?}"
        );
    }
}
