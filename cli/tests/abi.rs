//! Tests the output and exit status of `xla-ffi abi`.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use xla_ffi_testing::{headers, root, skip};

fn abi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("abi")
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = abi(arguments);
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns true if libclang is available. Otherwise, reports a skip and returns false.
fn can_read(test: &str) -> bool {
    let told = err(&abi(&["check", "--header", "include/xla/ffi/api/c_api.h"]));
    let is_missing = told.contains("libclang cannot be loaded");
    if is_missing {
        skip(test, &told);
    }
    !is_missing
}

#[test]
fn revisions_are_listed() {
    let output = abi(&["revisions"]);
    assert!(output.status.success());
    for name in ["r0 ", "r10 ", "r2-0.4.35", "record-0.2", "collectives-0.1"] {
        assert!(out(&output).contains(name), "{name}");
    }
    let value = json(&["revisions", "--format=json"]);
    assert_eq!(value["revisions"].as_array().unwrap().len(), 11);
    assert_eq!(value["revisions"][3]["api_size"], 176);
    assert_eq!(value["revisions"][3]["api_struct_size"], 88);
}

#[test]
fn show_has_two_forms() {
    let text = abi(&["show", "r3", "Api"]);
    assert!(out(&text).contains("moved, was byte 144"), "{}", out(&text));
    for arguments in [
        &["show", "r10", "CallFrame", "--format", "json"][..],
        &["show", "r10", "CallFrame", "--format=json"],
    ] {
        let value = json(arguments);
        assert_eq!(value["struct"]["size"], 176);
        assert_eq!(value["struct"]["struct_size"], 168);
        assert_eq!(value["struct"]["fields"][8]["name"], "future");
    }
    let all = json(&["show", "0.8.1", "--format=json"]);
    assert_eq!(all["edition"], "r7-0.8.1");
}

#[test]
fn what_is_not_there_is_told() {
    let output = abi(&["show", "r0", "XLA_FFI_Future_Create_Args"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("r0 has no struct"));
    for arguments in [
        &["show", "r11"][..],
        // Version 99.1.2 is newer than all known releases, so the headers of this version are unknown.
        &["show", "99.1.2"],
        &["diff", "r1"],
        &["diff", "r1", "0.4.28"],
        &["check"],
        &["check", "--snapshots", "--header", "x.h"],
        &["check", "--snapshots", "--revision", "r1"],
        &["show", "r1", "--format", "pdf"],
    ] {
        let output = abi(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    let output = abi(&["diff", "r9", "record-0.1"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn diff_classifies_and_explains() {
    let value = json(&["diff", "r2", "r3-0.4.38", "--format=json"]);
    let own: Vec<(&str, &str)> = value["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["follows"] == false)
        .map(|change| {
            (
                change["class"].as_str().unwrap(),
                change["member"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(own, [("inserted", "XLA_FFI_ThreadPool_NumThreads")]);
    assert_eq!(
        value["changes"][0]["effect"]["old_on_new"]["severity"],
        "breaks"
    );
    assert_eq!(value["facts"][0]["revision"], "r3");
    let text = out(&abi(&["diff", "r8", "r9"]));
    for expected in [
        "renamed: XLA_FFI_InternalExtension, was XLA_FFI_Extension_Base",
        "renamed: XLA_FFI_InvokeContext, was XLA_FFI_ExecutionContext",
        "renamed: XLA_FFI_Error_GetDetails, was XLA_FFI_Error_GetMessage",
        "added at end: record",
        "enum value added: XLA_FFI_ExecutionStage_RECORD",
        "added at end: errc",
        "either way",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let same = abi(&["diff", "r4", "r4"]);
    assert!(out(&same).contains("same layouts"));
}

#[test]
fn snapshots_are_true() {
    let output = abi(&["check", "--snapshots"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).starts_with("19 snapshots"));
}

#[test]
fn a_header_is_named() {
    if !can_read("a_header_is_named") {
        return;
    }
    let output = abi(&["check", "--header", "include/xla/ffi/api/c_api.h"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("revision r10"), "{}", out(&output));
    let wanted = |revision| {
        abi(&[
            "check",
            "--header",
            "include/xla/ffi/api/c_api.h",
            "--revision",
            revision,
        ])
    };
    assert!(wanted("r10").status.success());
    let other = wanted("r9");
    assert_eq!(other.status.code(), Some(1));
    assert!(err(&other).contains("is not r9"), "{}", err(&other));
    assert!(err(&other).contains("CustomOptions_Get"));
}

/// Tests that `--revision` with a revision accepts all headers of that revision. With an edition or a jaxlib version,
/// it must accept only one header.
#[test]
fn an_edition_is_not_another_of_its_revision() {
    let test = "an_edition_is_not_another_of_its_revision";
    let Some(folder) = headers::folder_or_skip(test) else {
        return;
    };
    if !can_read(test) {
        return;
    }
    for (version, file, takes, others) in [
        ("0.4.30", "c_api.h", &["before-r0"][..], &["r0"][..]),
        ("0.4.31", "c_api.h", &["r0"], &["before-r0"]),
        (
            "0.4.34",
            "c_api.h",
            &["r2", "r2-0.4.34", "0.4.34"],
            &["r2-0.4.35", "0.4.35", "r3"],
        ),
        (
            "0.8.1",
            "c_api.h",
            &["r7", "0.8.1"],
            &["r7-0.8.2", "0.9.0", "record-0.1"],
        ),
        (
            "0.12.0",
            "record_c_api.h",
            &["r10", "record-0.2"],
            &["0.11.1", "r8", "r2-0.4.35"],
        ),
    ] {
        let header = headers::api_folder(&folder, version).join(file);
        let wanted = takes
            .iter()
            .map(|one| (one, 0))
            .chain(others.iter().map(|one| (one, 1)));
        for (wanted, code) in wanted.filter(|_| header.is_file()) {
            let output = abi(&[
                "check",
                "--header",
                header.to_str().unwrap(),
                "--revision",
                wanted,
            ]);
            assert_eq!(output.status.code(), Some(code), "{version} as {wanted}");
        }
    }
}

#[test]
fn an_edited_header_is_explained() {
    if !can_read("an_edited_header_is_explained") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a \"quoted\" name.h");
    let text = std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap();
    let edited = text.replacen("  int64_t rank;", "  uint64_t rank;", 1);
    assert_ne!(edited, text);
    std::fs::write(&path, edited).unwrap();
    let header = path.to_str().unwrap();
    let output = abi(&["check", "--header", header]);
    assert_eq!(output.status.code(), Some(1));
    let told = err(&output);
    assert!(told.contains("the nearest is r10"), "{told}");
    assert!(told.contains("retyped: rank, was i64, is u64"), "{told}");
    let output = abi(&["check", "--header", header, "--format=json"]);
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&value["exit"]["code"], &value["exit"]["kind"]),
        (&1.into(), &"findings".into())
    );
    let header = &value["headers"][0];
    assert_eq!(header["edition"], Value::Null);
    assert_eq!(header["nearest"]["edition"], "r10");
    assert_eq!(header["changes"][0]["class"], "retyped");
}

/// Writes a copy of this project's `c_api.h`, changed by `change`, to a file and returns the path.
fn copy(folder: &Path, name: &str, change: impl Fn(&str) -> String) -> String {
    let text = std::fs::read_to_string(root().join("include/xla/ffi/api").join(
        if name.contains("record") {
            "record_c_api.h"
        } else {
            "c_api.h"
        },
    ));
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, change(&text.unwrap())).unwrap();
    path.display().to_string()
}

#[test]
fn copies_with_names_of_their_own_are_read() {
    if !can_read("copies_with_names_of_their_own_are_read") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str]| abi(&[&["check", "--header"], arguments].concat());
    let mine = copy(folder.path(), "mine.h", |text| {
        text.replace("XLA_FFI_", "MY_FFI_")
    });
    let plain = check(&[&mine]);
    assert!(err(&plain).contains("no XLA_FFI_"), "{}", err(&plain));
    for options in [
        &["--prefix", "MY_FFI_"][..],
        &["--prefix", "MY_FFI_", "--lang", "c"],
    ] {
        let mapped = check(&[&[mine.as_str()], options].concat());
        assert!(out(&mapped).contains("revision r10"), "{}", err(&mapped));
    }
    let spaced = copy(folder.path(), "spaced.h", |text| {
        let open = "#ifdef __cplusplus\nextern \"C\" {\n#endif";
        let text = text
            .replace("XLA_FFI_", "")
            .replace(open, "namespace acme::ffi {");
        text.replace("  int64_t rank;", "  int32_t rank;")
    });
    let value = abi(&[
        "check",
        "--header",
        &spaced,
        "--namespace",
        "acme::ffi",
        "--format=json",
    ]);
    let value: Value = serde_json::from_slice(&value.stdout).unwrap();
    let change = &value["headers"][0]["changes"][0];
    assert_eq!(
        (&change["owner"], &change["member"]),
        (&"Buffer".into(), &"rank".into())
    );
    assert!(change["line"].is_u64(), "{change:#}");
}

#[test]
fn variants_and_several_headers_are_told_apart() {
    if !can_read("variants_and_several_headers_are_told_apart") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Returns the editions of the checked headers, with `none` for a header that is equal to no edition.
    let editions = |arguments: &[&str]| {
        let output = abi(&[&["check", "--format=json", "--header"], arguments].concat());
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let headers = value["headers"].as_array().unwrap().iter();
        let editions =
            headers.map(|header| header["edition"].as_str().unwrap_or("none").to_owned());
        editions.collect::<Vec<_>>().join(" ")
    };
    let narrow = "#ifdef NARROW\n  int32_t rank;\n#else\n  int64_t rank;\n#endif";
    let two = copy(folder.path(), "two.h", |text| {
        text.replacen("  int64_t rank;", narrow, 1)
    });
    let variants = ["--variant", "plain", "--variant", "narrow:NARROW,LEVEL=2"];
    assert_eq!(
        editions(&[&[two.as_str()], &variants[..]].concat()),
        "r10 none"
    );
    assert_eq!(editions(&[&two]), "r10");
    assert_eq!(editions(&[&two, "-D", "NARROW"]), "none");
    // If all headers are in one folder, the header of an extension includes the main header from that folder.
    let record = copy(folder.path(), "flat/record_c_api.h", str::to_owned);
    let main = copy(folder.path(), "flat/c_api.h", str::to_owned);
    assert_eq!(editions(&[&record, &main]), "record-0.2 r10");
    // A header may declare some of its types in an included file from a different folder.
    let text = std::fs::read_to_string(&main).unwrap();
    let (before, rest) = text.split_once("struct XLA_FFI_Buffer {").unwrap();
    let (fields, behind) = rest.split_once("};").unwrap();
    let apart = copy(folder.path(), "apart/c_api.h", |_| {
        format!("{before}\n#include \"parts.h\"\n{behind}")
    });
    assert_eq!(editions(&[&apart]), "none");
    let parts = folder.path().join("parts");
    std::fs::create_dir(&parts).unwrap();
    let buffer = format!("struct XLA_FFI_Buffer {{{fields}}};\n");
    std::fs::write(parts.join("parts.h"), buffer).unwrap();
    assert_eq!(editions(&[&apart, "-I", parts.to_str().unwrap()]), "r10");
    let harmless = copy(folder.path(), "harmless.h", |text| {
        text.replacen("  int64_t rank;", "  int64_t order;", 1)
    });
    for (more, code) in [(&[][..], 1), (&["--fail-on", "lacks"], 0)] {
        let output = abi(&[&["check", "--header", &harmless], more].concat());
        assert_eq!(output.status.code(), Some(code));
    }
}

#[test]
fn diff_and_show_take_files_and_revisions_alike() {
    let snapshot = "abi/snapshots/r9.json";
    let value = json(&["diff", snapshot, "r10", "--format=json"]);
    let known = json(&["diff", "r9", "r10", "--format=json"]);
    assert_eq!(value["changes"], known["changes"]);
    let text = out(&abi(&["show", snapshot, "Buffer"]));
    assert!(text.contains("XLA_FFI_Buffer"), "{text}");
    let strict = ["--fail-on", "breaks"];
    assert_eq!(
        abi(&[&["diff", "r9", "r10"], &strict[..]].concat())
            .status
            .code(),
        Some(1)
    );
    assert_eq!(
        abi(&[&["diff", "r7-0.8.1", "r7-0.8.2"], &strict[..]].concat())
            .status
            .code(),
        Some(0)
    );
    assert_eq!(abi(&["diff", "nowhere.json", "r10"]).status.code(), Some(1));
    if !can_read("diff_and_show_take_files_and_revisions_alike") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let edited = copy(folder.path(), "c_api.h", |text| {
        text.replacen("  int64_t rank;", "  uint64_t rank;", 1)
    });
    let value = json(&[
        "diff",
        "include/xla/ffi/api/c_api.h",
        &edited,
        "--format=json",
    ]);
    assert_eq!(value["changes"].as_array().unwrap().len(), 1, "{value:#}");
    assert_eq!(value["changes"][0]["class"], "retyped");
    let value = json(&["show", &edited, "Buffer", "--format=json"]);
    let rank = value["struct"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["name"] == "rank");
    assert_eq!(rank.unwrap()["type"], "u64");
}
