//! What a library exports beside its handlers: other names of the process may stand in for it.

use crate::finding::{Finding, Problem};
use crate::library::Facts;
use crate::manifest::{self, Manifest};
use std::collections::BTreeSet;

/// How names begin that other libraries of a process export, too, and whose they are.
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
                    "{} names are one for the whole process: another library with the same ones, of another \
                     version perhaps, shares their memory",
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
                    "it exports names of {}: its own calls may end in another library's copy",
                    owners.join(", ")
                ),
                format!("{} names beside its handlers: {}", more.len(), first(&more)),
            )
            .fix("compile with -fvisibility=hidden and link with -Wl,--exclude-libs,ALL"),
        );
    } else if !more.is_empty() && !manifests.is_empty() {
        findings.push(
            Finding::note(
                Problem::Exported,
                format!("it exports {} names beside its handlers", more.len()),
                first(&more),
            )
            .fix("-fvisibility=hidden keeps what is not marked inside"),
        );
    }
}

/// The first few names.
fn first(names: &BTreeSet<String>) -> String {
    let shown = |name: &String| -> String { name.chars().take(60).collect() };
    let mut list: Vec<String> = names.iter().take(4).map(shown).collect();
    if names.len() > 4 {
        list.push("…".to_owned());
    }
    list.join(", ")
}

/// What is exported and belongs to no handler, and neither to the loader nor to the linker.
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
