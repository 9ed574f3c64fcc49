//! Tests the steps of `action.yml` with the tool of this build. Also tests the workflow in the documentation, and
//! the pre-commit hook.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::{root, skip};

/// Parses a YAML file, by its path in this repository.
fn yaml(path: &str) -> Value {
    let text = std::fs::read_to_string(root().join(path)).expect(path);
    serde_yaml_ng::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The GitHub action, and the folders that one run of the action uses.
struct Action {
    definition: Value,
    /// The runner's temporary folder, which contains the installed tool.
    temp: tempfile::TempDir,
    /// The folder with the checkout of the user's repository.
    checkout: tempfile::TempDir,
}

impl Action {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let bin = temp.path().join("xla-ffi/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(temp.path().join("xla-ffi/sarif")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_xla-ffi"), bin.join("xla-ffi")).unwrap();
        Self {
            definition: yaml("action.yml"),
            temp,
            checkout: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs one step of the action as a runner does. Returns its output, or `None` if the step's condition is false.
    fn step(&self, name: &str, inputs: &[(&str, &str)]) -> Option<Output> {
        let value = |input: &str| {
            let known = &self.definition["inputs"][input];
            assert!(known.is_object(), "{name}: no input {input}");
            let given = inputs.iter().find(|(key, _)| *key == input);
            given.map_or(known["default"].as_str().unwrap(), |(_, value)| value)
        };
        let steps = self.definition["runs"]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["name"] == name).expect(name);
        let condition = step["if"].as_str().unwrap_or_default();
        for part in condition.split("inputs.").skip(1) {
            let (input, _) = part.split_once(" != ''").expect("a comparison with ''");
            if value(input).is_empty() {
                return None;
            }
        }
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c"]);
        command.arg(step["run"].as_str().unwrap());
        for (key, expression) in step["env"].as_object().unwrap() {
            let inputs = expression.as_str().unwrap().split("${{ inputs.").skip(1);
            let values = inputs.map(|rest| value(rest.split_once(" }}").unwrap().0));
            command.env(key, values.collect::<String>());
        }
        let command = command.env("RUNNER_TEMP", self.temp.path());
        Some(command.current_dir(self.checkout.path()).output().unwrap())
    }

    fn passes(&self, name: &str, inputs: &[(&str, &str)]) -> String {
        let output = self.step(name, inputs).expect("the step runs");
        let printed = printed(&output);
        assert!(output.status.success(), "{name}: {printed}");
        printed
    }

    /// Runs one step of the action. The step must fail and print the text `text`.
    fn fails(&self, name: &str, inputs: &[(&str, &str)], text: &str) {
        let output = self.step(name, inputs).expect("the step runs");
        let printed = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains(text), "{printed}");
    }

    /// Returns the numbers of the findings in a SARIF file, without notes, and removes the file.
    fn uploads(&self, file: &str) -> Vec<String> {
        let path = self.temp.path().join("xla-ffi/sarif").join(file);
        let text = std::fs::read_to_string(&path).expect(file);
        std::fs::remove_file(path).unwrap();
        let sarif: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(sarif["version"], "2.1.0");
        let results = sarif["runs"][0]["results"].as_array().unwrap().iter();
        results
            .filter(|result| result["level"] != "note")
            .map(|result| result["ruleId"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text))
        .concat()
}

/// A C handler that includes a copy of XLA's header and answers with the runtime's version.
const HANDLER: &str = r#"
#include "third_party/xla/ffi/api/c_api.h"
XLA_FFI_Error* my_op(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* asked = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (asked && asked->extension_base.type == XLA_FFI_Extension_Metadata) {
    asked->metadata->api_version.major_version = 0;
    asked->metadata->api_version.minor_version = frame->api ? frame->api->api_version.minor_version : 1;
    asked->metadata->traits = 0;
  }
  return 0;
}
"#;

#[test]
fn the_action_checks_headers() {
    const STEP: &str = "Check the headers";
    if std::env::var_os("LIBCLANG_PATH").is_none() {
        return skip(
            "the_action_checks_headers",
            "no libclang (set LIBCLANG_PATH)",
        );
    }
    let action = Action::new();
    let headers = action.checkout.path().join("third_party/xla/ffi/api");
    std::fs::create_dir_all(&headers).unwrap();
    let copy = headers.join("c_api.h");
    std::fs::copy(root().join("include/xla/ffi/api/c_api.h"), &copy).unwrap();
    let given = ("headers", "third_party/xla/ffi/api/*c_api.h");
    let sarif = ("sarif", "true");

    let printed = action.passes(STEP, &[given, ("revision", "r10")]);
    assert!(
        printed.contains("passed: third_party/xla/ffi/api/c_api.h"),
        "{printed}"
    );
    action.passes(STEP, &[given, sarif, ("header-options", "-I third_party")]);
    assert!(action.uploads("headers.sarif").is_empty());
    action.fails(STEP, &[given, ("revision", "r9")], "is not r9");
    action.fails(
        STEP,
        &[("headers", "nowhere/*.h")],
        "::error::no header matches nowhere/*.h",
    );
    assert!(action.step(STEP, &[]).is_none());

    let text = std::fs::read_to_string(&copy).unwrap();
    std::fs::write(&copy, text.replacen("int64_t rank;", "uint64_t rank;", 1)).unwrap();
    action.fails(STEP, &[given], ",title=XF306::");
    action.fails(STEP, &[given, sarif], "XF306");
    assert_eq!(action.uploads("headers.sarif"), ["XF306"]);
}

#[test]
fn the_action_checks_libraries() {
    const STEP: &str = "Check the libraries";
    if !works("gcc") {
        return skip("the_action_checks_libraries", "no gcc");
    }
    let action = Action::new();
    let checkout = action.checkout.path();
    std::fs::create_dir_all(checkout.join("third_party")).unwrap();
    std::os::unix::fs::symlink(root().join("include/xla"), checkout.join("third_party/xla"))
        .unwrap();
    std::fs::write(checkout.join("my_op.c"), HANDLER).unwrap();
    for library in ["libone.so", "libtwo.so"] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-I.", "my_op.c", "-o", library]);
        assert!(gcc.current_dir(checkout).status().unwrap().success());
    }
    let given = ("libraries", "lib*.so");
    let handler = ("library-options", "--handler my_op");
    let sarif = ("sarif", "true");

    action.passes(STEP, &[given, handler]);
    action.passes(
        STEP,
        &[given, handler, sarif, ("jaxlibs", "0.4.38 0.9.1..")],
    );
    assert!(action.uploads("libraries.sarif").is_empty());
    // The action uses `--strict`, so a library without a manifest fails unless its handlers are named.
    action.fails(STEP, &[given], "XF002");
    let missing = ("library-options", "--handler libone.so:other");
    action.fails(
        STEP,
        &[given, missing],
        "::error file=libone.so,title=XF102",
    );
    action.fails(STEP, &[given, missing, sarif], "XF102");
    assert!(
        action
            .uploads("libraries.sarif")
            .contains(&"XF102".to_owned())
    );
    action.fails(
        STEP,
        &[("libraries", "nowhere/*.so")],
        "::error::no library or wheel matches",
    );
    assert!(action.step(STEP, &[]).is_none());
    let refused = action
        .step(STEP, &[given, handler, ("fail-on", "never")])
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));

    std::fs::write(checkout.join("damaged-1.0-py3-none-any.whl"), "").unwrap();
    action.fails(
        STEP,
        &[("libraries", "*.whl")],
        "damaged-1.0-py3-none-any.whl",
    );
    action.fails("Check the inputs", &[], "headers, libraries, or both");
    action.passes("Check the inputs", &[given]);
}

#[test]
fn workflows_pass_inputs_that_the_action_has() {
    let inputs = &yaml("action.yml")["inputs"];
    for (file, uses) in [
        (".github/workflows/ci.yml", "./"),
        ("docs/ci/xla-ffi.yml", "xla-ffi/xla-ffi@"),
    ] {
        let workflow = yaml(file);
        let jobs = workflow["jobs"].as_object().unwrap().values();
        let mut steps = jobs.flat_map(|job| job["steps"].as_array().unwrap());
        let is_ours = |step: &&Value| step["uses"].as_str().is_some_and(|it| it.starts_with(uses));
        let step = steps.find(is_ours).expect(file);
        for input in step["with"].as_object().unwrap().keys() {
            assert!(inputs[input].is_object(), "{file}: {input}");
        }
    }
}

#[test]
fn the_hook_checks_what_it_is_given() {
    let hook = &yaml(".pre-commit-hooks.yaml")[0];
    // pre-commit searches for this pattern in the paths of changed files.
    let matches = |path: &str| {
        let mut grep = Command::new("bash");
        grep.args(["-c", r#"grep -qE "$0" <<<"$1""#]);
        grep.args([hook["files"].as_str().unwrap(), path]);
        grep.status().unwrap().success()
    };
    for header in ["c_api.h", "record_c_api.h", "collectives_c_api.h"] {
        assert!(
            matches(&format!("third_party/xla/ffi/api/{header}")),
            "{header}"
        );
    }
    assert!(matches("ffi/api/c_api.h"));
    for other in [
        "xla/pjrt/c/pjrt_c_api.h",
        "xla/ffi/api/pjrt_c_api.h",
        "tensorflow/c/c_api.h",
        "xla/ffi/api/c_api_internal.h",
        "ffi/api/c_api.hpp",
    ] {
        assert!(!matches(other), "{other}");
    }

    // pre-commit runs the command with the paths of changed files as additional arguments.
    let arguments = hook["entry"]
        .as_str()
        .unwrap()
        .strip_prefix("xla-ffi ")
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ours = root().join("include/xla/ffi/api");
    let edited = folder.path().join("c_api.h");
    let text = std::fs::read_to_string(ours.join("c_api.h")).unwrap();
    std::fs::write(&edited, text.replacen("int64_t rank;", "uint64_t rank;", 1)).unwrap();
    let run = |files: &[&Path]| {
        let program = env!("CARGO_BIN_EXE_xla-ffi");
        Command::new(program)
            .args(arguments.split(' '))
            .args(files)
            .output()
            .unwrap()
    };
    let [main, record] = ["c_api.h", "record_c_api.h"].map(|name| ours.join(name));
    let output = run(&[&main, &record]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("libclang cannot be loaded") {
        return skip("the_hook_checks_what_it_is_given", &said);
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(run(&[&main, &edited]).status.code(), Some(1));
}
