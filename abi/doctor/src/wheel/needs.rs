//! Libraries that systems of a wheel's tag need not have.

use super::Wheel;
use super::judge::Read;
use crate::finding::{Finding, Problem};
use crate::library::System;
use crate::link::is_debug_runtime;
use std::collections::BTreeSet;

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

/// Libraries of CUDA, which jax brings in wheels of their own.
const CUDA: [&str; 7] = [
    "libcudart",
    "libcublas",
    "libcudnn",
    "libcusolver",
    "libcufft",
    "libnccl",
    "libnvrtc",
];

/// Whether every such system has it. What lies at a place of its own on macOS is XF109's to tell.
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

/// The file's name, as the system compares it.
fn file(system: System, name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or_default();
    match system {
        System::Linux => name.to_owned(),
        System::MacOs | System::Windows => name.to_ascii_lowercase(),
    }
}

pub(super) fn findings(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
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
            if is_everywhere(system, need) || inside.contains(&file(system, need)) {
                continue;
            }
            let (why, bring) = match system {
                System::Linux => ("DT_NEEDED", "`auditwheel repair`"),
                System::MacOs => ("LC_LOAD_DYLIB", "`delocate-wheel`"),
                System::Windows => ("its imports", "`delvewheel repair`"),
            };
            let fix = if need == "libcuda.so.1" {
                "load the driver when the first call needs it: the library then loads without a GPU"
                    .to_owned()
            } else if CUDA.iter().any(|known| need.starts_with(known)) {
                "link it statically, or load it when the first call needs it, from the nvidia packages that jax brings"
                    .to_owned()
            } else {
                format!("{bring} puts it into the wheel; or link it statically")
            };
            let asked = match wheel.name.glibc() {
                Some(_) => "systems of its tag need not have it",
                None => "other machines need not have it",
            };
            found.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!(
                        "{} needs {need}, which the wheel does not bring",
                        library.name()
                    ),
                    format!("{why}; {asked}"),
                )
                .fix(fix),
            );
        }
    }
}
