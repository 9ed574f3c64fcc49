//! `xla-ffi stubs`: a stub file (`.pyi`) of a library. The Python package writes it, whose types it is
//! about: there is one writer, and whoever reads the file has the package.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Command line of `stubs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The library.
    lib: PathBuf,
    /// Where to; to standard output unless given.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A Python with the package `xla_ffi`.
    #[arg(long, value_name = "EXE", default_value = "python3")]
    python: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let shown = args.python.display();
    let mut command = Command::new(&args.python);
    command.args(["-m", "xla_ffi", "stubs"]);
    if let Some(file) = &args.output {
        command.arg("-o").arg(file);
    }
    // A name like `-o` is a file all the same.
    command.arg("--").arg(&args.lib);
    let done = command.output();
    let done =
        done.with_context(|| format!("{shown} cannot be started: name a Python with --python"))?;
    if done.status.success() {
        let written = match &args.output {
            Some(file) => file.exists(),
            None => !done.stdout.is_empty(),
        };
        if !written {
            bail!("{shown} ended well and has written nothing: it is no Python that has xla_ffi");
        }
        return crate::output::commands(&String::from_utf8_lossy(&done.stdout));
    }
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("No module named xla_ffi") {
        bail!(
            "{shown} has no package xla_ffi, which writes stubs: install it there (`pip install` of \
             the SDK's folder `python`), or name the Python that has it with --python"
        );
    }
    let said = match said.trim() {
        "" => format!("{shown} says nothing, and ends with {}", done.status),
        said => said.to_owned(),
    };
    bail!("{}", said.strip_prefix("error: ").unwrap_or(&said))
}
