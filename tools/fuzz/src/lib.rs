//! Fuzz targets for parsers of external text and files, one per parser.
//!
//! For every input, a parser must return a value or an error, and printed values must parse again. `cargo xtask soak`
//! runs a fuzzer over the targets with limits on time and memory. The tests of this crate replay inputs that failed
//! before.

mod calls;
mod libraries;
mod values;

/// A fuzz target: a name, and a function that reads an input and panics if a checked property does not hold.
///
/// The name is also the name of the target's folders and the argument of `cargo xtask soak NAME`.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets.
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

/// Returns the input as text; `None` if the input is not UTF-8 and therefore cannot be on a command line.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// Checks that an error has a message and a valid position in the text.
fn check_error(text: &str, error: &xla_ffi_runtime::ParseError) {
    assert!(!error.message().is_empty());
    let span = error.span();
    assert!(
        span.start <= text.len() && text.is_char_boundary(span.start),
        "{error} begins inside of a character: {span:?}"
    );
    assert!(error.to_string().lines().count() == 3, "{error}");
}

/// Replays the inputs in the folders next to `src`: the initial corpus, and inputs that failed before.
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
            // Prints the file name first, so that the name precedes a possible panic message.
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

    /// Tests that every folder is named after a target. The inputs of other folders would never be replayed.
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
