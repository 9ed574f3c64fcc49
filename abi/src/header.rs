//! Header files as input for libclang.

use crate::change::Change;
use crate::model::{Abi, Header, PREFIX, map_words};
use crate::snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The largest size in bytes of a file that is read as a header.
const LIMIT: u64 = 4 << 20;
/// The file name under which libclang reads the header. Only declarations in this file are the header's own.
pub(crate) const SUBJECT: &str = "xla_ffi_abi_subject.h";
/// The file name of the translation unit that includes the header.
pub(crate) const UNIT: &str = "unit.cc";
/// A folder that is searched for included files. Its `xla/ffi/api` is a link to the folder of the header.
pub(crate) const FLAT: &str = "flat";
/// The prefix of generated enumerators, whose values are those of macros.
pub(crate) const PROBE: &str = "XLA_FFI_ABI_PROBE_";

/// The error if the layouts of a header or library cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The header file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a C header.
    #[error("{path} is not a C header: {what}", path = path.display())]
    NotText {
        /// The path of the file.
        path: PathBuf,
        /// A description of the file's contents.
        what: String,
    },
    /// libclang refuses the header.
    #[error("{path} does not parse as {language}:\n{messages}", path = path.display(), language = language.standard())]
    Parse {
        /// The path of the file.
        path: PathBuf,
        /// The language in which the header was parsed.
        language: Language,
        /// The error messages of libclang.
        messages: String,
    },
    /// The header declares no types of the FFI.
    #[error(
        "{path} declares no XLA_FFI_… structs, as in xla/ffi/api/c_api.h; pass the names of a copy with --prefix or \
         --namespace",
        path = path.display()
    )]
    Foreign {
        /// The path of the file.
        path: PathBuf,
    },
    /// The header has recursive types that expand without limit.
    #[error(
        "{path} has recursive types that expand without limit",
        path = path.display()
    )]
    Endless {
        /// The path of the file.
        path: PathBuf,
    },
    /// A type is nested too deeply.
    #[error("a type is nested more than 32 levels deep (pointers, arrays, structs)")]
    Deep,
    /// The header declares a name twice, as two different types.
    #[error(
        "{path} has two different declarations of {name}: rename one of them",
        path = path.display()
    )]
    Twice {
        /// The path of the file.
        path: PathBuf,
        /// The name that has two declarations.
        name: String,
    },
    /// The library's debug information is damaged or lacks types.
    #[error("debug information cannot be used: {0}")]
    Dwarf(String),
    /// libclang cannot be loaded.
    #[error(
        "libclang cannot be loaded ({0}): install it (`pip install libclang`) and set LIBCLANG_PATH to the folder of \
         libclang.so, `clang/native` in that package"
    )]
    Missing(String),
    /// A temporary file could not be written.
    #[error("cannot write a scratch file: {0}")]
    Scratch(#[from] std::io::Error),
}

/// The language in which a header is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// C, version C11.
    C,
    /// C++, version C++17.
    #[default]
    Cpp,
}

impl Language {
    const fn standard(self) -> &'static str {
        match self {
            Self::C => "C11",
            Self::Cpp => "C++17",
        }
    }
}

/// The names and lines of declarations in a header.
#[derive(Debug, Default)]
pub struct Places {
    /// The name and line in the header of each declaration. The keys are upstream's names, such as `XLA_FFI_Buffer` or
    /// `XLA_FFI_Buffer.rank`. Declarations in included files have no line.
    known: BTreeMap<String, (String, Option<u32>)>,
    /// The header's prefix instead of `XLA_FFI_`. Messages use this prefix for names that the header does not declare.
    prefix: Option<String>,
}

impl Places {
    pub(crate) fn note(&mut self, upstream: String, written: &str, line: Option<u32>) {
        let known = self.known.entry(upstream);
        known.or_insert_with(|| (written.to_owned(), line));
    }

    /// Adds line numbers to the changes, and replaces upstream's names by the header's names.
    pub fn apply(&self, changes: &mut [Change]) {
        for change in changes {
            let line = |path: &str| self.known.get(path).and_then(|(_, line)| *line);
            change.line = line(&change.path()).or_else(|| line(&change.owner));
            let others = [
                &mut change.was,
                &mut change.now,
                &mut change.was_c,
                &mut change.now_c,
            ];
            let texts = others.into_iter().chain([&mut change.member]).flatten();
            for text in texts.chain([&mut change.owner]) {
                *text = map_words(text, |word| self.written(word));
            }
        }
    }

    fn written(&self, upstream: &str) -> Option<String> {
        let rest = upstream.strip_prefix(PREFIX)?;
        match self.known.get(upstream) {
            Some((name, _)) => Some(name.clone()),
            None => Some(format!("{}{rest}", self.prefix.as_ref()?)),
        }
    }
}

/// The declarations found in a header and its included files, and the names that the header itself declares.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) abi: Abi,
    /// Names that have two different declarations.
    pub(crate) twice: BTreeSet<String>,
    pub(crate) own: BTreeSet<String>,
    pub(crate) places: Places,
}

/// Inserts a declaration under `name`. If `name` already has a different declaration, adds `name` to `twice`.
pub(crate) fn put<T: PartialEq>(
    all: &mut BTreeMap<String, T>,
    twice: &mut BTreeSet<String>,
    name: String,
    one: T,
) {
    match all.get(&name) {
        Some(known) if *known == one => {}
        Some(_) => {
            twice.insert(name);
        }
        None => {
            all.insert(name, one);
        }
    }
}

impl Declared {
    /// Returns the declarations that belong to the header. In a copied header, these may be in an included file. The
    /// types of the main header do not belong to an extension's header that includes the main header.
    ///
    /// The result is [`Error::Twice`] if the header declares a name twice, as different types.
    pub(crate) fn subject(mut self, path: &Path) -> Result<Abi, Error> {
        let mut own = self.abi.clone();
        own.keep(|name| self.own.contains(name));
        let header = own.header();
        let mut abi = std::mem::take(&mut self.abi);
        if !own.is_empty() && header != Header::Main {
            let known = snapshot::all().into_iter().flatten();
            let known = known.filter(|snapshot| snapshot.edition.header == header);
            let known: BTreeSet<&String> = known.flat_map(|known| known.abi.names()).collect();
            abi.keep(|name| self.own.contains(name) || known.contains(name));
        }
        let mut twice = self.twice.iter();
        let kept: BTreeSet<&String> = abi.names().collect();
        if let Some(name) = twice.find(|name| kept.contains(name)) {
            return Err(Error::Twice {
                path: path.to_owned(),
                name: name.clone(),
            });
        }
        abi.settle();
        Ok(abi)
    }
}

/// A header file, with the settings for parsing it.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    includes: Vec<PathBuf>,
    /// The folder of the header; `None` for a header in memory.
    home: Option<PathBuf>,
    defines: Vec<String>,
    prefixes: Vec<String>,
    namespaces: Vec<String>,
    language: Language,
}

impl Source {
    /// Reads the header at `path`.
    ///
    /// Included files are searched in `includes`, in the header's folder, and in the folder that contains the header's
    /// `xla/ffi/api/`.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read, [`Error::NotText`] if it is not a C header.
    pub fn open(path: &Path, includes: &[PathBuf]) -> Result<Self, Error> {
        let read = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let not_text = |what: &str| Error::NotText {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let metadata = std::fs::metadata(path).map_err(read)?;
        if !metadata.is_file() {
            return Err(not_text("not a regular file"));
        }
        if metadata.len() > LIMIT {
            return Err(not_text("larger than 4 MiB"));
        }
        let bytes = std::fs::read(path).map_err(read)?;
        if bytes.contains(&0) {
            return Err(not_text("it contains zero bytes"));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut source = Self::from_text(path, text);
        source.includes.extend_from_slice(includes);
        if let Some(folder) = std::path::absolute(path).ok().and_then(|path| {
            let folder = path.parent()?;
            Some(folder.to_owned())
        }) {
            if folder.ends_with("xla/ffi/api") {
                if let Some(root) = folder.ancestors().nth(3) {
                    source.includes.push(root.to_owned());
                }
            }
            source.includes.push(folder.clone());
            source.home = Some(folder);
        }
        Ok(source)
    }

    /// Creates a header from text in memory. Messages use `path` as the header's name.
    #[must_use]
    pub fn from_text(path: &Path, text: String) -> Self {
        Self {
            path: path.to_owned(),
            text,
            includes: Vec::new(),
            home: None,
            defines: Vec::new(),
            prefixes: Vec::new(),
            namespaces: Vec::new(),
            language: Language::default(),
        }
    }

    /// Adds a folder that is searched for included files.
    #[must_use]
    pub fn include(mut self, folder: &Path) -> Self {
        self.includes.push(folder.to_owned());
        self
    }

    /// Defines a macro before parsing, as `NAME` or `NAME=VALUE`, like a compiler's option `-D`.
    #[must_use]
    pub fn define(mut self, definition: &str) -> Self {
        self.defines.push(definition.to_owned());
        self
    }

    /// Sets a prefix, such as `MY_FFI_`, that a copy of the header uses instead of `XLA_FFI_`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefixes.push(prefix.to_owned());
        self
    }

    /// Sets a C++ namespace, such as `acme::ffi`, whose names lack the prefix `XLA_FFI_`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Sets the language in which the header is parsed.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = language;
        self
    }

    pub(crate) fn spoken(&self) -> Language {
        self.language
    }

    pub(crate) fn defines(&self) -> &[String] {
        &self.defines
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn includes(&self) -> &[PathBuf] {
        &self.includes
    }

    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, Error> {
        let folder = tempfile::Builder::new().prefix("xla-ffi-abi-").tempdir()?;
        std::fs::write(folder.path().join(SUBJECT), &self.text)?;
        std::fs::write(folder.path().join(UNIT), self.unit())?;
        // Headers that were copied into one folder may include each other as `xla/ffi/api/…`, as in XLA.
        if let Some(own) = &self.home {
            let api = folder.path().join(FLAT).join("xla/ffi");
            std::fs::create_dir_all(&api)?;
            std::os::unix::fs::symlink(own, api.join("api"))?;
        }
        Ok(folder)
    }

    /// Returns the translation unit that libclang parses. The unit includes the header and defines an enumerator for
    /// each macro. If a macro is not a whole number, its enumerator causes a parse error, which is ignored.
    #[must_use]
    pub fn unit(&self) -> String {
        let mut unit =
            format!("#include <stddef.h>\n#include <stdint.h>\n#include \"{SUBJECT}\"\n");
        for (name, theirs) in self.probes() {
            unit.push_str(&format!(
                "#ifdef {theirs}\nenum {{ {PROBE}{name} = ({theirs}) }};\n#endif\n"
            ));
        }
        unit
    }

    /// Returns upstream's name of the macro that line `line` of the translation unit evaluates.
    pub(crate) fn probe_at(&self, line: u32) -> Option<String> {
        let index = (line as usize).checked_sub(4)? / 3;
        Some(self.probes().into_iter().nth(index)?.0)
    }

    /// Returns the upstream name and the header's name of each macro that may be a whole number.
    fn probes(&self) -> BTreeSet<(String, String)> {
        // An included file may define macros of known headers, so these macros are always evaluated.
        let snapshots = snapshot::all().into_iter().flatten();
        let known = snapshots.flat_map(|snapshot| snapshot.abi.constants.keys());
        let known = known.map(|name| (name.clone(), name.clone()));
        self.own_macros().into_iter().chain(known).collect()
    }

    /// Returns the names of macros in the header's text that may be whole numbers, first upstream's name and then the
    /// header's.
    pub(crate) fn own_macros(&self) -> BTreeSet<(String, String)> {
        let text = in_one_line(&self.text);
        // Unbalanced brackets or braces in a macro's value would also affect the following lines of the translation
        // unit.
        let is_whole = |value: &str| {
            let is_closed = value.matches('(').count() == value.matches(')').count();
            is_closed && !value.contains(['{', '}', ';', '"'])
        };
        macros(&text)
            .filter(|(_, value)| value.starts_with([' ', '\t']) && is_whole(value))
            .filter_map(|(name, _)| Some((self.upstream(name)?, name.to_owned())))
            .collect()
    }

    /// Returns upstream's name of a macro; `None` if the macro does not belong to the FFI.
    pub(crate) fn upstream(&self, name: &str) -> Option<String> {
        // Macros have no namespace. Without the header's prefix, a macro belongs to the FFI only if a known header has
        // a macro of this name.
        let known = (!self.namespaces.is_empty()).then(|| format!("{PREFIX}{name}"));
        let known = known.filter(|name| snapshot::is_name(name));
        self.upstream_in(None, name).or(known)
    }

    /// Returns upstream's name of a declaration in the namespace `scope`; `None` if the declaration does not belong to
    /// the FFI.
    pub(crate) fn upstream_in(&self, scope: Option<&str>, name: &str) -> Option<String> {
        if name.starts_with(PREFIX) {
            return Some(name.to_owned());
        }
        let is_ours = scope.is_some_and(|scope| self.is_namespace(scope));
        let mut prefixes = self.prefixes.iter();
        let rest = prefixes.find_map(|prefix| name.strip_prefix(prefix.as_str()));
        let rest = rest.or(is_ours.then_some(name))?;
        Some(format!("{PREFIX}{rest}"))
    }

    /// Returns upstream's name of a field. Slots are named like functions, so their names may start with the header's
    /// prefix.
    pub(crate) fn upstream_field(&self, name: &str) -> String {
        let slot = self.upstream(name).filter(|slot| snapshot::is_name(slot));
        slot.unwrap_or_else(|| name.to_owned())
    }

    /// Returns true if names in the namespace `scope` lack the prefix `XLA_FFI_`.
    pub(crate) fn is_namespace(&self, scope: &str) -> bool {
        let mut namespaces = self.namespaces.iter();
        namespaces.any(|one| one.trim_start_matches("::") == scope)
    }

    /// Returns the names and lines of the header's macros.
    pub(crate) fn places(&self) -> Places {
        let prefix = match (self.prefixes.as_slice(), self.namespaces.as_slice()) {
            ([prefix], []) => Some(prefix.clone()),
            ([], [_, ..]) => Some(String::new()),
            _ => None,
        };
        let mut places = Places {
            prefix,
            ..Places::default()
        };
        for (line, text) in (1..).zip(self.text.lines()) {
            for (name, _) in macros(text) {
                if let Some(upstream) = self.upstream(name) {
                    places.note(upstream, name, Some(line));
                }
            }
        }
        places
    }
}

/// Returns the name of each `#define` directive in a text, with the rest of its line.
fn macros(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("define")?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Some(rest.split_at(end.unwrap_or(rest.len())))
    })
}

/// Returns the text without comments, and with each directive on one line.
fn in_one_line(text: &str) -> String {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('/') {
        let (before, comment) = rest.split_at(at);
        out.push_str(before);
        let (end, kept) = match comment.as_bytes().get(1) {
            Some(b'/') => (comment.find('\n').unwrap_or(comment.len()), ' '),
            Some(b'*') => {
                let end = comment[2..].find("*/").map(|end| end + 4);
                (end.unwrap_or(comment.len()), ' ')
            }
            _ => (1, '/'),
        };
        out.push(kept);
        rest = &comment[end..];
    }
    out + rest
}
