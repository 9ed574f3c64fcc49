//! The DLLs that a DLL needs beside those of Windows.

use crate::finding::{Finding, Level, Problem, Weight};
use crate::library::Facts;

/// DLLs of MinGW's compilers, which no system has.
const MINGW: &[&str] = &[
    "libstdc++-",
    "libgcc_s_",
    "libwinpthread-",
    "libgomp-",
    "libc++",
    "libunwind",
];
/// The runtime of Visual C++ for development, which may not be handed on.
const DEBUG: &[&str] = &[
    "ucrtbased.dll",
    "vcruntime140d.dll",
    "vcruntime140_1d.dll",
    "msvcp140d.dll",
];

pub(super) fn findings(facts: &Facts, findings: &mut Vec<Finding>) {
    for needed in &facts.needs {
        let name = needed.to_ascii_lowercase();
        if MINGW.iter().any(|start| name.starts_with(start)) {
            findings.push(
                Finding::new(
                    Level::Possible,
                    Weight::Risk,
                    Problem::MissingLibrary,
                    format!("it needs {needed}, which Windows does not have"),
                    "its imports; it comes with the compiler",
                )
                .fix("link with -static, or ship it beside the library"),
            );
        } else if DEBUG.contains(&name.as_str()) {
            findings.push(
                Finding::new(
                    Level::Possible,
                    Weight::Risk,
                    Problem::MissingLibrary,
                    format!("it needs {needed}, which only machines with Visual Studio have"),
                    "its imports: it was built with the runtime for debugging",
                )
                .fix("build it with /MD in place of /MDd"),
            );
        }
    }
}
