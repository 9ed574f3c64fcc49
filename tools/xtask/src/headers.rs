//! `cargo xtask headers [--check]` generates the C headers in `include/`, and the facts for C++ and Python.
//!
//! The task generates the text from the reflection data and doc comments of ffi-sys.

mod facts;
mod template;

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use xla_ffi_abi::model::Header;

/// Command line of `headers`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail if a committed file is outdated, instead of writing it.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = crate::folders::checkout();
    let files = generate(&root)?;
    if args.check {
        return check(&root, &files);
    }
    for (path, text) in files {
        let file = root.join(&path);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Returns an error if a file in `root` differs from the generated text.
fn check(root: &Path, files: &[(PathBuf, String)]) -> Result<()> {
    let stale: Vec<String> = files
        .iter()
        .filter(|(path, text)| {
            std::fs::read_to_string(root.join(path)).unwrap_or_default() != *text
        })
        .map(|(path, _)| path.display().to_string())
        .collect();
    ensure!(
        stale.is_empty(),
        "stale: {}; run `cargo xtask headers` and commit the result",
        stale.join(", ")
    );
    Ok(())
}

/// Returns the path within the repository and the text of each generated file.
fn generate(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let entries = read_docs(&root.join("ffi-sys/src"))?;
    let headers = Header::ALL.map(|header| {
        let path = Path::new("include/xla/ffi/api").join(header.file_name());
        (path, template::render(header, &entries))
    });
    let version = crate::version::current(root)?;
    let facts = [
        ("include/xla_ffi/facts.h", facts::c(&version)),
        ("python/xla_ffi/_facts.py", facts::python()),
    ];
    let facts = facts.map(|(path, text)| (PathBuf::from(path), text));
    Ok(headers.into_iter().chain(facts).collect())
}

/// The documentation of an item in the source: a struct, enumeration, constant or type (`NAME`), a field
/// (`STRUCT.FIELD`), or an enumerator.
#[derive(Default)]
struct Entry {
    /// The lines of the doc comment, adapted for C.
    docs: Vec<String>,
    /// The parameter names of a field that is a function.
    parameters: Vec<String>,
}

type Entries = BTreeMap<String, Entry>;

/// Reads the documentation of all items in the source files of ffi-sys.
fn read_docs(folder: &Path) -> Result<Entries> {
    let mut entries = Entries::new();
    for file in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        add(&std::fs::read_to_string(file?.path())?, &mut entries);
    }
    Ok(entries)
}

fn add(text: &str, entries: &mut Entries) {
    let (mut docs, mut owner, mut key) = (vec![], String::new(), String::new());
    let mut in_attribute = false;
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(plain(doc));
        } else if in_attribute || line.starts_with("#[") {
            in_attribute = !line.ends_with(']');
        } else if docs.is_empty() {
            // The declaration of a function field may continue on this line.
            if let Some(entry) = entries.get_mut(&key) {
                entry.parameters.extend(parameters(line));
            }
            if line.starts_with('}') {
                key.clear();
            }
        } else {
            let mut item = line.replace("r#", "");
            for word in ["pub ", "struct ", "type ", "const "] {
                item = item.strip_prefix(word).unwrap_or(&item).to_owned();
            }
            let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let name = item.split(is_end).next().unwrap_or_default();
            let declares = ["pub struct ", "pub type "]
                .iter()
                .any(|it| line.starts_with(it));
            let is_in_macro = !line.starts_with("pub ") && name.starts_with("XLA_FFI_");
            key = match declares || is_in_macro {
                true => name.to_owned(),
                false => format!("{owner}{name}"),
            };
            if line.starts_with("pub struct ") {
                owner = format!("{name}.");
            } else if let Some((_, prefix)) = line.split_once(", \"") {
                owner = prefix.trim_end_matches("\" {").to_owned();
            }
            let docs = std::mem::take(&mut docs);
            let parameters = match item.contains("fn(") {
                true => parameters(&item),
                false => vec![],
            };
            entries.insert(key.clone(), Entry { docs, parameters });
        }
    }
}

/// Returns the parameter names, which precede colons, in a function type or in one line of it.
fn parameters(line: &str) -> Vec<String> {
    let line = line.split_once("fn(").map_or(line, |(_, rest)| rest);
    let names = line.split(',').filter_map(|one| one.split_once(": "));
    let names = names.map(|(name, _)| name.trim().trim_end_matches('_'));
    names.map(str::to_owned).collect()
}

/// Returns a line of a doc comment without Rust's links: `[X](crate::X)` becomes X.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, behind) = link.split_once("`]").unwrap_or((link, ""));
        out.extend([before, name]);
        rest = match behind.strip_prefix("(crate::") {
            Some(target) => target.split_once(')').map_or("", |(_, rest)| rest),
            None => behind,
        };
    }
    out.push_str(rest);
    out.replace('`', "").replace('–', "-")
}
