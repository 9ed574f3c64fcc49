//! `xla-ffi new`: a project with one handler that builds, tests and loads in JAX.

mod cuda;
mod templates;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Command line of `new`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The project's folder; its last part names the library.
    name: PathBuf,
    /// The language of the handler.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// A handler for NVIDIA GPUs, in Rust or C++: it builds and tests without one.
    #[arg(long)]
    cuda: bool,
    /// Where the SDK lies; without it the environment variable XLA_FFI_SDK says so, else the checkout
    /// that this program was built in.
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    C,
    Cpp,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let name = library_name(&args.name)?;
    let sdk = sdk(args.sdk.as_deref())?;
    if args.name.exists() {
        bail!(
            "{} exists already; nothing was written",
            args.name.display()
        );
    }
    let files = if args.cuda {
        cuda::files(args.lang, &name, &sdk)?
    } else {
        templates::files(args.lang, &name, &sdk)
    };
    for (path, text) in &files {
        let path = args.name.join(path);
        let folder = path.parent().context("a file in no folder")?;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    let (build, test) = match args.lang {
        Language::Rust => ("cargo build --release", "cargo test"),
        Language::C | Language::Cpp => ("make", "make test"),
    };
    let on_gpu = if args.cuda { " (on a GPU)" } else { "" };
    println!(
        "\nIn {}: `{build}`, `{test}`, `python3 jax_test.py`{on_gpu}",
        args.name.display()
    );
    Ok(())
}

/// The library's name: what Rust, C and the linker all take as one.
fn library_name(path: &Path) -> Result<String> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let name = name.replace('-', "_");
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|first| first.is_ascii_lowercase());
    if !begins || !bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
        bail!(
            "'{}' does not name a library: begin with a lower-case letter and go on with lower-case \
             letters, digits, '_' or '-'",
            path.display()
        );
    }
    if [
        "test",
        "core",
        "std",
        "alloc",
        "proc_macro",
        "xla_ffi",
        "xla_ffi_runtime",
    ]
    .contains(&name.as_str())
    {
        bail!("'{name}' is taken by a crate that the project needs; choose another name");
    }
    Ok(name)
}

fn sdk(given: Option<&Path>) -> Result<PathBuf> {
    let is_sdk = |path: &Path| path.join("include/xla_ffi/handler.h").exists();
    if let Some(path) = given {
        if !is_sdk(path) {
            bail!(
                "{} is not a checkout of the SDK: it has no include/xla_ffi/handler.h",
                path.display()
            );
        }
        return path
            .canonicalize()
            .with_context(|| path.display().to_string());
    }
    let named = std::env::var_os("XLA_FFI_SDK").map(PathBuf::from);
    let built = option_env!("CARGO_MANIFEST_DIR").map(|cli| Path::new(cli).join(".."));
    named
        .into_iter()
        .chain(built)
        .find(|path| is_sdk(path))
        .and_then(|path| path.canonicalize().ok())
        .context("the SDK is not found: say where it lies with --sdk DIR or XLA_FFI_SDK")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(library_name(Path::new("a/my-op2")).unwrap(), "my_op2");
        for bad in ["2op", "My", "a b", "", "..", "test", "é"] {
            assert!(library_name(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
