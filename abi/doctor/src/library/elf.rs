//! The facts of ELF files (Linux), read as the dynamic linker reads them: from program headers and the dynamic table.
//! Section headers, which a file may lack, are used only for unexported symbols.

use super::{CXX_HANDLER, Facts, Fault, Needed, Processor, text};
use crate::threads;
use object::elf::{self, FileHeader64, ProgramHeader64, Sym64, Vernaux, Verneed, Versym};
use object::pod::{Pod, from_bytes, slice_from_bytes};
use object::read::elf::{Dyn, FileHeader, GnuHashTable, HashTable, ProgramHeader, Sym};
use object::{Endianness, StringTable};
use std::collections::BTreeMap;

type Header = FileHeader64<Endianness>;

/// Returns the processor that an ELF file is built for.
pub(super) fn processor(bytes: &[u8]) -> Result<Processor, Fault> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    if endian == Endianness::Big {
        return Err(Fault::Kind(
            "it is big-endian; jaxlib runs on little-endian systems".to_owned(),
        ));
    }
    match header.e_machine(endian) {
        elf::EM_X86_64 => Ok(Processor::X86_64),
        elf::EM_AARCH64 => Ok(Processor::Aarch64),
        other => Err(Fault::Kind(format!("it is built for ELF machine {other}"))),
    }
}

/// The bytes of an ELF file, and its program headers.
struct Loaded<'a> {
    bytes: &'a [u8],
    segments: &'a [ProgramHeader64<Endianness>],
    endian: Endianness,
}

impl<'a> Loaded<'a> {
    /// Returns the bytes from a virtual address to the end of its segment.
    fn at(&self, address: u64) -> Option<&'a [u8]> {
        let mut loaded = self
            .segments
            .iter()
            .filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD);
        loaded.find_map(|segment| {
            let start = address.checked_sub(segment.p_vaddr(self.endian))?;
            segment
                .data(self.endian, self.bytes)
                .ok()?
                .get(usize::try_from(start).ok()?..)
        })
    }

    /// Returns the required level of x86-64 processors, 1 to 4, if the file states it.
    fn level(&self) -> Option<u32> {
        let mut level = None;
        for segment in self.segments {
            let notes = segment.notes(self.endian, self.bytes).ok().flatten();
            let notes = notes.into_iter().flatten().map_while(Result::ok);
            let properties = notes
                .filter_map(|note| note.gnu_properties(self.endian))
                .flatten();
            for property in properties.map_while(Result::ok) {
                if property.pr_type() == elf::GNU_PROPERTY_X86_ISA_1_NEEDED {
                    level = Some(32 - property.data_u32(self.endian).ok()?.leading_zeros());
                }
            }
        }
        level
    }
}

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
    let header = Header::parse(bytes)?;
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
    let segments = header.program_headers(endian, bytes)?;
    let loaded = Loaded {
        bytes,
        segments,
        endian,
    };
    let mut facts = Facts {
        level: loaded.level(),
        ..Facts::default()
    };
    let mut dynamic = None;
    for segment in segments {
        if segment.p_type(endian) == elf::PT_GNU_STACK {
            facts.executable_stack = segment.p_flags(endian) & elf::PF_X != 0;
        }
        dynamic = dynamic.or(segment.dynamic(endian, bytes)?);
    }
    let Some(entries) = dynamic else {
        return Err(Fault::Kind(
            "it has no dynamic table, so no program can load it".to_owned(),
        ));
    };
    let value = |tag| {
        let mut found = entries
            .iter()
            .filter(|entry| entry.tag32(endian) == Some(tag));
        found.next().map(|entry| entry.d_val(endian))
    };
    let table = |tag| value(tag).and_then(|address| loaded.at(address));
    let strings = table(elf::DT_STRTAB).unwrap_or_default();
    let strings = StringTable::new(strings, 0, value(elf::DT_STRSZ).unwrap_or(0));
    for entry in entries {
        let string = || Ok::<_, Fault>(text(entry.string(endian, strings)?));
        let value = entry.d_val(endian);
        match entry.tag32(endian) {
            Some(elf::DT_NULL) => break,
            Some(elf::DT_NEEDED) => facts.needs.push(string()?),
            Some(elf::DT_SONAME) => facts.soname = Some(string()?),
            Some(elf::DT_RPATH | elf::DT_RUNPATH) => {
                facts.search.extend(string()?.split(':').map(str::to_owned));
            }
            Some(elf::DT_TEXTREL) => facts.text_relocations = true,
            Some(elf::DT_FLAGS) => {
                facts.text_relocations |= value & u64::from(elf::DF_TEXTREL) != 0;
                facts.static_tls |= value & u64::from(elf::DF_STATIC_TLS) != 0;
            }
            _ => {}
        }
    }
    let mut versions = BTreeMap::new();
    let needs = table(elf::DT_VERNEED).unwrap_or_default();
    let count = value(elf::DT_VERNEEDNUM).unwrap_or(0);
    needed_versions(needs, count, endian, |need| {
        let name = text(need.name(endian, strings)?);
        if need.vna_flags.get(endian) & elf::VER_FLG_WEAK == 0 {
            facts.versions.insert(name.clone());
        }
        versions.insert(need.vna_other.get(endian), name);
        Ok(())
    })?;
    let sections = header.sections(endian, bytes).unwrap_or_default();
    let count = match (table(elf::DT_HASH), table(elf::DT_GNU_HASH)) {
        (Some(table), _) => Some(HashTable::<Header>::parse(endian, table)?.symbol_table_length()),
        (_, Some(table)) => {
            GnuHashTable::<Header>::parse(endian, table)?.symbol_table_length(endian)
        }
        (None, None) => None,
    };
    // A hash table without exported symbols does not contain the number of symbols.
    let count = match count {
        Some(count) => count as usize,
        None => sections.symbols(endian, bytes, elf::SHT_DYNSYM)?.len(),
    };
    let symbols = slice::<Sym64<Endianness>>(table(elf::DT_SYMTAB), count)?;
    let of_symbols = match table(elf::DT_VERSYM) {
        None => &[],
        table => slice::<Versym<Endianness>>(table, count)?,
    };
    for (at, symbol) in symbols.iter().enumerate() {
        let name = text(symbol.name(endian, strings)?);
        if name.is_empty() {
            continue;
        }
        if symbol.is_undefined(endian) {
            let version = of_symbols.get(at);
            let version = version.and_then(|version| versions.get(&version.0.get(endian)));
            facts.imports.insert(Needed {
                name,
                version: version.cloned(),
                library: None,
                weak: symbol.st_bind() == elf::STB_WEAK,
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
    let symbols = sections
        .symbols(endian, bytes, elf::SHT_SYMTAB)
        .unwrap_or_default();
    let defined = symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
    // Other names of symbols are dropped, because a large library may have a million of them.
    let names = defined.filter_map(|symbol| symbols.symbol_name(endian, symbol).ok());
    facts
        .names
        .extend(names.filter(|name| is_telling(name)).map(text));
    Ok(facts)
}

/// Returns the first `count` values of a table in the file.
fn slice<T: Pod>(table: Option<&[u8]>, count: usize) -> Result<&[T], Fault> {
    let values = slice_from_bytes(table.unwrap_or_default(), count);
    let values = values
        .map_err(|()| Fault::Damaged("its dynamic symbol table is outside the file".to_owned()));
    values.map(|(values, _)| values)
}

/// Visits the symbol versions of other libraries that the table `.gnu.version_r` requires. The table has a list of
/// versions for each of `count` libraries.
fn needed_versions(
    table: &[u8],
    count: u64,
    endian: Endianness,
    mut visit: impl FnMut(&Vernaux<Endianness>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let cut = |()| Fault::Damaged("its table of required versions is outside the file".to_owned());
    let after = |table, bytes: u32| <[u8]>::get(table, bytes as usize..).ok_or(());
    let mut libraries = table;
    for _ in 0..count {
        let (library, _) = from_bytes::<Verneed<Endianness>>(libraries).map_err(cut)?;
        let mut needs = after(libraries, library.vn_aux.get(endian)).map_err(cut)?;
        for _ in 0..library.vn_cnt.get(endian) {
            let (need, _) = from_bytes::<Vernaux<Endianness>>(needs).map_err(cut)?;
            visit(need)?;
            needs = after(needs, need.vna_next.get(endian)).map_err(cut)?;
        }
        match library.vn_next.get(endian) {
            0 => break,
            next => libraries = after(libraries, next).map_err(cut)?,
        }
    }
    Ok(())
}

/// Returns true for the names of symbols that identify C++ handlers or thread pools.
fn is_telling(name: &[u8]) -> bool {
    let mut starts = threads::symbols().chain([CXX_HANDLER]);
    starts.any(|start| name.starts_with(start.as_bytes()))
}
