//! A library in a wheel: its machine, and the libraries it requires that some systems of the wheel's tag may lack.

use super::{Requirement, Wheel};
use crate::finding::{Finding, Problem};
use crate::library::{self, Facts, System};
use crate::link::is_debug_runtime;
use crate::runtimes::gpu_runtime;
use object::{Architecture, BinaryFormat, Object};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A shared library that was unpacked from a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The name of the file in the wheel.
    pub member: String,
    /// The path at which the library was unpacked.
    pub place: PathBuf,
    /// The reason why this machine cannot load the library; `None` if this machine can load it.
    pub foreign: Option<String>,
    /// The system and machine of each part of the file, spelled as in tags. Empty if the file is not a loadable
    /// library.
    pub(super) targets: Vec<(&'static str, &'static str)>,
    /// The facts of the library; `None` if the file is not a readable library.
    pub(super) facts: Option<Facts>,
}

impl Inside {
    /// Reads an unpacked file. Returns `None` for linker scripts, which some wheels contain instead of symbolic links.
    #[must_use]
    pub fn read(member: String, place: PathBuf) -> Option<Self> {
        let bytes = library::bytes(&place);
        let unreadable = bytes.as_ref().err().map(reason);
        let bytes = bytes.unwrap_or_default();
        let scripts: [&[u8]; 3] = [b"INPUT", b"GROUP", b"/* GNU ld script"];
        if scripts.iter().any(|start| bytes.starts_with(start)) {
            return None;
        }
        let path = Path::new(&member);
        let (parts, foreign) = match library::parts(path, &bytes) {
            Ok(parts) => {
                let other = parts.first().filter(|part| !part.machine.is_current());
                let foreign = other.map(|part| format!("it is built for {}", part.machine));
                (parts, foreign)
            }
            Err(error) => (Vec::new(), unreadable.or(Some(reason(&error)))),
        };
        let facts = library::read_parts(path, &parts)
            .ok()
            .map(Facts::without_definitions);
        // A fat file contains one library per machine.
        let mut objects: Vec<&[u8]> = parts.iter().map(|part| part.bytes).collect();
        if objects.is_empty() {
            objects.push(&bytes);
        }
        let objects = objects
            .iter()
            .filter_map(|bytes| object::File::parse(*bytes).ok());
        let targets = objects.filter_map(|object| target(&object)).collect();
        Some(Self {
            facts,
            targets,
            foreign,
            member,
            place,
        })
    }

    /// Returns true if the library is a dependency that auditwheel or delocate added.
    #[must_use]
    pub fn is_bundled(&self) -> bool {
        let mut folders = self.member.split('/').rev().skip(1);
        folders.any(|folder| folder.ends_with(".libs") || folder == ".dylibs")
    }
}

/// Returns the message of an error, without the file name that precedes the message.
fn reason(error: &library::Error) -> String {
    match error {
        library::Error::Kind { what, .. } => what.clone(),
        library::Error::Damaged { what, .. } => format!("it is a damaged library: {what}"),
        other => other.to_string(),
    }
}

/// Returns the system and machine of an object file as tags spell them; `None` if no tag exists for them.
fn target(object: &object::File<'_>) -> Option<(&'static str, &'static str)> {
    let system = match object.format() {
        BinaryFormat::Elf => "Linux",
        BinaryFormat::MachO => "macOS",
        BinaryFormat::Pe | BinaryFormat::Coff => "Windows",
        _ => return None,
    };
    let machine = match object.architecture() {
        Architecture::X86_64 => "x86_64",
        Architecture::Aarch64 => "aarch64",
        Architecture::I386 => "i686",
        Architecture::PowerPc64 => "ppc64le",
        Architecture::S390x => "s390x",
        Architecture::Riscv64 => "riscv64",
        Architecture::Arm => "armv7l",
        _ => return None,
    };
    Some((system, machine))
}

/// Prefixes of the names of libraries that every Linux system with a manylinux tag has.
const LINUX: &str = "ld-linux libanl.so.1 libatomic.so.1 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libmvec.so.1 \
    libpthread.so.0 libresolv.so.2 librt.so.1 libstdc++.so.6 libutil.so.1 libz.so.1";

/// Prefixes of the names of DLLs that Windows, Python or jaxlib provides.
const WINDOWS: &str = "api-ms-win- advapi32.dll bcrypt.dll bcryptprimitives.dll dbghelp.dll kernel32.dll msvcp140 \
    msvcrt.dll ntdll.dll ole32.dll oleaut32.dll psapi.dll rpcrt4.dll secur32.dll shell32.dll \
    ucrtbase.dll user32.dll vcruntime140 ws2_32.dll";

/// Returns true if every system of a wheel's tag has the library `need`. For macOS, absolute paths are accepted,
/// because the finding XF109 covers them.
fn is_everywhere(system: System, need: &str) -> bool {
    match system {
        System::Linux => {
            LINUX.split(' ').any(|known| need.starts_with(known)) || need.starts_with("libpython")
        }
        System::MacOs => need.starts_with('/') || need.starts_with("@executable_path/"),
        System::Windows => {
            let need = need.to_ascii_lowercase();
            WINDOWS.split(' ').any(|known| need.starts_with(known)) && !is_debug_runtime(&need)
                || need.starts_with("python3")
        }
    }
}

impl Wheel {
    /// Returns the project that provides the library `need` on the user's machine, according to the wheel's
    /// requirements. For GPU libraries, this is an NVIDIA project in the RPATH, or a project with a GPU's extra. For
    /// other libraries, the project's name is part of the library's name.
    #[must_use]
    pub fn provider(&self, need: &str, search: &[String]) -> Option<String> {
        let name = need.to_ascii_lowercase();
        let is_gpu = gpu_runtime(need).is_some();
        let leads = search
            .iter()
            .any(|folder| folder.starts_with("$ORIGIN") && folder.contains("/nvidia/"));
        let provides = |one: &&Requirement| {
            let is_gpu_extra = ["cuda", "rocm"]
                .iter()
                .any(|extra| one.extras.contains(extra));
            let words = one
                .project
                .split('-')
                .filter(|word| word.len() > 2 && *word != "lib" && *word != "python");
            match is_gpu {
                true => is_gpu_extra || (leads && one.project.starts_with("nvidia-")),
                false => words.into_iter().any(|word| name.contains(word)),
            }
        };
        self.requires
            .iter()
            .find(provides)
            .map(|one| format!("the package {}", one.project))
    }
}

/// Returns the file name of a library in the form in which the system compares file names.
fn file(system: System, name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or_default();
    match system {
        System::Linux => name.to_owned(),
        System::MacOs | System::Windows => name.to_ascii_lowercase(),
    }
}

/// Adds findings about required libraries that neither the wheel nor another package provides.
pub(super) fn missing(wheel: &Wheel, libraries: &[Inside], found: &mut Vec<Finding>) {
    for library in libraries {
        let Some(facts) = &library.facts else {
            continue;
        };
        let system = facts.machine.system;
        let inside: BTreeSet<String> = libraries
            .iter()
            .map(|library| file(system, &library.member))
            .collect();
        for need in &facts.needs {
            if is_everywhere(system, need)
                || inside.contains(&file(system, need))
                || wheel.provider(need, &facts.search).is_some()
            {
                continue;
            }
            let (why, bring) = match system {
                System::Linux => ("DT_NEEDED", "`auditwheel repair`"),
                System::MacOs => ("LC_LOAD_DYLIB", "`delocate-wheel`"),
                System::Windows => ("its imports", "`delvewheel repair`"),
            };
            let fix = match gpu_runtime(need) {
                _ if need == "libcuda.so.1" => {
                    "load the driver in the first call that needs it, so that the library loads without a GPU".to_owned()
                }
                Some(from) => format!(
                    "leave it to {from}: require that wheel, lead the RPATH to its folder ($ORIGIN/../nvidia/…), and keep \
                     the library out of yours with `auditwheel repair --exclude '{}*'`",
                    need.split_inclusive(".so").next().unwrap_or(need)
                ),
                None => format!("add it to the wheel with {bring}, or link it statically"),
            };
            let asked = match wheel.name.glibc() {
                Some(_) => "systems of its tag may not have it",
                None => "other machines may not have it",
            };
            found.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!("lacks {need}, which {} requires", &library.member),
                    format!("{why}; {asked}"),
                )
                .library(need)
                .fix(fix),
            );
        }
    }
}
