//! `docs/unsafe.md`: where the unsafe code lies, how much of it, and what each module keeps.
//!
//! The page has no line numbers and no text of the code, so that it changes only where unsafe code
//! comes or goes. What it asks of the code: an unsafe block or implementation says why it is sound
//! beside it, macro bodies included, which clippy does not see; a module with unsafe code says in its
//! documentation what it is.

mod tokens;

use crate::circles::members;
use crate::counts::Counts;
use crate::jaxlibs;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tokens::Found;

/// The page.
const PAGE: &str = "docs/unsafe.md";

/// Command line of `unsafe`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where the page is not what would be written.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    if args.check {
        let counts = check(&root)?;
        if counts.failed > 0 {
            bail!("{}", counts.failures.join("\n"));
        }
        println!("{PAGE} is fresh");
        return Ok(());
    }
    let (page, complaints) = page(&root)?;
    std::fs::write(root.join(PAGE), page).with_context(|| format!("writing {PAGE}"))?;
    println!("wrote {PAGE}");
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    Ok(())
}

/// The check: the page is fresh, and the code says what is asked of it.
pub(crate) fn check(root: &Path) -> Result<Counts> {
    let (page, complaints) = page(root)?;
    let committed = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let mut counts = Counts::one(committed == page);
    if committed != page {
        let stale = format!("{PAGE} is stale: run `cargo xtask unsafe` and commit it");
        counts.failures.push(stale);
    }
    counts.add(Counts {
        passed: usize::from(complaints.is_empty()),
        failed: complaints.len(),
        failures: complaints,
        ..Counts::default()
    });
    counts.failures.iter().for_each(|line| println!("{line}"));
    Ok(counts)
}

/// One crate: its folder, and its files that have unsafe code by path.
struct Crate<'a> {
    folder: &'a str,
    files: usize,
    forbids: bool,
    found: BTreeMap<PathBuf, Found>,
}

/// The page, and what the code lacks.
fn page(root: &Path) -> Result<(String, Vec<String>)> {
    let manifest =
        std::fs::read_to_string(root.join("Cargo.toml")).context("reading Cargo.toml")?;
    let mut crates = vec![];
    let mut complaints = vec![];
    for folder in members(&manifest) {
        let mut files = vec![];
        sources(&root.join(folder).join("src"), &mut files)?;
        if files.is_empty() {
            continue;
        }
        let mut found = BTreeMap::new();
        let mut forbids = false;
        for path in &files {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?;
            let file = tokens::read(&text)
                .with_context(|| format!("reading the tokens of {}", path.display()))?;
            forbids |= file.forbids;
            let shown = path.strip_prefix(root).unwrap_or(path).to_owned();
            complaints.extend(lacks(&shown, &file));
            if file.is_some() {
                found.insert(shown, file);
            }
        }
        crates.push(Crate {
            folder,
            files: files.len(),
            forbids,
            found,
        });
    }
    Ok((write(&crates)?, complaints))
}

/// All Rust files below a folder, sorted; none where there is no folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry.context("reading a folder")?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// What a file does not say though it has unsafe code.
fn lacks(path: &Path, file: &Found) -> Vec<String> {
    let path = path.display();
    let mut lacks: Vec<String> = file
        .unexplained
        .iter()
        .map(|line| format!("{path}:{line}: unsafe code without a comment `SAFETY:`"))
        .collect();
    if file.is_some() && file.doc.is_empty() {
        lacks.push(format!(
            "{path}: unsafe code in a module without documentation (`//!`)"
        ));
    }
    lacks
}

const HEAD: &str = "<!-- Written by `cargo xtask unsafe`; `cargo xtask test` asks for a fresh one. -->
# Unsafe code

Where the crates' own code is unsafe: the files below each `src`, without tests. Blocks are counted
where they are written, in macros too: what a macro writes into a user's crate is counted once, here.
What a module keeps is the first sentence of its documentation; the last column has the names that
its `SAFETY:` comments refer to, where a promise is kept in another place. Every unsafe block and
implementation has such a comment, and every module with unsafe code says what it is:
`cargo xtask unsafe --check` fails otherwise.

One promise is asked for in no signature: `Runtime::open` of the embedded runtime is safe, as starting another program is,
though it runs what the library is made of. What is named of it as a handler, a target or a type is called as one. A
child process does so first, so that most of what is none is told; the rest is the file's to answer for, not the code's
that opened it.

";

fn write(crates: &[Crate<'_>]) -> Result<String> {
    let mut page = HEAD.to_owned();
    page +=
        "| crate | files | with unsafe code | blocks | functions | implementations | traits |\n";
    page += "|---|---|---|---|---|---|---|\n";
    for one in crates {
        let sum = |count: fn(&Found) -> usize| one.found.values().map(count).sum::<usize>();
        let forbids = if one.forbids {
            " (`forbid(unsafe_code)`)"
        } else {
            ""
        };
        writeln!(
            page,
            "| `{}`{forbids} | {} | {} | {} | {} | {} | {} |",
            one.folder,
            one.files,
            one.found.len(),
            sum(|found| found.blocks),
            sum(|found| found.functions),
            sum(|found| found.impls),
            sum(|found| found.traits),
        )?;
    }
    for one in crates.iter().filter(|one| !one.found.is_empty()) {
        writeln!(page, "\n## `{}`\n", one.folder)?;
        page += "| module | blocks | functions | impls | traits | what it is | refers to |\n";
        page += "|---|---|---|---|---|---|---|\n";
        for (path, found) in &one.found {
            let path = path.strip_prefix(one.folder).unwrap_or(path);
            let path = path.strip_prefix("src").unwrap_or(path);
            let names: Vec<_> = found.names.iter().map(|name| format!("`{name}`")).collect();
            writeln!(
                page,
                "| `{}` | {} | {} | {} | {} | {} | {} |",
                path.display(),
                found.blocks,
                found.functions,
                found.impls,
                found.traits,
                found.doc.replace('|', "\\|"),
                names.join(", ").replace('|', "\\|"),
            )?;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_must_say_is_asked_of_it() {
        let path = Path::new("a.rs");
        let ask = |text: &str| lacks(path, &tokens::read(text).unwrap());
        assert_eq!(ask("fn f() {}"), [""; 0]);
        assert_eq!(
            ask("fn f() {\n    unsafe { g() }\n}"),
            [
                "a.rs:2: unsafe code without a comment `SAFETY:`",
                "a.rs: unsafe code in a module without documentation (`//!`)"
            ]
        );
        let whole = "//! What it is.\nfn f() {\n    // SAFETY: none.\n    unsafe { g() }\n}";
        assert_eq!(ask(whole), [""; 0]);
    }
}
