//! PE: Windows.

use super::{Facts, Fault, Needed, Processor, text};
use object::LittleEndian as LE;
use object::pe::{self, ImageNtHeaders64};
use object::read::pe::{ExportTarget, ImageNtHeaders, Import, PeFile64};

/// The processor that it is built for.
pub(super) fn processor(bytes: &[u8]) -> Result<Processor, Fault> {
    let dos = pe::ImageDosHeader::parse(bytes)?;
    let mut offset = dos.nt_headers_offset().into();
    let (headers, _) = ImageNtHeaders64::parse(bytes, &mut offset)?;
    match headers.file_header().machine.get(LE) {
        pe::IMAGE_FILE_MACHINE_AMD64 => Ok(Processor::X86_64),
        pe::IMAGE_FILE_MACHINE_ARM64 => Ok(Processor::Aarch64),
        other => Err(Fault::Kind(format!(
            "it is built for PE machine {other:#x}"
        ))),
    }
}

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
    let file = PeFile64::parse(bytes)?;
    let header = file.nt_headers().file_header();
    if header.characteristics.get(LE) & pe::IMAGE_FILE_DLL == 0 {
        return Err(Fault::Kind("it is a program".to_owned()));
    }
    let mut facts = Facts::default();
    if let Some(table) = file.export_table()? {
        let name = table.directory().name.get(LE);
        facts.soname = table.name_from_pointer(name).ok().map(text);
        let sections = file.section_table();
        let is_code = |address: u32| {
            let mut all = sections.iter();
            let home = all.find(|section| {
                let start = section.virtual_address.get(LE);
                (start..start.saturating_add(section.virtual_size.get(LE))).contains(&address)
            });
            home.is_some_and(|home| home.characteristics.get(LE) & pe::IMAGE_SCN_MEM_EXECUTE != 0)
        };
        for export in table.exports()? {
            let Some(name) = export.name.map(text).filter(|name| !name.is_empty()) else {
                continue;
            };
            if matches!(export.target, ExportTarget::Address(address) if is_code(address)) {
                facts.functions.insert(name.clone());
            }
            facts.names.insert(name.clone());
            facts.exports.insert(name);
        }
    }
    if let Some(table) = file.import_table()? {
        let mut descriptors = table.descriptors()?;
        while let Some(descriptor) = descriptors.next()? {
            let library = text(table.name(descriptor.name.get(LE))?);
            let first = match descriptor.original_first_thunk.get(LE) {
                0 => descriptor.first_thunk.get(LE),
                first => first,
            };
            let mut thunks = table.thunks(first)?;
            while let Some(thunk) = thunks.next::<ImageNtHeaders64>()? {
                if let Import::Name(_, name) = table.import::<ImageNtHeaders64>(thunk)? {
                    facts.imports.insert(Needed {
                        name: text(name),
                        version: None,
                        library: Some(library.clone()),
                        weak: false,
                    });
                }
            }
            facts.needs.push(library);
        }
    }
    Ok(facts)
}
