//! A header file, and the two opinions about it: libclang's, and that of the debug information
//! which a compiler writes. Either serves where the other is missing.

use crate::model::Abi;
use crate::{clang, compile, dwarf};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A header is small; what is larger is something else.
const LIMIT: u64 = 4 << 20;
/// The name under which a header is compiled: readers keep what is declared in it.
pub(crate) const SUBJECT: &str = "xla_ffi_abi_subject.h";
/// Enumerators that carry the value of a macro.
pub(crate) const PROBE: &str = "XLA_FFI_ABI_PROBE_";

/// Why there are no layouts to be had.
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
        "{path} declares nothing of XLA's FFI: expected structs named XLA_FFI_…, as in xla/ffi/api/c_api.h",
        path = path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Debug information that makes no sense.
    #[error("debug information does not parse: {0}")]
    Dwarf(String),
    /// A reader is not there.
    #[error("{0}")]
    Missing(String),
    /// Neither reader is there.
    #[error(
        "nothing here can read a header: {clang}; {compiler}. Install a C++ compiler, or libclang \
         (`pip install libclang`) and set LIBCLANG_PATH to the folder of libclang.so"
    )]
    NoReader {
        /// Why libclang does not serve.
        clang: String,
        /// Why the compiler does not serve.
        compiler: String,
    },
    /// A compiler did not end.
    #[error("{what} took longer than {seconds} s and was stopped")]
    Time {
        /// What was run.
        what: String,
        /// The limit.
        seconds: u64,
    },
    /// A scratch file could not be written.
    #[error("cannot write a scratch file: {0}")]
    Scratch(#[from] std::io::Error),
}

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

/// A header file.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    includes: Vec<PathBuf>,
    limit: Duration,
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
            if folder.ends_with("xla/ffi/api")
                && let Some(root) = folder.ancestors().nth(3)
            {
                source.includes.push(root.to_owned());
            }
            source.includes.push(folder);
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
            limit: Duration::from_secs(20),
        }
    }

    /// Sets how long a reader may take; 20 s where nothing is said.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Adds a folder in which what the header includes is looked for.
    #[must_use]
    pub fn include(mut self, folder: &Path) -> Self {
        self.includes.push(folder.to_owned());
        self
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

    /// Asks one reader.
    ///
    /// # Errors
    /// [`Error`] when the reader is missing or refuses the header.
    pub fn read(&self, reader: Reader) -> Result<Abi, Error> {
        let folder = self.scratch()?;
        let mut abi = match reader {
            Reader::Clang => self.clang(folder.path())?,
            Reader::Dwarf => {
                let library = compile::debug_library(self, folder.path(), self.limit)?;
                dwarf::read_subject(&library)?
            }
        };
        abi.settle();
        if abi.is_empty() {
            return Err(Error::Foreign {
                path: self.path.clone(),
            });
        }
        Ok(abi)
    }

    /// libclang works in this process, so a header that it does not come to an end with costs a
    /// thread, which is left behind.
    fn clang(&self, folder: &Path) -> Result<Abi, Error> {
        let (sender, receiver) = mpsc::channel();
        let (source, folder) = (self.clone(), folder.to_owned());
        std::thread::spawn(move || {
            // Nobody may be waiting any more.
            let _ = sender.send(clang::read(&source, &folder));
        });
        match receiver.recv_timeout(self.limit) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Error::Time {
                what: "libclang".to_owned(),
                seconds: self.limit.as_secs(),
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
                Ok(Opinions {
                    disagreement: crate::diff::differences(&abi, &other),
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

    fn scratch(&self) -> Result<tempfile::TempDir, Error> {
        let folder = tempfile::Builder::new().prefix("xla-ffi-abi-").tempdir()?;
        std::fs::write(folder.path().join(SUBJECT), &self.text)?;
        std::fs::write(folder.path().join("unit.cc"), self.unit())?;
        Ok(folder)
    }

    /// A translation unit that includes the header and makes enumerators of its macros.
    fn unit(&self) -> String {
        let mut unit = format!("#include \"{SUBJECT}\"\n");
        for name in self.number_macros() {
            unit.push_str(&format!(
                "#ifdef {name}\nenum {{ {PROBE}{name} = ({name}) }};\n#endif\n"
            ));
        }
        unit
    }

    /// Names of macros that stand for a number.
    fn number_macros(&self) -> BTreeSet<&str> {
        self.text
            .lines()
            .filter_map(|line| {
                let rest = line.trim_start().strip_prefix('#')?.trim_start();
                let rest = rest.strip_prefix("define")?.trim_start();
                let (name, value) = rest.split_once([' ', '\t'])?;
                let value = value.split("//").next()?.split("/*").next()?.trim();
                let value = value.trim_start_matches(['(', '-']).trim_end_matches(')');
                let is_number = value.starts_with(|c: char| c.is_ascii_digit())
                    && value.bytes().all(|b| b.is_ascii_alphanumeric());
                let is_name = name.starts_with(crate::model::PREFIX)
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                (is_number && is_name).then_some(name)
            })
            .collect()
    }
}

/// Debug information does not tell a packed struct whose fields would lie there anyway: where all
/// else agrees, libclang's word on alignment holds.
fn adopt_alignment(clang: &Abi, dwarf: &mut Abi) {
    for (name, layout) in &mut dwarf.structs {
        if let Some(other) = clang.structs.get(name)
            && (other.size, &other.fields) == (layout.size, &layout.fields)
        {
            layout.align = other.align;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_macros_are_found() {
        let text = "#define XLA_FFI_A 1\n # define\tXLA_FFI_B (0x2u) // two\n#define XLA_FFI_C_H_\n\
                    #define XLA_FFI_D(x) 1\n#define XLA_FFI_E XLA_FFI_TypeId{0}\n#define OTHER 3\n";
        let source = Source::from_text(Path::new("x.h"), text.to_owned());
        assert_eq!(
            source.number_macros().into_iter().collect::<Vec<_>>(),
            ["XLA_FFI_A", "XLA_FFI_B"]
        );
    }
}
