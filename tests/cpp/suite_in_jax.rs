//! Runs the cases of `tests/cpp` with our headers in the newest and the oldest listed jaxlib.
//!
//! Cases that JAX cannot run are reported; the embedded runtime covers them (`suite.rs`).

use crate::cases::{Case, Failure, For, cases, check};
use crate::{Headers, build, sources};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xla_ffi_runtime::Revision;
use xla_ffi_testing::{compiler::cpp_compilers, skip};

/// Compares the outcome in a jaxlib with a case's expected outcome.
fn judge(
    case: &Case,
    revision: Revision,
    outcome: Result<Vec<Vec<f64>>, Failure>,
) -> Result<(), String> {
    let lacks = if revision < case.parsed_from() {
        Some("Unsupported attribute type")
    } else if revision < case.from() {
        // r0 does not check the version, so the handler itself reports the missing feature.
        Some(match revision {
            Revision::R0 => "the first jaxlib that has it is",
            _ => "version",
        })
    } else {
        None
    };
    match (lacks, outcome) {
        (None, outcome) => check(case, outcome, revision >= Revision::R2, true),
        (Some(words), Err(failure)) if failure.message.contains(words) => Ok(()),
        (Some(words), outcome) => Err(format!("expected {words:?}, got {outcome:?}")),
    }
}

/// Returns the reason why an old jaxlib cannot run a case, if any.
fn lack(revision: Revision, case: &Case) -> Option<&'static str> {
    let symbol = case.stages[0].1.as_str();
    // The XLA of r0 dereferences a null pointer if a program requests scratch memory.
    if revision == Revision::R0 && symbol == "scratch" {
        Some("an end of the process for a handler that allocates, in this revision")
    } else if Some(revision) < Revision::of_jaxlib("0.5.1") && case.line.contains("token") {
        Some("no tokens for handlers in this revision")
    } else {
        None
    }
}

/// Runs all cases in the jaxlib of the Python interpreter that a variable names.
fn in_jax(test: &str, variable: &str) {
    let Some(python) = std::env::var_os(variable).map(PathBuf::from) else {
        let reason = format!("{variable} is not set (`cargo xtask test` sets it)");
        return skip(test, &reason);
    };
    let Some(compiler) = cpp_compilers(test).first().copied() else {
        return;
    };
    let output = Command::new(&python)
        .args(["-c", "import jaxlib; print(jaxlib.__version__)"])
        .output()
        .expect("the interpreter starts");
    let jaxlib = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let revision = Revision::of_jaxlib(&jaxlib).expect("a jaxlib");
    let (mut asked, mut lines) = (vec![], String::new());
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources() {
        let library = build(compiler, &source, &Headers::Ours, &[]);
        for case in cases(&source) {
            if case.of == For::Upstream || revision < case.only() {
                continue;
            }
            let target = format!("case_{}", asked.len());
            match lack(revision, &case)
                .map_or_else(|| case.in_jax(&library, &target), |lack| Err(lack.into()))
            {
                Ok(line) => {
                    lines.push_str(&format!("{line}\n"));
                    asked.push(case);
                }
                Err(lack) => *left_out.entry(lack).or_default() += 1,
            }
        }
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.jsonl"));
    std::fs::write(&file, lines).expect("the target folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .arg(root.join("tests/jax/differential.py"))
        .arg(file)
        .env("PYTHONPATH", root.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("JAX_PLATFORMS", "cpu")
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let mut wrong = vec![];
    for (case, answer) in asked.iter().zip(&answers) {
        let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
        let outcome = match text("code").as_str() {
            "OK" => Ok(serde_json::from_value(answer["values"].clone()).expect("numbers")),
            code => Err(Failure {
                code: code.to_owned(),
                message: text("message"),
            }),
        };
        if let Err(problem) = judge(case, revision, outcome) {
            wrong.push(format!("{}: {problem}", case.line));
        }
    }
    println!("{} cases in jaxlib {jaxlib}, {revision}", answers.len());
    for (lack, count) in &left_out {
        println!("{count} left out: JAX has {lack}");
    }
    if let Some(case) = asked.get(answers.len()) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        wrong.push(format!("{}: {}\n{stderr}", case.line, output.status));
    }
    assert!(wrong.is_empty(), "jaxlib {jaxlib}:\n{}", wrong.join("\n"));
    assert!(asked.len() > 250, "only {} cases", asked.len());
}

#[test]
fn in_the_newest_jaxlib() {
    in_jax("in_the_newest_jaxlib", "XLA_FFI_PYTHON");
}

#[test]
fn in_the_oldest_jaxlib() {
    in_jax("in_the_oldest_jaxlib", "XLA_FFI_OLDEST_PYTHON");
}
