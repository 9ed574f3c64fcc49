//! The workflow file of the book, step by step: its `run:` lines run in a fresh folder, with the built program
//! in place of the installed one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::{root, skip};

/// What the runner needs of the file: the values under `env`, and the steps that run something.
struct Workflow {
    env: BTreeMap<String, String>,
    /// Name and script, without those that install.
    steps: Vec<(String, String)>,
    /// What a step's `if` asks to be not empty, by the step's name.
    conditions: BTreeMap<String, String>,
}

/// Reads the one file that we wrote: two spaces a level, `run:` inline or as a block.
fn workflow() -> Workflow {
    let text = std::fs::read_to_string(root().join("docs/ci/xla-ffi.yml")).unwrap();
    let mut workflow = Workflow {
        env: BTreeMap::new(),
        steps: Vec::new(),
        conditions: BTreeMap::new(),
    };
    let mut section = "";
    let mut name = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with([' ', '#']) && !line.is_empty() {
            section = line;
        }
        let plain = line.trim();
        if section == "env:" && line.starts_with("  ") && !plain.starts_with('#') {
            let (key, value) = plain.split_once(": ").unwrap();
            workflow
                .env
                .insert(key.to_owned(), value.trim_matches('"').to_owned());
        } else if let Some(step) = plain.strip_prefix("- name: ") {
            name = step.to_owned();
        } else if let Some(condition) = plain.strip_prefix("if: env.") {
            let variable = condition
                .strip_suffix(" != ''")
                .expect("the only form of a condition");
            workflow
                .conditions
                .insert(name.clone(), variable.to_owned());
        } else if let Some(script) = plain.strip_prefix("run: ") {
            let mut block = String::new();
            if script == "|" {
                let indent = " ".repeat(10);
                while let Some(line) = lines.peek()
                    && (line.starts_with(&indent) || line.is_empty())
                {
                    block.push_str(line.trim_start_matches(&indent));
                    block.push('\n');
                    lines.next();
                }
            } else {
                block = script.to_owned();
            }
            workflow.steps.push((name.clone(), block));
        }
    }
    workflow
}

/// Runs the steps in `folder` as a runner does, until one fails: the name of that one and what was said.
fn run(
    workflow: &Workflow,
    folder: &Path,
    values: &[(&str, &str)],
) -> Result<String, (String, String)> {
    let mut env = workflow.env.clone();
    for (key, value) in values {
        assert!(env.contains_key(*key), "the workflow has no {key}");
        env.insert((*key).to_owned(), (*value).to_owned());
    }
    let program = Path::new(env!("CARGO_BIN_EXE_xla-ffi")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut said = String::new();
    for (name, script) in &workflow.steps {
        // The built program stands in, and libclang is here or is not.
        if name.starts_with("Install ") {
            continue;
        }
        if workflow
            .conditions
            .get(name)
            .is_some_and(|variable| env[variable].is_empty())
        {
            continue;
        }
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(folder)
            .envs(&env)
            .env("PATH", format!("{}:{path}", program.display()))
            .output()
            .unwrap();
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return Err((name.clone(), said));
        }
    }
    Ok(said)
}

#[test]
fn every_step_does_what_it_says() {
    for tool in ["bash", "gcc", "g++"] {
        if !works(tool) {
            return skip("every_step_does_what_it_says", &format!("no {tool}"));
        }
    }
    let workflow = workflow();
    let names: Vec<&str> = workflow
        .steps
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "Install the checker",
            "Install libclang, which reads the headers",
            "Check the headers",
            "Build",
            "Ask the doctor"
        ]
    );
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let headers = folder.join("third_party/xla/ffi/api");
    std::fs::create_dir_all(&headers).unwrap();
    let ours = root().join("include/xla/ffi/api/c_api.h");
    let copy = headers.join("c_api.h");
    std::fs::copy(&ours, &copy).unwrap();
    // A handler of C, made with the copied header, that answers what the runtime speaks.
    let source = r#"
#include "third_party/xla/ffi/api/c_api.h"
XLA_FFI_Error* NAME(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Metadata_Extension* asked = (XLA_FFI_Metadata_Extension*)frame->extension_start;
  if (asked && asked->extension_base.type == XLA_FFI_Extension_Metadata) {
    asked->metadata->api_version.major_version = 0;
    asked->metadata->api_version.minor_version = frame->api ? frame->api->api_version.minor_version : 1;
    asked->metadata->traits = 0;
  }
  return 0;
}
"#;
    std::fs::write(folder.join("one.c"), source.replace("NAME", "first")).unwrap();
    std::fs::write(folder.join("two.c"), source.replace("NAME", "second")).unwrap();
    let build =
        "mkdir -p build && for n in one two; do gcc -shared -fPIC -I. $n.c -o build/lib$n.so; done";
    let handlers = "first second";
    let good = [
        ("BUILD", build),
        ("HANDLERS", handlers),
        ("REVISION", "r10"),
    ];
    let with = |more: &[(&str, &str)]| run(&workflow, folder, &[&good[..], more].concat());
    let said = with(&[]).unwrap_or_else(|(step, said)| panic!("{step}: {said}"));
    assert!(said.contains("revision r10"), "{said}");
    let fails = |more: &[(&str, &str)], step: &str, what: &str| {
        let (failed, said) = with(more).expect_err(what);
        assert_eq!(failed, step, "{said}");
        assert!(said.contains(what), "{said}");
    };
    fails(&[("REVISION", "r9")], "Check the headers", "is not r9");
    fails(
        &[("HEADERS", "nowhere/*.h")],
        "Check the headers",
        "no header matches",
    );
    fails(&[("BUILD", "false")], "Build", "");
    fails(
        &[("LIBRARIES", "nowhere/*.so")],
        "Ask the doctor",
        "no library matches",
    );
    fails(&[("HANDLERS", "")], "Ask the doctor", "XF002");
    fails(
        &[("HANDLERS", "libone.so:third")],
        "Ask the doctor",
        "::error file=build/libone.so,title=XF102",
    );
    with(&[("HEADERS", ""), ("JAXLIBS", "")])
        .unwrap_or_else(|(step, said)| panic!("{step}: {said}"));
    let text = std::fs::read_to_string(&copy).unwrap();
    std::fs::write(&copy, text.replacen("int64_t rank;", "uint64_t rank;", 1)).unwrap();
    fails(&[], "Check the headers", "retyped: rank");
}

#[test]
fn the_hook_checks_what_it_is_given() {
    let text = std::fs::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}")).trim().to_owned()
    };
    // pre-commit appends the names of the files that changed.
    let entry = value("entry:");
    let arguments = entry.strip_prefix("xla-ffi ").unwrap();
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
