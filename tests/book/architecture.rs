//! Checks that the folders of `xla-ffi` and of the runtime form layers: each folder uses only folders of lower layers.
//!
//! To list the dependencies, run `cargo test --test book architecture -- --nocapture`. docs/maintaining/architecture.md
//! describes the folders.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Folders of `xla-ffi`, from the top layer down.
const FFI: &str =
    "embed entry declare bind cuda context future attribute matching operand param frame error";
const RUNTIME: &str =
    "internal legacy call api handler context host frame text value device process";

/// Adds `FOLDER MODULE` for each module that the sources in a folder name by a path from the crate root.
fn read(folder: Option<&str>, path: &Path, uses: &mut BTreeSet<String>) {
    for entry in fs::read_dir(path).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let folder = folder.unwrap_or(&stem);
        if path.is_dir() {
            read(Some(folder), &path, uses);
        } else if folder != "lib" {
            // Exported macros name public items through `$crate`, which is not a dependency between folders.
            let text = fs::read_to_string(&path)
                .expect("a source")
                .replace("$crate::", "");
            let code = text
                .lines()
                .map(|line| line.split("//").next().unwrap_or(""));
            for path in code.flat_map(|line| line.split("crate::").skip(1)) {
                let end = path.find(|c: char| c != '_' && !c.is_alphanumeric());
                uses.insert(format!("{folder} {}", &path[..end.unwrap_or(path.len())]));
            }
            assert!(!text.contains("super::super::"), "{}", path.display());
        }
    }
}

fn check(crate_folder: &str, layers: &str) {
    let rank = |name: &str| layers.split(' ').position(|layer| layer == name);
    let mut uses = BTreeSet::new();
    let sources = xla_ffi_testing::root().join(crate_folder).join("src");
    read(None, &sources, &mut uses);
    assert!(uses.len() > 20, "{}", sources.display());
    for pair in uses {
        let (folder, module) = pair.split_once(' ').expect("two names");
        // Modules that are internal to macros start with two underscores.
        if folder != module && !module.starts_with("__") {
            println!("{folder} -> {module}");
            let is_below = rank(folder).is_some_and(|own| Some(own) < rank(module));
            assert!(is_below, "{folder} uses {module}, no layer below it");
        }
    }
}

#[test]
fn folders_use_only_lower_layers() {
    check("ffi", FFI);
    check("runtime", RUNTIME);
}
