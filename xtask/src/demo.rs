//! `cargo xtask demo`: each example on the embedded runtime, then the same libraries in JAX.

use crate::test::python_driver;
use crate::venv;
use crate::{jaxlibs, libraries};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Command line of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use the newest jaxlib of the package index, listed in `jaxlibs.txt` or not.
    #[arg(long)]
    latest: bool,
}

/// A call on the embedded runtime, and what the tool has to print for it.
struct Call {
    example: &'static str,
    arguments: &'static [&'static str],
    shown: &'static str,
    expected: &'static str,
}

const CALLS: [Call; 2] = [
    Call {
        example: "tiled_add",
        arguments: &["--arg", "f32[128]=iota", "--arg", "f32[2048]=ones"],
        shown: "A[i] = B[i % 128] + C[i], B = 0…127, C = 1",
        expected: "a: f32[2048] [1, 2, 3, …, 126, 127, 128]",
    },
    Call {
        example: "rms_norm",
        arguments: &[
            "--arg",
            "f32[2,3]=1,2,3,4,5,6",
            "--attrs",
            "{eps = 1.0e-6 : f32}",
        ],
        shown: "x = [[1,2,3],[4,5,6]], eps = 1e-6",
        expected: "y: f32[2,3] [[0.46291, 0.92582, 1.38873], [0.78954196, 0.98692745, 1.1843129]]",
    },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    libraries::build_rust(&root)?;
    let cli = libraries::build_cli(&root)?;
    let mut wrong = embedded(&root, &cli)?;
    println!();
    match if args.latest {
        venv::latest()
    } else {
        venv::newest()
    } {
        Ok(venv) => {
            println!("In JAX: {venv}");
            let mut driver = python_driver(&root, &venv, "examples.py");
            // What cannot be built has been told above.
            let examples = libraries::examples(&root)?;
            let status = driver
                .arg("--table")
                .args(examples.arguments)
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

/// Runs the examples without XLA and Python; returns what went wrong.
fn embedded(root: &Path, cli: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    println!("\nOn the embedded runtime (no XLA, no Python)");
    for call in CALLS {
        let source = libraries::EXAMPLES
            .iter()
            .find(|(name, _)| *name == call.example);
        let (_, source) = source.context("an example without a C twin")?;
        let built = [
            ("rust", libraries::rust(root, call.example)),
            ("c", libraries::c(root, source)),
        ];
        for (language, library) in built {
            let library = match library {
                Ok(library) => library,
                Err(error) => {
                    wrong.push(format!("{error:#}"));
                    continue;
                }
            };
            let (code, text) = tool(cli, &library, call.arguments)?;
            println!(
                "{:<10}  {language:<5} {:<42}  {text}",
                call.example, call.shown
            );
            if code != Some(0) || text != call.expected {
                wrong.push(format!(
                    "{} in {language}: expected {:?}, got {text:?}",
                    call.example, call.expected
                ));
            }
        }
    }
    // A handler built from upstream's own headers runs there too; the headers come from a wheel.
    match libraries::upstream(root, "tests/upstream/conformance.cc") {
        Ok(library) => {
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
            let (code, text) = tool(cli, &library, &call)?;
            println!(
                "{:<10}  {:<5} {:<42}  {text}",
                "scale", "C++", "upstream's headers, x = [1,2,3], factor = 2"
            );
            if code != Some(0) || !text.ends_with("f32[3] [2, 4, 6]") {
                wrong.push(format!(
                    "scale from upstream's headers: expected [2, 4, 6], got {text:?}"
                ));
            }
        }
        Err(error) => wrong.push(format!(
            "the handler from upstream's headers cannot be built: {error:#}"
        )),
    }
    let library = libraries::rust(root, "rms_norm")?;
    let (code, text) = tool(
        cli,
        &library,
        &["--arg", "f32[3]=1,2,3", "--attrs", "{epz = 1.0e-6 : f32}"],
    )?;
    println!(
        "{:<10}  {:<5} {:<42}  {text}",
        "an error", "rust", "an unknown attribute"
    );
    if code != Some(1) || !(text.contains("INVALID_ARGUMENT") && text.contains("epz")) {
        wrong.push(format!("an unknown attribute: expected exit 1 and an INVALID_ARGUMENT that names epz, got {code:?}, {text:?}"));
    }
    Ok(wrong)
}

/// Runs `xla-ffi run`; its exit status, and its answer or error as one line.
fn tool(cli: &Path, library: &Path, arguments: &[&str]) -> Result<(Option<i32>, String)> {
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
    Ok((output.status.code(), lines.join(" ")))
}
