//! `cargo xtask soak --leaks`: every example 100,000 times on the embedded runtime and in JAX, one after
//! the other until the time is over. What was flat is noted, and not done again.

use crate::cargo::{cargo, python_driver};
use crate::examples::Built;
use crate::venv;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How often each example is called.
const CALLS: &str = "100000";

/// The languages of the examples.
const LANGUAGES: [&str; 3] = ["Rust", "C++", "C"];

/// The figures of what was flat, a line each.
struct Done {
    file: PathBuf,
    lines: Vec<String>,
}

impl Done {
    fn open(folder: &Path, anew: bool) -> Result<Self> {
        let file = folder.join("leaks");
        if anew && file.exists() {
            std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Self { file, lines })
    }

    fn has(&self, work: &str) -> bool {
        self.lines
            .iter()
            .any(|line| line.starts_with(&format!("{work}: ")))
    }

    /// Notes the figures in what a program said.
    fn note(&mut self, work: &str, said: &str) -> Result<()> {
        let figures = said.lines().filter(|line| line.contains(" calls, heap "));
        let lines: Vec<_> = figures.map(|line| format!("{work}: {line}")).collect();
        if lines.is_empty() {
            bail!("{work} told no figures:\n{said}");
        }
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.file)?;
        for line in lines {
            println!("{line}");
            writeln!(file, "{line}").with_context(|| self.file.display().to_string())?;
            self.lines.push(line);
        }
        Ok(())
    }
}

/// Does what is not done yet, until `end`.
pub(super) fn run(root: &Path, folder: &Path, end: Instant, anew: bool) -> Result<()> {
    let mut done = Done::open(folder, anew)?;
    let mut left = 0;
    let mut step = |work: &str, command: &mut Command| {
        if done.has(work) {
            return Ok(());
        }
        if Instant::now() >= end {
            left += 1;
            return Ok(());
        }
        let output = command
            .output()
            .with_context(|| format!("starting {work}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            bail!("{work}: {}\n{said}{told}", output.status);
        }
        done.note(work, &said)
    };
    for language in LANGUAGES {
        let mut command = cargo(root);
        command
            .args([
                "test",
                "--quiet",
                "-p",
                "xla-ffi-tests",
                "--test",
                "examples",
                "--",
            ])
            .args(["--exact", "leaks::memory_stays_flat", "--nocapture"])
            .env("XLA_FFI_LEAK_LANGUAGE", language)
            .env("XLA_FFI_LEAK_CALLS", CALLS);
        step(&format!("runtime {language}"), &mut command)?;
    }
    let venv = venv::newest()?;
    for example in Built::new(root)?.arguments()? {
        let name = example.split('=').next().unwrap_or_default();
        let mut command = python_driver(root, &venv, "leaks.py");
        command.args([CALLS, &example]);
        // It has no calls but such as fail.
        step(&format!("JAX {name}"), &mut command)?;
    }
    println!("{} figures in {}", done.lines.len(), done.file.display());
    if left > 0 {
        println!("{left} left: the next run goes on with them");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flat_is_not_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut done = Done::open(folder.path(), false).unwrap();
        assert!(done.note("runtime C", "ok").is_err());
        done.note("runtime C", "C 01: 100000 calls, heap +0 bytes\nok")
            .unwrap();
        let again = Done::open(folder.path(), false).unwrap();
        assert!(again.has("runtime C") && !again.has("runtime C++"));
        assert!(!Done::open(folder.path(), true).unwrap().has("runtime C"));
    }
}
