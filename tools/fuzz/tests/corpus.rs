//! The inputs that lie beside the targets: what the fuzzer begins with, and what broke a target once.

use std::path::Path;
use xla_ffi_fuzz::{TARGETS, Target};

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
