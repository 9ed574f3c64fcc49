//! `cargo xtask gpu-test` and `gpu-bench`: the GPU examples in JAX on a machine with an NVIDIA GPU.
//!
//! Building and running are apart: `--build-only DIR` makes a folder on any machine, which a GPU machine
//! runs with Python and JAX alone (`python3 DIR/run.py test`).

mod pack;

use crate::{folders, venv};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command line of `gpu-test`.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Build the folder, without running anything.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "platform"])]
    build_only: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Command line of `gpu-bench`.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Where the JSON goes; by default tools/benches/results.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Run a folder that --build-only made, without building anything.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Where to run: `cpu` tries everything out without a GPU, kernels emulated.
    #[arg(long, value_enum, default_value = "cuda")]
    platform: Platform,
    /// Small sizes.
    #[arg(long)]
    quick: bool,
}

/// What runs the libraries.
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
    // What a CPU gives is no result.
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

/// `run.py` of a folder, in a Python that has JAX.
fn command(folder: &Path, platform: Platform) -> Result<Command> {
    let script = folder.join("run.py");
    if !script.is_file() {
        bail!(
            "{} is no folder of `cargo xtask gpu-test --build-only`: it has no run.py",
            folder.display()
        );
    }
    let named = std::env::var_os("XLA_FFI_PYTHON").filter(|name| !name.is_empty());
    let python = match (named, platform) {
        (Some(python), _) => python,
        // The plugin for GPUs is the machine's matter.
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

/// For `cargo xtask test`: everything that a GPU machine runs, tried out on this one.
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
