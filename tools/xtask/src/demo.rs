//! `cargo xtask demo` runs each example in each language, first on the embedded runtime and then in JAX.

use crate::cargo::{cargo, python_driver};
use crate::examples::{self, Built, Call, Language};
use crate::{folders, libraries, venv};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn run() -> Result<()> {
    let root = folders::checkout();
    // A debug build is faster, because it shares most dependencies with this program.
    let mut command = cargo(&root);
    command.args(["build", "--package", "xla-ffi-examples", "--examples"]);
    command.args([
        "--package",
        "xla-ffi-cli",
        "--bin",
        "xla-ffi",
        "--no-default-features",
    ]);
    libraries::run(&mut command, "cargo build of the examples and the CLI")?;
    let built = Built::of_demo(&root)?;
    let mut wrong = embedded(&root, &built, &root.join("target/debug/xla-ffi"))?;
    println!();
    match venv::newest() {
        Ok(venv) => {
            println!("In JAX: {venv}");
            let mut driver = python_driver(&root, &venv, "examples.py");
            let status = driver
                .arg("--table")
                .args(built.arguments()?)
                .status()
                .context("starting Python")?;
            if !status.success() {
                wrong.push(format!("the JAX part ended with {status}"));
            }
        }
        Err(error) => wrong.push(format!("the JAX part cannot run: {error:#}")),
    }
    println!();
    if wrong.is_empty() {
        println!("Every example ran.");
        return Ok(());
    }
    bail!("{}", wrong.join("\n"));
}

/// Prints a row of the demo's table.
fn row(example: &str, call: &str, languages: &str, answer: &str) {
    println!("{example:<14}{call:<58}{languages:<14}{answer}");
}

/// Runs the examples without XLA and Python, and returns the failures. `cargo xtask test` compares the printed numbers.
fn embedded(root: &Path, built: &Built, cli: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    println!("\nOn the embedded runtime (no XLA, no Python)");
    for example in examples::table(root)? {
        for call in &example.calls {
            let Some(says) = &call.says else { continue };
            let mut answers: Vec<(String, Vec<&str>)> = Vec::new();
            for language in example.languages.iter().copied() {
                if !call.languages.contains(&language) {
                    continue;
                }
                let answer = match built.library(&example.library, language)? {
                    None => "skipped: no compiler".to_owned(),
                    Some(library) => {
                        let (good, text) = tool(cli, &library, &command_line(call, language)?)?;
                        if !good {
                            let name = language.name();
                            wrong.push(format!("{} in {name}, {says}: {text}", example.name));
                        }
                        unnamed(&text)
                    }
                };
                match answers.iter_mut().find(|(text, _)| *text == answer) {
                    Some((_, languages)) => languages.push(language.name()),
                    None => answers.push((answer, vec![language.name()])),
                }
            }
            for (answer, languages) in answers {
                row(&example.name, says, &languages.join(", "), &answer);
            }
        }
    }
    let library = built.library("rms_norm", Language::Rust)?;
    let library = library.context("rms_norm in Rust")?;
    let call = ["--handler", "rms_norm", "--arg", "f32[3]=1,2,3"];
    let mut call: Vec<String> = call.map(str::to_owned).into();
    call.extend(["--attrs".to_owned(), "{epz = 1.0e-6 : f32}".to_owned()]);
    let (good, text) = tool(cli, &library, &call)?;
    row(
        "an error",
        "an attribute that the handler does not know",
        "Rust",
        &text,
    );
    if good {
        wrong.push("an unknown attribute is not an error".to_owned());
    }
    Ok(wrong)
}

/// Returns the arguments for `xla-ffi run`. The results are declared with `--ret`.
fn command_line(call: &Call, language: Language) -> Result<Vec<String>> {
    let name = &call.handler;
    let handler = if language == Language::Rust || call.stages.is_empty() {
        name.clone()
    } else {
        // The handlers of a library without a manifest are named by their symbols.
        let stages = call.stages.iter();
        stages.fold(format!("execute={name}"), |all, stage| {
            format!("{all},{stage}={name}_{stage}")
        })
    };
    let mut line = vec!["--handler".to_owned(), handler];
    for arg in &call.args {
        line.extend(["--arg".to_owned(), arg.clone()]);
    }
    if let Some(attrs) = &call.attrs {
        line.extend(["--attrs".to_owned(), attrs.clone()]);
    }
    for expected in &call.expect {
        let (shape, _) = expected
            .split_once('=')
            .context("an expected result without a value")?;
        line.extend(["--ret".to_owned(), shape.to_owned()]);
    }
    Ok(line)
}

/// Returns the output as one line without the names of results, which only libraries with a manifest have.
fn unnamed(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let rest = line
            .split_once(": ")
            .filter(|(name, _)| !name.contains(' '));
        rest.map_or(line, |(_, rest)| rest)
    });
    lines.collect::<Vec<_>>().join(", ")
}

/// Runs `xla-ffi run`. Returns true if the command succeeded, and its output or error.
fn tool(cli: &Path, library: &Path, arguments: &[String]) -> Result<(bool, String)> {
    let mut command = Command::new(cli);
    command
        .arg("run")
        .arg(library)
        .args(arguments)
        .stdin(Stdio::null());
    let output = command
        .output()
        .with_context(|| format!("starting {}", cli.display()))?;
    let text = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    let lines: Vec<String> = String::from_utf8_lossy(&text)
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    Ok((output.status.success(), lines.join("\n")))
}
