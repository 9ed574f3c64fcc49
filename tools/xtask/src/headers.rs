//! `cargo xtask headers [--check]`: the C headers under `include/`, generated from the reflection data and the docstrings of
//! ffi-sys, and the facts that C++ and Python share with it.

mod facts;
mod source;
mod template;

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use xla_ffi_abi::model::Header;

/// Command line of `headers`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail when a committed file is stale instead of writing it.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = crate::jaxlibs::root();
    let files = generate(&root)?;
    if args.check {
        return check(&root, &files);
    }
    for (path, text) in files {
        let file = root.join(&path);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Fails where a file below `root` is not what is generated now.
fn check(root: &Path, files: &[(PathBuf, String)]) -> Result<()> {
    let stale: Vec<String> = files
        .iter()
        .filter(|(path, text)| {
            std::fs::read_to_string(root.join(path)).unwrap_or_default() != *text
        })
        .map(|(path, _)| path.display().to_string())
        .collect();
    ensure!(
        stale.is_empty(),
        "stale: {}; run `cargo xtask headers` and commit the result",
        stale.join(", ")
    );
    Ok(())
}

/// The files as path under the repository and text.
fn generate(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let entries = source::read(&root.join("ffi-sys/src"))?;
    let headers = Header::ALL.map(|header| {
        let path = Path::new("include/xla/ffi/api").join(header.file_name());
        (path, template::render(header, &entries))
    });
    let version = crate::install::version(root)?;
    let facts = [
        ("include/xla_ffi/facts.h", facts::c(&version)),
        ("python/xla_ffi/_facts.py", facts::python()),
    ];
    let facts = facts.map(|(path, text)| (PathBuf::from(path), text));
    Ok(headers.into_iter().chain(facts).collect())
}
