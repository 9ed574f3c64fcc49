//! What a built library tells without running: symbols, the libraries and versions that it needs,
//! search paths, flags of the dynamic linker.

mod surroundings;

pub use surroundings::Surroundings;

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, SectionHeader, Sym, VersionIndex};
use object::{Endianness, FileKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xla_ffi_abi::declared::parse_version;

/// A library this large is not read.
const LIMIT: u64 = 4 << 30;

/// Why a file is no library that can be read.
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
    /// The file is something else.
    #[error("{path} is not a shared library for this machine: {what}", path = path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The file is damaged.
    #[error("{path} is a damaged ELF file: {what}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        what: String,
    },
}

/// A symbol that somebody else has to provide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// Its name.
    pub name: String,
    /// Its version, `GLIBC_2.34` for instance.
    pub version: Option<String>,
    /// Whether the library loads without it.
    pub weak: bool,
}

/// The facts of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`.
    pub needs: Vec<String>,
    /// `DT_RPATH` and `DT_RUNPATH`, entry by entry.
    pub search: Vec<String>,
    /// Functions that it exports.
    pub functions: BTreeSet<String>,
    /// Everything that it exports.
    pub exports: BTreeSet<String>,
    /// What it exports that is one for the whole process, whoever else has it (`STB_GNU_UNIQUE`).
    pub unique: BTreeSet<String>,
    /// What it imports.
    pub imports: BTreeSet<Needed>,
    /// Names of its own, exported or not; empty of most in a stripped library.
    pub names: BTreeSet<String>,
    /// Versions that it asks of other libraries.
    pub versions: BTreeSet<String>,
    /// Whether it asks for a stack that may be executed.
    pub executable_stack: bool,
    /// Whether its code is patched when it is loaded.
    pub text_relocations: bool,
    /// Whether it takes its thread-local memory from the program's reserve.
    pub static_tls: bool,
}

/// Reads the bytes of a file that should be a library.
///
/// # Errors
/// [`Error::Read`] or [`Error::Kind`].
pub fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
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
    std::fs::read(path).map_err(read)
}

/// Whether `bytes` are a 64-bit ELF file of this machine; `path` names it in messages.
///
/// # Errors
/// [`Error::Kind`] for what is not, [`Error::Damaged`] where its head does not parse.
pub fn is_for_this_machine(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let kind = |what: &str| Error::Kind {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    if bytes.starts_with(b"!<arch>") || bytes.starts_with(b"!<thin>") {
        return Err(kind("it is a static archive; link it with -shared"));
    }
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => {
            return Err(kind(
                "it is a 32-bit ELF file; jaxlib runs on 64-bit systems",
            ));
        }
        Ok(FileKind::MachO32 | FileKind::MachO64 | FileKind::MachOFat32 | FileKind::MachOFat64) => {
            return Err(kind("it is a Mach-O file, for macOS"));
        }
        Ok(FileKind::Pe32 | FileKind::Pe64 | FileKind::Coff | FileKind::CoffBig) => {
            return Err(kind("it is a PE or COFF file, for Windows"));
        }
        Ok(other) => return Err(kind(&format!("it is a {other:?} file"))),
        Err(_) if bytes.is_empty() => return Err(kind("it is empty")),
        Err(_) => return Err(kind("it begins like no object file that is known")),
    }
    machine_of(bytes).map_err(|fault| fault.of(path))
}

/// Reads the facts of the library in `bytes`; `path` names it in messages.
///
/// # Errors
/// [`Error::Kind`] for what is no 64-bit ELF library of this machine, [`Error::Damaged`].
pub fn read(path: &Path, bytes: &[u8]) -> Result<Facts, Error> {
    is_for_this_machine(path, bytes)?;
    facts(bytes).map_err(|fault| fault.of(path))
}

/// The same of a library for any machine.
///
/// # Errors
/// As [`read`], but for the machine.
pub fn read_foreign(path: &Path, bytes: &[u8]) -> Result<Facts, Error> {
    facts(bytes).map_err(|fault| fault.of(path))
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The machine that this program runs on, as ELF numbers it.
fn machine() -> Option<u16> {
    if cfg!(target_arch = "x86_64") {
        Some(elf::EM_X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(elf::EM_AARCH64)
    } else {
        None
    }
}

fn machine_of(bytes: &[u8]) -> Result<(), Fault> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let target = header.e_machine(endian);
    if machine().is_some_and(|machine| machine != target) {
        let name = match target {
            elf::EM_X86_64 => "x86-64".to_owned(),
            elf::EM_AARCH64 => "AArch64".to_owned(),
            other => format!("ELF machine {other}"),
        };
        return Err(Fault::Kind(format!("it is built for {name}")));
    }
    Ok(())
}

fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    match header.e_type(endian) {
        elf::ET_DYN => {}
        elf::ET_REL => {
            return Err(Fault::Kind(
                "it is an object file; link it with -shared".to_owned(),
            ));
        }
        elf::ET_EXEC => return Err(Fault::Kind("it is a program".to_owned())),
        other => return Err(Fault::Kind(format!("its ELF type is {other}"))),
    }
    let mut facts = Facts::default();
    for segment in header.program_headers(endian, bytes)? {
        use object::read::elf::ProgramHeader;
        if segment.p_type(endian) == elf::PT_GNU_STACK {
            facts.executable_stack = segment.p_flags(endian) & elf::PF_X != 0;
        }
    }
    let sections = header.sections(endian, bytes)?;
    dynamic(&sections, endian, bytes, &mut facts)?;
    let versions = sections.versions(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    for (index, symbol) in symbols.enumerate() {
        let name = text(symbols.symbol_name(endian, symbol)?);
        if name.is_empty() {
            continue;
        }
        let weak = symbol.st_bind() == elf::STB_WEAK;
        let version = match &versions {
            Some(table) => {
                let at: VersionIndex = table.version_index(endian, index);
                table.version(at)?.map(|version| text(version.name()))
            }
            None => None,
        };
        if symbol.is_undefined(endian) {
            facts.versions.extend(version.clone());
            facts.imports.insert(Needed {
                name,
                version,
                weak,
            });
        } else if symbol.st_bind() != elf::STB_LOCAL
            && matches!(
                symbol.st_visibility(),
                elf::STV_DEFAULT | elf::STV_PROTECTED
            )
        {
            if matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC) {
                facts.functions.insert(name.clone());
            }
            if symbol.st_bind() == elf::STB_GNU_UNIQUE {
                facts.unique.insert(name.clone());
            }
            facts.names.insert(name.clone());
            facts.exports.insert(name);
        }
    }
    let symbols = sections.symbols(endian, bytes, elf::SHT_SYMTAB)?;
    for symbol in symbols.iter() {
        if symbol.is_undefined(endian) {
            continue;
        }
        match symbols.symbol_name(endian, symbol) {
            Ok(name) if !name.is_empty() => facts.names.insert(text(name)),
            _ => continue,
        };
    }
    Ok(facts)
}

fn dynamic<'a>(
    sections: &object::read::elf::SectionTable<'a, FileHeader64<Endianness>>,
    endian: Endianness,
    bytes: &'a [u8],
    facts: &mut Facts,
) -> Result<(), Fault> {
    let Some((entries, strings)) = sections.dynamic(endian, bytes)? else {
        return Err(Fault::Kind(
            "it has no dynamic section, so no program can load it".to_owned(),
        ));
    };
    let strings = sections.section(strings)?.data(endian, bytes)?;
    let strings = object::StringTable::new(strings, 0, strings.len() as u64);
    for entry in entries {
        let Some(tag) = entry.tag32(endian) else {
            continue;
        };
        let value: u64 = entry.d_val(endian);
        match tag {
            elf::DT_NULL => break,
            elf::DT_NEEDED => facts.needs.push(text(entry.string(endian, strings)?)),
            elf::DT_SONAME => facts.soname = Some(text(entry.string(endian, strings)?)),
            elf::DT_RPATH | elf::DT_RUNPATH => facts.search.extend(
                text(entry.string(endian, strings)?)
                    .split(':')
                    .map(str::to_owned),
            ),
            elf::DT_TEXTREL => facts.text_relocations = true,
            elf::DT_FLAGS => {
                facts.text_relocations |= value & u64::from(elf::DF_TEXTREL) != 0;
                facts.static_tls |= value & u64::from(elf::DF_STATIC_TLS) != 0;
            }
            _ => {}
        }
    }
    Ok(())
}

impl Facts {
    /// The highest version that begins with `prefix`, as numbers: `GLIBC_`, `GLIBCXX_`.
    #[must_use]
    pub fn floor(&self, prefix: &str) -> Option<Vec<u32>> {
        self.versions
            .iter()
            .filter_map(|version| parse_version(version.strip_prefix(prefix)?))
            .max()
    }
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
        let surroundings = Surroundings::of(&path, &facts);
        assert!(surroundings.missing.is_empty(), "{surroundings:?}");
        assert!(surroundings.unresolved(&facts).is_empty());
    }

    #[test]
    fn other_files_are_named() {
        let told = |bytes: &[u8]| read(Path::new("f"), bytes).unwrap_err().to_string();
        assert!(told(b"").contains("empty"));
        assert!(told(b"hello, world, this is text").contains("no object file"));
        assert!(told(b"!<arch>\nxxxxxxxxxxxxxxxxxxxx").contains("static archive"));
        let mut small = b"\x7fELF\x01\x01\x01".to_vec();
        small.resize(64, 0);
        assert!(told(&small).contains("32-bit"));
        let mut none = b"\x7fELF\x02\x01\x01".to_vec();
        none.resize(64, 0);
        assert!(!told(&none).is_empty());
    }
}
