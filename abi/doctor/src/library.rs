//! Facts read from a library's file: symbols, required libraries and versions, search paths, and flags for the dynamic
//! linker.

mod dependencies;
mod elf;
mod format;
mod machine;
mod signature;

pub use dependencies::{Provided, Surroundings};
pub use machine::{Machine, Processor, System, here};
pub use signature::Signature;

use memchr::memmem;
use memmap2::Mmap;
use object::FileKind;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use xla_ffi_abi::declared::parse_version;

/// The start of symbols of the class `xla::ffi::Handler<…>` for the execute stage. Handlers that use XLA's C++ headers
/// have such symbols.
pub(crate) const CXX_HANDLER: &str = "_ZN3xla3ffi7HandlerILNS0_14ExecutionStageE3E";

/// For each `CXXABI_1.3.N`, the number of the `GLIBCXX_3.4` version that the same libstdc++ introduced.
const CXXABI: [u32; 16] = [0, 4, 10, 11, 14, 15, 17, 18, 20, 21, 22, 23, 26, 29, 31, 33];

/// The size in bytes of the largest file that is read as a library.
const LIMIT: u64 = 4 << 30;

/// The error if a file is not a readable library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}", path = crate::library::shown(path))]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a library that can be examined.
    #[error("{path} is not a usable shared library: {what}", path = crate::library::shown(path))]
    Kind {
        /// The path of the file.
        path: PathBuf,
        /// The kind of file that was found instead.
        what: String,
    },
    /// The file is a damaged library.
    #[error("{path} is a damaged library: {what}", path = crate::library::shown(path))]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// A description of the damage and its place.
        what: String,
    },
}

/// A symbol that a library imports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// The name of the symbol.
    pub name: String,
    /// The version of the symbol, for example `GLIBC_2.34`.
    pub version: Option<String>,
    /// The library that provides the symbol, if the file names one (Mach-O, PE).
    pub library: Option<String>,
    /// Whether the library also loads without the symbol.
    pub weak: bool,
}

/// The facts of a library, read from its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The system and processor that the library is for.
    pub machine: Machine,
    /// The systems and processors of the other parts of a fat file.
    pub others: Vec<Machine>,
    /// The library's name for the dynamic linker: `DT_SONAME`, the install name in Mach-O, or the name in a DLL's
    /// exports.
    pub soname: Option<String>,
    /// The required libraries: `DT_NEEDED`, `LC_LOAD_DYLIB`, or the imports of a DLL.
    pub needs: Vec<String>,
    /// The folders of the search path: `DT_RPATH` and `DT_RUNPATH`, or `LC_RPATH`.
    pub search: Vec<String>,
    /// The names of exported functions.
    pub functions: BTreeSet<String>,
    /// The names of all exported symbols.
    pub exports: BTreeSet<String>,
    /// The names of exported symbols that are unique per process (`STB_GNU_UNIQUE`).
    pub unique: BTreeSet<String>,
    /// The symbols that the library imports.
    pub imports: BTreeSet<Needed>,
    /// The names of all exported symbols. If the library is not stripped, the set also contains unexported symbols of
    /// C++ handlers and thread pools.
    pub names: BTreeSet<String>,
    /// The names of required versions of other libraries, such as `GLIBC_2.34` or `GLIBC_ABI_DT_RELR`.
    pub versions: BTreeSet<String>,
    /// The required level of x86-64 processors, 1 to 4, if the file states it.
    pub level: Option<u32>,
    /// Whether the library requires an executable stack.
    pub executable_stack: bool,
    /// Whether the library has text relocations, which the loader applies by changing the library's code.
    pub text_relocations: bool,
    /// Whether the library's thread-local variables need space in the static TLS area.
    pub static_tls: bool,
    /// Facts that only Mach-O files have.
    pub apple: Option<Apple>,
}

/// Facts that only Mach-O files have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apple {
    /// The deployment target, which is the oldest macOS that the library supports.
    pub oldest: Option<Vec<u32>>,
    /// The code signature of the file.
    pub signature: Signature,
}

/// The bytes of a file, mapped into memory so that only the used pages occupy memory.
#[derive(Debug, Default)]
pub struct Bytes(Option<Mmap>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Maps the bytes of a library's file.
///
/// # Errors
/// [`Error::Read`] if the file cannot be read, [`Error::Kind`] if it is not a regular file of a suitable size.
pub fn bytes(path: &Path) -> Result<Bytes, Error> {
    let read = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(read)?;
    let kind = |what: &str| Error::Kind {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    if !metadata.is_file() {
        return Err(kind("it is not a regular file"));
    }
    if metadata.len() > LIMIT {
        return Err(kind("it is larger than 4 GiB"));
    }
    // Files in `/proc` also have size 0, and reading some of them never ends.
    if metadata.len() == 0 {
        return Ok(Bytes::default());
    }
    let file = File::open(path).map_err(read)?;
    // SAFETY: The mapping is sound if no process truncates the file while the mapping exists. The dynamic linker
    // requires the same of library files.
    let map = unsafe { Mmap::map(&file) };
    Ok(Bytes(Some(map.map_err(read)?)))
}

/// Returns the texts of the list `texts` that a file contains. Reads the file in chunks, because a search through a
/// mapped file would keep the whole file in memory.
pub(crate) fn texts<'t>(mut file: impl Read, texts: &[&'t str]) -> BTreeSet<&'t str> {
    let overlap = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    let (mut found, mut chunk) = (BTreeSet::new(), Vec::new());
    while let Ok(1..) = file.by_ref().take(1 << 20).read_to_end(&mut chunk) {
        let is_there = |text: &&&str| memmem::find(&chunk, text.as_bytes()).is_some();
        found.extend(texts.iter().filter(is_there));
        chunk.drain(..chunk.len().saturating_sub(overlap));
    }
    found
}

/// A library in a file: the whole file, or a part of a fat file.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The system and processor that the part is for.
    pub machine: Machine,
    /// The bytes of the part.
    pub bytes: &'a [u8],
}

/// Returns the libraries in `bytes`: the file itself, or the parts of a fat Mach-O file. The part for this machine is
/// first. Error messages call the file `path`.
///
/// # Errors
/// [`Error::Kind`] if the file is not a 64-bit library for a system with jaxlib, [`Error::Damaged`] if the header is
/// invalid.
pub fn parts<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<Part<'a>>, Error> {
    split(bytes).map_err(|fault| fault.of(path))
}

fn split(bytes: &[u8]) -> Result<Vec<Part<'_>>, Fault> {
    let kind = |what: &str| Err(Fault::Kind(what.to_owned()));
    if bytes.starts_with(b"!<arch>") || bytes.starts_with(b"!<thin>") {
        return kind("it is a static archive; link it with -shared");
    }
    let (system, processor) = match FileKind::parse(bytes) {
        Ok(FileKind::Elf64) => (System::Linux, elf::processor(bytes)?),
        Ok(FileKind::MachO64) => (System::MacOs, format::mach_o_processor(bytes)?),
        Ok(FileKind::Pe64) => (System::Windows, format::pe_processor(bytes)?),
        Ok(FileKind::MachOFat32 | FileKind::MachOFat64) => return format::fat_parts(bytes),
        Ok(FileKind::Elf32) => {
            return kind("it is a 32-bit ELF file; jaxlib runs on 64-bit systems");
        }
        Ok(FileKind::MachO32) => {
            return kind("it is a 32-bit Mach-O file; jaxlib runs on 64-bit systems");
        }
        Ok(FileKind::Pe32) => {
            return kind("it is a 32-bit DLL or program; jaxlib runs on 64-bit systems");
        }
        Ok(FileKind::Coff | FileKind::CoffBig | FileKind::CoffImport) => {
            return kind("it is an object file or an import library, for Windows; link a DLL");
        }
        Ok(other) => return kind(&format!("it is a {other:?} file")),
        Err(_) if bytes.is_empty() => return kind("it is empty"),
        Err(_) => return kind("it is not an ELF, Mach-O or PE file"),
    };
    let machine = Machine { system, processor };
    Ok(vec![Part { machine, bytes }])
}

/// Reads the facts of the library in `bytes`, which may be for any machine. For a fat file, reads the facts of the
/// first part. Error messages call the file `path`.
///
/// # Errors
/// [`Error::Kind`] if the file is not a library for a system with jaxlib, [`Error::Damaged`] if the file is damaged.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Facts, Error> {
    read_parts(path, &parts(path, bytes)?)
}

/// Reads the facts of the parts of a file, as [`read`] does.
pub(crate) fn read_parts(path: &Path, parts: &[Part<'_>]) -> Result<Facts, Error> {
    let Some((first, others)) = parts.split_first() else {
        return Err(Fault::Kind("it is a fat file without a part".to_owned()).of(path));
    };
    let facts = match first.machine.system {
        System::Linux => elf::facts(first.bytes),
        System::MacOs => format::mach_o_facts(first.bytes),
        System::Windows => format::pe_facts(first.bytes),
    };
    let mut facts = facts.map_err(|fault| fault.of(path))?;
    facts.machine = first.machine;
    facts.others = others.iter().map(|part| part.machine).collect();
    Ok(facts)
}

enum Fault {
    Kind(String),
    Damaged(String),
}

impl Fault {
    fn of(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Self::Kind(what) => Error::Kind { path, what },
            Self::Damaged(what) => Error::Damaged { path, what },
        }
    }
}

impl From<object::Error> for Fault {
    fn from(error: object::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Returns true for symbols of Python's C API: `Py_BuildValue`, `PyErr_SetString`, `_Py_Dealloc`.
pub(crate) fn is_of_python(name: &str) -> bool {
    let rest = name.trim_start_matches('_').strip_prefix("Py");
    let rest = rest.map(|rest| rest.trim_start_matches(char::is_alphanumeric));
    rest.is_some_and(|rest| rest.starts_with('_'))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Facts {
    /// Returns the facts without the symbols that the library defines. The symbols are removed to save memory.
    pub(crate) fn without_definitions(self) -> Self {
        Self {
            functions: BTreeSet::new(),
            exports: BTreeSet::new(),
            unique: BTreeSet::new(),
            names: BTreeSet::new(),
            ..self
        }
    }

    /// Returns the name under which Python imports this file as an extension module; `None` if the file is not a
    /// module. Folders of a relative `path` become packages.
    #[must_use]
    pub fn module(&self, path: &Path) -> Option<String> {
        let file = path.file_name()?.to_str()?;
        let stem = file.split('.').next()?;
        if !self.exports.contains(&format!("PyInit_{stem}")) {
            return None;
        }
        let folders = path.parent().filter(|_| path.is_relative());
        let folders = folders.into_iter().flatten();
        let mut parts: Vec<&str> = folders.filter_map(std::ffi::OsStr::to_str).collect();
        parts.push(stem);
        Some(parts.join("."))
    }

    /// Returns true if the library exports the initialization function of a Python module, even if the file name is not
    /// that of a module.
    #[must_use]
    pub fn is_python_module(&self) -> bool {
        self.exports.iter().any(|name| name.starts_with("PyInit_"))
    }

    /// Returns true if the library uses Python's C API, whose symbols the interpreter provides.
    #[must_use]
    pub fn uses_python(&self) -> bool {
        let mut names = self.imports.iter().map(|needed| needed.name.as_str());
        names.any(is_of_python) || self.is_python_module()
    }

    /// Returns the highest required version with a prefix, `GLIBC_` or `GLIBCXX_`, as numbers. A version of `CXXABI`
    /// counts as the libstdc++ that introduced it.
    #[must_use]
    pub fn floor(&self, prefix: &str) -> Option<Vec<u32>> {
        self.highest(prefix).map(|(floor, _)| floor)
    }

    /// Returns the highest required version with a prefix, as numbers and by its name, such as `GLIBC_2.34`.
    pub(crate) fn highest(&self, prefix: &str) -> Option<(Vec<u32>, &str)> {
        let number = |name: &str| match (prefix, name) {
            ("GLIBC_", "GLIBC_ABI_DT_RELR") => Some(vec![2, 36]),
            ("GLIBC_", "GLIBC_ABI_GNU_TLS" | "GLIBC_ABI_GNU2_TLS") => Some(vec![2, 42]),
            ("GLIBCXX_", name) if name.starts_with("CXXABI_1.3.") => {
                let release = parse_version(&name["CXXABI_".len()..])?;
                Some(vec![
                    3,
                    4,
                    *CXXABI.get(release[2] as usize).unwrap_or(&u32::MAX),
                ])
            }
            (prefix, name) => parse_version(name.strip_prefix(prefix)?),
        };
        let named = self.versions.iter();
        named
            .filter_map(|name| Some((number(name)?, name.as_str())))
            .max()
    }

    /// Returns the names of the imported symbols that are private to one build of glibc; `None` if there are none.
    pub(crate) fn private_symbols(&self) -> Option<String> {
        let private = |needed: &&Needed| needed.version.as_deref() == Some("GLIBC_PRIVATE");
        let names: Vec<&str> = self
            .imports
            .iter()
            .filter(private)
            .map(|needed| needed.name.as_str())
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Returns the processors that the library requires, for example `x86-64-v3`; `None` if any processor is
    /// sufficient.
    #[must_use]
    pub fn processor_level(&self) -> Option<String> {
        let level = self.level.filter(|level| *level > 1)?;
        Some(format!("x86-64-v{level}"))
    }
}

/// Returns a path as one line of text, with control characters escaped.
pub(crate) fn shown(path: &Path) -> String {
    let mut shown = String::new();
    for letter in path.display().to_string().chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_read() {
        let path = std::env::current_exe().unwrap();
        let bytes = bytes(&path).unwrap();
        let facts = read(&path, &bytes).unwrap();
        assert!(facts.needs.iter().any(|name| name.starts_with("libc.so")));
        let floor = facts.floor("GLIBC_").unwrap();
        assert!(floor >= vec![2, 2], "{floor:?}");
        let surroundings = Surroundings::of(&path, &facts, &Provided::default());
        assert!(surroundings.missing.is_empty(), "{surroundings:?}");
        assert!(surroundings.unresolved(&facts).is_empty());
    }

    #[test]
    fn other_files_are_named() {
        let told = |bytes: &[u8]| read(Path::new("f"), bytes).unwrap_err().to_string();
        assert!(told(b"").contains("empty"));
        assert!(told(b"hello, world, this is text").contains("not an ELF"));
        assert!(told(b"!<arch>\nxxxxxxxxxxxxxxxxxxxx").contains("static archive"));
        let mut small = b"\x7fELF\x01\x01\x01".to_vec();
        small.resize(64, 0);
        assert!(told(&small).contains("32-bit"));
    }
}
