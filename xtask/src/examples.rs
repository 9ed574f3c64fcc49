//! The table of the examples, `examples/examples.json`, and their libraries.

use crate::cargo::cargo;
use crate::{libraries, ui};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A language in which there are examples.
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

/// One example.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Example {
    /// The stem of its files.
    #[serde(rename = "example")]
    pub(crate) name: String,
    /// What it shows; for readers.
    #[serde(rename = "shows")]
    _shows: String,
    #[serde(default = "every_language")]
    pub(crate) languages: Vec<Language>,
    /// The oldest revision that runs it; for the tests.
    #[serde(rename = "since")]
    _since: Option<String>,
    pub(crate) calls: Vec<Call>,
}

/// One call of a handler.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) handler: String,
    #[serde(default = "every_language")]
    pub(crate) languages: Vec<Language>,
    /// The stages besides execute; their symbols are `HANDLER_STAGE`.
    #[serde(default)]
    pub(crate) stages: Vec<String>,
    /// The oldest revision that takes the call, where it is not the example's; for the tests.
    #[serde(rename = "since")]
    _since: Option<String>,
    /// What is computed, where the demo shows the call.
    pub(crate) says: Option<String>,
    /// Arguments as on the command line.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The attributes as an MLIR dictionary.
    pub(crate) attrs: Option<String>,
    /// The results, likewise.
    #[serde(default)]
    pub(crate) expect: Vec<String>,
    /// Types of the results where an error is expected.
    #[serde(default, rename = "rets")]
    _rets: Vec<String>,
    /// Parts of the error.
    #[serde(default, rename = "error")]
    _error: Vec<String>,
    /// The results of further executions of the same call site.
    #[serde(default, rename = "then")]
    _then: Vec<Vec<String>>,
    /// Pairs of an argument and the result that shares its memory.
    #[serde(default, rename = "aliases")]
    _aliases: Vec<[usize; 2]>,
    /// Whether each execution counts, as with state.
    #[serde(default, rename = "effect")]
    _effect: bool,
}

fn every_language() -> Vec<Language> {
    Language::ALL.to_vec()
}

/// The table.
pub(crate) fn table(root: &Path) -> Result<Vec<Example>> {
    let path = root.join("examples/examples.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The libraries in C and C++, where the build script of the root package put them.
#[derive(Debug)]
pub(crate) struct Built {
    root: PathBuf,
    folder: PathBuf,
    c: bool,
    cpp: bool,
}

impl Built {
    /// Runs the build script, and asks cargo what it said.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let start = Instant::now();
        let mut command = cargo(root);
        command.args(["build", "--package", "xla-ffi-tests"]);
        command.arg("--message-format=json-render-diagnostics");
        let output = command
            .stderr(std::process::Stdio::inherit())
            .output()
            .context("starting cargo")?;
        if !output.status.success() {
            bail!("cargo build of the examples in C and C++ failed");
        }
        let mut built = Self {
            root: root.to_owned(),
            folder: PathBuf::new(),
            c: false,
            cpp: false,
        };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
                continue;
            };
            for pair in message["env"].as_array().into_iter().flatten() {
                match pair[0].as_str() {
                    Some("C_EXAMPLES_DIR") => {
                        built.folder = pair[1].as_str().unwrap_or_default().into();
                    }
                    Some("C_COMPILER") => built.c = true,
                    Some("CPP_COMPILER") => built.cpp = true,
                    _ => {}
                }
            }
        }
        if built.folder.as_os_str().is_empty() {
            bail!("cargo does not say where the build script put the examples");
        }
        ui::note(format_args!(
            "build script of the examples in C and C++: {}",
            ui::seconds(start.elapsed())
        ));
        Ok(built)
    }

    /// Whether there is a compiler for a language.
    pub(crate) fn compiles(&self, language: Language) -> bool {
        match language {
            Language::Rust => true,
            Language::Cpp => self.cpp,
            Language::C => self.c,
        }
    }

    /// The library of an example, `None` where there is no compiler for its language.
    pub(crate) fn library(&self, name: &str, language: Language) -> Result<Option<PathBuf>> {
        let file = match language {
            Language::Rust => {
                let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
                return libraries::rust(&self.root, name).map(Some);
            }
            _ if !self.compiles(language) => return Ok(None),
            Language::Cpp => libraries::file_name(&format!("{name}_cpp")),
            Language::C => libraries::file_name(name),
        };
        let path = self.folder.join(file);
        if !path.is_file() {
            bail!("{} was not built", path.display());
        }
        Ok(Some(path))
    }

    /// Every example as `LANGUAGE:EXAMPLE=LIBRARY`, as the JAX drivers take them; without a library
    /// where there is no compiler. The Rust ones are built already.
    pub(crate) fn arguments(&self) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        for example in table(&self.root)? {
            for language in &example.languages {
                let path = self.library(&example.name, *language)?.unwrap_or_default();
                let (language, name) = (language.name(), &example.name);
                arguments.push(format!("{language}:{name}={}", path.display()));
            }
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jaxlibs;

    #[test]
    fn the_table_is_read() {
        let table = table(&jaxlibs::root()).unwrap();
        assert!(table.len() >= 10);
        for example in &table {
            assert!(example.languages.contains(&Language::Rust));
            // The demo shows at least one call of each.
            assert!(example.calls.iter().any(|call| call.says.is_some()));
        }
    }
}
