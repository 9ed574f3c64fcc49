//! `cargo xtask fetch`: fills the cache ahead of time, and prints where things lie.

use crate::{cache, cuda, jaxlibs, uv, venv};
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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    println!("cache: {}", cache::root()?.display());
    for version in jaxlibs::expand(&args.headers)? {
        println!("headers {version}: {}", uv::headers(&version)?.display());
    }
    if args.libclang {
        println!("libclang: {}", uv::libclang()?.display());
    }
    if args.pjrt {
        println!("PJRT plugin: {}", uv::pjrt_plugin()?.display());
    }
    if args.nvcc {
        println!("nvcc: {}", cuda::nvcc()?.display());
    }
    for version in jaxlibs::expand(&args.venv)? {
        let venv = match version.as_str() {
            "newest" => venv::newest()?,
            version => venv::exactly(version)?,
        };
        println!("{venv}: {}", venv.python.display());
    }
    Ok(())
}
