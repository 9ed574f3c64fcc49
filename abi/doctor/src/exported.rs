//! Findings about exported symbols that do not belong to handlers and may clash with other libraries of the process.

use crate::finding::{Finding, Problem};
use crate::library::Facts;
use crate::manifest::{self, Manifest};
use std::collections::BTreeSet;

/// Prefixes of symbols that other libraries of the process may also export, each with the project that defines the
/// symbols.
const SHARED: [(&str, &str); 9] = [
    ("_ZN4absl", "absl"),
    ("_ZN6google8protobuf", "protobuf"),
    ("_ZN5Eigen", "Eigen"),
    ("_ZN3tbb", "TBB"),
    ("_ZN4llvm", "LLVM"),
    ("cblas_", "BLAS"),
    ("openblas_", "OpenBLAS"),
    ("GOMP_", "OpenMP"),
    ("cudart", "the CUDA runtime"),
];

pub(crate) fn findings(manifests: &[Manifest], facts: &Facts, findings: &mut Vec<Finding>) {
    let unique: BTreeSet<String> = facts
        .unique
        .iter()
        .filter(|name| !is_of_cxx(name))
        .cloned()
        .collect();
    if !unique.is_empty() {
        findings.push(
            Finding::risk(Problem::Exported,
                format!(
                    "exports {} names that are unique per process, so that other libraries with these names share \
                     their memory",
                    unique.len()
                ),
                format!("STB_GNU_UNIQUE: {}", first(&unique)),
            )
            .fix("compile with -fvisibility=hidden -fvisibility-inlines-hidden, or with -fno-gnu-unique"),
        );
    }
    let more = beside_handlers(manifests, facts);
    let owners: BTreeSet<&str> = SHARED
        .iter()
        .filter(|(start, _)| more.iter().any(|name| name.starts_with(start)))
        .map(|(_, whose)| *whose)
        .collect();
    if !owners.is_empty() {
        let owners: Vec<&str> = owners.into_iter().collect();
        findings.push(
            Finding::risk(
                Problem::Exported,
                format!(
                    "exports names of {}, so that its calls may reach another library's copy",
                    owners.join(", ")
                ),
                format!("{} names other than handlers: {}", more.len(), first(&more)),
            )
            .fix("compile with -fvisibility=hidden and link with -Wl,--exclude-libs,ALL"),
        );
    } else if !more.is_empty() && !manifests.is_empty() {
        findings.push(
            Finding::note(
                Problem::Exported,
                format!("exports {} names other than handlers", more.len()),
                first(&more),
            )
            .fix("compile with -fvisibility=hidden"),
        );
    }
}

/// Returns the first four names as text, followed by `…` if the set has more names.
fn first(names: &BTreeSet<String>) -> String {
    let shown = |name: &String| -> String { name.chars().take(60).collect() };
    let mut list: Vec<String> = names.iter().take(4).map(shown).collect();
    if names.len() > 4 {
        list.push("…".to_owned());
    }
    list.join(", ")
}

/// Returns true for symbols of the C++ runtime (`std`, `__gnu_cxx`, `__cxxabiv1`), which all libraries of a process
/// share.
fn is_of_cxx(name: &str) -> bool {
    let Some(mut rest) = name.strip_prefix("_Z") else {
        return false;
    };
    // The prefixes of vtables, type information, guards, local names and qualifiers are removed first.
    while let Some(inner) = ["TV", "TI", "TS", "TT", "GV", "GR", "Z", "N", "K"]
        .iter()
        .find_map(|part| rest.strip_prefix(part))
    {
        rest = inner;
    }
    [
        "St",
        "Sa",
        "Ss",
        "Sb",
        "Si",
        "So",
        "Sd",
        "9__gnu_cxx",
        "10__cxxabiv1",
    ]
    .iter()
    .any(|start| rest.starts_with(start))
}

/// Returns the exported symbols other than those of handlers, the loader, the linker and the C++ runtime.
fn beside_handlers(manifests: &[Manifest], facts: &Facts) -> BTreeSet<String> {
    let mut own: BTreeSet<&str> = ["_init", "_fini", "_end", "_edata", "__bss_start"].into();
    for manifest in manifests {
        own.extend(manifest.register.as_deref());
        for handler in &manifest.handlers {
            own.extend(handler.stages.iter().map(|(_, symbol)| symbol));
        }
        own.extend(manifest.legacy.iter().map(|target| target.symbol.as_str()));
    }
    let is_ours = |name: &str| {
        own.contains(name)
            || is_of_cxx(name)
            || name.starts_with("PyInit_")
            || name.ends_with(manifest::SYMBOL)
            || name.contains("xla_ffi_")
    };
    let more = facts.exports.iter().filter(|name| !is_ours(name));
    more.cloned().collect()
}
