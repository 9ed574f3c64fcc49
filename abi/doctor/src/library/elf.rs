//! ELF: Linux.

use super::{Facts, Fault, Needed, Processor, text};
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym, VersionIndex};

/// The processor that it is built for.
pub(super) fn processor(bytes: &[u8]) -> Result<Processor, Fault> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
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

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
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
                library: None,
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
