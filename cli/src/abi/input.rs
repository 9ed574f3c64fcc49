//! The inputs of `abi` subcommands: revisions, snapshot files and headers.

use anyhow::Context;
use std::path::{Path, PathBuf};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::header::{Language, Places, Source};
use xla_ffi_abi::model::Abi;
use xla_ffi_abi::snapshot;

/// Options for parsing headers.
#[derive(clap::Args, Clone)]
pub(crate) struct Reading {
    /// Define a preprocessor macro before parsing; may be repeated [default: none].
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    #[arg(help_heading = "Header parsing")]
    define: Vec<String>,
    /// Search this folder for included headers; may be repeated [default: none].
    #[arg(short = 'I', value_name = "DIR", help_heading = "Header parsing")]
    include: Vec<PathBuf>,
    /// Treat names with this prefix as names with XLA_FFI_; may be repeated [default: none].
    #[arg(long, value_name = "PREFIX", help_heading = "Header parsing")]
    prefix: Vec<String>,
    /// Treat names in this C++ namespace (acme::ffi) as names with XLA_FFI_; may be repeated [default: none].
    #[arg(long, value_name = "NAME", help_heading = "Header parsing")]
    namespace: Vec<String>,
    /// Parse headers as C11 or as C++17.
    #[arg(long, value_enum, default_value_t = Lang::Cpp, help_heading = "Header parsing")]
    lang: Lang,
}

/// The language of headers.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Lang {
    C,
    Cpp,
}

/// A build variant of a header, with its own macro definitions. The syntax is `NAME` or `NAME:DEFINITION,DEFINITION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) defines: Vec<String>,
}

impl std::str::FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, defines) = match text.split_once(':') {
            Some((name, defines)) => (name, defines.split(',').map(str::to_owned).collect()),
            None => (text, Vec::new()),
        };
        if name.is_empty() {
            return Err("expected NAME, or NAME:DEFINITION,DEFINITION".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            defines,
        })
    }
}

impl Reading {
    /// Ends the program with status 2 if options for headers are given, but no input is a header.
    pub(crate) fn wants_a_header<'i>(&self, inputs: impl IntoIterator<Item = &'i Input>) {
        let given = [
            ("-D", !self.define.is_empty()),
            ("-I", !self.include.is_empty()),
            ("--prefix", !self.prefix.is_empty()),
            ("--namespace", !self.namespace.is_empty()),
            ("--lang", self.lang != Lang::Cpp),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            if !inputs.into_iter().any(Input::is_header) {
                crate::refuse(format!(
                    "{option} applies to headers, but no header is given: revisions and snapshots are not parsed"
                ));
            }
        }
    }

    /// Parses one variant of the header at `path`. Returns its layouts, and the names and lines of its declarations.
    pub(crate) fn read(
        &self,
        path: &Path,
        variant: Option<&Variant>,
    ) -> anyhow::Result<(Abi, Places)> {
        let variant = variant.map_or(&[][..], |variant| &variant.defines);
        let mut source = Source::open(path, &self.include)?;
        for define in self.define.iter().chain(variant) {
            source = source.define(define);
        }
        for prefix in &self.prefix {
            source = source.prefix(prefix);
        }
        for namespace in &self.namespace {
            source = source.namespace(namespace);
        }
        if self.lang == Lang::C {
            source = source.language(Language::C);
        }
        Ok(source.read_with_places()?)
    }
}

/// An input of `abi diff` or `abi show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// An edition, named by a revision, an edition or a jaxlib version.
    Edition(Edition),
    /// The path of a header or a snapshot file.
    File(PathBuf),
}

impl std::str::FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let looks_like_file = text.contains('/') || text.ends_with(".h") || text.ends_with(".json");
        if looks_like_file || Path::new(text).is_file() {
            return Ok(Self::File(PathBuf::from(text)));
        }
        super::edition(text).map(Self::Edition)
    }
}

impl Input {
    /// Returns the input's name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Edition(edition) => edition.name(),
            Self::File(path) => path.display().to_string(),
        }
    }

    fn is_snapshot(path: &Path) -> bool {
        path.extension().is_some_and(|e| e == "json")
    }

    pub(crate) fn is_header(&self) -> bool {
        matches!(self, Self::File(path) if !Self::is_snapshot(path))
    }

    /// Returns the input's layouts. For a header, also returns the names and lines of its declarations.
    pub(crate) fn layouts(&self, reading: &Reading) -> anyhow::Result<(Abi, Places)> {
        let without_places = |abi| Ok((abi, Places::default()));
        match self {
            Self::Edition(edition) => without_places(snapshot::of_edition(*edition)?.abi.clone()),
            Self::File(path) if Self::is_snapshot(path) => {
                let shown = path.display().to_string();
                let text = std::fs::read_to_string(path).with_context(|| shown.clone())?;
                without_places(snapshot::parse(&shown, &text)?)
            }
            Self::File(path) => reading.read(path, None),
        }
    }
}
