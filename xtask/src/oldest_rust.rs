//! The published crates build with the Rust that their `rust-version` names. Clippy's `incompatible_msrv` knows
//! which functions are younger, and no lint knows which syntax is: of that, conditions that go on behind a
//! `let` (Rust 1.88) are what one writes without noticing.

use crate::{cargo, jaxlibs};
use std::fs;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// Conditions `let … && …`.
#[derive(Default)]
struct Chains(Vec<usize>);

impl<'ast> Visit<'ast> for Chains {
    fn visit_expr_binary(&mut self, pair: &'ast syn::ExprBinary) {
        let has_let = [&pair.left, &pair.right]
            .iter()
            .any(|side| matches!(***side, syn::Expr::Let(_)));
        if has_let && matches!(pair.op, syn::BinOp::And(_)) {
            self.0.push(pair.op.span().start().line);
        }
        syn::visit::visit_expr_binary(self, pair);
    }
}

fn chains(text: &str) -> Vec<usize> {
    let mut chains = Chains::default();
    chains.visit_file(&syn::parse_file(text).unwrap());
    chains.0
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.extend(
                chains(&text)
                    .iter()
                    .map(|line| format!("{}:{line}", path.display())),
            );
        }
    }
}

#[test]
fn chains_are_seen() {
    assert_eq!(chains("fn f() { if let Some(a) = b\n && c {} }"), [2]);
    assert_eq!(chains("fn f() { while c && let Some(a) = b && a {} }"), [1]);
    assert!(chains("fn f() { if let Some(a) = b { if c && a {} } }").is_empty());
}

#[test]
fn published_crates_keep_to_syntax_of_their_rust_version() {
    let mut found = Vec::new();
    let root = jaxlibs::root();
    let packages = cargo::metadata(&root).unwrap().packages;
    for package in packages.iter().filter(|package| package.publish.is_none()) {
        sources(&package.manifest_path.with_file_name("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}
