//! `xla-ffi diff` on pairs of libraries built here: every kind of difference, what it asks of the version number,
//! exit codes.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::{root, skip};

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

/// A library with this manifest, if any; `None` where there is no compiler.
fn library(folder: &Path, name: &str, manifest: Option<&Value>, flags: &[&str]) -> Option<PathBuf> {
    let mut source = HANDLERS.to_owned();
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
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let library = folder.join(format!("{name}.so"));
    let include = root().join("include");
    let output = Command::new("gcc")
        .args(["-shared", "-fPIC", "-w"])
        .arg(&file)
        .arg("-o")
        .arg(&library)
        .arg(format!("-I{}", include.display()))
        .args(if flags.is_empty() {
            &["-DMINOR=5"][..]
        } else {
            flags
        })
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(library)
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
    let output = diff(old, new, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn manifest() -> Value {
    json!({
        "library": "lib", "sdk": "0.1.0", "handlers": [{
            "name": "f", "platforms": ["cpu"], "doc": "Words.",
            "stages": { "execute": "one", "instantiate": "make" },
            "args": [
                { "name": "x", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": 2 },
                { "name": "w", "kind": "buffer", "dtypes": null, "rank": null, "optional": true },
            ],
            "rets": [{ "name": "y", "kind": "buffer", "dtypes": ["F32"], "rank": null }],
            "attrs": [
                { "name": "k", "type": "i64" },
                { "name": "eps", "type": "f32", "optional": true, "default": 1e-5 },
            ],
            "shape": "n k, m? -> n", "context": ["thread_pool"], "traits": ["command_buffer_compatible"],
            "gradient": { "vjp": "g" }, "state": { "type": "S" }, "floor": "r4",
        }, {
            "name": "g", "platforms": ["cpu"], "stages": { "execute": "one" }, "described": false, "floor": "r4",
        }],
        "legacy": [{
            "name": "old", "platforms": ["Host", "CUDA"], "signature": "cpu_status", "api_version": 2, "symbol": "make",
            "args": [{ "dtypes": ["F32"], "dims": [128] }], "rets": [{ "dtypes": ["F32"], "dims": [] }],
        }, {
            "name": "bare", "platforms": ["Host"], "signature": "cpu", "api_version": 1, "symbol": "make",
        }],
    })
}

/// What is edited, how, and what has to be told: the step, and what it is about. An empty step says that
/// nothing is told.
fn edits() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let operand = |name: &str, optional: bool| json!({ "name": name, "kind": "buffer", "dtypes": null, "rank": null, "optional": optional });
    let attribute =
        |name: &str, optional: bool| json!({ "name": name, "type": "i64", "optional": optional });
    vec![
        ("/library", json!("other"), "major", "name of the library"),
        ("/sdk", json!("0.2.0"), "patch", "made with xla-ffi"),
        ("/handlers/1", Value::Null, "major", "handler"),
        (
            "/handlers/-",
            json!({ "name": "h", "platforms": ["cpu"], "stages": { "execute": "one" },
            "described": false, "floor": "r0" }),
            "minor",
            "handler",
        ),
        (
            "/handlers/0/doc",
            json!("Other words."),
            "patch",
            "its words",
        ),
        (
            "/handlers/0/platforms",
            json!(["cuda"]),
            "major",
            "platforms",
        ),
        (
            "/handlers/0/platforms/-",
            json!("cuda"),
            "minor",
            "platforms",
        ),
        (
            "/handlers/0/stages/execute",
            json!("make"),
            "major",
            "execute stage",
        ),
        (
            "/handlers/0/stages/instantiate",
            Value::Null,
            "major",
            "instantiate stage",
        ),
        (
            "/handlers/0/stages/prepare",
            json!("one"),
            "major",
            "prepare stage",
        ),
        (
            "/handlers/0/args/0/name",
            json!("input"),
            "patch",
            "argument x: name",
        ),
        (
            "/handlers/0/args/0/kind",
            json!("token"),
            "major",
            "argument x: kind",
        ),
        (
            "/handlers/0/args/0/dtypes",
            json!(["F32"]),
            "major",
            "argument x: element types",
        ),
        (
            "/handlers/0/args/0/dtypes",
            Value::Null,
            "minor",
            "argument x: element types",
        ),
        (
            "/handlers/0/args/0/dtypes/-",
            json!("F16"),
            "minor",
            "argument x: element types",
        ),
        (
            "/handlers/0/args/1/dtypes",
            json!(["F32"]),
            "major",
            "argument w: element types",
        ),
        (
            "/handlers/0/args/0/rank",
            json!(3),
            "major",
            "argument x: rank",
        ),
        (
            "/handlers/0/args/0/rank",
            Value::Null,
            "minor",
            "argument x: rank",
        ),
        (
            "/handlers/0/args/0/optional",
            json!(true),
            "minor",
            "argument x: may be missing",
        ),
        (
            "/handlers/0/args/1/optional",
            json!(false),
            "major",
            "argument w: may be missing",
        ),
        (
            "/handlers/0/args/1/variadic",
            json!(true),
            "minor",
            "argument w: stands for all that remain",
        ),
        ("/handlers/0/args/0/layout", json!("row"), "", ""),
        (
            "/handlers/0/args/0/layout",
            json!("column"),
            "major",
            "argument x: order of its elements",
        ),
        ("/handlers/0/args/1", Value::Null, "major", "argument"),
        (
            "/handlers/0/args/-",
            operand("more", true),
            "minor",
            "argument",
        ),
        (
            "/handlers/0/args/-",
            operand("more", false),
            "major",
            "argument",
        ),
        (
            "/handlers/0/rets/0",
            json!({ "name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": null, "inout": true }),
            "major",
            "result y: shares memory with its argument",
        ),
        (
            "/handlers/0/rets/0/dtypes/-",
            json!("F64"),
            "major",
            "result y: the type that follows by itself",
        ),
        ("/handlers/0/rets/-", operand("z", false), "major", "result"),
        ("/handlers/0/attrs/0", Value::Null, "major", "attribute"),
        (
            "/handlers/0/attrs/-",
            attribute("n", true),
            "minor",
            "attribute",
        ),
        (
            "/handlers/0/attrs/-",
            attribute("p", false),
            "major",
            "attribute",
        ),
        (
            "/handlers/0/attrs/1/type",
            json!("f64"),
            "major",
            "attribute eps: type",
        ),
        (
            "/handlers/0/attrs/1/type",
            json!("any"),
            "minor",
            "attribute eps: type",
        ),
        (
            "/handlers/0/attrs/1/default",
            json!(1e-6),
            "major",
            "attribute eps: default",
        ),
        (
            "/handlers/0/attrs/1/optional",
            json!(false),
            "major",
            "attribute eps: may be missing",
        ),
        (
            "/handlers/0/attrs/0/optional",
            json!(true),
            "minor",
            "attribute k: may be missing",
        ),
        (
            "/handlers/0/attrs/1/narrow",
            json!(true),
            "minor",
            "attribute eps: wider types converted",
        ),
        ("/handlers/0/attrs/1/from", json!("d"), "major", "attribute"),
        (
            "/handlers/0/open_attrs",
            json!(true),
            "minor",
            "other attributes",
        ),
        ("/handlers/0/shape", json!("rows k, m? -> rows"), "", ""),
        (
            "/handlers/0/shape",
            json!("... n k, m? -> ... n"),
            "minor",
            "shape contract",
        ),
        (
            "/handlers/0/shape",
            json!("n k, m? -> n 1"),
            "major",
            "shape contract",
        ),
        (
            "/handlers/0/shape",
            json!("n k, n? -> n"),
            "major",
            "shape contract",
        ),
        ("/handlers/0/shape", Value::Null, "major", "shape contract"),
        (
            "/handlers/0/context",
            json!([]),
            "minor",
            "taken from its context",
        ),
        (
            "/handlers/0/context/-",
            json!("scratch"),
            "major",
            "taken from its context",
        ),
        ("/handlers/0/traits", json!([]), "patch", "trait"),
        (
            "/handlers/0/traits/-",
            json!("nondeterministic"),
            "major",
            "trait",
        ),
        (
            "/handlers/0/gradient/residuals",
            json!(["x"]),
            "patch",
            "gradient, residuals",
        ),
        (
            "/handlers/0/args/0/doc",
            json!("The input."),
            "patch",
            "argument x: its words",
        ),
        (
            "/handlers/0/attrs/0/doc",
            json!("How many."),
            "patch",
            "attribute k: its words",
        ),
        (
            "/handlers/0/gradient",
            Value::Null,
            "major",
            "gradient, vjp",
        ),
        (
            "/handlers/1/gradient",
            json!({ "linear": true, "transpose": "f" }),
            "minor",
            "gradient, jvp",
        ),
        ("/handlers/0/batch", json!("none"), "major", "batching"),
        (
            "/handlers/0/batch",
            json!("sequential"),
            "patch",
            "batching",
        ),
        (
            "/handlers/0/state/type",
            json!("T"),
            "major",
            "type of its state",
        ),
        ("/handlers/0/async", json!(true), "patch", "completes"),
        ("/handlers/0/floor", json!("r6"), "major", "oldest revision"),
        ("/handlers/0/floor", json!("r2"), "minor", "oldest revision"),
        (
            "/handlers/1/described",
            json!(true),
            "minor",
            "operands described",
        ),
        ("/legacy/0", Value::Null, "major", "target"),
        (
            "/legacy/-",
            json!({ "name": "new", "platforms": ["Host"], "signature": "cpu_unified", "api_version": 3, "symbol": "one" }),
            "minor",
            "target",
        ),
        ("/legacy/0/platforms", json!(["Host"]), "major", "platforms"),
        ("/legacy/1/platforms/-", json!("CUDA"), "minor", "platforms"),
        ("/legacy/0/symbol", json!("one"), "major", "symbol"),
        ("/legacy/0/args/0/dims", json!([129]), "major", "argument 0"),
        (
            "/legacy/0/rets/0/dtypes",
            json!(["F64"]),
            "major",
            "result 0",
        ),
        ("/legacy/0/args/0", Value::Null, "major", "argument 0"),
        (
            "/legacy/0/rets/-",
            json!({ "dtypes": ["S4"], "dims": [2, 3] }),
            "major",
            "result 1",
        ),
        ("/legacy/0/args", Value::Null, "major", "operands described"),
    ]
}

/// Sets, appends (`-`) or, for null in a list or map, takes away.
fn edit(value: &mut Value, at: &str, with: &Value) {
    let (owner, key) = at.rsplit_once('/').unwrap();
    let owner = value.pointer_mut(owner).unwrap();
    match (owner, key) {
        (Value::Array(list), "-") => list.push(with.clone()),
        (Value::Array(list), at) if with.is_null() => drop(list.remove(at.parse().unwrap())),
        (Value::Array(list), at) => list[at.parse::<usize>().unwrap()] = with.clone(),
        (owner, key) => {
            owner[key] = with.clone();
            if key == "described" {
                for key in ["args", "rets", "attrs"] {
                    owner[key] = json!([]);
                }
            }
        }
    }
}

#[test]
fn every_edit_of_a_manifest_asks_for_its_step() {
    let name = "every_edit_of_a_manifest_asks_for_its_step";
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = library(folder.path(), "old", Some(&manifest()), &[]) else {
        return skip(name, "gcc is not there");
    };
    assert_eq!(told(&old, &old, &["--no-run"])["differences"], json!([]));
    for (number, (at, with, step, what)) in edits().into_iter().enumerate() {
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
    assert_eq!(run(&minor, &["--was", "1.4"]).0, Some(2));
    let (_, text) = run(&minor, &["--was", "1.4.2"]);
    assert!(
        text.contains("suggested: a minor step, 1.5.0 after 1.4.2"),
        "{text}"
    );
    assert!(
        text.contains("handler f\n  minor: other attributes: was no, is yes"),
        "{text}"
    );
    assert!(run(&old, &[]).1.contains("callers notice nothing"));
    // Targets of the original custom calls are told apart from handlers; a call that says the old version is wrong.
    let mut edited = manifest();
    edited["legacy"][1]["signature"] = json!("cpu_status");
    edited["legacy"][1]["api_version"] = json!(2);
    let status = library(folder.path(), "status", Some(&edited), &[]).unwrap();
    let (_, text) = run(&status, &[]);
    let changed = "legacy target bare\n  major: signature: was cpu (API version 1), is cpu_status (API version 2)";
    assert!(text.contains(changed), "{text}");
    // One that lies about its version is not read.
    edited["legacy"][1]["api_version"] = json!(1);
    let lies = library(folder.path(), "lies", Some(&edited), &[]).unwrap();
    let output = diff(&old, &lies, &["--no-run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wrong = "legacy target \"bare\": \"api_version\" is 1, and cpu_status is called under 2";
    assert!(
        output.status.code() == Some(1) && said.contains(wrong),
        "{said}"
    );
    let json = told(
        &old,
        &minor,
        &["--no-run", "--fail-on", "minor", "--was", "1.4.2"],
    );
    assert_eq!(json["exit"], json!({ "code": 1, "kind": "findings" }));
    assert_eq!(
        (&json["step"], &json["version"]),
        (&json!("minor"), &json!("1.5.0"))
    );
    // What cannot be read is told as JSON, too.
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
    assert!(note.contains("--handler names them"), "{note}");
    let asked = told(&["--handler", "one"]);
    assert!(
        lists(&asked, "major", "jaxlibs that take it", "was", "0.8.1"),
        "{asked:#}"
    );
    assert!(
        !asked["differences"].to_string().contains("or later"),
        "{asked:#}"
    );
    let back = self::told(&new, &old, &["--handler", "one"]);
    assert!(
        lists(&back, "minor", "jaxlibs that take it", "now", "0.8.1"),
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
