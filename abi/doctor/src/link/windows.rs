//! The DLLs that a DLL needs beside those of Windows.

use crate::finding::{Finding, Problem};
use crate::library::Facts;
use std::collections::BTreeSet;
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

/// The files in the folder of the library, where the loader looks, in small letters: it asks for a name in any.
fn beside(path: &Path) -> BTreeSet<String> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.map(|name| name.to_ascii_lowercase()).collect()
}

pub(super) fn findings(path: &Path, facts: &Facts, findings: &mut Vec<Finding>) {
    let mut shipped = None;
    for needed in &facts.needs {
        let name = needed.to_ascii_lowercase();
        if MINGW.iter().any(|start| name.starts_with(start)) {
            if shipped.get_or_insert_with(|| beside(path)).contains(&name) {
                continue;
            }
            findings.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!("it needs {needed}, which Windows does not have"),
                    "its imports; it comes with the compiler",
                )
                .fix("link with -static, or ship it beside the library"),
            );
        } else if is_debug_runtime(&name) {
            findings.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!("it needs {needed}, which only machines with Visual Studio have"),
                    "its imports: it was built with the runtime for debugging",
                )
                .fix("build it with /MD in place of /MDd"),
            );
        }
    }
}
