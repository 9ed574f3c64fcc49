//! Findings about the linking of a library: required libraries, symbols, versions, search paths and signatures.

use crate::finding::{Confidence, Finding, Problem, Severity, Subject};
use crate::library::{Facts, Needed, Processor, Signature, Surroundings, System, is_of_python};
use crate::release::dotted;
use crate::runtimes::gpu_runtime;
use std::collections::BTreeSet;
use std::path::Path;

/// Returns the findings about linking. `provider` returns the package that provides a library on the user's machine.
pub(crate) fn findings(
    path: &Path,
    facts: &Facts,
    surroundings: &Surroundings,
    provider: impl Fn(&str, &[String]) -> Option<String>,
    findings: &mut Vec<Finding>,
) {
    for (name, by) in &surroundings.missing {
        let from = provider(name, &facts.search).or_else(|| gpu_runtime(name).map(str::to_owned));
        if let Some(from) = from {
            findings.push(expected(name, &from));
            continue;
        }
        findings.push(
            Finding::failure(
                Problem::MissingLibrary,
                format!("requires {name}, which is not on this machine"),
                format!(
                    "needed by {by}; searched its RPATH, LD_LIBRARY_PATH and the system's folders"
                ),
            )
            .library(name)
            .fix(
                "link it statically or bundle it next to the library with RPATH $ORIGIN; if a package provides it, pass \
                 --site-packages or --preload",
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

/// Returns a note that a required library is missing on this machine, but expected on the user's machine.
fn expected(name: &str, from: &str) -> Finding {
    let what = format!("requires {name}, which is expected from {from}");
    let why = "it is not on this machine, which proves nothing about others";
    Finding::new(
        Confidence::Possible,
        Severity::Note,
        Problem::MissingLibrary,
        what,
        why,
    )
    .library(name)
}

/// Returns the project that defines a symbol, such as Python or XLA; `None` for symbols of unknown projects.
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
    } else if is_of_python(name) {
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
    // GCC 13's `<iostream>` refers to this symbol without a relocation, so the loader does not resolve it.
    unresolved.retain(|needed| needed.name != "_ZSt21ios_base_library_initv");
    let is_module = facts.is_python_module();
    if is_module {
        // The Python interpreter provides these symbols when it imports the module.
        unresolved.retain(|needed| !is_of_python(&needed.name));
    }
    if !Surroundings::follows(facts) && facts.machine.system == System::Linux {
        // The required libraries of the other machine cannot be read and may provide unknown symbols. Symbols of the
        // projects that `owner` knows are never in these libraries.
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
                "uses the symbol XLA_FFI_GetApi, so no jaxlib loads it",
                "the symbol is undefined, and no jaxlib exports it".to_owned(),
            )
            .fix("use the table in the call frame: `call_frame->api`"),
            Some("XlaCustomCallStatus") => proved(
                "uses the symbol XlaCustomCallStatusSetFailure, so no jaxlib loads it",
                format!("{undefined}; no jaxlib exports these symbols"),
            )
            .fix("port the target to XLA FFI, where a handler returns errors"),
            Some("Python") => Finding::risk(
                Problem::LinkedTo,
                "loads in a Python process only, and possibly only in one version of Python",
                format!("{undefined}; the interpreter provides these symbols"),
            )
            .fix("build handlers as a separate library that does not use Python's C API"),
            Some(owner) => proved(
                &format!("uses C++ symbols of {owner}, so no jaxlib loads it"),
                format!("{undefined}; jaxlib does not export its copy of {owner}"),
            )
            .fix(format!(
                "use the header-only API, or link {owner} statically and hide its symbols"
            )),
            None if !Surroundings::follows(facts) => Finding::new(
                Confidence::Unknown,
                Severity::Risk,
                Problem::Undefined,
                "some symbols may be missing when it is loaded",
                format!("{undefined}; the loader searches all loaded libraries for them"),
            )
            .fix("link the library that defines them, without -undefined dynamic_lookup"),
            None if surroundings.missing.is_empty() => proved(
                "the library does not load on this machine, because symbols are undefined",
                format!("{undefined}; no required library provides them"),
            )
            .about(Subject::Machine)
            .fix("link the library that defines them; -Wl,-z,defs makes missing symbols a link error"),
            // The library that was not found may define these symbols, so they are not reported.
            None => continue,
        });
    }
    for needed in &facts.needs {
        // Mach-O files require libraries by path instead of by name.
        let name = needed.rsplit('/').next().unwrap_or(needed);
        let is_python_dll = name.len() > 9 && name.starts_with("python") && name.ends_with(".dll");
        let is_framework = name == "Python" && needed.contains("Python.framework/");
        // On Windows, extension modules must be linked to the DLL of the interpreter, so these are not reported.
        if name.starts_with("libpython") || (is_python_dll && !is_module) || is_framework {
            findings.push(
                Finding::risk(
                    Problem::LinkedTo,
                    format!("loads a second Python interpreter, {name}"),
                    "it is linked to this library; other versions of Python then run two interpreters",
                )
                .library(name)
                .fix("do not link libpython, because the interpreter provides its symbols"),
            );
        }
        if name.starts_with("libxla")
            || name.starts_with("libjax")
            || name.contains("xla_extension")
        {
            findings.push(
                Finding::risk(
                    Problem::LinkedTo,
                    format!("requires {name}, which other versions of jaxlib do not have"),
                    "it is linked to this library",
                )
                .library(name)
                .fix("do not link jaxlib's libraries: use the table in the call frame"),
            );
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
            format!("requires a libstdc++ with GLIBCXX_{floor}, which the process may not have"),
            "the process uses the libstdc++ that is loaded first, for example that of a conda environment",
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
            Finding::risk(
                Problem::SearchPath,
                format!("loads libraries from the current folder of the program ({entry:?})"),
                format!("an RPATH entry that is not absolute and does not start with {own}"),
            )
            .fix(format!("use {own} in RPATH"))
        } else if entry.starts_with('/') {
            let here = if !facts.machine.is_current() {
                "this is another machine"
            } else if Path::new(entry).is_dir() {
                "the folder exists on this machine"
            } else {
                "the folder does not exist on this machine either"
            };
            Finding::risk(
                Problem::SearchPath,
                format!("searches for libraries in {entry}, which other machines may not have"),
                format!("an absolute RPATH entry; {here}"),
            )
            .fix(format!(
                "bundle the required libraries next to this one and use {own}, or remove the entry"
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
                "requires an executable stack, which glibc 2.41 and hardened systems refuse",
                "PT_GNU_STACK is executable, because an object without .note.GNU-stack is linked",
            )
            .fix("link with -Wl,-z,noexecstack"),
        );
    }
    if let Some(level) = facts.processor_level() {
        let what = format!("requires an {level} processor, so others refuse to load it");
        let why = "the mark in .note.gnu.property, which glibc 2.33 and later check";
        let fix = "compile with -march=x86-64 and link without -z x86-64-v2 or higher, or choose instructions at run time";
        findings.push(Finding::risk(Problem::Processor, what, why).fix(fix));
    }
    if let Some(symbols) = facts.private_symbols() {
        let what = format!("uses {symbols}, which is private to one build of glibc");
        let why = "GLIBC_PRIVATE; any update of the system may remove it";
        findings.push(
            Finding::risk(Problem::PrivateSymbol, what, why).fix("use a public function of glibc"),
        );
    }
    if facts.text_relocations {
        findings.push(
            Finding::risk(
                Problem::LoaderFlags,
                "requires relocations in its code, which hardened systems refuse",
                "DT_TEXTREL is set, because an object was compiled without -fPIC",
            )
            .fix("compile everything with -fPIC"),
        );
    }
    if facts.static_tls {
        findings.push(
            Finding::risk(
                Problem::LoaderFlags,
                "may fail to load late in a process: \"cannot allocate memory in static TLS block\"",
                "DF_STATIC_TLS is set, so its thread-local variables use the program's limited reserve",
            )
            .fix("compile with -fPIC and without -ftls-model=initial-exec"),
        );
    }
}

/// Returns the oldest macOS that jaxlib's wheels support on a processor: `macosx_11_0_arm64` or `macosx_10_14_x86_64`.
/// The last wheels for x86-64 were those of jaxlib 0.4.38.
fn oldest_of_jaxlib(processor: Processor) -> [u32; 2] {
    match processor {
        Processor::Aarch64 => [11, 0],
        Processor::X86_64 => [10, 14],
    }
}

/// Adds findings about the search path, deployment target and code signature of a library for macOS.
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
                    "requires macOS {}, but jaxlib's wheels require only {}",
                    dotted(oldest),
                    dotted(&of_jaxlib)
                ),
                "its deployment target; an older macOS may lack functions that it calls, and then refuses to load it",
            )
            .fix(format!(
                "build with MACOSX_DEPLOYMENT_TARGET={} or -mmacosx-version-min={0}",
                dotted(&of_jaxlib)
            )),
        ),
        Some(_) => {}
        None => findings.push(Finding::unknown(Problem::DeploymentTarget,
            "has no deployment target, so the oldest macOS is unknown",
            "LC_BUILD_VERSION and LC_VERSION_MIN_MACOSX are missing",
        )),
    }
    let needs_one = processor == Processor::Aarch64;
    let finding = match &apple.signature {
        Signature::Missing if needs_one => Some((
            "is not signed, so Macs with Arm processors do not load it",
            "LC_CODE_SIGNATURE is missing".to_owned(),
        )),
        Signature::Broken(why) => Some((
            "has an invalid code signature, so macOS ends the process that loads it",
            format!("{why}: strip, install_name_tool or another tool changed the signed file"),
        )),
        _ => None,
    };
    if let Some((what, why)) = finding {
        findings.push(
            Finding::failure(Problem::CodeSignature, what, why)
                .fix("sign it as the last build step: codesign --force --sign - FILE"),
        );
    }
}

/// Adds findings about required libraries in folders that only some machines have.
fn macos_search(facts: &Facts, findings: &mut Vec<Finding>) {
    for name in &facts.needs {
        let risk = |what: String, why: &str| Finding::risk(Problem::SearchPath, what, why);
        let finding = if name.starts_with("/usr/lib/") || name.starts_with("/System/") {
            continue; // a library of macOS
        } else if name.starts_with("@rpath/") && facts.search.is_empty() {
            risk(
                format!("requires {name} and has no rpath"),
                "LC_LOAD_DYLIB without LC_RPATH, so only the rpaths of the program and of loading libraries are searched",
            )
            .fix("link with -Wl,-rpath,@loader_path and bundle the required library next to this one")
        } else if name.starts_with("@executable_path/") {
            risk(
                format!(
                    "requires {name}, in the folder of the Python interpreter"
                ),
                "LC_LOAD_DYLIB",
            )
            .fix("use @loader_path or @rpath: run install_name_tool -change, then sign the library again")
        } else if name.starts_with('/') {
            risk(
                format!("requires {name}, which other machines may not have"),
                "LC_LOAD_DYLIB with a folder outside the system",
            )
            .fix(
                "link it statically, or bundle it next to the library and use @loader_path: \
                 run install_name_tool -change, then sign the library again",
            )
        } else {
            continue; // @loader_path, or @rpath with a search path
        };
        findings.push(finding);
    }
}

/// Prefixes of DLLs that belong to MinGW's compilers, which Windows does not include.
const MINGW: &str = "libatomic- libc++ libgcc_s_ libgfortran- libgomp- libquadmath- libssp- libstdc++- libunwind \
    libwinpthread-";

/// Returns true for DLLs of the Visual C++ debug runtime, whose licence forbids redistribution. The name must be in
/// lower case.
pub(crate) fn is_debug_runtime(name: &str) -> bool {
    name == "ucrtbased.dll"
        || ["vcruntime", "msvcp", "concrt", "vccorlib"]
            .iter()
            .any(|start| name.starts_with(start))
            && name.ends_with("d.dll")
}

/// Returns the names of the files in the library's folder. The names are in lower case, because the loader ignores
/// case.
fn beside(path: &Path) -> BTreeSet<String> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.map(|name| name.to_ascii_lowercase()).collect()
}

/// Adds findings for required DLLs that Windows does not include.
fn windows(path: &Path, facts: &Facts, findings: &mut Vec<Finding>) {
    let mut shipped = None;
    for needed in &facts.needs {
        let name = needed.to_ascii_lowercase();
        if MINGW.split(' ').any(|start| name.starts_with(start)) {
            if shipped.get_or_insert_with(|| beside(path)).contains(&name) {
                continue;
            }
            findings.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!("requires {needed}, which Windows does not include"),
                    "its imports; the DLL is part of the compiler",
                )
                .fix("link with -static, or bundle the DLL next to the library"),
            );
        } else if is_debug_runtime(&name) {
            findings.push(
                Finding::risk(
                    Problem::MissingLibrary,
                    format!("requires {needed}, which only machines with Visual Studio have"),
                    "its imports; the library was built with the debug runtime",
                )
                .fix("build with /MD instead of /MDd"),
            );
        }
    }
}
