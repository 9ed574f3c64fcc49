//! A header file that is to be read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A header is small; what is larger is something else.
const LIMIT: u64 = 4 << 20;
/// The name under which a header is compiled: readers keep what is declared in it.
pub(crate) const SUBJECT: &str = "xla_ffi_abi_subject.h";
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

/// A header file.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
    includes: Vec<PathBuf>,
    limit: Duration,
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

    pub(crate) fn time_limit(&self) -> Duration {
        self.limit
    }

    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, Error> {
        let folder = tempfile::Builder::new().prefix("xla-ffi-abi-").tempdir()?;
        std::fs::write(folder.path().join(SUBJECT), &self.text)?;
        std::fs::write(folder.path().join("unit.cc"), self.unit())?;
        Ok(folder)
    }

    /// The translation unit that readers see: it includes the header and makes enumerators of its macros.
    #[must_use]
    pub fn unit(&self) -> String {
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
