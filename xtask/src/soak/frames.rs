//! Mutated call frames and function tables against the conformance handlers (`tests/hostile`).

use super::Attack;
use crate::cargo::cargo;
use crate::counts::Format;
use crate::tally::{self, Log};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The libraries under attack, by the test of each.
pub(super) const LIBRARIES: [&str; 3] = ["the_rust_library", "the_c_library", "the_cpp_library"];

/// Frames at a time: a few seconds' worth.
const FRAMES: u64 = 100_000;

/// One library and how far it is.
pub(super) struct Frames {
    test: &'static str,
    file: PathBuf,
    first: u64,
    next: u64,
}

impl Frames {
    pub(super) fn new(folder: &Path, test: &'static str, anew: bool) -> Result<Self> {
        let file = folder.join(test);
        let first = match std::fs::read_to_string(&file) {
            Ok(text) if !anew => {
                let number = text.trim().parse();
                number.with_context(|| format!("{} has no seed", file.display()))?
            }
            _ => 0,
        };
        Ok(Self {
            test,
            file,
            first,
            next: first,
        })
    }

    /// The next frames. A failure leaves the seed where it is.
    fn batch(&mut self, root: &Path) -> Result<()> {
        let mut command = hostile(root);
        command
            .args(["--", "--exact", self.test, "--test-threads=1"])
            .env("XLA_FFI_SEED", self.next.to_string())
            .env("XLA_FFI_FRAMES", FRAMES.to_string());
        let mut log = Log::default();
        let counts = tally::run_some(Format::Libtest, self.test, &mut command, &mut log)?;
        if counts.failed > 0 {
            log.show();
            bail!(
                "failed between seeds {} and {}",
                self.next,
                self.next + FRAMES
            );
        }
        self.next += FRAMES;
        std::fs::write(&self.file, format!("{}\n", self.next))
            .with_context(|| format!("writing {}", self.file.display()))
    }
}

impl Attack for Frames {
    fn name(&self) -> &str {
        self.test
    }

    fn build(&self, root: &Path) -> Result<()> {
        let status = hostile(root)
            .arg("--no-run")
            .status()
            .context("starting cargo")?;
        anyhow::ensure!(status.success(), "the test does not build");
        Ok(())
    }

    fn go_on(&mut self, root: &Path, turn: Duration) -> Result<()> {
        let end = Instant::now() + turn;
        while Instant::now() < end {
            self.batch(root)?;
        }
        Ok(())
    }

    fn report(&self) -> String {
        format!(
            "{} frames in this run, {} in all",
            self.next - self.first,
            self.next
        )
    }
}

/// The test program of the hostile hosts.
fn hostile(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args([
        "test",
        "--quiet",
        "-p",
        "xla-ffi-tests",
        "--test",
        "hostile",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let of = |anew| Frames::new(folder.path(), LIBRARIES[0], anew);
        assert_eq!(of(false).unwrap().next, 0);
        std::fs::write(folder.path().join(LIBRARIES[0]), "700000\n").unwrap();
        assert_eq!(of(false).unwrap().next, 700_000);
        assert_eq!(of(true).unwrap().next, 0);
        std::fs::write(folder.path().join(LIBRARIES[0]), "what\n").unwrap();
        assert!(of(false).is_err());
    }
}
