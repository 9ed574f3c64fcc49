//! Mach-O: macOS. Names of symbols are told as C spells them, without the underscore that the format puts before.

use super::{Apple, Facts, Fault, Machine, Needed, Part, Processor, System, signature, text};
use object::macho::{self, DylibCommand, MachHeader64};
use object::read::macho::{
    FatArch, LoadCommandData, LoadCommandVariant, MachHeader, MachOFatFile32, MachOFatFile64,
    Nlist, Section, Segment,
};
use object::{Endianness, FileKind};

/// A fat file of more parts is not read: there are two processors, and few kinds of each.
const PARTS: usize = 16;

type Header = MachHeader64<Endianness>;

fn known(cpu: u32) -> Option<Processor> {
    match cpu {
        macho::CPU_TYPE_X86_64 => Some(Processor::X86_64),
        macho::CPU_TYPE_ARM64 => Some(Processor::Aarch64),
        _ => None,
    }
}

/// The processor that it is built for.
pub(super) fn processor(bytes: &[u8]) -> Result<Processor, Fault> {
    let header = Header::parse(bytes, 0)?;
    let cpu = header.cputype(header.endian()?);
    known(cpu).ok_or_else(|| Fault::Kind(format!("it is built for Mach-O processor {cpu:#x}")))
}

/// The parts of a fat file for processors that jaxlib is built for, this machine's first.
pub(super) fn parts(bytes: &[u8]) -> Result<Vec<Part<'_>>, Fault> {
    let mut found = match FileKind::parse(bytes)? {
        FileKind::MachOFat32 => parts_of(bytes, MachOFatFile32::parse(bytes)?.arches())?,
        _ => parts_of(bytes, MachOFatFile64::parse(bytes)?.arches())?,
    };
    if found.is_empty() {
        return Err(Fault::Kind(
            "it is a fat file without a part for x86-64 or AArch64".to_owned(),
        ));
    }
    let ours = Machine::this().unwrap_or_default().processor;
    found.sort_by_key(|part| part.machine.processor != ours);
    Ok(found)
}

fn parts_of<'a, Arch: FatArch>(bytes: &'a [u8], arches: &[Arch]) -> Result<Vec<Part<'a>>, Fault> {
    let mut found = Vec::new();
    if arches.len() > PARTS {
        return Err(Fault::Kind(format!(
            "it is a fat file of {} parts, and there are not so many processors",
            arches.len()
        )));
    }
    for arch in arches {
        if known(arch.cputype()).is_none() {
            continue;
        }
        let bytes = arch.data(bytes)?;
        // A fat archive has archives for parts.
        if !matches!(FileKind::parse(bytes), Ok(FileKind::MachO64)) {
            return Err(Fault::Kind(
                "it is a fat file, a part of which is no library; link it with -dynamiclib"
                    .to_owned(),
            ));
        }
        let machine = Machine {
            system: System::MacOs,
            processor: processor(bytes)?,
        };
        found.push(Part { machine, bytes });
    }
    Ok(found)
}

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
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

/// `xxxx.yy.zz` in four bytes; zeros at the end mean nothing but the minor one.
fn numbers(packed: u32) -> Vec<u32> {
    let mut numbers = vec![packed >> 16, packed >> 8 & 255];
    numbers.extend(Some(packed & 255).filter(|patch| *patch != 0));
    numbers
}
