//! `cargo xtask fetch`: fills the cache ahead of time, and prints where things lie.

use crate::cache::Cache;
use crate::{checkers, cuda, jaxlibs, venv, wheel};
use anyhow::Result;

/// Command line of `fetch`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Headers of these jaxlibs, `all` for the whole list.
    #[arg(long, value_name = "X.Y.Z")]
    headers: Vec<String>,
    /// Environments with these jaxlibs, `all` for the whole list, `newest` for the one that tests use.
    #[arg(long, value_name = "X.Y.Z")]
    venv: Vec<String>,
    /// libclang.
    #[arg(long)]
    libclang: bool,
    /// The PJRT plugin that tests run.
    #[arg(long)]
    pjrt: bool,
    /// nvcc, which compiles the GPU examples without a GPU.
    #[arg(long)]
    nvcc: bool,
    /// Type checkers for Python and the packages of `jax.export`, for the newest environment.
    #[arg(long)]
    checkers: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    println!("cache: {}", Cache::open()?.root().display());
    for version in jaxlibs::expand(&args.headers)? {
        println!("headers {version}: {}", wheel::headers(&version)?.display());
    }
    if args.libclang {
        println!("libclang: {}", wheel::libclang()?.display());
    }
    if args.pjrt {
        println!("PJRT plugin: {}", wheel::pjrt_plugin()?.display());
    }
    if args.nvcc {
        println!("nvcc: {}", cuda::nvcc()?.display());
    }
    if args.checkers {
        let venv = venv::newest()?;
        let (checkers, exports) = (checkers::packages(&venv)?, checkers::for_export(&venv)?);
        println!("type checkers: {}", checkers.display());
        println!("packages of jax.export: {}", exports.display());
    }
    for version in jaxlibs::expand(&args.venv)? {
        let venv = if version == "newest" {
            venv::newest()?
        } else {
            venv::exactly(&version)?
        };
        println!("{venv}: {}", venv.python.display());
    }
    Ok(())
}
