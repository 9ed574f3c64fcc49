//! What reads text and files that others wrote, one target each: whatever comes, the answer is a value or an error, and
//! what is printed reads back.
//!
//! `cargo xtask soak` runs a fuzzer over the targets, which bounds time and memory; the tests here replay what broke
//! one once.

mod calls;
mod libraries;
mod values;

/// One parser under attack: its name, which is that of its folders and of `cargo xtask soak NAME`, and what reads an input.
/// It panics where a property does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("attributes", values::attributes),
    ("spec", values::spec),
    ("npy", values::npy),
    ("manifest", libraries::manifest),
    ("library", libraries::library),
    ("wheel", libraries::wheel),
    ("debug-information", libraries::debug_information),
    ("header", libraries::header),
    ("shape-proto", calls::shape_proto),
    ("contract", calls::contract),
    ("recorded-call", calls::recorded_call),
    ("snapshot", libraries::snapshot),
];

/// The input as text; what is no UTF-8 is nothing that a command line passes on.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// An error says something, and a place in the text that is one.
fn check_error(text: &str, error: &xla_ffi_runtime::ParseError) {
    assert!(!error.message().is_empty());
    let span = error.span();
    assert!(
        span.start <= text.len() && text.is_char_boundary(span.start),
        "{error} begins inside of a character: {span:?}"
    );
    assert!(error.to_string().lines().count() == 3, "{error}");
}

/// The inputs that lie beside the targets: what the fuzzer begins with, and what broke a target once.
#[cfg(test)]
mod tests {
    use super::{TARGETS, Target};
    use std::path::Path;

    fn replay(folder: &str, (name, attack): &Target) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(folder)
            .join(name);
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let each = entries.map(|entry| {
            let file = entry.unwrap().path();
            // The name of the file comes before what the panic says.
            println!("{}", file.display());
            attack(&std::fs::read(&file).unwrap());
        });
        each.count()
    }

    #[test]
    fn what_broke_a_target_once_is_survived() {
        let replayed = TARGETS.iter().map(|target| replay("regressions", target));
        assert!(replayed.sum::<usize>() > 0, "there are no regressions");
    }

    #[test]
    fn every_target_has_a_corpus_and_survives_it() {
        for target in TARGETS {
            assert!(replay("corpus", target) > 0, "{} has no corpus", target.0);
        }
    }

    /// A folder that is named otherwise than a target would never be replayed.
    #[test]
    fn every_folder_is_a_targets() {
        for folder in ["corpus", "regressions", "words"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            for entry in std::fs::read_dir(root).unwrap() {
                let name = entry.unwrap().file_name();
                let known = TARGETS.iter().any(|target| name == target.0);
                assert!(known, "{folder}/{}", name.display());
            }
        }
    }
}
