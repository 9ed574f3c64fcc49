//! The published crates build with the Rust that their `rust-version` names. Clippy's `incompatible_msrv` knows which
//! functions are newer, and no lint knows which syntax is: `if let … && …` (Rust 1.88) is the likely slip.

use crate::{cargo, jaxlibs};
use std::fs;
use std::path::Path;
use syn::visit::Visit;

/// Whether a condition contains `let … && …`.
struct Chain(bool);

impl<'ast> Visit<'ast> for Chain {
    fn visit_expr_binary(&mut self, pair: &'ast syn::ExprBinary) {
        let has_let = [&pair.left, &pair.right].map(|side| matches!(**side, syn::Expr::Let(_)));
        self.0 |= has_let.contains(&true) && matches!(pair.op, syn::BinOp::And(_));
        syn::visit::visit_expr_binary(self, pair);
    }
}

fn has_chain(text: &str) -> bool {
    let mut chain = Chain(false);
    chain.visit_file(&syn::parse_file(text).unwrap());
    chain.0
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
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
    assert!(has_chain("fn f() { while c && let Some(a) = b && a {} }"));
    assert!(!has_chain("fn f() { if let Some(a) = b { if c && a {} } }"));
    let mut found = Vec::new();
    let packages = cargo::metadata(&jaxlibs::root()).unwrap().packages;
    for package in packages.iter().filter(|package| package.publish.is_none()) {
        sources(&package.manifest_path.with_file_name("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}
