//! `xla-ffi new`: a project that builds, tests, and packs as a wheel for JAX.

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
    /// The project's licence.
    #[arg(long, value_enum, default_value = "both")]
    license: License,
    /// Take the SDK's crates from this checkout instead of the index, by a file that git ignores;
    /// without it the environment variable XLA_FFI_SDK names one, else the checkout that this program
    /// lies in, if any.
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    C,
    #[value(alias = "c++")]
    Cpp,
}

/// The licence of a project.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum License {
    /// MIT or Apache-2.0, as Rust's crates have it.
    Both,
    Mit,
    #[value(name = "apache-2.0")]
    Apache,
    /// All rights reserved.
    None,
}

impl License {
    fn expression(self) -> &'static str {
        match self {
            Self::Both => "Apache-2.0 OR MIT",
            Self::Mit => "MIT",
            Self::Apache => "Apache-2.0",
            Self::None => "LicenseRef-Proprietary",
        }
    }

    fn has_mit(self) -> bool {
        matches!(self, Self::Both | Self::Mit)
    }

    fn has_apache(self) -> bool {
        matches!(self, Self::Both | Self::Apache)
    }
}

/// What a project is made from.
pub(crate) struct Project {
    name: String,
    language: Language,
    cuda: bool,
    license: License,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let name = library_name(&args.name)?;
    let sdk = checkout(args.sdk.as_deref())?;
    if args.cuda && args.lang == Language::C {
        bail!(
            "--cuda makes projects in Rust and C++: nvcc compiles no C; take --lang cpp, whose kernels \
             are the same"
        );
    }
    let project = Project {
        name,
        language: args.lang,
        cuda: args.cuda,
        license: args.license,
    };
    let mut files = templates::files(&project);
    if let (Language::Rust, Some(sdk)) = (args.lang, &sdk) {
        files.push((".cargo/config.toml".to_owned(), replacement(sdk)));
        let ignored = files.iter_mut().find(|(path, _)| path == ".gitignore");
        let (_, ignored) = ignored.context("a project has a .gitignore")?;
        ignored.push_str("# The SDK's crates from a checkout of this machine alone.\n/.cargo\n");
    }
    write(&args.name, &files)?;
    let test = match args.lang {
        Language::Rust => "`cargo test`",
        Language::C | Language::Cpp => {
            "`cmake -B build && cmake --build build && ctest --test-dir build`"
        }
    };
    println!(
        "\nIn {}: {test}, `pip install .`, `pytest`",
        args.name.display()
    );
    if let Some(sdk) = sdk {
        println!(
            "The SDK comes from the checkout {sdk}: `cargo xtask dist` there, and \
             `export PIP_FIND_LINKS={sdk}/target/dist` before pip",
            sdk = sdk.display()
        );
    } else {
        let index = match args.lang {
            Language::Rust => "the indexes of cargo and pip",
            Language::C | Language::Cpp => "the index of pip",
        };
        println!("The SDK comes from {index}; with `--sdk DIR` from a checkout");
    }
    Ok(())
}

/// Writes all files into a new folder: it is there whole or not at all.
fn write(folder: &Path, files: &[(String, String)]) -> Result<()> {
    if folder.symlink_metadata().is_ok() {
        bail!("{} exists already; nothing was written", folder.display());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    let part = parent.join(format!(".xla-ffi-new-{}", std::process::id()));
    let made = files.iter().try_for_each(|(path, text)| {
        let path = part.join(path);
        let told = || path.display().to_string();
        let folder = path.parent().context("a file in no folder")?;
        std::fs::create_dir_all(folder).with_context(told)?;
        std::fs::write(&path, text).with_context(told)
    });
    let made = made.and_then(|()| {
        std::fs::rename(&part, folder).with_context(|| folder.display().to_string())
    });
    if made.is_err() {
        drop(std::fs::remove_dir_all(&part));
    }
    made?;
    for (path, _) in files {
        println!("{}", folder.join(path).display());
    }
    Ok(())
}

/// What has cargo take the SDK's crates from a checkout.
fn replacement(sdk: &Path) -> String {
    let path = |crate_: &str| toml_string(&sdk.join(crate_).display().to_string());
    format!(
        "# The SDK's crates come from a checkout of this machine. Remove this file to take them from the index.\n\
         [patch.crates-io]\n\
         xla-ffi = {{ path = {} }}\n\
         xla-ffi-runtime = {{ path = {} }}\n",
        path("ffi"),
        path("runtime")
    )
}

/// A basic string of TOML.
fn toml_string(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
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

/// The checkout to take the SDK from, if any.
fn checkout(given: Option<&Path>) -> Result<Option<PathBuf>> {
    let is_sdk = |path: &Path| {
        path.join("include/xla_ffi/handler.h").exists() && path.join("ffi/Cargo.toml").exists()
    };
    let named = std::env::var_os("XLA_FFI_SDK").map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(named) {
        if !is_sdk(&path) {
            bail!(
                "{} is not a checkout of the SDK: it has no include/xla_ffi/handler.h",
                path.display()
            );
        }
        let path = path.canonicalize();
        return Ok(Some(path.context("the checkout of the SDK")?));
    }
    let program = std::env::current_exe().context("where this program lies")?;
    let found = program.ancestors().find(|folder| is_sdk(folder));
    Ok(found.map(Path::to_owned))
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
