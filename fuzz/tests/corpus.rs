//! The inputs that lie beside the targets: what the fuzzer begins with, and what broke a target once.

use std::path::{Path, PathBuf};
use xla_ffi_fuzz::{TARGETS, Target};

/// The files of a target; none where it has no folder.
fn files(folder: &str, target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(target.name);
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn replay(folder: &str, target: &Target) -> usize {
    let files = files(folder, target);
    for file in &files {
        let input = std::fs::read(file).unwrap();
        // The name of the file comes before what the panic says.
        println!("{}", file.display());
        target.run(&input);
    }
    files.len()
}

#[test]
fn what_broke_a_target_once_is_survived() {
    let count: usize = TARGETS
        .iter()
        .map(|target| replay("regressions", target))
        .sum();
    assert!(count > 0, "there are no regressions");
}

#[test]
fn every_target_has_a_corpus_and_survives_it() {
    for target in TARGETS {
        assert!(
            replay("corpus", target) > 0,
            "{} has no corpus",
            target.name
        );
    }
}

/// What changes inputs by their structure changes each, by the seed alone, and takes whatever comes.
#[test]
fn what_is_changed_is_survived() {
    for target in TARGETS {
        for file in files("corpus", target) {
            let mut input = std::fs::read(&file).unwrap();
            for seed in 0..200 {
                let changed = target.change(&input, seed);
                assert_eq!(changed, target.change(&input, seed));
                input = changed.unwrap_or(input);
                input.truncate(1 << 14);
                target.run(&input);
            }
        }
    }
}

/// Half of the time, for the targets that know a structure.
#[test]
fn inputs_are_changed_by_their_structure() {
    for name in [
        "manifest",
        "library",
        "wheel",
        "debug-information",
        "contract",
        "recorded-call",
        "snapshot",
    ] {
        let target = Target::find(name).unwrap();
        for file in files("corpus", &target) {
            let input = std::fs::read(&file).unwrap();
            let changed = (0..200).filter(|seed| target.change(&input, *seed).is_some());
            assert!(changed.count() > 20, "{}", file.display());
        }
    }
}

/// A folder that is named otherwise than a target would never be replayed.
#[test]
fn every_folder_is_a_targets() {
    for folder in ["corpus", "regressions", "words"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(root).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(Target::find(&name).is_some(), "{folder}/{name}");
        }
    }
}
