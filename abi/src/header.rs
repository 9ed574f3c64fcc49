//! A header file that is to be read.

use crate::model::{Abi, Header, PREFIX};
use crate::snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A header is small; what is larger is something else.
const LIMIT: u64 = 4 << 20;
/// The name under which a header is compiled: readers keep what is declared in it.
pub(crate) const SUBJECT: &str = "xla_ffi_abi_subject.h";
/// The translation unit that includes it.
pub(crate) const UNIT: &str = "unit.cc";
/// The macros that map names, beside it.
const NAMES: &str = "xla_ffi_abi_names.h";
/// A folder in which `xla/ffi/api` is the header's own folder.
pub(crate) const FLAT: &str = "flat";
/// Enumerators that carry the value of a macro.
pub(crate) const PROBE: &str = "XLA_FFI_ABI_PROBE_";

/// Why no layouts could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no header.
    #[error("{path} is not a C header: {what}", path = path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// A compiler refuses the header.
    #[error("{path} does not parse as C++17:\n{messages}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What the compiler says.
        messages: String,
    },
    /// The header declares other things.
    #[error(
        "{path} declares no XLA_FFI_… structs, as in xla/ffi/api/c_api.h; pass the names of a copy with --prefix or \
         --namespace",
        path = path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The header's types hold or take one another too often to be told.
    #[error(
        "{path} has recursive types that expand without limit",
        path = path.display()
    )]
    Endless {
        /// The file.
        path: PathBuf,
    },
    /// The header's types are nested too deep to be told.
    #[error("a type is nested more than 32 levels deep (pointers, arrays, structs)")]
    Deep,
    /// A name stands for two things.
    #[error(
        "{path} has two different declarations of {name}: rename one of them",
        path = path.display()
    )]
    Twice {
        /// The file.
        path: PathBuf,
        /// What has two declarations.
        name: String,
    },
    /// Debug information that makes no sense.
    #[error("debug information does not parse: {0}")]
    Dwarf(String),
    /// libclang cannot be loaded.
    #[error(
        "libclang cannot be loaded ({0}): install it (`pip install libclang`) and set LIBCLANG_PATH to the folder of \
         libclang.so, `clang/native` in that package"
    )]
    Missing(String),
    /// A scratch file could not be written.
    #[error("cannot write a scratch file: {0}")]
    Scratch(#[from] std::io::Error),
}

/// Everything that the header and the files it includes declare, and which names the header itself declares.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) abi: Abi,
    /// Names that two declarations have which are not the same.
    pub(crate) twice: BTreeSet<String>,
    pub(crate) own: BTreeSet<String>,
}

/// Puts something under its name, and notes a name that stands for something else already.
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
    /// What belongs to the header. A copy may keep a part of its types in a file that it includes; the
    /// extensions' headers include the main one, whose types are not theirs.
    ///
    /// # Errors
    /// [`Error::Twice`] where a name of it stands for two things.
    pub(crate) fn subject(mut self, path: &Path) -> Result<Abi, Error> {
        let own = self.part(|name| self.own.contains(name));
        let header = own.header();
        let mut abi = if own.is_empty() || header == Header::Main {
            std::mem::take(&mut self.abi)
        } else {
            let known: BTreeSet<&String> = snapshot::all()
                .into_iter()
                .flatten()
                .filter(|snapshot| snapshot.edition.header == header)
                .flat_map(|snapshot| snapshot.abi.names())
                .collect();
            self.part(|name| self.own.contains(name) || known.contains(&name.to_owned()))
        };
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

    /// What of the whole has a name that is wanted.
    fn part(&self, wanted: impl Fn(&str) -> bool) -> Abi {
        fn kept<V: Clone>(
            all: &BTreeMap<String, V>,
            wanted: &impl Fn(&str) -> bool,
        ) -> BTreeMap<String, V> {
            let pairs = all.iter().filter(|(name, _)| wanted(name));
            pairs
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        }
        let abi = &self.abi;
        Abi {
            structs: kept(&abi.structs, &wanted),
            opaque: abi
                .opaque
                .iter()
                .filter(|name| wanted(name))
                .cloned()
                .collect(),
            enums: kept(&abi.enums, &wanted),
            functions: kept(&abi.functions, &wanted),
            prototypes: kept(&abi.prototypes, &wanted),
            links: kept(&abi.links, &wanted),
            variables: kept(&abi.variables, &wanted),
            aliases: kept(&abi.aliases, &wanted),
            constants: kept(&abi.constants, &wanted),
        }
    }
}

/// A header file.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    includes: Vec<PathBuf>,
    /// The folder in which the file lies.
    home: Option<PathBuf>,
    defines: Vec<String>,
    prefixes: Vec<String>,
    namespaces: Vec<String>,
}

impl Source {
    /// Reads the header at `path`; `includes` are folders in which what it includes is looked
    /// for, beside its own folder and the root that `xla/ffi/api/` hangs in.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::NotText`].
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

    /// A header that lies in memory; `path` names it in messages.
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
        }
    }

    /// Adds a folder in which what the header includes is looked for.
    #[must_use]
    pub fn include(mut self, folder: &Path) -> Self {
        self.includes.push(folder.to_owned());
        self
    }

    /// Defines a macro first, as `-D` of a compiler: `NAME` or `NAME=VALUE`.
    #[must_use]
    pub fn define(mut self, definition: &str) -> Self {
        self.defines.push(definition.to_owned());
        self
    }

    /// Says what a copy's names begin with in place of `XLA_FFI_`: `MY_FFI_`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefixes.push(prefix.to_owned());
        self
    }

    /// Says in which C++ namespace a copy has the names without `XLA_FFI_`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    pub(crate) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    pub(crate) fn defines(&self) -> &[String] {
        &self.defines
    }

    /// Whether the header includes more than what libclang is given.
    pub(crate) fn includes_more(&self) -> bool {
        self.text.lines().any(|line| {
            let line = line.trim_start();
            line.starts_with('#')
                && line.contains("include")
                && line.contains('<')
                && !["<stddef.h>", "<stdint.h>", "<cstddef>", "<cstdint>"]
                    .iter()
                    .any(|known| line.contains(known))
        })
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
        std::fs::write(folder.path().join(NAMES), self.names())?;
        std::fs::write(folder.path().join(UNIT), self.unit())?;
        // Copies that lie flat in a folder include each other as upstream's tree has them.
        if let Some(own) = &self.home {
            let api = folder.path().join(FLAT).join("xla/ffi");
            std::fs::create_dir_all(&api)?;
            std::os::unix::fs::symlink(own, api.join("api"))?;
        }
        Ok(folder)
    }

    /// Macros that give the names of a copy back to upstream: libclang then sees upstream's, in
    /// every file that is included.
    fn names(&self) -> String {
        let mut text = String::from("#include <stddef.h>\n#include <stdint.h>\n");
        if self.prefixes.is_empty() && self.namespaces.is_empty() {
            return text;
        }
        let defined = self.defined();
        let mut known: BTreeSet<String> = snapshot::all()
            .into_iter()
            .flatten()
            .flat_map(|snapshot| snapshot.abi.every_name())
            .filter_map(|name| Some(name.strip_prefix(PREFIX)?.to_owned()))
            .collect();
        for prefix in &self.prefixes {
            // What no jaxlib has had is a name of the copy too.
            known.extend(
                self.words()
                    .filter_map(|word| Some(word.strip_prefix(prefix.as_str())?.to_owned())),
            );
        }
        let froms = self.prefixes.iter().map(String::as_str);
        for from in froms.chain((!self.namespaces.is_empty()).then_some("")) {
            for name in &known {
                let theirs = format!("{from}{name}");
                let is_name = theirs.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                if is_name && !defined.contains(theirs.as_str()) {
                    text.push_str(&format!("#define {theirs} {PREFIX}{name}\n"));
                }
            }
        }
        text
    }

    /// The identifiers of the header's text.
    fn words(&self) -> impl Iterator<Item = &str> {
        let words = self
            .text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty())
    }

    /// Names that the header's text defines as macros.
    fn defined(&self) -> BTreeSet<&str> {
        macros(&self.text).map(|(name, _)| name).collect()
    }

    /// The translation unit that libclang parses: it includes the header and makes enumerators of its macros. Macros that
    /// are not whole numbers are parse errors there, each in the lines of its probe.
    #[must_use]
    pub fn unit(&self) -> String {
        let mut unit = format!("#include \"{NAMES}\"\n#include \"{SUBJECT}\"\n");
        for (name, theirs) in self.probes() {
            unit.push_str(&format!(
                "#ifdef {theirs}\nenum {{ {PROBE}{name} = ({theirs}) }};\n#endif\n"
            ));
        }
        unit
    }

    /// The macro that a line of the unit evaluates, by upstream's name.
    pub(crate) fn probe_at(&self, line: u32) -> Option<String> {
        let index = (line as usize).checked_sub(3)? / 3;
        Some(self.probes().into_iter().nth(index)?.0)
    }

    /// Macros that may stand for a number: upstream's name, and that in the text.
    fn probes(&self) -> BTreeSet<(String, String)> {
        // A file that is included may define the macros that every header has.
        let snapshots = snapshot::all().into_iter().flatten();
        let known = snapshots.flat_map(|snapshot| snapshot.abi.constants.keys());
        let known = known.map(|name| (name.clone(), name.clone()));
        self.own_macros().into_iter().chain(known).collect()
    }

    /// Those that the header's text defines.
    pub(crate) fn own_macros(&self) -> BTreeSet<(String, String)> {
        let text = in_one_line(&self.text);
        // Half of a block would take what follows into its error.
        let is_whole = |value: &str| {
            let is_closed = value.matches('(').count() == value.matches(')').count();
            is_closed && !value.contains(['{', '}', ';', '"'])
        };
        macros(&text)
            .filter(|(_, value)| value.starts_with([' ', '\t']) && is_whole(value))
            .filter_map(|(name, _)| Some((self.upstream(name)?, name.to_owned())))
            .collect()
    }

    /// Upstream's name of something that the text calls `name`; `None` for what is not of the FFI.
    pub(crate) fn upstream(&self, name: &str) -> Option<String> {
        if name.starts_with(PREFIX) {
            return Some(name.to_owned());
        }
        let rest = self
            .prefixes
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix.as_str()));
        if let Some(rest) = rest {
            return Some(format!("{PREFIX}{rest}"));
        }
        // Macros know no namespace: only those that headers have are taken for theirs.
        let upstream = format!("{PREFIX}{name}");
        let known = !self.namespaces.is_empty()
            && snapshot::all().into_iter().flatten().any(|snapshot| {
                let abi = &snapshot.abi;
                abi.constants.contains_key(&upstream) || abi.prototypes.contains_key(&upstream)
            });
        known.then_some(upstream)
    }
}

/// The macros that a text defines, each with what follows its name on the line.
fn macros(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("define")?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Some(rest.split_at(end.unwrap_or(rest.len())))
    })
}

/// The text with each directive on one line, and without comments.
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
