//! Findings about how a library is linked.

mod apple;
mod windows;

pub(crate) use windows::is_debug_runtime;

use crate::finding::{Finding, Level, Problem, Subject, Weight};
use crate::library::{Facts, Needed, Surroundings, System};
use crate::release::dotted;
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
        System::MacOs => apple::findings(facts, findings),
        System::Windows => windows::findings(path, facts, findings),
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
                Level::Unknown,
                Weight::Risk,
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
                Level::Unknown,
                Weight::Risk,
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
            let here = if !facts.machine.is_this() {
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
