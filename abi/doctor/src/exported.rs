//! Findings about exported symbols other than handlers, which may clash with other libraries of the process.

use crate::finding::{Finding, Problem};
use crate::library::Facts;
use crate::manifest::{self, Manifest};
use std::collections::BTreeSet;

/// Prefixes of names that other libraries of a process also export, and their owners.
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
    if !facts.unique.is_empty() {
        findings.push(
            Finding::risk(Problem::Exported,
                format!(
                    "exports {} names that are unique per process, so that other libraries with these names share \
                     their memory",
                    facts.unique.len()
                ),
                format!("STB_GNU_UNIQUE: {}", first(&facts.unique)),
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

/// Lists the first few names.
fn first(names: &BTreeSet<String>) -> String {
    let shown = |name: &String| -> String { name.chars().take(60).collect() };
    let mut list: Vec<String> = names.iter().take(4).map(shown).collect();
    if names.len() > 4 {
        list.push("…".to_owned());
    }
    list.join(", ")
}

/// Returns exported names that are not of handlers, the loader or the linker.
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
        own.contains(name) || name.ends_with(manifest::SYMBOL) || name.contains("xla_ffi_")
    };
    let more = facts.exports.iter().filter(|name| !is_ours(name));
    more.cloned().collect()
}
