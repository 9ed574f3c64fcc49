//! `xla-ffi new`: creates a project that builds, tests and packages a handler as a wheel for JAX.

mod name;
mod templates;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Command line of `new`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xla-ffi new my_calls
  xla-ffi new my_calls --lang cpp --license apache-2.0
  xla-ffi new my_calls --cuda")]
pub(crate) struct Args {
    /// Folder to create; its last component is the name of the library.
    name: PathBuf,
    /// Choose the language of the handler.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// Create a handler for NVIDIA GPUs, in Rust or C++; building and testing need no GPU.
    #[arg(long)]
    cuda: bool,
    /// Choose the licence of the project.
    #[arg(long, value_enum, default_value = "both")]
    license: License,
    /// Use the SDK from this checkout instead of published packages [default: $XLA_FFI_SDK, or the checkout that
    /// contains this program].
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// The language in which a project's handler is written.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    C,
    #[value(alias = "c++")]
    Cpp,
}

/// The licence of a project, as chosen by `--license`.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum License {
    /// MIT or Apache-2.0.
    Both,
    /// MIT.
    Mit,
    /// Apache-2.0.
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

/// The choices that determine the files of a new project.
pub(crate) struct Project {
    name: String,
    language: Language,
    cuda: bool,
    license: License,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let name = name::library_name(&args.name)?;
    let sdk = checkout(args.sdk.as_deref())?;
    if args.cuda && args.lang == Language::C {
        bail!("--cuda supports Rust and C++, because nvcc does not compile C: pass --lang cpp");
    }
    let project = Project {
        name,
        language: args.lang,
        cuda: args.cuda,
        license: args.license,
    };
    let mut files = templates::files(&project);
    if let Some(sdk) = &sdk {
        let ignored = files.iter_mut().find(|(path, _)| path == ".gitignore");
        let (_, ignored) = ignored.context("a project has a .gitignore")?;
        ignored.push_str("# These name the SDK's checkout on this machine.\n/uv.lock\n");
        if args.lang == Language::Rust {
            ignored.push_str("/.cargo\n");
            files.push((".cargo/config.toml".to_owned(), replacement(sdk)));
        }
    }
    write(&args.name, &files)?;
    let mut text: String = files
        .iter()
        .map(|(path, _)| format!("{}\n", args.name.join(path).display()))
        .collect();
    let test = match args.lang {
        Language::Rust => "`cargo test`",
        Language::C | Language::Cpp => {
            "`cmake -B build && cmake --build build && ctest --test-dir build`"
        }
    };
    text += &format!(
        "\nNext, in {}: {test}; then `pip install -e '.[test]'` and `pytest`, or `uv run pytest`\n",
        args.name.display()
    );
    if let Some(sdk) = sdk {
        text += &format!(
            "The project uses the SDK in {sdk}: run `cargo xtask dist` there, then \
             `export PIP_FIND_LINKS='{sdk}/target/dist' UV_FIND_LINKS='{sdk}/target/dist'` before pip or uv\n"
        );
    } else {
        let index = match args.lang {
            Language::Rust => "crates.io and PyPI",
            Language::C | Language::Cpp => "PyPI",
        };
        text +=
            &format!("The project uses the SDK from {index}; pass `--sdk DIR` to use a checkout\n");
    }
    crate::output::text(&text)
}

/// Writes the files of a project into a new folder. Returns an error if the folder exists.
fn write(folder: &Path, files: &[(String, String)]) -> Result<()> {
    if folder.symlink_metadata().is_ok() {
        bail!("{} already exists; nothing was written", folder.display());
    }
    for (path, text) in files {
        let path = folder.join(path);
        let shown = || path.display().to_string();
        let folder = path.parent().context("a file in no folder")?;
        std::fs::create_dir_all(folder).with_context(shown)?;
        std::fs::write(&path, text).with_context(shown)?;
    }
    Ok(())
}

/// Returns a configuration with which cargo uses the SDK's crates from a checkout.
fn replacement(sdk: &str) -> String {
    let path = |crate_: &str| format!("{:?}", format!("{sdk}/{crate_}"));
    format!(
        "# The SDK's crates come from a checkout of this machine. Remove this file to take them from the index.\n\
         [patch.crates-io]\n\
         xla-ffi = {{ path = {} }}\n\
         xla-ffi-runtime = {{ path = {} }}\n",
        path("ffi"),
        path("runtime")
    )
}

/// Returns the SDK's checkout that the project uses; `None` if the project uses published packages.
fn checkout(given: Option<&Path>) -> Result<Option<String>> {
    let is_sdk = |path: &Path| {
        path.join("include/xla_ffi/handler.h").exists() && path.join("ffi/Cargo.toml").exists()
    };
    // An empty environment variable means the same as an unset variable.
    let named = std::env::var_os("XLA_FFI_SDK").filter(|path| !path.is_empty());
    let named = named.map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(named) {
        if !is_sdk(&path) {
            bail!(
                "{} is not a checkout of the SDK: it has no include/xla_ffi/handler.h",
                path.display()
            );
        }
        let path = path
            .canonicalize()
            .context("cannot resolve the path of the SDK's checkout")?;
        return Ok(Some(path.display().to_string()));
    }
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let found = program.ancestors().find(|folder| is_sdk(folder));
    Ok(found.and_then(Path::to_str).map(str::to_owned))
}
