//! The two opinions about a header: libclang's, and that of the debug information which a compiler
//! writes. Either serves where the other is missing.

use crate::header::{Declared, Error, Source};
use crate::model::Abi;
use crate::{clang, compile, diff, dwarf, prototypes};
use std::fmt;
use std::path::Path;
use std::sync::mpsc;

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
        let mut found = match reader {
            Reader::Clang => self.clang(folder.path())?,
            Reader::Dwarf => {
                let library = self.compiled(folder.path())?;
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
    fn compiled(&self, folder: &Path) -> Result<Vec<u8>, Error> {
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
                return compile::debug_library(self, folder, self.time_limit());
            }
            let typedefs: String = names.iter().map(|name| prototypes::typedef(name)).collect();
            std::fs::write(folder.join("unit.cc"), format!("{unit}{typedefs}"))?;
            match compile::debug_library(self, folder, self.time_limit()) {
                // Perhaps a name is none of a function: something else, or left out by the preprocessor.
                Err(Error::Parse { messages, .. }) => {
                    let lines = unit.lines().count();
                    names = prototypes::without(&names, lines, &messages);
                }
                other => return other,
            }
        }
    }

    /// libclang works in this process, so a header that it does not come to an end with costs a
    /// thread, which is left behind.
    fn clang(&self, folder: &Path) -> Result<Declared, Error> {
        let (sender, receiver) = mpsc::channel();
        let (source, folder) = (self.clone(), folder.to_owned());
        std::thread::spawn(move || {
            // Nobody may be waiting any more.
            let _ = sender.send(clang::read(&source, &folder));
        });
        match receiver.recv_timeout(self.time_limit()) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Error::Time {
                what: "libclang".to_owned(),
                seconds: self.time_limit().as_secs(),
            }),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Error::Missing("libclang broke down".to_owned()))
            }
        }
    }

    /// Asks the compiler and libclang. Where one is missing the other serves.
    ///
    /// # Errors
    /// [`Error`] when a reader refuses the header, or both are missing.
    pub fn opinions(&self) -> Result<Opinions, Error> {
        // The compiler comes first: it runs in a process of its own, with limits on time and
        // memory, so what would blow libclang up ends there.
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
