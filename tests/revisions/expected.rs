//! The cells: what `tests/jax/expected.txt` gives for real runtimes.

use std::collections::BTreeSet;
use xla_ffi_runtime::Revision;

/// Rows that are not exercised here: what they ask of, and for those that a test asks the embedded runtime on
/// every revision, its name in `tests/legacy.rs`.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("vmap", "jax"),
    ("registration before the backend exists", "jax"),
    ("registration after the backend exists", "jax"),
    ("gradient by custom_vjp", "jax"),
    ("shard_map", "jax"),
    (
        "original custom calls: API_VERSION_ORIGINAL",
        "the_documents_example_in_every_convention",
    ),
    (
        "original custom calls: a tuple result, by its leaves",
        "tuples_by_their_leaves",
    ),
    (
        "original custom calls: nested tuples of operands and result, by their leaves",
        "tuples_by_their_leaves",
    ),
    (
        "original custom calls: a tuple operand",
        "tuples_by_their_roots",
    ),
    (
        "original custom calls: API_VERSION_STATUS_RETURNING",
        "the_documents_example_in_every_convention",
    ),
    (
        "original custom calls: API_VERSION_STATUS_RETURNING_UNIFIED, opaque",
        "the_documents_example_in_every_convention",
    ),
    (
        "original custom calls: a failure reaches the caller",
        "failures_arrive_whole",
    ),
    (
        "adapted custom calls: results",
        "adapted_functions_on_every_revision",
    ),
    (
        "adapted custom calls: a failure reaches the caller, its message whole",
        "adapted_functions_on_every_revision",
    ),
];

/// Cells that jax or the loader decide, not the ABI: since when the embedded runtime has them.
pub(crate) const SINCE: &[(&str, Revision)] = &[
    // Older CPU runtimes of XLA abort on a token operand.
    ("tokens", Revision::R0),
    // jax has the three types later than XLA.
    ("dtypes F8E3M4, F8E4M3, F8E8M0FNU", Revision::R3),
    // jax has it from 0.5.3 on; the ABI names it, as all packed types, since r5.
    ("sub-byte: float4", Revision::R5),
];

/// The features that `tests/jax/expected.txt` lists for a library.
pub(crate) fn rows(table: &'static str, library: &str) -> BTreeSet<&'static str> {
    let mut here = false;
    let mut rows = BTreeSet::new();
    for line in table.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(names) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            here = names.split(',').any(|name| name.trim() == library);
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| here) {
            rows.insert(name.trim());
        }
    }
    rows
}

/// A version's numbers.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.');
    parts.map(|part| part.parse().expect("a number")).collect()
}

/// The cell that `tests/jax/expected.txt` wants of the first jaxlib of a revision, `ok` where no rule holds.
pub(crate) fn expected(
    table: &'static str,
    library: &str,
    feature: &str,
    revision: Revision,
) -> &'static str {
    if let Some((_, since)) = SINCE.iter().find(|(name, _)| *name == feature) {
        return if revision < *since { "absent" } else { "ok" };
    }
    let jaxlib = numbers(revision.first_jaxlib());
    let mut here = false;
    for line in table.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(names) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            here = names.split(',').any(|name| name.trim() == library);
            continue;
        }
        let Some((name, rules)) = line.split_once(" = ") else {
            continue;
        };
        if !here || name.trim() != feature {
            continue;
        }
        for rule in rules.split(';') {
            // What follows in quotes is what jaxlib says.
            let rule = rule.split('"').next().unwrap_or_default();
            let words: Vec<&'static str> = rule.split_whitespace().collect();
            let parse = |name: &str| Revision::from_name(name).expect("a revision");
            let holds = match words[1..] {
                [] => true,
                ["before", to] => revision < parse(to),
                ["before", "jaxlib", to] => jaxlib < numbers(to),
                ["from", from] => revision >= parse(from),
                [range] => {
                    let (from, to) = range.split_once("..").expect("a range of revisions");
                    (parse(from)..=parse(to)).contains(&revision)
                }
                _ => panic!("a rule that is not known here: {rule}"),
            };
            if holds {
                return words[0];
            }
        }
    }
    "ok"
}
