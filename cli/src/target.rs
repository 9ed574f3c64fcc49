//! The handler that the command line chooses, by the handler's name in the manifest or by symbols.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use xla_ffi_doctor::Examination;
use xla_ffi_doctor::manifest::{self, Manifest};
use xla_ffi_runtime::{Bundle, Library, Stage};

/// The remedy in error messages about libraries without a manifest.
pub(crate) const FORGOTTEN: &str =
    "add `xla_ffi::library! { … }` in Rust, XFFI_LIBRARY in C or XLA_FFI_LIBRARY in C++";

/// A library's path and its manifests.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) manifests: Vec<Manifest>,
}

/// A chosen handler, with the symbols of its stages.
pub(crate) struct Chosen<'a> {
    pub(crate) name: String,
    pub(crate) stages: Vec<(Stage, String)>,
    /// The handler's entry in the manifest; `None` if the manifest does not contain the handler.
    pub(crate) manifest: Option<&'a manifest::Handler>,
    /// The names of all handlers in the manifest, for error messages.
    known: String,
}

impl Target {
    /// Reads the manifests of a library without loading or running the library.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = || path.display().to_string();
        if path.is_dir() {
            bail!("{} is a folder, not a library", path.display());
        }
        let bytes = xla_ffi_doctor::library::bytes(path)?;
        let manifests = manifest::read(&bytes).with_context(shown)?;
        Ok(Self {
            path: path.to_owned(),
            manifests,
        })
    }

    /// Returns all handlers in the manifests of the library.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = &manifest::Handler> {
        self.manifests
            .iter()
            .flat_map(|manifest| &manifest.handlers)
    }

    fn names(&self) -> String {
        self.handlers()
            .map(|handler| handler.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the handler that `--handler` names; without `--handler`, the library's only handler.
    pub(crate) fn choose(&self, wanted: Option<&HandlerName>) -> Result<Chosen<'_>> {
        let shown = self.path.display();
        match wanted {
            Some(HandlerName::Stages(stages)) => Ok(Chosen {
                name: HandlerName::Stages(stages.clone()).symbols().0,
                stages: stages.clone(),
                manifest: None,
                known: self.names(),
            }),
            Some(HandlerName::Name(name)) => {
                match self.handlers().find(|handler| handler.name == *name) {
                    Some(handler) => Ok(from_manifest(handler)),
                    // A name that is not in the manifest is used as the symbol of an execute stage.
                    None => Ok(Chosen {
                        name: name.clone(),
                        stages: vec![(Stage::Execute, name.clone())],
                        manifest: None,
                        known: self.names(),
                    }),
                }
            }
            None => {
                let mut handlers = self.handlers();
                match (handlers.next(), handlers.next()) {
                    (Some(handler), None) => Ok(from_manifest(handler)),
                    (Some(_), Some(_)) => {
                        bail!(
                            "{shown} has several handlers; choose one with --handler: {}",
                            self.names()
                        )
                    }
                    (None, _) => bail!(
                        "{shown} has no manifest: {FORGOTTEN}, or pass the handler's symbol with --handler SYMBOL, or one \
                         symbol per stage with --handler execute=SYMBOL,instantiate=SYMBOL"
                    ),
                }
            }
        }
    }
}

fn from_manifest(handler: &manifest::Handler) -> Chosen<'_> {
    let stages = handler.stages.iter().filter_map(|(stage, symbol)| {
        Stage::from_name(stage).map(|stage| (stage, symbol.to_owned()))
    });
    Chosen {
        name: handler.name.clone(),
        stages: stages.collect(),
        manifest: Some(handler),
        known: String::new(),
    }
}

impl Chosen<'_> {
    fn stages(&self) -> Vec<(Stage, &str)> {
        self.stages
            .iter()
            .map(|(stage, symbol)| (*stage, symbol.as_str()))
            .collect()
    }

    /// Returns a text for errors that lists the handlers in the manifest. The text is empty if the manifest contains
    /// the chosen handler.
    pub(crate) fn others(&self) -> String {
        match self.known.as_str() {
            "" => String::new(),
            known => format!(" (the manifest has {known})"),
        }
    }

    /// Adds a context to the error if the chosen name is neither a handler's name nor a symbol.
    fn explain(&self, error: xla_ffi_runtime::Error) -> anyhow::Error {
        let names_symbols = error.code() == xla_ffi_runtime::ErrorCode::NotFound;
        let error = anyhow::Error::new(error);
        if names_symbols && self.manifest.is_none() {
            error.context(format!("no handler '{}'{}", self.name, self.others()))
        } else {
            error
        }
    }

    /// Returns the functions of the handler's stages in the loaded library.
    pub(crate) fn bundle(&self, library: &Library) -> Result<Bundle> {
        library
            .bundle(&self.stages())
            .map_err(|error| self.explain(error))
    }

    /// Loads the handler and makes its metadata call.
    pub(crate) fn load(&self, library: &Library) -> Result<xla_ffi_runtime::Handler> {
        library
            .handler(&self.name, &self.stages())
            .map_err(|error| self.explain(error))
    }
}

/// The value of `--handler`: a name, or the symbols of the stages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HandlerName {
    /// A name in the manifest, or the symbol of an execute stage.
    Name(String),
    /// The symbol of each stage.
    Stages(Vec<(Stage, String)>),
}

impl HandlerName {
    /// Returns a name for the handler, and the symbol of each stage. If only symbols are given, the name is the symbol
    /// of the execute stage.
    pub(crate) fn symbols(&self) -> (String, Vec<(String, String)>) {
        let stages = match self {
            Self::Name(name) => return (name.clone(), vec![("execute".into(), name.clone())]),
            Self::Stages(stages) => stages,
        };
        let execute = stages.iter().find(|(stage, _)| *stage == Stage::Execute);
        let name = execute.map_or_else(String::new, |(_, symbol)| symbol.clone());
        let stages = stages.iter();
        let stages = stages.map(|(stage, symbol)| (stage.name().to_owned(), symbol.clone()));
        (name, stages.collect())
    }

    /// Returns true if the library's manifest contains the handler, or if the library exports the handler's symbols.
    pub(crate) fn is_in(&self, examination: &Examination) -> bool {
        let (name, stages) = self.symbols();
        let mut declared = examination.manifests.iter().flat_map(|m| &m.handlers);
        let exports = &examination.facts.exports;
        declared.any(|handler| handler.name == name)
            || stages.iter().all(|(_, symbol)| exports.contains(symbol))
    }
}

impl std::str::FromStr for HandlerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("expected a name, got an empty string".into());
        }
        if !text.contains('=') {
            return Ok(Self::Name(text.to_owned()));
        }
        let mut stages = vec![];
        for part in text.split(',') {
            let (stage, symbol) = part
                .split_once('=')
                .filter(|(_, symbol)| !symbol.is_empty())
                .ok_or_else(|| format!("expected STAGE=SYMBOL, got '{part}'"))?;
            let stage = Stage::from_name(stage).ok_or_else(|| {
                let known: Vec<_> = Stage::ALL.into_iter().map(Stage::name).collect();
                format!("expected a stage ({}), got '{stage}'", known.join(", "))
            })?;
            if stages.iter().any(|(known, _)| *known == stage) {
                return Err(format!("the {stage} stage is given twice"));
            }
            stages.push((stage, symbol.to_owned()));
        }
        if !stages.iter().any(|(stage, _)| *stage == Stage::Execute) {
            return Err("the execute stage is missing: add execute=SYMBOL".into());
        }
        Ok(Self::Stages(stages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handler_names() {
        let parse = |text: &str| text.parse::<HandlerName>();
        assert_eq!(parse("f"), Ok(HandlerName::Name("f".into())));
        let stages = vec![
            (Stage::Execute, "f".into()),
            (Stage::Instantiate, "g".into()),
        ];
        assert_eq!(
            parse("execute=f,instantiate=g"),
            Ok(HandlerName::Stages(stages))
        );
        for text in [
            "",
            "execute=",
            "run=f",
            "instantiate=g",
            "execute=f,execute=g",
            "execute=f,g",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
