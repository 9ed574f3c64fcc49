//! `xla-ffi abi` from the outside: what it prints, and its exit codes.

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

/// Whether libclang is there; reported as a skip if not.
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
    let value = json(&["revisions", "--json"]);
    assert_eq!(value["revisions"].as_array().unwrap().len(), 11);
    assert_eq!(value["revisions"][3]["api_size"], 176);
    assert_eq!(value["revisions"][3]["api_struct_size"], 88);
}

#[test]
fn show_has_three_forms() {
    let text = abi(&["show", "r3", "Api"]);
    assert!(out(&text).contains("moved, was byte 144"), "{}", out(&text));
    let html = abi(&["show", "r3", "XLA_FFI_Api", "--format", "html"]);
    assert!(out(&html).starts_with("<!doctype html>"));
    for arguments in [
        &["show", "r10", "CallFrame", "--format", "json"][..],
        &["show", "r10", "CallFrame", "--json"],
    ] {
        let value = json(arguments);
        assert_eq!(value["struct"]["size"], 176);
        assert_eq!(value["struct"]["struct_size"], 168);
        assert_eq!(value["struct"]["fields"][8]["name"], "future");
    }
    let all = json(&["show", "0.8.1", "--json"]);
    assert_eq!(all["edition"], "r7-0.8.1");
}

#[test]
fn what_is_not_there_is_told() {
    let output = abi(&["show", "r0", "XLA_FFI_Future_Create_Args"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("r0 has no struct"));
    for arguments in [
        &["show", "r11"][..],
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

/// The header from before the first revision has a name of its own, and is no revision.
#[test]
fn before_the_first_revision() {
    let shown = json(&["show", "before-r0", "--json"]);
    assert_eq!(shown["edition"], "before-r0");
    assert!(shown["revision"].is_null(), "{shown}");
    assert_eq!(shown["abi"]["structs"]["XLA_FFI_Api"]["struct_size"], 64);
    let text = out(&abi(&["diff", "0.4.30", "r0"]));
    assert!(text.contains("XF303 inserted: api_version"), "{text}");
    let Some(folder) = headers::folder_or_skip("before_the_first_revision") else {
        return;
    };
    let header = headers::api_folder(&folder, "0.4.30").join("c_api.h");
    if !header.exists() {
        skip(
            "before_the_first_revision",
            "XLA_FFI_JAXLIB_HEADERS has no 0.4.30",
        );
        return;
    }
    let header = header.to_str().unwrap();
    for more in [&[][..], &["--revision", "before-r0"]] {
        let output = abi(&[&["check", "--header", header], more].concat());
        assert!(output.status.success(), "{}", err(&output));
        let text = out(&output);
        assert!(
            text.contains("from before the first revision (before-r0, jaxlib 0.4.29 to 0.4.30"),
            "{text}"
        );
    }
    let value = json(&["check", "--header", header, "--json"]);
    assert!(
        value.to_string().contains("\"edition\":\"before-r0\""),
        "{value}"
    );
    let other = abi(&["check", "--header", header, "--revision", "r0"]);
    assert_eq!(other.status.code(), Some(1));
    let said = format!("{}{}", out(&other), err(&other));
    assert!(said.contains("is not r0"), "{said}");
    let r0 = headers::api_folder(&folder, "0.4.31").join("c_api.h");
    let other = abi(&[
        "check",
        "--header",
        r0.to_str().unwrap(),
        "--revision",
        "before-r0",
    ]);
    assert_eq!(other.status.code(), Some(1));
    let said = format!("{}{}", out(&other), err(&other));
    assert!(said.contains("is not before-r0"), "{said}");
}

#[test]
fn diff_classifies_and_explains() {
    let value = json(&["diff", "r2", "r3-0.4.38", "--json"]);
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
        value["changes"][0]["effect"]["old_on_new"]["harm"],
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
fn what_grows_in_another_struct_is_judged_there() {
    // Handler_Bundle lies by value in Handler_Register_Args, before `traits`.
    let value = json(&["diff", "r8", "r9", "--json"]);
    let changes = value["changes"].as_array().unwrap();
    let change = changes
        .iter()
        .find(|change| change["owner"] == "XLA_FFI_Handler_Bundle" && change["member"] == "record")
        .unwrap();
    let effect = &change["effect"];
    assert_eq!(effect["new_on_old"]["harm"], "breaks", "{change:#}");
    assert_eq!(effect["old_on_new"]["harm"], "lacks", "{change:#}");
    let why = effect["new_on_old"]["why"].as_str().unwrap();
    assert!(
        why.contains("XLA_FFI_Handler_Register_Args, before `traits`"),
        "{why}"
    );
}

#[test]
fn what_was_renamed_back_is_not_removed_too() {
    let value = json(&["diff", "r9", "r8", "--json"]);
    let own = value["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| {
            change["follows"] == false && change["owner"] == "XLA_FFI_ExecutionContext"
        });
    let classes: Vec<_> = own.map(|change| &change["class"]).collect();
    assert_eq!(classes, ["renamed"], "{value:#}");
}

#[test]
fn a_release_that_nobody_has_seen_is_not_known_yet() {
    for arguments in [
        &[
            "check",
            "--header",
            "include/xla/ffi/api/c_api.h",
            "--revision",
            "99.1.2",
        ][..],
        &["show", "0.13.0"],
    ] {
        let output = abi(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            err(&output).contains("is not known yet"),
            "{}",
            err(&output)
        );
    }
    assert!(abi(&["show", "0.12.0.1", "Buffer"]).status.success());
}

#[test]
fn snapshots_are_true() {
    let output = abi(&["check", "--snapshots"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).starts_with("18 snapshots"));
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

/// A revision takes all of its headers; an edition or a jaxlib its own alone.
#[test]
fn an_edition_is_not_another_of_its_revision() {
    let test = "an_edition_is_not_another_of_its_revision";
    let Some(folder) = headers::folder_or_skip(test) else {
        return;
    };
    if !can_read(test) {
        return;
    }
    let has = |version: &str| headers::api_folder(&folder, version).is_dir();
    let check = |version: &str, file: &str, wanted: &str| {
        let header = headers::api_folder(&folder, version).join(file);
        let header = header.to_str().unwrap().to_owned();
        abi(&["check", "--header", &header, "--revision", wanted])
    };
    for (version, takes, others) in [
        (
            "0.4.34",
            &["r2", "r2-0.4.34", "0.4.34"][..],
            &["r2-0.4.35", "0.4.35", "r3"][..],
        ),
        (
            "0.4.35",
            &["r2", "r2-0.4.35", "0.4.36"],
            &["r2-0.4.34", "0.4.34"],
        ),
        ("0.4.38", &["r3", "r3-0.4.38"], &["r3-0.5.0", "0.5.0"]),
        (
            "0.8.1",
            &["r7", "0.8.1"],
            &["r7-0.8.2", "0.9.0", "record-0.1"],
        ),
        ("0.4.33", &["r1", "0.4.32", "0.4.33"], &["0.4.34"]),
    ] {
        if !has(version) {
            continue;
        }
        for wanted in takes {
            let output = check(version, "c_api.h", wanted);
            assert!(
                output.status.success(),
                "{version} as {wanted}: {}",
                err(&output)
            );
        }
        for wanted in others {
            let output = check(version, "c_api.h", wanted);
            assert_eq!(output.status.code(), Some(1), "{version} as {wanted}");
        }
    }
    if !has("0.11.2") {
        return skip(test, "XLA_FFI_JAXLIB_HEADERS has no 0.11.2");
    }
    for wanted in ["r9", "record-0.1", "0.11.2"] {
        let output = check("0.11.2", "record_c_api.h", wanted);
        assert!(output.status.success(), "{wanted}: {}", err(&output));
    }
    for (wanted, why) in [
        ("0.11.1", "jaxlib 0.11.1 has no record_c_api.h"),
        ("r8", "revision r8 has no record_c_api.h"),
        (
            "r2-0.4.35",
            "r2-0.4.35 (jaxlib 0.4.35 to 0.4.36) has no record_c_api.h",
        ),
    ] {
        let output = check("0.11.2", "record_c_api.h", wanted);
        let said = format!("{}{}", out(&output), err(&output));
        assert!(
            output.status.code() == Some(1) && said.contains(why),
            "{said}"
        );
    }
}

/// Names of files are told so that no terminal obeys them.
#[test]
fn names_of_headers_are_printable() {
    let test = "names_of_headers_are_printable";
    if !can_read(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let header = std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap();
    let named = folder.path().join("e\u{1b}[31mx.h");
    std::fs::write(&named, header).unwrap();
    let output = abi(&["diff", "r4", named.to_str().unwrap(), "--fail-on", "any"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(
        said.contains("\\u{1b}[31mx.h differ") && !said.contains('\u{1b}'),
        "{said:?}"
    );
    assert!(!out(&output).contains('\u{1b}'));
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
    let output = abi(&["check", "--header", header, "--json"]);
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

#[test]
fn types_in_an_included_file_are_not_removed() {
    if !can_read("types_in_an_included_file_are_not_removed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap();
    let start = text.find("struct XLA_FFI_Buffer {").unwrap();
    let end = start + text[start..].find("};").unwrap() + 2;
    let split = format!(
        "{}\n#include \"buffer.inc\"\n{}",
        &text[..start],
        &text[end..]
    );
    let header = folder.path().join("c_api.h");
    std::fs::write(&header, split).unwrap();
    let part = folder.path().join("buffer.inc");
    std::fs::write(&part, &text[start..end]).unwrap();
    let check = || abi(&["check", "--header", header.to_str().unwrap()]);
    assert!(out(&check()).contains("revision r10"), "{}", err(&check()));
    // A mistake there is found there.
    std::fs::write(
        &part,
        text[start..end].replace("int64_t rank", "int32_t rank"),
    )
    .unwrap();
    let told = err(&check());
    assert!(told.contains("resized: rank"), "{told}");
    // A file of our own that gathers all that there is.
    let gathered = folder.path().join("mine.h");
    std::fs::write(&part, &text[start..end]).unwrap();
    std::fs::write(&gathered, "#include \"c_api.h\"\n").unwrap();
    let output = abi(&["check", "--header", gathered.to_str().unwrap()]);
    assert!(out(&output).contains("revision r10"), "{}", err(&output));
}

/// Our header, changed, in a file of its own.
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
    let mine = copy(folder.path(), "mine.h", |text| {
        text.replace("XLA_FFI_", "MY_FFI_")
    });
    let check = |arguments: &[&str]| abi(&[&["check", "--header"], arguments].concat());
    let plain = check(&[&mine]);
    assert!(err(&plain).contains("nothing of XLA"), "{}", err(&plain));
    let mapped = check(&[&mine, "--prefix", "MY_FFI_"]);
    assert!(out(&mapped).contains("revision r10"), "{}", err(&mapped));
    // What is added under the copy's prefix is told by upstream's name.
    let more = copy(folder.path(), "more.h", |text| {
        let text = text.replace("XLA_FFI_", "MY_FFI_");
        text.replacen(
            "struct MY_FFI_Buffer {",
            "struct MY_FFI_Extra { int x; };\nstruct MY_FFI_Buffer {",
            1,
        )
    });
    let told = err(&check(&[&more, "--prefix", "MY_FFI_"]));
    assert!(told.contains("added: XLA_FFI_Extra"), "{told}");
    let spaced = copy(folder.path(), "spaced.h", |text| {
        let guarded = text.replace("XLA_FFI_", "");
        let text = guarded.replace(
            "#ifdef __cplusplus\nextern \"C\" {\n#endif",
            "namespace mine {",
        );
        assert_ne!(text, guarded, "the header opens extern \"C\"");
        text
    });
    let mapped = check(&[&spaced, "--namespace", "mine"]);
    assert!(out(&mapped).contains("revision r10"), "{}", err(&mapped));
}

#[test]
fn variants_and_several_headers_are_told_apart() {
    if !can_read("variants_and_several_headers_are_told_apart") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let two = copy(folder.path(), "two.h", |text| {
        text.replacen(
            "  int64_t rank;",
            "#ifdef NARROW\n  int32_t rank;\n#else\n  int64_t rank;\n#endif",
            1,
        )
    });
    let output = abi(&[
        "check",
        "--header",
        &two,
        "--variant",
        "plain",
        "--variant",
        "narrow:NARROW,LEVEL=2",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out(&output).contains("two.h (plain): c_api.h of revision r10"),
        "{}",
        out(&output)
    );
    assert!(
        err(&output).contains("two.h (narrow) is not"),
        "{}",
        err(&output)
    );
    assert!(abi(&["check", "--header", &two]).status.success());
    assert_eq!(
        abi(&["check", "--header", &two, "-D", "NARROW"])
            .status
            .code(),
        Some(1)
    );
    // A flat copy of an extension's header finds the main one beside it.
    let record = copy(folder.path(), "flat/record_c_api.h", str::to_owned);
    copy(folder.path(), "flat/c_api.h", str::to_owned);
    let value = json(&[
        "check",
        "--header",
        &record,
        "--header",
        "include/xla/ffi/api/c_api.h",
        "--json",
    ]);
    let editions: Vec<_> = value["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| &h["edition"])
        .collect();
    assert_eq!(editions, ["record-0.2", "r10"]);
    // What it includes lies elsewhere, and nowhere.
    let apart = copy(folder.path(), "apart/c_api.h", |text| {
        format!("#include \"parts.h\"\n{text}")
    });
    let output = abi(&["check", "--header", &apart, "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["exit"]["kind"], "bad-input");
    assert!(
        value["headers"][0]["error"]
            .as_str()
            .unwrap()
            .contains("parts.h"),
        "{value}"
    );
    let parts = folder.path().join("parts");
    std::fs::create_dir(&parts).unwrap();
    std::fs::write(parts.join("parts.h"), "").unwrap();
    assert!(
        abi(&["check", "--header", &apart, "-I", parts.to_str().unwrap()])
            .status
            .success()
    );
    let harmless = copy(folder.path(), "harmless.h", |text| {
        text.replacen("  int64_t rank;", "  int64_t order;", 1)
    });
    assert_eq!(
        abi(&["check", "--header", &harmless]).status.code(),
        Some(1)
    );
    assert!(
        abi(&["check", "--header", &harmless, "--fail-on", "lacks"])
            .status
            .success()
    );
}

#[test]
fn diff_and_show_take_files_and_revisions_alike() {
    let snapshot = "abi/snapshots/r9.json";
    let value = json(&["diff", snapshot, "r10", "--json"]);
    let known = json(&["diff", "r9", "r10", "--json"]);
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
    let value = json(&["diff", "include/xla/ffi/api/c_api.h", &edited, "--json"]);
    assert_eq!(value["changes"].as_array().unwrap().len(), 1, "{value:#}");
    assert_eq!(value["changes"][0]["class"], "retyped");
    let value = json(&["show", &edited, "Buffer", "--json"]);
    let rank = value["struct"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["name"] == "rank");
    assert_eq!(rank.unwrap()["type"], "u64");
}

#[test]
fn what_is_no_header_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let check = |path: &str| {
        let output = abi(&["check", "--header", path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        let told = err(&output);
        assert!(!told.contains("panicked"), "{told}");
        told
    };
    assert!(check("not/there.h").contains("cannot read"));
    assert!(check(folder.path().to_str().unwrap()).contains("not a regular file"));
    assert!(check(&file("zero.h", b"a\0b")).contains("zero bytes"));
    assert!(check("/dev/zero").contains("not a regular file"));
    if can_read("what_is_no_header_is_told") {
        assert!(
            check(&file("other.h", b"struct z_stream { int a; };\n")).contains("nothing of XLA")
        );
        assert!(check(&file("broken.h", b"struct XLA_FFI_Buffer {\n")).contains("does not parse"));
        assert!(check(&file("empty.h", b"")).contains("nothing of XLA"));
    }
}
