//! `xla-ffi new`: a project that builds, tests, and packs as a wheel for JAX.

mod name;
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
    let name = name::library_name(&args.name)?;
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
    let mut told: String = files
        .iter()
        .map(|(path, _)| format!("{}\n", args.name.join(path).display()))
        .collect();
    let test = match args.lang {
        Language::Rust => "`cargo test`",
        Language::C | Language::Cpp => {
            "`cmake -B build && cmake --build build && ctest --test-dir build`"
        }
    };
    told += &format!(
        "\nIn {}: {test}, `pip install .`, `pytest`\n",
        args.name.display()
    );
    if let Some(sdk) = sdk {
        told += &format!(
            "The SDK comes from the checkout {sdk}: `cargo xtask dist` there, and \
             `export PIP_FIND_LINKS='{sdk}/target/dist'` before pip\n"
        );
    } else {
        let index = match args.lang {
            Language::Rust => "the indexes of cargo and pip",
            Language::C | Language::Cpp => "the index of pip",
        };
        told += &format!("The SDK comes from {index}; with `--sdk DIR` from a checkout\n");
    }
    crate::output::text(&told)
}

/// Writes all files into a new folder.
fn write(folder: &Path, files: &[(String, String)]) -> Result<()> {
    if folder.symlink_metadata().is_ok() {
        bail!("{} exists already; nothing was written", folder.display());
    }
    for (path, text) in files {
        let path = folder.join(path);
        let told = || path.display().to_string();
        let folder = path.parent().context("a file in no folder")?;
        std::fs::create_dir_all(folder).with_context(told)?;
        std::fs::write(&path, text).with_context(told)?;
    }
    Ok(())
}

/// What has cargo take the SDK's crates from a checkout.
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

/// The checkout to take the SDK from, if any.
fn checkout(given: Option<&Path>) -> Result<Option<String>> {
    let is_sdk = |path: &Path| {
        path.join("include/xla_ffi/handler.h").exists() && path.join("ffi/Cargo.toml").exists()
    };
    // A variable that is empty is one that is not there.
    let named = std::env::var_os("XLA_FFI_SDK").filter(|path| !path.is_empty());
    let named = named.map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(named) {
        if !is_sdk(&path) {
            bail!(
                "{} is not a checkout of the SDK: it has no include/xla_ffi/handler.h",
                path.display()
            );
        }
        let path = path.canonicalize().context("the checkout of the SDK")?;
        return Ok(Some(path.display().to_string()));
    }
    let program = std::env::current_exe().context("where this program lies")?;
    let found = program.ancestors().find(|folder| is_sdk(folder));
    Ok(found.and_then(Path::to_str).map(str::to_owned))
}
