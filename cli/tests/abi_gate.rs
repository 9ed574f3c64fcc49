//! Tests failing checks of headers and mirrors: thresholds, allow-lists, baselines, and the output formats for CI.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_testing::skip;

fn check(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["abi", "check"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Writes a copy of the newest header with two changes. One changes the sign of a rank (severity `breaks`), and one
/// adds a struct (severity `lacks`).
fn edited(folder: &Path) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include/xla/ffi/api/c_api.h");
    let text = std::fs::read_to_string(ours).unwrap();
    let text = text.replacen("  int64_t rank;", "  uint64_t rank;", 1);
    let more = "struct XLA_FFI_Api {";
    assert_eq!(text.matches(more).count(), 1);
    let text = text.replacen(
        more,
        &format!("struct XLA_FFI_Ours {{ int a; }};\n{more}"),
        1,
    );
    write(folder, "c_api.h", &text);
}

fn prepared(test: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    edited(folder.path());
    let output = check(folder.path(), &["--header", "c_api.h"]);
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output.stderr);
    if said.contains("libclang cannot be loaded") {
        skip(test, &said);
        return None;
    }
    assert!(
        said.contains("retyped: rank") && said.contains("added: XLA_FFI_Ours"),
        "{said}"
    );
    let path = folder.path().to_owned();
    Some((folder, path))
}

#[test]
fn known_differences_stay_quiet_and_new_ones_fail() {
    let Some((_folder, folder)) = prepared("known_differences_stay_quiet_and_new_ones_fail") else {
        return;
    };
    let run = |arguments: &[&str]| {
        let output = check(
            &folder,
            &[&["--header", "c_api.h", "--format=json"], arguments].concat(),
        );
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), value["headers"][0].clone())
    };
    write(
        &folder,
        "one",
        "# ours\nXF306 c_api.h/XLA_FFI_Buffer.rank: we count from zero\n",
    );
    let (code, header) = run(&["--allow", "one"]);
    assert_eq!(
        (code, &header["failing"][0]),
        (Some(1), &"XF301 c_api.h/XLA_FFI_Ours".into())
    );
    assert_eq!(
        header["known"][0]["key"],
        "XF306 c_api.h/XLA_FFI_Buffer.rank"
    );
    write(
        &folder,
        "both",
        "XF306 */XLA_FFI_Buffer.rank: why\nXF301 c_api.h/*: why\n",
    );
    assert_eq!(run(&["--allow", "both"]).0, Some(0));
    // With the baseline, only findings that the baseline does not contain fail the run.
    assert_eq!(run(&["--write-baseline", "base"]).0, Some(0));
    assert_eq!(run(&["--baseline", "base"]).0, Some(0));
    let text = std::fs::read_to_string(folder.join("c_api.h")).unwrap();
    let text = text.replacen("  int64_t* dims;", "  uint64_t* dims;", 1);
    write(&folder, "c_api.h", &text);
    let (code, header) = run(&["--baseline", "base"]);
    assert_eq!(
        (code, &header["failing"][0]),
        (Some(1), &"XF306 c_api.h/XLA_FFI_Buffer.dims".into())
    );
    assert_eq!(header["known"].as_array().unwrap().len(), 2, "{header:#}");
}

#[test]
fn ci_reads_headers_in_its_own_forms() {
    let Some((_folder, folder)) = prepared("ci_reads_headers_in_its_own_forms") else {
        return;
    };
    let run = |arguments: &[&str]| {
        let headers = ["--header", "c_api.h", "nowhere.h", "--fail-on", "breaks"];
        let output = check(&folder, &[&headers, arguments].concat());
        assert_eq!(output.status.code(), Some(1));
        words(&output.stdout)
    };
    let sarif: Value = serde_json::from_str(&run(&["--format", "sarif"])).unwrap();
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"]
        .as_array()
        .unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let text = std::fs::read_to_string(folder.join("c_api.h")).unwrap();
    let told: Vec<[&str; 3]> = results
        .iter()
        .map(|result| {
            assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            let place = &result["locations"][0]["physicalLocation"];
            let line = place["region"]["startLine"].as_u64();
            let line = line.map(|line| text.lines().nth(line as usize - 1).unwrap());
            let expected = match result["ruleId"].as_str().unwrap() {
                "XF306" => Some("  uint64_t rank;"),
                "XF301" => Some("struct XLA_FFI_Ours { int a; };"),
                _ => None,
            };
            assert_eq!(line, expected, "{result:#}");
            let place = &place["artifactLocation"]["uri"];
            [&result["ruleId"], &result["level"], place].map(|value| value.as_str().unwrap())
        })
        .collect();
    let expected = [
        ["XF306", "error", "c_api.h"],
        ["XF301", "warning", "c_api.h"],
        ["XF331", "error", "nowhere.h"],
    ];
    for expected in expected {
        assert!(told.contains(&expected), "{expected:?}: {told:?}");
    }
    assert_eq!(told.len(), expected.len(), "{told:?}");
    let github = run(&["--format", "github"]);
    let lines: Vec<&str> = github.lines().collect();
    assert_eq!(lines.len(), 3, "{github}");
    assert!(
        lines[0].starts_with("::error file=c_api.h,line=") && lines[0].contains(",title=XF306::"),
        "{github}"
    );
    assert!(lines[0].contains("was i64, is u64"), "{github}");
    assert!(
        lines[2].starts_with("::error file=nowhere.h,title=XF331::"),
        "{github}"
    );
}
