//! Findings about how a library is linked.

use crate::finding::{Confidence, Finding, Problem, Severity, Subject};
use crate::library::{Facts, Needed, Processor, Signature, Surroundings, System};
use crate::release::dotted;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn findings(
    path: &Path,
    facts: &Facts,
    surroundings: &Surroundings,
    findings: &mut Vec<Finding>,
) {
    for (name, by) in &surroundings.missing {
        findings.push(
            Finding::failure(
                Problem::MissingLibrary,
                format!("{name} is not found on this machine"),
                format!(
                    "{by} needs it; searched its RPATH, LD_LIBRARY_PATH and the system's folders"
                ),
            )
            .fix(
                "install it, link it statically, or ship it beside the library with RPATH $ORIGIN",
            ),
        );
    }
    imports(facts, surroundings, findings);
    libstdcxx(facts, findings);
    search(facts, findings);
    flags(facts, findings);
    match facts.machine.system {
        System::Linux => {}
        System::MacOs => macos(facts, findings),
        System::Windows => windows(path, facts, findings),
    }
}

/// Whose symbol it is, where nobody around provides it.
fn owner(name: &str) -> Option<&'static str> {
    let mangled = |space: &str| {
        ["_ZN", "_ZNK", "_ZTVN", "_ZTIN", "_ZTSN", "_ZGVN", "_ZZN"]
            .iter()
            .any(|start| {
                name.strip_prefix(start)
                    .is_some_and(|rest| rest.starts_with(space))
            })
    };
    if name == "XLA_FFI_GetApi" {
        Some("XLA_FFI_GetApi")
    } else if name.starts_with("XlaCustomCallStatus") {
        Some("XlaCustomCallStatus")
    } else if name.starts_with("Py") || name.starts_with("_Py") {
        Some("Python")
    } else if mangled("4absl") {
        Some("absl")
    } else if mangled("3xla") || mangled("3tsl") || mangled("15stream_executor") {
        Some("XLA")
    } else if mangled("4mlir") || mangled("4llvm") {
        Some("LLVM")
    } else {
        None
    }
}

fn imports(facts: &Facts, surroundings: &Surroundings, findings: &mut Vec<Finding>) {
    let mut unresolved = surroundings.unresolved(facts);
    if !Surroundings::follows(facts) && facts.machine.system == System::Linux {
        // Whether another machine has the others cannot be told; that nobody has these can.
        unresolved.retain(|needed| owner(&needed.name).is_some());
    }
    let mut by_owner: Vec<(Option<&'static str>, Vec<&Needed>)> = Vec::new();
    for needed in unresolved {
        let owner = owner(&needed.name);
        match by_owner.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, names)) => names.push(needed),
            None => by_owner.push((owner, vec![needed])),
        }
    }
    for (owner, names) in by_owner {
        let mut list: Vec<&str> = names
            .iter()
            .take(4)
            .map(|needed| needed.name.as_str())
            .collect();
        if names.len() > 4 {
            list.push("…");
        }
        let list = list.join(", ");
        let count = names.len();
        let undefined = format!("{count} undefined: {list}");
        let proved = |what: &str, why: String| Finding::failure(Problem::Undefined, what, why);
        findings.push(match owner {
            Some("XLA_FFI_GetApi") => proved(
                "it links to XLA_FFI_GetApi, so no jaxlib loads it",
                "the symbol is undefined, and no jaxlib exports it".to_owned(),
            )
            .fix("take the table from the call frame (`call_frame->api`) instead"),
            Some("XlaCustomCallStatus") => proved(
                "it links to XlaCustomCallStatusSetFailure, so no jaxlib loads it",
                format!("{undefined}; no jaxlib exports them"),
            )
            .fix("move the target to the FFI, where a handler returns an error"),
            Some("Python") => Finding::risk(
                Problem::LinkedTo,
                "it loads in a Python process alone, and perhaps in one version of Python",
                format!("{undefined}, which an interpreter provides"),
            )
            .fix("keep handlers in a library of their own that does not use Python's C API"),
            Some(owner) => proved(
                &format!("it links to {owner}'s C++, so no jaxlib loads it"),
                format!("{undefined}; jaxlib keeps its copy of {owner} to itself"),
            )
            .fix(format!(
                "use the header-only API, or link your own {owner} statically and hide its symbols"
            )),
            None if !Surroundings::follows(facts) => Finding::new(
                Confidence::Unknown,
                Severity::Risk,
                Problem::Undefined,
                "whether all symbols are found",
                format!("{undefined}, which are looked up wherever they may be when it is loaded"),
            )
            .fix("link the library that has them, without -undefined dynamic_lookup"),
            None if surroundings.missing.is_empty() => proved(
                "it does not load here: symbols are undefined",
                format!("{undefined}; no library that it needs provides them"),
            )
            .about(Subject::Machine)
            .fix("link the library that has them (with -Wl,-z,defs the linker tells in time)"),
            None => Finding::new(
                Confidence::Unknown,
                Severity::Risk,
                Problem::Undefined,
                "whether all symbols are found",
                format!("{undefined}; a library that it needs is missing here"),
            ),
        });
    }
    for needed in &facts.needs {
        // Mach-O names files, with their folders.
        let name = needed.rsplit('/').next().unwrap_or(needed);
        let is_python_dll = name.len() > 9 && name.starts_with("python") && name.ends_with(".dll");
        let is_framework = name == "Python" && needed.contains("Python.framework/");
        if name.starts_with("libpython") || is_python_dll || is_framework {
            findings.push(
                Finding::risk(
                    Problem::LinkedTo,
                    format!("it brings a Python of its own into the process: {name}"),
                    "it is linked to it; another version of Python then has two interpreters",
                )
                .fix("do not link libpython: the interpreter provides its symbols"),
            );
        }
        if name.starts_with("libxla")
            || name.starts_with("libjax")
            || name.contains("xla_extension")
        {
            findings.push(Finding::risk(
                Problem::LinkedTo,
                format!("it is linked to {name}, which other versions of jaxlib do not have"),
                "it names that library among those it needs",
            ));
        }
    }
}

fn libstdcxx(facts: &Facts, findings: &mut Vec<Finding>) {
    let links = facts.needs.iter().any(|name| name.starts_with("libstdc++"));
    if facts.machine.system != System::Linux || !links {
        return;
    }
    let Some(floor) = facts.floor("GLIBCXX_") else {
        return;
    };
    let floor = dotted(&floor);
    findings.push(
        Finding::risk(
            Problem::Libstdcxx,
            format!("it needs a libstdc++ with GLIBCXX_{floor}, which the process may not have"),
            "the libstdc++ that is loaded first counts, and a conda environment brings its own",
        )
        .fix("link with -static-libstdc++ -static-libgcc"),
    );
}

fn search(facts: &Facts, findings: &mut Vec<Finding>) {
    let is_apple = facts.machine.system == System::MacOs;
    let (own, begins) = if is_apple {
        ("@loader_path", '@')
    } else {
        ("$ORIGIN", '$')
    };
    for entry in &facts.search {
        let finding = if entry.is_empty() || (!entry.starts_with('/') && !entry.starts_with(begins))
        {
            Finding::risk(Problem::SearchPath, format!("it loads libraries from the folder in which the program happens to run ({entry:?})"),
                format!("a RPATH entry that is neither absolute nor begins with {own}"),
            )
            .fix(format!("use {own}"))
        } else if entry.starts_with('/') {
            let here = if !facts.machine.is_current() {
                "this machine is another"
            } else if Path::new(entry).is_dir() {
                "it is there on this machine"
            } else {
                "it is not there even on this machine"
            };
            Finding::risk(
                Problem::SearchPath,
                format!("it looks for libraries in {entry}, which other machines need not have"),
                format!("an absolute RPATH entry; {here}"),
            )
            .fix(format!(
                "ship what it needs beside it and use {own}, or remove the entry"
            ))
        } else {
            continue;
        };
        findings.push(finding);
    }
}

fn flags(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.executable_stack {
        findings.push(
            Finding::risk(
                Problem::LoaderFlags,
                "it asks for an executable stack, which glibc 2.41 and hardened systems refuse",
                "PT_GNU_STACK is executable: an object without .note.GNU-stack was linked in",
            )
            .fix("link with -Wl,-z,noexecstack"),
        );
    }
    if facts.text_relocations {
        findings.push(
            Finding::risk(
                Problem::LoaderFlags,
                "its code is patched when it is loaded, which hardened systems refuse",
                "DT_TEXTREL: something was compiled without -fPIC",
            )
            .fix("compile everything with -fPIC"),
        );
    }
    if facts.static_tls {
        findings.push(Finding::risk(
            Problem::LoaderFlags,
            "it may fail to load late in a process: \"cannot allocate memory in static TLS block\"",
            "DF_STATIC_TLS: its thread-locals take part of the program's reserve",
        ));
    }
}

/// The oldest macOS of jaxlib's wheels, by processor: `macosx_11_0_arm64`, and `macosx_10_14_x86_64` as long as there
/// were any (up to jaxlib 0.4.38).
fn oldest_of_jaxlib(processor: Processor) -> [u32; 2] {
    match processor {
        Processor::Aarch64 => [11, 0],
        Processor::X86_64 => [10, 14],
    }
}

/// What macOS asks of a library: where its libraries are looked for, how old a system may be, and a signature.
fn macos(facts: &Facts, findings: &mut Vec<Finding>) {
    macos_search(facts, findings);
    let Some(apple) = &facts.apple else { return };
    let processor = facts.machine.processor;
    let of_jaxlib = oldest_of_jaxlib(processor);
    match &apple.oldest {
        Some(oldest) if oldest.as_slice() > &of_jaxlib[..] => findings.push(
            Finding::risk(
                Problem::DeploymentTarget,
                format!(
                    "it asks for macOS {}, jaxlib's own wheels for {}",
                    dotted(oldest),
                    dotted(&of_jaxlib)
                ),
                "its deployment target; an older macOS may lack what it calls, and refuses it then",
            )
            .fix(format!(
                "build it with MACOSX_DEPLOYMENT_TARGET={} or -mmacosx-version-min={0}",
                dotted(&of_jaxlib)
            )),
        ),
        Some(_) => {}
        None => findings.push(Finding::new(
            Confidence::Unknown,
            Severity::Note,
            Problem::DeploymentTarget,
            "the oldest macOS that it runs on",
            "it states no deployment target (LC_BUILD_VERSION, LC_VERSION_MIN_MACOSX)",
        )),
    }
    let needs_one = processor == Processor::Aarch64;
    let finding = match &apple.signature {
        Signature::Missing if needs_one => Some((
            "its code is not signed, so no Mac with an Arm processor loads it",
            "there is no LC_CODE_SIGNATURE".to_owned(),
        )),
        Signature::Broken(why) => Some((
            "its code signature does not fit its code, so macOS ends the process that loads it",
            format!("{why}: strip, install_name_tool or an editor changed it after it was signed"),
        )),
        _ => None,
    };
    if let Some((what, why)) = finding {
        findings.push(
            Finding::failure(Problem::CodeSignature, what, why)
                .fix("sign it last of all: codesign --force --sign - FILE"),
        );
    }
}

/// Libraries that are looked for where other machines need not have them.
fn macos_search(facts: &Facts, findings: &mut Vec<Finding>) {
    for name in &facts.needs {
        let risk = |what: String, why: &str| Finding::risk(Problem::SearchPath, what, why);
        let finding = if name.starts_with("/usr/lib/") || name.starts_with("/System/") {
            continue; // the system's own
        } else if name.starts_with("@rpath/") && facts.search.is_empty() {
            risk(
                format!("it looks for {name} and has no rpath of its own"),
                "LC_LOAD_DYLIB and no LC_RPATH: the rpaths of the program and of who loads it count",
            )
            .fix("link with -Wl,-rpath,@loader_path and ship the library beside it")
        } else if name.starts_with("@executable_path/") {
            risk(
                format!(
                    "it looks for {name}, which lies beside the Python interpreter if anywhere"
                ),
                "LC_LOAD_DYLIB",
            )
            .fix("use @loader_path or @rpath: install_name_tool -change, then sign it again")
        } else if name.starts_with('/') {
            risk(
                format!("it looks for {name}, which other machines need not have"),
                "LC_LOAD_DYLIB with a folder that is not the system's",
            )
            .fix(
                "link it statically, or ship it beside the library and use @loader_path: \
                 install_name_tool -change, then sign it again",
            )
        } else {
            continue; // @loader_path, or @rpath with an entry for it
        };
        findings.push(finding);
    }
}

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

/// The DLLs that a DLL needs beside those of Windows.
fn windows(path: &Path, facts: &Facts, findings: &mut Vec<Finding>) {
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
