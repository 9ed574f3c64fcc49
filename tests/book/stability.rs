//! What `docs/stability.md` promises to keep, as it was written down: a change of it is made on purpose.
//!
//! After such a change: `XLA_FFI_STABILITY=overwrite cargo test --test book`, and an entry in CHANGELOG.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(xla_ffi_testing::root().join(path)).unwrap()
}

/// Compares with what was written down, line by line.
fn compare(name: &str, now: &BTreeSet<String>) {
    let path = xla_ffi_testing::root().join("tests/stability").join(name);
    if std::env::var_os("XLA_FFI_STABILITY").is_some_and(|value| value == "overwrite") {
        let lines: Vec<_> = now.iter().map(String::as_str).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        return;
    }
    let was: BTreeSet<String> = read(&path);
    let mut told = String::new();
    for line in was.difference(now) {
        let _ = writeln!(told, "gone, which breaks programs: {line}");
    }
    for line in now.difference(&was) {
        let _ = writeln!(told, "new, and kept from now on: {line}");
    }
    assert!(
        told.is_empty(),
        "{told}docs/stability.md says what is kept. If this is meant: XLA_FFI_STABILITY=overwrite cargo test \
         --test book, and an entry in CHANGELOG"
    );
}

fn read(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// C without comments, and without the lines of macros.
fn declarations(header: &str) -> String {
    let mut plain = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let mut goes_on = false;
    let kept = plain.lines().filter(|line| {
        let is_macro = goes_on || line.starts_with('#');
        goes_on = is_macro && line.ends_with('\\');
        !is_macro
    });
    kept.collect::<Vec<_>>().join(" ")
}

#[test]
fn functions_of_the_embedded_runtime() {
    let mut found = BTreeSet::new();
    for header in ["runtime.h", "program.h", "pjrt.h", "invocation.h"] {
        let all = declarations(&text(&format!("include/xla_ffi/{header}")));
        for declaration in all.split([';', '{', '}']) {
            let declaration = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
            if declaration.contains("xffi_rt_") && declaration.ends_with(')') {
                found.insert(declaration);
            }
        }
    }
    assert!(found.len() > 60, "{} functions", found.len());
    compare("runtime.txt", &found);
}

#[test]
fn functions_and_macros_for_handlers_in_c() {
    let mut found = BTreeSet::new();
    for header in [
        "attribute.h",
        "call.h",
        "cancellation.h",
        "context.h",
        "future.h",
        "handler.h",
        "host.h",
        "legacy/adapt.h",
        "manifest.h",
        "on_load.h",
        "platform.h",
        "shape.h",
        "state.h",
        "text.h",
    ] {
        let header = text(&format!("include/xla_ffi/{header}"));
        for line in header.lines() {
            let name = match line.strip_prefix("#define ") {
                Some(defined) => defined.split([' ', '(']).next(),
                None if line.starts_with("XFFI_") || line.starts_with("static inline") => line
                    .split('(')
                    .next()
                    .and_then(|head| head.split([' ', '*']).next_back()),
                None => None,
            };
            let is_ours = |name: &&str| {
                let public = name.starts_with("xffi_") || name.starts_with("XFFI_");
                public && !name.ends_with('_') && !name.contains("_H")
            };
            found.extend(name.filter(is_ours).map(str::to_owned));
        }
    }
    assert!(found.len() > 80, "{} names", found.len());
    let pages = text("docs/c.md") + &text("docs/legacy.md");
    let words: BTreeSet<_> = pages
        .split(|c: char| c != '_' && !c.is_alphanumeric())
        .collect();
    let is_undocumented = |name: &&String| !words.contains(name.as_str());
    let undocumented: Vec<_> = found.iter().filter(is_undocumented).collect();
    assert!(undocumented.is_empty(), "docs/c.md lacks {undocumented:?}");
    compare("handlers.txt", &found);
}

#[test]
fn keys_of_the_manifest() {
    let mut found = BTreeSet::new();
    let source = text("ffi/src/declare/manifest.rs");
    let code = source.split("#[cfg(test)]").next().unwrap();
    for part in code
        .split("\\\":")
        .collect::<Vec<_>>()
        .split_last()
        .unwrap()
        .1
    {
        let key = part.rsplit("\\\"").next().unwrap();
        found.insert(key.to_owned());
    }
    assert!(found.contains("handlers") && found.len() > 20, "{found:?}");
    let version = xla_ffi_sys::manifest::VERSION;
    found.insert(format!("the format's version: {version}"));
    compare("manifest.txt", &found);
}

/// The names that a source of `xla-ffi` re-exports, each behind its module's.
fn exports(source: &str, own: &str) -> BTreeSet<String> {
    let public = source.split("pub mod __private").next().unwrap_or("");
    let code = public
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join(" ");
    let (mut found, mut module) = (BTreeSet::new(), own.to_owned());
    for statement in code.split(';') {
        if statement.trim_start().starts_with('}') {
            own.clone_into(&mut module);
        }
        if let Some((name, _)) = statement
            .rsplit_once("pub mod ")
            .and_then(|(_, rest)| rest.split_once(" {"))
        {
            module = format!("{name}::");
        }
        if let Some((_, path)) = statement.rsplit_once("pub use ") {
            let names = path.rsplit("::").next().unwrap_or(path);
            let names = names.split([',', '{', '}']);
            let names = names.filter_map(|name| name.split_whitespace().last());
            found.extend(names.map(|name| format!("{module}{name}")));
        }
    }
    found
}

#[test]
fn names_of_the_handler_api() {
    let mut found = exports(&text("ffi/src/lib.rs"), "");
    found.extend(exports(&text("ffi/src/bind.rs"), "bind::"));
    assert!(found.len() > 80, "{} names", found.len());
    compare("rust.txt", &found);
}

#[test]
fn names_of_the_python_package() {
    let source = text("python/xla_ffi/__init__.py");
    let (_, list) = source.split_once("__all__ = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let names = list.split(',').map(|name| name.trim().trim_matches('"'));
    let found: BTreeSet<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    assert!(found.contains("load"), "{found:?}");
    compare("python.txt", &found);
}
