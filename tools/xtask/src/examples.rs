//! Reads the table of the examples, `examples/examples.json`, and finds their libraries.

use crate::cargo::cargo;
use crate::libraries::{self, Compiler};
use crate::{python, tally};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A language that has examples.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    #[serde(rename = "C++")]
    Cpp,
    C,
}

impl Language {
    pub(crate) const ALL: [Self; 3] = [Self::Rust, Self::Cpp, Self::C];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Cpp => "C++",
            Self::C => "C",
        }
    }
}

/// An example in `examples/examples.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Example {
    #[serde(rename = "example")]
    pub(crate) name: String,
    /// The name of the library with the handlers, which is also the file name of the sources without an extension.
    pub(crate) library: String,
    #[serde(default = "every_language")]
    pub(crate) languages: Vec<Language>,
    pub(crate) calls: Vec<Call>,
}

/// A call of a handler, with the fields that the demo uses.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) handler: String,
    #[serde(default = "every_language")]
    pub(crate) languages: Vec<Language>,
    /// The stages other than execute. The symbol of a stage is `HANDLER_STAGE`.
    #[serde(default)]
    pub(crate) stages: Vec<String>,
    /// The description of the computation; `None` if the demo does not show the call.
    pub(crate) says: Option<String>,
    /// The arguments of the call, in the command line's notation.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The attributes of the call, as an MLIR dictionary.
    pub(crate) attrs: Option<String>,
    /// The expected results of the call, in the command line's notation.
    #[serde(default)]
    pub(crate) expect: Vec<String>,
}

fn every_language() -> Vec<Language> {
    Language::ALL.to_vec()
}

/// Reads `examples/examples.json`.
pub(crate) fn table(root: &Path) -> Result<Vec<Example>> {
    let path = root.join("examples/examples.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The libraries of the examples.
#[derive(Debug)]
pub(crate) struct Built {
    root: PathBuf,
    /// The folder of the Rust libraries.
    rust: PathBuf,
    /// The folder of the C and C++ libraries. Without a compiler, libraries are missing.
    native: PathBuf,
}

impl Built {
    /// Compiles the C and C++ examples, and uses the Rust examples of a debug build.
    pub(crate) fn of_demo(root: &Path) -> Result<Self> {
        let built = Self {
            root: root.to_owned(),
            rust: root.join("target/debug/examples"),
            native: root.join("target/xtask/demo"),
        };
        std::fs::create_dir_all(&built.native)?;
        let mut compiled = BTreeSet::new();
        for example in table(root)? {
            for (language, extension, compiler) in [
                (Language::C, "c", Compiler::C),
                (Language::Cpp, "cc", Compiler::Cpp),
            ] {
                if !example.languages.contains(&language) {
                    continue;
                }
                let source = format!("c_examples/{}.{extension}", example.library);
                if !compiled.insert(source.clone()) {
                    continue;
                }
                let mut command = compiler.command();
                command.args(["-O1", "-shared", "-fPIC", "-fvisibility=hidden"]);
                command.arg("-I").arg(root.join("include"));
                command.arg(root.join(&source)).arg("-o");
                command.arg(built.native.join(Self::file(&example.library, language)));
                command.args(["-lm", "-pthread"]);
                if let Err(error) = libraries::compile(&mut command, &source, language.name()) {
                    tally::note(format_args!("{error:#}"));
                }
            }
        }
        Ok(built)
    }

    /// Runs the root package's build script, which builds the C and C++ examples, and reads the path of their folder.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let mut command = cargo(root);
        command.args(["run", "--quiet", "--package", "xla-ffi-tests"]);
        let said = python::output(&mut command, "cargo build of the examples in C and C++")?;
        Ok(Self {
            root: root.to_owned(),
            rust: libraries::rust_folder(root),
            native: PathBuf::from(said.trim()),
        })
    }

    fn file(name: &str, language: Language) -> String {
        libraries::file_name(&match language {
            Language::Cpp => format!("{name}_cpp"),
            _ => name.to_owned(),
        })
    }

    /// Returns the library with the name `name` in a language; `None` if the language has no compiler on this machine.
    pub(crate) fn library(&self, name: &str, language: Language) -> Result<Option<PathBuf>> {
        let folder = match language {
            Language::Rust => &self.rust,
            _ => &self.native,
        };
        let path = folder.join(Self::file(name, language));
        if language == Language::Rust && !path.is_file() {
            bail!("{} was not built", path.display());
        }
        Ok(path.is_file().then_some(path))
    }

    /// Returns every example as `LANGUAGE:EXAMPLE=LIBRARY` for the JAX drivers. Without a compiler, LIBRARY is empty.
    ///
    /// The Rust libraries must already be built.
    pub(crate) fn arguments(&self) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        for example in table(&self.root)? {
            for language in &example.languages {
                let path = self
                    .library(&example.library, *language)?
                    .unwrap_or_default();
                let (language, name) = (language.name(), &example.name);
                arguments.push(format!("{language}:{name}={}", path.display()));
            }
        }
        Ok(arguments)
    }
}
