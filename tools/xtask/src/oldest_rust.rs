//! The published crates build with the Rust that their `rust-version` names. Clippy's `incompatible_msrv` knows which
//! functions are newer, and no lint knows which syntax is: `if let … && …` (Rust 1.88) is the likely slip.

use crate::{cargo, jaxlibs};
use std::fs;
use std::path::Path;

/// Whether a condition contains `let … && …`.
fn has_chain(text: &str) -> bool {
    let begins_with_let = ["if let ", "while let "].iter().any(|words| {
        text.split(words).skip(1).any(|rest| {
            let condition = rest.split(" {\n").next().unwrap_or_default();
            let mut depth = 0;
            condition.match_indices(['(', ')', '&']).any(|(at, sign)| {
                depth += i32::from(sign == "(") - i32::from(sign == ")");
                depth == 0 && condition[at..].starts_with("&& ")
            })
        })
    });
    begins_with_let || text.contains("&& let ")
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && has_chain(&fs::read_to_string(&path).unwrap())
        {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn published_crates_keep_to_syntax_of_their_rust_version() {
    assert!(has_chain("while c && let Some(a) = b && a {\n"));
    assert!(has_chain("if let Some(a) = b\n    && a\n{\n"));
    assert!(!has_chain(
        "if let Some(a) = b(|c| c && d) {\n if c && a {\n"
    ));
    let mut found = Vec::new();
    let packages = cargo::metadata(&jaxlibs::root()).unwrap().packages;
    for package in packages.iter().filter(|package| package.publish.is_none()) {
        sources(&package.manifest_path.with_file_name("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}
