//! `cargo xtask soak`: attacks that go on for as long as one has time. What was tried is kept under
//! `target/soak`, so that the next run goes on where this one ended.

mod leaks;

use crate::cargo::cargo;
use crate::counts::Format;
use crate::jaxlibs;
use crate::tally::{self, Log};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Command line of `soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long, in all.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Begin at the first seed again.
    #[arg(long)]
    anew: bool,
    /// Call every example 100,000 times and look at the memory, instead of attacking.
    #[arg(long)]
    leaks: bool,
}

/// The libraries under attack, by the test of each in `tests/hostile`.
const LIBRARIES: [&str; 3] = ["the_rust_library", "the_c_library", "the_cpp_library"];

/// Frames at a time: a few seconds' worth.
const FRAMES: u64 = 100_000;

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let folder = root.join("target/soak");
    std::fs::create_dir_all(&folder).context("making target/soak")?;
    let end = Instant::now() + Duration::from_secs(60 * args.minutes);
    if args.leaks {
        return leaks::run(&root, &folder, end, args.anew);
    }
    let mut attacks: Vec<_> = LIBRARIES
        .iter()
        .map(|test| Attack::new(&folder, test, args.anew))
        .collect::<Result<_>>()?;
    build(&root)?;
    let mut failed = vec![];
    while Instant::now() < end && failed.is_empty() {
        for attack in &mut attacks {
            if let Err(error) = attack.go_on(&root) {
                println!("{}: {error:#}", attack.test);
                failed.push(attack.test);
            }
        }
    }
    for attack in &attacks {
        println!(
            "{}: {} frames in this run, {} in all",
            attack.test,
            attack.next - attack.first,
            attack.next
        );
    }
    if !failed.is_empty() {
        bail!("{} broke: its seed is told above", failed.join(", "));
    }
    Ok(())
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

/// Builds the test program once; what follows only runs it.
fn build(root: &Path) -> Result<()> {
    let status = hostile(root)
        .arg("--no-run")
        .status()
        .context("starting cargo")?;
    anyhow::ensure!(status.success(), "the test does not build");
    Ok(())
}

/// One library and how far it is.
struct Attack {
    test: &'static str,
    file: PathBuf,
    first: u64,
    next: u64,
}

impl Attack {
    fn new(folder: &Path, test: &'static str, anew: bool) -> Result<Self> {
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

    /// The next frames. A failure leaves the seed where it is: it is tried again first.
    fn go_on(&mut self, root: &Path) -> Result<()> {
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
            .with_context(|| format!("writing {}", self.file.display()))?;
        println!("{}: {} frames", self.test, self.next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let of = |anew| Attack::new(folder.path(), LIBRARIES[0], anew);
        assert_eq!(of(false).unwrap().next, 0);
        std::fs::write(folder.path().join(LIBRARIES[0]), "700000\n").unwrap();
        assert_eq!(of(false).unwrap().next, 700_000);
        assert_eq!(of(true).unwrap().next, 0);
        std::fs::write(folder.path().join(LIBRARIES[0]), "what\n").unwrap();
        assert!(of(false).is_err());
    }
}
