//! A library in a wheel: its machine, and required libraries that systems of the wheel's tag may not have.

use super::{Inside, Wheel};
use crate::finding::{Finding, Problem};
use crate::library::{self, Facts, System};
use crate::link::is_debug_runtime;
use object::{Architecture, BinaryFormat, Object};
use std::collections::BTreeSet;
use std::path::Path;

/// A library of the wheel, read.
pub(super) struct Read<'a> {
    pub(super) inside: &'a Inside,
    /// System and machine of each part, spelled as in tags; empty if the file is not loadable.
    pub(super) targets: Vec<(&'static str, &'static str)>,
    /// `None` if the file is not a readable library.
    pub(super) facts: Option<Facts>,
}

impl Read<'_> {
    pub(super) fn of(inside: &Inside) -> Read<'_> {
        let bytes = library::bytes(&inside.place).unwrap_or_default();
        let mut library = Read {
            inside,
            targets: Vec::new(),
            facts: library::read(Path::new(&inside.member), &bytes).ok(),
        };
        // A fat file has a library for each of several machines.
        let parts = library::parts(Path::new(&inside.member), &bytes).unwrap_or_default();
        let mut parts: Vec<&[u8]> = parts.iter().map(|part| part.bytes).collect();
        if parts.is_empty() {
            parts.push(&bytes);
        }
        for object in parts
            .iter()
            .filter_map(|part| object::File::parse(*part).ok())
        {
            library
                .targets
                .extend(target(&object).filter(|target| !library.targets.contains(target)));
        }
        library
    }

    pub(super) fn name(&self) -> &str {
        &self.inside.member
    }
}

/// Returns system and machine of an object file, if a tag exists for them.
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

/// Libraries that every system of a manylinux tag has.
const LINUX: [&str; 14] = [
    "ld-linux",
    "libanl.so.1",
    "libatomic.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libz.so.1",
];

/// DLLs of Windows itself, and those that Python or jaxlib need as well.
const WINDOWS: [&str; 19] = [
    "api-ms-win-",
    "advapi32.dll",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "dbghelp.dll",
    "kernel32.dll",
    "msvcp140",
    "msvcrt.dll",
    "ntdll.dll",
    "ole32.dll",
    "oleaut32.dll",
    "psapi.dll",
    "rpcrt4.dll",
    "secur32.dll",
    "shell32.dll",
    "ucrtbase.dll",
    "user32.dll",
    "vcruntime140",
    "ws2_32.dll",
];

/// Libraries of CUDA, which JAX installs as separate wheels.
const CUDA: [&str; 10] = [
    "libcudart",
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnccl",
    "libnvJitLink",
    "libnvrtc",
];

/// Returns true if every system of a tag has the library. XF109 covers absolute paths on macOS.
fn is_everywhere(system: System, need: &str) -> bool {
    match system {
        System::Linux => {
            LINUX.iter().any(|known| need.starts_with(known)) || need.starts_with("libpython")
        }
        System::MacOs => need.starts_with('/') || need.starts_with("@executable_path/"),
        System::Windows => {
            let need = need.to_ascii_lowercase();
            WINDOWS.iter().any(|known| need.starts_with(known)) && !is_debug_runtime(&need)
                || need.starts_with("python3")
        }
    }
}

/// Returns the file's name, as the system compares it.
fn file(system: System, name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or_default();
    match system {
        System::Linux => name.to_owned(),
        System::MacOs | System::Windows => name.to_ascii_lowercase(),
    }
}

/// Adds findings for required libraries that are not in the wheel.
pub(super) fn missing(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
    for library in libraries {
        let Some(facts) = &library.facts else {
            continue;
        };
        let system = facts.machine.system;
        let inside: BTreeSet<String> = libraries
            .iter()
            .map(|library| file(system, library.name()))
            .collect();
        for need in &facts.needs {
            let is_cuda = CUDA.iter().any(|known| need.starts_with(known));
            let mut search = facts.search.iter();
            // NVIDIA's wheels put their libraries below `site-packages/nvidia`.
            let is_required = is_cuda
                && wheel
                    .requires
                    .iter()
                    .any(|one| one.project.starts_with("nvidia-"))
                && search
                    .any(|folder| folder.starts_with("$ORIGIN") && folder.contains("/nvidia/"));
            if is_everywhere(system, need) || inside.contains(&file(system, need)) || is_required {
                continue;
            }
            let (why, bring) = match system {
                System::Linux => ("DT_NEEDED", "`auditwheel repair`"),
                System::MacOs => ("LC_LOAD_DYLIB", "`delocate-wheel`"),
                System::Windows => ("its imports", "`delvewheel repair`"),
            };
            let fix = if need == "libcuda.so.1" {
                "load the driver in the first call that needs it, so that the library loads without a GPU"
                    .to_owned()
            } else if is_cuda {
                "link it statically, or require NVIDIA's wheel of it and add that wheel's folder to the RPATH \
                 ($ORIGIN/../nvidia/…)"
                    .to_owned()
            } else {
                format!("add it to the wheel with {bring}, or link it statically")
            };
            let asked = match wheel.name.glibc() {
                Some(_) => "systems of its tag may not have it",
                None => "other machines may not have it",
            };
            found.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!("lacks {need}, which {} requires", library.name()),
                    format!("{why}; {asked}"),
                )
                .fix(fix),
            );
        }
    }
}
