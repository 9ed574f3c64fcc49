//! `cargo xtask demo`: each example in each language on the embedded runtime, then in JAX.

use crate::cargo::python_driver;
use crate::examples::{self, Built, Call, Language};
use crate::venv;
use crate::{jaxlibs, libraries};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Command line of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use the newest jaxlib of the package index, listed or not.
    #[arg(long)]
    latest: bool,
}

/// What differs from the expected numbers, relative where they are large.
const TOLERANCE: f64 = 1e-6;

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    libraries::build_rust(&root)?;
    let built = Built::new(&root)?;
    let cli = libraries::build_cli(&root)?;
    let mut wrong = embedded(&root, &built, &cli)?;
    println!();
    match if args.latest {
        venv::latest()
    } else {
        venv::newest()
    } {
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
        println!("Every example gave what it should.");
        return Ok(());
    }
    bail!("{}", wrong.join("\n"));
}

/// One row of the table.
fn row(example: &str, call: &str, languages: &str, answer: &str) {
    println!("{example:<14}{call:<58}{languages:<14}{answer}");
}

/// Runs the examples without XLA and Python; returns what went wrong.
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
                let answer = match built.library(&example.name, language)? {
                    None => "skipped: no compiler".to_owned(),
                    Some(library) => {
                        let outcome = tool(cli, &library, &command_line(call, language)?)?;
                        if let Err(why) = compare(&outcome, call) {
                            let name = language.name();
                            wrong.push(format!("{} in {name}, {says}: {why}", example.name));
                        }
                        unnamed(&outcome.1)
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
    if built.compiles(Language::Cpp) {
        wrong.extend(upstream(root, cli)?);
    }
    let library = libraries::rust(root, "rms_norm")?;
    let call = ["--handler", "rms_norm", "--arg", "f32[3]=1,2,3"];
    let mut call: Vec<String> = call.map(str::to_owned).into();
    call.extend(["--attrs".to_owned(), "{epz = 1.0e-6 : f32}".to_owned()]);
    let (code, text) = tool(cli, &library, &call)?;
    row(
        "an error",
        "an attribute that the handler does not know",
        "Rust",
        &text,
    );
    if code != Some(1) || !(text.contains("INVALID_ARGUMENT") && text.contains("epz")) {
        wrong.push(format!("an unknown attribute: expected exit 1 and an INVALID_ARGUMENT that names epz, got {code:?}, {text:?}"));
    }
    Ok(wrong)
}

/// A handler built from upstream's own headers runs there too; the headers come from a wheel.
fn upstream(root: &Path, cli: &Path) -> Result<Option<String>> {
    let library = match libraries::upstream(root, "testing/fixtures/upstream/conformance.cc") {
        Ok(library) => library,
        Err(error) => {
            return Ok(Some(format!(
                "the handler from upstream's headers cannot be built: {error:#}"
            )));
        }
    };
    let call = [
        "--handler",
        "scale",
        "--arg",
        "f32[3]=1,2,3",
        "--ret",
        "f32[3]",
        "--attrs",
        "{factor = 2.0 : f32}",
    ];
    let (code, text) = tool(cli, &library, &call.map(str::to_owned))?;
    row(
        "scale",
        "from upstream's headers: 2 [1,2,3]",
        "C++",
        &unnamed(&text),
    );
    let good = code == Some(0) && text.ends_with("f32[3] [2, 4, 6]");
    Ok((!good).then(|| format!("scale from upstream's headers: expected [2, 4, 6], got {text:?}")))
}

/// What `xla-ffi run` is told. The manifest of a Rust library says what the results are.
fn command_line(call: &Call, language: Language) -> Result<Vec<String>> {
    let name = &call.handler;
    let handler = if language == Language::Rust || call.stages.is_empty() {
        name.clone()
    } else {
        // A library without a manifest is called by its symbols.
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

/// The answer as one line, without the results' names, which only a manifest tells.
fn unnamed(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let rest = line
            .split_once(": ")
            .filter(|(name, _)| !name.contains(' '));
        rest.map_or(line, |(_, rest)| rest)
    });
    lines.collect::<Vec<_>>().join(", ")
}

/// Compares what the tool printed, a line a result, with the expected results.
fn compare((code, text): &(Option<i32>, String), call: &Call) -> Result<(), String> {
    let lines: Vec<&str> = text.lines().collect();
    let same = *code == Some(0)
        && lines.len() == call.expect.len()
        && lines
            .iter()
            .zip(&call.expect)
            .all(|(line, expected)| is_shown(line, expected).is_some());
    let wrong = || format!("expected {:?}, got {text:?} (exit {code:?})", call.expect);
    same.then_some(()).ok_or_else(wrong)
}

/// Whether a printed line shows an expected result.
fn is_shown(line: &str, expected: &str) -> Option<()> {
    let (shape, value) = expected.split_once('=')?;
    let printed = unnamed(line);
    let (printed_shape, printed) = printed.split_once(' ')?;
    let want = values(shape, value);
    // Long arrays are printed without their middle.
    let (head, tail) = printed.split_once('…').unwrap_or((printed, ""));
    let (head, tail) = (numbers(head), numbers(tail));
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * b.abs().max(1.0);
    let fits = if printed.contains('…') {
        head.len() + tail.len() < want.len()
    } else {
        head.len() == want.len()
    };
    let same = printed_shape.trim_end_matches("[]") == shape
        && fits
        && !head.is_empty()
        && head.iter().zip(&want).all(close)
        && tail.iter().rev().zip(want.iter().rev()).all(close);
    same.then_some(())
}

/// The numbers of an expected result, `iota` and the like unfolded.
fn values(shape: &str, value: &str) -> Vec<f64> {
    let dims = shape.split_once('[').map_or("", |(_, dims)| dims);
    let count = numbers(dims).iter().product::<f64>() as usize;
    match value {
        "iota" => (0..count).map(|i| i as f64).collect(),
        "ones" => vec![1.0; count],
        "zeros" => vec![0.0; count],
        _ => numbers(value),
    }
}

/// The numbers in a text; what is no number is not-a-number, which equals nothing.
fn numbers(text: &str) -> Vec<f64> {
    text.split(['[', ']', ',', ' '])
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().unwrap_or(f64::NAN))
        .collect()
}

/// Runs `xla-ffi run`; its exit status, and its answer or error line by line.
fn tool(cli: &Path, library: &Path, arguments: &[String]) -> Result<(Option<i32>, String)> {
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
    Ok((output.status.code(), lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(expect: &str) -> Call {
        let text = format!(r#"{{"handler": "h", "expect": ["{expect}"]}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn printed_numbers_are_compared() {
        let printed = |text: &str| (Some(0), text.to_owned());
        let matrix = printed("y: f32[2,2] [[1, 2], [3, -4.0000001]]");
        assert!(compare(&matrix, &call("f32[2,2]=1,2,3,-4")).is_ok());
        assert!(compare(&printed("ret0: s32[] 10"), &call("s32=10")).is_ok());
        let long = printed("y: f32[2,500] [[0, 1, …, 499], …, [500, 501, …, 999]]");
        assert!(compare(&long, &call("f32[2,500]=iota")).is_err());
        let long = printed("y: f32[1000] [0, 1, …, 998, 999]");
        assert!(compare(&long, &call("f32[1000]=iota")).is_ok());
        for (text, expect) in [
            ("y: f32[2] [1, 2]", "f32[2]=1,3"),
            ("y: f32[2] [1, 2]", "f32[1,2]=1,2"),
            ("y: f32[3] [1, …, 2]", "f32[3]=1,2,3"),
            ("y: f32[9] [0, 1, …, 7]", "f32[9]=iota"),
            ("y: f32[2] [0, …, 1]", "f32[2]=iota"),
            ("y: f32[2] [1, 2]", "f32[2]="),
            ("INTERNAL: no", "f32[1]=1"),
        ] {
            assert!(compare(&printed(text), &call(expect)).is_err(), "{text}");
        }
        let failed = (Some(1), "y: f32[1] 1".to_owned());
        assert!(compare(&failed, &call("f32[1]=1")).is_err());
    }
}
