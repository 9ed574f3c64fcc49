//! The facts of Mach-O (macOS) and PE (Windows) files. Symbols of Mach-O files are named as in C, without the format's
//! leading underscore.

use super::{Apple, Facts, Fault, Machine, Needed, Part, Processor, System, signature, text};
use object::macho::{self, DylibCommand, MachHeader64};
use object::pe::{self, ImageNtHeaders64};
use object::read::macho::{
    FatArch, LoadCommandData, LoadCommandVariant, MachHeader, MachOFatFile32, MachOFatFile64,
    Nlist, Section, Segment,
};
use object::read::pe::{ExportTarget, ImageNtHeaders, Import, PeFile64};
use object::{Endianness, FileKind, LittleEndian as LE};

type Header = MachHeader64<Endianness>;

fn mach_o_known(cpu: u32) -> Option<Processor> {
    match cpu {
        macho::CPU_TYPE_X86_64 => Some(Processor::X86_64),
        macho::CPU_TYPE_ARM64 => Some(Processor::Aarch64),
        _ => None,
    }
}

/// Returns the processor that a Mach-O file is built for.
pub(super) fn mach_o_processor(bytes: &[u8]) -> Result<Processor, Fault> {
    let header = Header::parse(bytes, 0)?;
    let cpu = header.cputype(header.endian()?);
    mach_o_known(cpu)
        .ok_or_else(|| Fault::Kind(format!("it is built for Mach-O processor {cpu:#x}")))
}

/// Returns the parts of a fat file for processors that jaxlib supports. The part for this machine is first.
pub(super) fn fat_parts(bytes: &[u8]) -> Result<Vec<Part<'_>>, Fault> {
    let mut found = match FileKind::parse(bytes)? {
        FileKind::MachOFat32 => parts_of(bytes, MachOFatFile32::parse(bytes)?.arches())?,
        _ => parts_of(bytes, MachOFatFile64::parse(bytes)?.arches())?,
    };
    if found.is_empty() {
        return Err(Fault::Kind(
            "it is a fat file without a part for x86-64 or AArch64".to_owned(),
        ));
    }
    let ours = Machine::current().unwrap_or_default().processor;
    found.sort_by_key(|part| part.machine.processor != ours);
    Ok(found)
}

fn parts_of<'a, Arch: FatArch>(bytes: &'a [u8], arches: &[Arch]) -> Result<Vec<Part<'a>>, Fault> {
    let mut found = Vec::new();
    for arch in arches {
        if mach_o_known(arch.cputype()).is_none() {
            continue;
        }
        let bytes = arch.data(bytes)?;
        // The parts of a fat static archive are archives instead of libraries.
        if !matches!(FileKind::parse(bytes), Ok(FileKind::MachO64)) {
            return Err(Fault::Kind(
                "it is a fat file with a part that is not a library; link it with -dynamiclib"
                    .to_owned(),
            ));
        }
        let machine = Machine {
            system: System::MacOs,
            processor: mach_o_processor(bytes)?,
        };
        found.push(Part { machine, bytes });
    }
    Ok(found)
}

pub(super) fn mach_o_facts(bytes: &[u8]) -> Result<Facts, Fault> {
    let header = Header::parse(bytes, 0)?;
    let endian = header.endian()?;
    let kind = |what: &str| Err(Fault::Kind(what.to_owned()));
    match header.filetype(endian) {
        macho::MH_DYLIB | macho::MH_BUNDLE => {}
        macho::MH_OBJECT => return kind("it is an object file; link it with -dynamiclib"),
        macho::MH_EXECUTE => return kind("it is a program"),
        macho::MH_DSYM => return kind("it is the debug information of a library"),
        other => return kind(&format!("its Mach-O type is {other}")),
    }
    let flags = header.flags(endian);
    let mut facts = Facts {
        executable_stack: flags & macho::MH_ALLOW_STACK_EXECUTION != 0,
        ..Facts::default()
    };
    let mut oldest = None;
    let mut signed = signature::Signature::Missing;
    let mut code = Vec::new();
    let mut symbols = None;
    let mut commands = header.load_commands(endian, bytes, 0)?;
    while let Some(command) = commands.next()? {
        match command.variant()? {
            LoadCommandVariant::IdDylib(dylib) => {
                facts.soname = Some(name(command, endian, dylib)?);
            }
            LoadCommandVariant::Dylib(dylib) => facts.needs.push(name(command, endian, dylib)?),
            LoadCommandVariant::Rpath(rpath) => {
                facts.search.push(text(command.string(endian, rpath.path)?));
            }
            LoadCommandVariant::BuildVersion(version) => {
                let platform = version.platform.get(endian);
                if platform != macho::PLATFORM_MACOS {
                    return kind(&format!(
                        "it is built for Apple platform {platform}, not for macOS"
                    ));
                }
                oldest = Some(numbers(version.minos.get(endian)));
            }
            LoadCommandVariant::VersionMin(version)
                if command.cmd() == macho::LC_VERSION_MIN_MACOSX =>
            {
                oldest = Some(numbers(version.version.get(endian)));
            }
            LoadCommandVariant::LinkeditData(data) if command.cmd() == macho::LC_CODE_SIGNATURE => {
                let place = (data.dataoff.get(endian), data.datasize.get(endian));
                signed = signature::check(bytes, place);
            }
            LoadCommandVariant::Segment64(segment, sections) => {
                let instructions =
                    macho::S_ATTR_PURE_INSTRUCTIONS | macho::S_ATTR_SOME_INSTRUCTIONS;
                let sections = segment.sections(endian, sections)?;
                code.extend(sections.iter().map(|s| s.flags(endian) & instructions != 0));
            }
            LoadCommandVariant::Symtab(table) => {
                symbols = Some(table.symbols::<Header, _>(endian, bytes)?);
            }
            _ => {}
        }
    }
    let two_levels = flags & macho::MH_TWOLEVEL != 0;
    for symbol in symbols.iter().flat_map(|symbols| symbols.iter()) {
        let strings = symbols.as_ref().map(|table| table.strings());
        let Some(Ok(name)) = strings.map(|strings| symbol.name(endian, strings)) else {
            continue;
        };
        let name = text(name.strip_prefix(b"_").unwrap_or(name));
        let bits = symbol.n_type();
        if name.is_empty() || bits & macho::N_STAB != 0 {
            continue;
        }
        let is_external = bits & macho::N_EXT != 0 && bits & macho::N_PEXT == 0;
        if bits & macho::N_TYPE == macho::N_UNDF {
            let ordinal = usize::from(symbol.library_ordinal(endian));
            let library = ordinal.checked_sub(1).filter(|_| two_levels);
            facts.imports.insert(Needed {
                name,
                version: None,
                library: library.and_then(|at| facts.needs.get(at)).cloned(),
                weak: symbol.n_desc(endian) & macho::N_WEAK_REF != 0,
            });
            continue;
        }
        if is_external {
            let section = usize::from(symbol.n_sect());
            if section.checked_sub(1).and_then(|at| code.get(at)) == Some(&true) {
                facts.functions.insert(name.clone());
            }
            facts.exports.insert(name.clone());
        }
        facts.names.insert(name);
    }
    facts.apple = Some(Apple {
        oldest,
        signature: signed,
    });
    Ok(facts)
}

fn name(
    command: LoadCommandData<'_, Endianness>,
    endian: Endianness,
    dylib: &DylibCommand<Endianness>,
) -> Result<String, Fault> {
    Ok(text(command.string(endian, dylib.dylib.name)?))
}

/// Decodes a version `xxxx.yy.zz` from four bytes, and omits the last number if it is zero.
fn numbers(packed: u32) -> Vec<u32> {
    let mut numbers = vec![packed >> 16, packed >> 8 & 255];
    numbers.extend(Some(packed & 255).filter(|patch| *patch != 0));
    numbers
}

/// Returns the processor that a PE file is built for.
pub(super) fn pe_processor(bytes: &[u8]) -> Result<Processor, Fault> {
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

pub(super) fn pe_facts(bytes: &[u8]) -> Result<Facts, Fault> {
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
