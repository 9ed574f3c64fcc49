//! The cells: what `tests/jax/expected.txt` gives for real runtimes.

use xla_ffi_runtime::Revision;

/// Cells that jax or the loader decide, not the ABI: since when the embedded runtime has them.
pub(crate) const SINCE: &[(&str, Revision)] = &[
    // Older CPU runtimes of XLA abort on a token operand.
    ("tokens", Revision::R0),
    // jax has the three types later than XLA.
    ("dtypes F8E3M4, F8E4M3, F8E8M0FNU", Revision::R3),
    // jax has it from 0.5.3 on; the ABI names it, as all packed types, since r5.
    ("sub-byte: float4", Revision::R5),
];

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
