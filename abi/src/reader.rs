//! The two opinions about a header: libclang's, and that of the debug information which a compiler
//! writes. Either serves where the other is missing.

use crate::header::{Error, Source};
use crate::model::Abi;
use crate::watch::Watcher;
use crate::{apart, compile, diff, dwarf, prototypes};
use std::fmt;
use std::path::Path;

/// Where an opinion comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// libclang's view of the source.
    Clang,
    /// The debug information of a compiled translation unit.
    Dwarf,
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clang => "libclang",
            Self::Dwarf => "the compiler's debug information",
        })
    }
}

/// What two readers say about one header.
#[derive(Debug)]
pub struct Opinions {
    /// The layouts.
    pub abi: Abi,
    /// Whose they are; when both were asked, both agree.
    pub by: Vec<Reader>,
    /// Readers that are missing, and why.
    pub missing: Vec<(Reader, String)>,
    /// What the second reader sees differently, in one line each; empty where both agree.
    pub disagreement: Vec<String>,
}

impl Source {
    /// Asks one reader.
    ///
    /// # Errors
    /// [`Error`] when the reader is missing or refuses the header.
    pub fn read(&self, reader: Reader) -> Result<Abi, Error> {
        let folder = self.scratch()?;
        let watcher = Watcher::start(Some(folder.path()));
        // Dropped in this order: the folder is watched until it is gone.
        let held = (folder, watcher);
        let (folder, watcher) = (&held.0, &held.1);
        let mut found = match reader {
            Reader::Clang => apart::read(self, folder.path(), watcher)?,
            Reader::Dwarf => {
                let library = self.compiled(folder.path(), watcher)?;
                dwarf::read_subject(&library)?
            }
        };
        found.own.extend(self.prototypes());
        let macros = self.number_macros();
        found.own.extend(macros.into_iter().map(|(name, _)| name));
        let abi = found.subject(self.path())?;
        if abi.is_empty() {
            return Err(Error::Foreign {
                path: self.path().to_owned(),
            });
        }
        if let Some(convention) = abi.other_convention() {
            return Err(Error::Called {
                path: self.path().to_owned(),
                convention: convention.to_owned(),
            });
        }
        Ok(abi)
    }

    /// The header as a compiler has it, with the types of its functions: these leave no trace in debug information
    /// unless something is called so.
    fn compiled(&self, folder: &Path, watcher: &Watcher) -> Result<Vec<u8>, Error> {
        let mut names = self.prototypes_of_all_files();
        let plain = self.unit();
        let scopes = self.namespaces().iter();
        let scopes: String = scopes
            .map(|name| format!("using namespace {name};\n"))
            .collect();
        let unit = format!("{plain}{scopes}");
        loop {
            if names.is_empty() {
                std::fs::write(folder.join("unit.cc"), &plain)?;
                return compile::debug_library(self, folder, watcher);
            }
            let typedefs: String = names.iter().map(|name| prototypes::typedef(name)).collect();
            std::fs::write(folder.join("unit.cc"), format!("{unit}{typedefs}"))?;
            match compile::debug_library(self, folder, watcher) {
                // Perhaps a name is none of a function: something else, or left out by the preprocessor.
                Err(Error::Parse { messages, .. }) => {
                    let lines = unit.lines().count();
                    names = prototypes::without(&names, lines, &messages);
                }
                other => return other,
            }
        }
    }

    /// Asks the compiler and libclang. Where one is missing the other serves.
    ///
    /// # Errors
    /// [`Error`] when a reader refuses the header, or both are missing.
    pub fn opinions(&self) -> Result<Opinions, Error> {
        // Whom a header breaks down cannot be asked about it, and the other would be asked in vain.
        let dwarf = match self.read(Reader::Dwarf) {
            Ok(abi) => Ok(abi),
            Err(Error::Missing(why)) => Err(why),
            Err(error) => return Err(error),
        };
        match (self.read(Reader::Clang), dwarf) {
            (Err(Error::Missing(clang)), Err(compiler)) => Err(Error::NoReader { clang, compiler }),
            (Ok(abi), Err(why)) => Ok(Opinions {
                abi,
                by: vec![Reader::Clang],
                missing: vec![(Reader::Dwarf, why)],
                disagreement: Vec::new(),
            }),
            (Err(Error::Missing(why)), Ok(abi)) => Ok(Opinions {
                abi,
                by: vec![Reader::Dwarf],
                missing: vec![(Reader::Clang, why)],
                disagreement: Vec::new(),
            }),
            (Ok(abi), Ok(mut other)) => {
                adopt_alignment(&abi, &mut other);
                prototypes::adopt(&abi, &mut other);
                if !self.namespaces().is_empty() {
                    adopt_typedefs(&abi, &mut other);
                }
                Ok(Opinions {
                    disagreement: diff::differences(&abi, &other),
                    abi,
                    by: vec![Reader::Clang, Reader::Dwarf],
                    missing: Vec::new(),
                })
            }
            // The header compiles, so it is libclang's surroundings that do not fit it.
            (Err(error @ (Error::Parse { .. } | Error::Time { .. })), Ok(abi)) => Ok(Opinions {
                abi,
                by: vec![Reader::Dwarf],
                missing: vec![(Reader::Clang, error.to_string())],
                disagreement: Vec::new(),
            }),
            (Err(error), _) => Err(error),
        }
    }
}

/// Debug information does not tell a packed struct whose fields would lie there anyway: where all
/// else agrees, libclang's word on alignment holds.
fn adopt_alignment(clang: &Abi, dwarf: &mut Abi) {
    for (name, layout) in &mut dwarf.structs {
        if let Some(other) = clang.structs.get(name) {
            if (other.size, &other.fields) == (layout.size, &layout.fields) {
                layout.align = other.align;
            }
        }
    }
}

/// Compilers leave typedefs of a namespace that nothing uses out of the debug information, whatever they are
/// told: libclang's word holds there.
fn adopt_typedefs(clang: &Abi, dwarf: &mut Abi) {
    for (name, ty) in &clang.functions {
        dwarf
            .functions
            .entry(name.clone())
            .or_insert_with(|| ty.clone());
    }
    for (name, ty) in &clang.aliases {
        dwarf
            .aliases
            .entry(name.clone())
            .or_insert_with(|| ty.clone());
    }
}
