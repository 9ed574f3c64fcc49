//! `cargo xtask gpu-test` and `gpu-bench` run the GPU examples in JAX on a machine with an NVIDIA GPU.
//!
//! Building and running are separate: `--build-only DIR` creates a folder on any machine. To run the tests in this
//! folder (`python3 DIR/run.py test`), a GPU machine needs only Python and JAX.

mod pack;

use crate::{folders, venv};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command line of `gpu-test`.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Build the folder without running anything.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "platform"])]
    build_only: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Command line of `gpu-bench`.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Folder for the JSON results. Default: tools/benches/results.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Run a folder from --build-only without building anything.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Platform to run on: `cpu` tests everything without a GPU, with emulated kernels.
    #[arg(long, value_enum, default_value = "cuda")]
    platform: Platform,
    /// Use small sizes.
    #[arg(long)]
    quick: bool,
}

/// The platform on which the libraries run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Platform {
    Cuda,
    Cpu,
}

pub(crate) fn test(args: &TestArgs) -> Result<()> {
    let root = folders::checkout();
    if let Some(folder) = &args.build_only {
        pack::build(&root, folder)?;
        println!(
            "On the GPU machine: python3 {0}/run.py test; python3 {0}/run.py bench",
            folder.display()
        );
        return Ok(());
    }
    run(&root, "test", &args.common, &[])
}

pub(crate) fn bench(args: &BenchArgs) -> Result<()> {
    let root = folders::checkout();
    // Measurements on a CPU are written to a different folder, because they are not results.
    let out = match (&args.out, args.common.platform) {
        (Some(out), _) => out.clone(),
        (None, Platform::Cuda) => root.join("tools/benches/results"),
        (None, Platform::Cpu) => root.join("target/gpu"),
    };
    let out = std::path::absolute(out)?.display().to_string();
    run(&root, "bench", &args.common, &["--out", &out])
}

fn run(root: &Path, task: &str, common: &Common, rest: &[&str]) -> Result<()> {
    let folder = match &common.from {
        Some(folder) => folder.clone(),
        None => {
            let folder = root.join("target/gpu/pack");
            pack::build(root, &folder)?;
            folder
        }
    };
    let mut command = command(&folder, common.platform)?;
    command.arg(task).args(rest);
    if common.quick {
        command.arg("--quick");
    }
    let status = command.status().context("starting Python")?;
    ensure!(status.success(), "gpu-{task} failed");
    Ok(())
}

/// Returns a command that runs `run.py` in the folder, with a Python that has JAX.
fn command(folder: &Path, platform: Platform) -> Result<Command> {
    let script = folder.join("run.py");
    if !script.is_file() {
        bail!(
            "{} is not a folder of `cargo xtask gpu-test --build-only`: it has no run.py",
            folder.display()
        );
    }
    let named = std::env::var_os("XLA_FFI_PYTHON").filter(|name| !name.is_empty());
    let python = match (named, platform) {
        (Some(python), _) => python,
        // On a GPU machine, the default Python has JAX with the plugin for GPUs.
        (None, Platform::Cuda) => "python3".into(),
        (None, Platform::Cpu) => venv::newest()?.python.into_os_string(),
    };
    let mut command = Command::new(python);
    command.arg(script);
    if platform == Platform::Cpu {
        command.args(["--platform", "cpu"]);
    }
    Ok(command)
}

/// Returns commands for `cargo xtask test` that run the tests and benchmarks for a GPU machine on this machine, without
/// a GPU.
pub(crate) fn dry_runs(root: &Path) -> Result<Vec<(&'static str, Command)>> {
    let folder = root.join("target/gpu/pack");
    pack::build(root, &folder)?;
    let mut test = command(&folder, Platform::Cpu)?;
    test.args(["test", "--quick"]);
    let mut bench = command(&folder, Platform::Cpu)?;
    bench
        .args(["bench", "--quick", "--out"])
        .arg(root.join("target/gpu"));
    Ok(vec![("test", test), ("bench", bench)])
}
