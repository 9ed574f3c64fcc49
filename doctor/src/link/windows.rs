//! The DLLs that a DLL needs beside those of Windows.

use crate::finding::{Finding, Level, Problem, Weight};
use crate::library::Facts;
use std::path::Path;

/// DLLs of MinGW's compilers, which no system has.
const MINGW: &[&str] = &[
    "libatomic-",
    "libc++",
    "libgcc_s_",
    "libgfortran-",
    "libgomp-",
    "libquadmath-",
    "libssp-",
    "libstdc++-",
    "libunwind",
    "libwinpthread-",
];

/// Whether it belongs to the runtime of Visual C++ for development, which may not be handed on: `VCRUNTIME140D.dll`. The
/// name in small letters.
pub(crate) fn is_debug_runtime(name: &str) -> bool {
    name == "ucrtbased.dll"
        || ["vcruntime", "msvcp", "concrt", "vccorlib"]
            .iter()
            .any(|start| name.starts_with(start))
            && name.ends_with("d.dll")
}

/// Whether the folder of the library has it: the loader looks there, and asks for a name in letters of any size.
fn is_beside(path: &Path, name: &str) -> bool {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .any(|file| file.eq_ignore_ascii_case(name))
}

pub(super) fn findings(path: &Path, facts: &Facts, findings: &mut Vec<Finding>) {
    for needed in &facts.needs {
        let name = needed.to_ascii_lowercase();
        if MINGW.iter().any(|start| name.starts_with(start)) {
            if is_beside(path, &name) {
                continue;
            }
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
        } else if is_debug_runtime(&name) {
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
