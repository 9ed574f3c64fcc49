//! Compares the interfaces that `docs/stability.md` promises to keep with recorded lists, so that no change is
//! accidental.
//!
//! After an intended change, run `XLA_FFI_STABILITY=overwrite cargo test --test book` and add an entry to CHANGELOG.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(xla_ffi_testing::root().join(path)).unwrap()
}

/// Compares the current names of an interface with the recorded list, line by line.
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
        "{told}docs/stability.md lists what is kept. If this is meant: XLA_FFI_STABILITY=overwrite cargo test \
         --test book, and an entry in CHANGELOG"
    );
}

fn read(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns a header without its comments.
fn without_comments(header: &str) -> String {
    let mut plain = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let lines = plain.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns C code without comments and macro definitions.
fn declarations(header: &str) -> String {
    let mut goes_on = false;
    let plain = without_comments(header);
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

/// Returns the public names of C and C++ in a header.
///
/// - C: all names with our prefix; a macro's `xffi_attr_##suffix` is recorded as `xffi_attr_T`.
/// - C++: macros, and declarations at the start of a line outside of internal namespaces.
fn names(header: &str) -> BTreeSet<String> {
    let ident = |c: char| c == '_' || c.is_alphanumeric();
    let c = header
        .replace("##suffix##", "T")
        .replace("##suffix", "T")
        .replace("XFFI_R##", "");
    let words = c.split(|c| !ident(c));
    let ours = words.filter(|name| name.starts_with("xffi_") || name.starts_with("XFFI_"));
    let mut found: BTreeSet<_> = ours.map(str::to_owned).collect();
    let mut is_internal = !header.contains("namespace xla") && !header.contains("_NAMESPACE_BEGIN");
    for line in header.lines() {
        if let Some(name) = line.strip_prefix("#define XLA_") {
            let name = name.split(|c| !ident(c)).next().unwrap();
            found.extend((!name.starts_with("FFI_SDK_")).then(|| format!("XLA_{name}")));
            continue;
        }
        let namespace = line.strip_prefix("namespace ").unwrap_or("xla");
        is_internal |= !namespace.starts_with("xla") && !namespace.starts_with("match");
        is_internal |= line == "XLA_FFI_SDK_INTERNAL_BEGIN";
        is_internal &= !line.starts_with("}  ") && line != "XLA_FFI_SDK_INTERNAL_END";
        let head = line.split(['(', '{', ';', '=']).next().unwrap();
        let head = match line.split(' ').next().unwrap() {
            "class" | "struct" | "enum" => {
                head.split(" : ").next().unwrap().trim_end_matches(" final")
            }
            "using" if line.contains(" = ") => head,
            "const" | "inline" | "[[nodiscard]]" | "XLA_FFI_SDK_FN" | "XLA_FFI_SDK_HOT"
            | "XLA_FFI_SDK_COLD" => head,
            _ => continue,
        };
        let name = head.trim_end().rsplit(|c| !ident(c)).next().unwrap();
        if !is_internal && !head.contains("operator") && !head.trim_end().ends_with('>') {
            found.insert(name.to_owned());
        }
    }
    found.retain(|name| {
        !name.ends_with('_')
            && !name.contains("_is_packed_by_")
            && !name.starts_with("xla_ffi_sdk_")
    });
    found
}

/// Adds the public names of all headers of a folder, except those that mirror XLA's C API.
fn add_names(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_names(&path, found);
        } else if !path.to_string_lossy().ends_with("c_api.h") {
            found.extend(names(&without_comments(
                &std::fs::read_to_string(path).unwrap(),
            )));
        }
    }
}

#[test]
fn reference_of_the_headers() {
    let mut found = BTreeSet::new();
    add_names(&xla_ffi_testing::root().join("include"), &mut found);
    found.extend((0..xla_ffi_sys::Revision::ALL.len()).map(|number| format!("XFFI_R{number}")));
    // The first cell of a row contains names in backticks.
    let page = text("docs/reference.md");
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('|'));
    let listed = cells.flat_map(|(cell, _)| cell.split('`').step_by(2));
    let listed: BTreeSet<_> = listed.map(str::to_owned).collect();
    let missing: Vec<_> = found.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&found).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "docs/reference.md lacks {missing:?}; the headers lack {stale:?}"
    );
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

/// Returns the names that a source of `xla-ffi` re-exports, each prefixed with its module's name.
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
            module = format!("{own}{name}::");
        }
        if let Some((_, path)) = statement.rsplit_once("pub use ") {
            let names = path.rsplit("::").next().unwrap_or(path);
            let names = names.split([',', '{', '}']);
            let names = names.filter_map(|name| name.split_whitespace().last());
            let names = names.filter(|name| !name.starts_with("__"));
            found.extend(names.map(|name| format!("{module}{name}")));
        }
    }
    found
}

#[test]
fn names_of_the_handler_api() {
    let mut found = exports(&text("ffi/src/lib.rs"), "");
    found.extend(exports(&text("ffi/src/bind.rs"), "bind::"));
    found.extend(exports(&text("ffi/src/embed.rs"), "embed::"));
    for (module, source) in [("matching", "matching.rs"), ("shape", "declare/shape.rs")] {
        let mut is_hidden = false;
        for line in text(&format!("ffi/src/{source}")).lines() {
            is_hidden |= line == "#[doc(hidden)]";
            if let Some(item) = line.strip_prefix("pub ")
                && !std::mem::take(&mut is_hidden)
                && let Some(function) = item.strip_prefix("fn ")
            {
                let name = function.split(['(', '<']).next().unwrap();
                found.insert(format!("{module}::{name}"));
            }
        }
    }
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
