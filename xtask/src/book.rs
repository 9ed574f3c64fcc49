//! `cargo xtask book`: the book as a site, with search, and the API's documentation beside it.
//!
//! The pages are the Markdown files as they lie in the repository, at the same places, so that a link which works
//! there works in the site; what they link to besides is copied. A link or an anchor that leads nowhere is an error.

use crate::cargo::{cargo, metadata};
use crate::tally::{self, Counts, Format, Log};
use crate::venv::{self, Venv};
use crate::{jaxlibs, python, ui, uv};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The book alone, without the documentation of the crates.
    #[arg(long)]
    no_api: bool,
}

/// Where readers begin, and the list of chapters.
const HOME: &str = "README.md";
const CHAPTERS: &str = "docs/README.md";
/// The page that leads to the documentation of the crates.
const API: &str = "api.md";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let mut log = Log::default();
    let venv = venv::newest()?;
    let counts = build(&root, &venv, &uv::for_book(&venv)?, &mut log)?;
    ensure!(counts.failures.is_empty(), "the site was not made:\n{log}");
    let site = root.join("target/book/site");
    if !args.no_api {
        let status = cargo(&root)
            .args(["doc", "--quiet", "--workspace", "--no-deps"])
            .status()
            .context("starting cargo doc")?;
        ensure!(status.success(), "cargo doc failed");
        copy_all(&root.join("target/doc"), &site.join("api"))?;
    }
    ui::note(format_args!("{}", site.join("index.html").display()));
    Ok(())
}

/// Makes the site; a page's dead link fails it.
pub(crate) fn build(root: &Path, venv: &Venv, packages: &Path, log: &mut Log) -> Result<Counts> {
    let place = root.join("target/book");
    let pages = place.join("pages");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| pages.display().to_string())?;
    }
    gather(root, &pages)?;
    fs::write(pages.join(API), api(root)?)?;
    let config = place.join("mkdocs.yml");
    let chapters = fs::read_to_string(root.join(CHAPTERS)).context(CHAPTERS)?;
    fs::write(&config, settings(&chapters)).with_context(|| config.display().to_string())?;
    let mut command = Command::new(&venv.python);
    command
        .args(["-m", "mkdocs", "build", "--strict", "--config-file"])
        .arg(&config)
        .env("PYTHONPATH", packages)
        // The theme's authors advertise another tool of theirs on every run.
        .env("NO_MKDOCS_2_WARNING", "1");
    python::keep_bytecode(&mut command);
    tally::run(Format::Whole, "book", &mut command, log)
}

/// Copies the pages and all that they link to, beginning at the home page and the list of chapters.
fn gather(root: &Path, pages: &Path) -> Result<()> {
    let mut waiting = vec![PathBuf::from(HOME), PathBuf::from(CHAPTERS)];
    let mut known: BTreeSet<PathBuf> = waiting.iter().cloned().collect();
    while let Some(page) = waiting.pop() {
        let from = root.join(&page);
        let to = pages.join(&page);
        let folder = to.parent().context("a page lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        if from.is_dir() {
            copy_all(&from, &to)?;
            continue;
        }
        let linked = || format!("{}, which a page links to", from.display());
        if page.extension().is_none_or(|extension| extension != "md") {
            fs::copy(&from, &to).with_context(linked)?;
            continue;
        }
        let text = fs::read_to_string(&from).with_context(linked)?;
        fs::write(&to, with_plain_fences(&text)).with_context(|| to.display().to_string())?;
        for target in links(&text) {
            let Some(target) = beside(&page, target) else {
                continue;
            };
            if known.insert(target.clone()) {
                waiting.push(target);
            }
        }
    }
    Ok(())
}

/// A page whose code begins with its language alone: behind a comma stands what rustdoc is to do with it, and
/// MkDocs takes such a line for text.
fn with_plain_fences(text: &str) -> String {
    let plain = text.lines().map(|line| match line.split_once(',') {
        Some((fence, _)) if line.trim_start().starts_with("```") => fence,
        _ => line,
    });
    plain.flat_map(|line| [line, "\n"]).collect()
}

/// The files that a page links to, as it writes them: no other sites, no anchors.
fn links(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = vec![];
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Behind each `](` stands a target.
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target);
            }
        }
    }
    found
}

/// The place in the repository of what a page names relative to itself; `None` outside of it.
fn beside(page: &Path, target: &str) -> Option<PathBuf> {
    let mut place = page.parent()?.to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                if !place.pop() {
                    return None;
                }
            }
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(place)
}

/// What MkDocs is told: the chapters in the order of their list.
fn settings(chapters: &str) -> String {
    let mut text = String::from(
        "site_name: XLA custom calls\n\
         docs_dir: pages\n\
         site_dir: site\n\
         use_directory_urls: false\n\
         # Some links lead to files whose names begin with a dot.\n\
         exclude_docs: \"!.*\"\n\
         theme:\n  name: material\n  font: false\n  features: [navigation.footer, content.code.copy]\n\
         plugins: [search]\n\
         markdown_extensions: [tables, fenced_code, toc]\n\
         validation:\n  omitted_files: ignore\n  not_found: warn\n  anchors: warn\n  unrecognized_links: warn\n\
         nav:\n",
    );
    let _ = writeln!(text, "  - Begin here: {HOME}");
    for line in chapters.lines().filter(|line| line.starts_with("| [")) {
        // One row may name several chapters: [Handlers in C](c.md) and [in C++](cpp.md).
        for part in line.split('[').skip(1) {
            let Some((title, rest)) = part.split_once("](") else {
                continue;
            };
            if let Some((file, _)) = rest.split_once(')')
                && file.ends_with(".md")
            {
                let _ = writeln!(text, "  - {title:?}: docs/{file}");
            }
        }
    }
    let _ = writeln!(text, "  - API of the crates: {API}");
    text
}

/// The page that leads to the documentation of each crate that is published.
fn api(root: &Path) -> Result<String> {
    let mut text = String::from("# API of the crates\n\n");
    for package in metadata(root)?.packages {
        if package.publish.is_some_and(|places| places.is_empty()) {
            continue;
        }
        let name = package.name.replace('-', "_");
        let _ = writeln!(
            text,
            "* <a href=\"api/{name}/index.html\">{}</a>",
            package.name
        );
    }
    Ok(text)
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), &place).with_context(|| place.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_links_to() {
        let text = "See [a](a.md#part) and [b](../b/c.rs), not [d](https://d.org/x.md).\n```\nm[i](e.md)\n```\n";
        assert_eq!(links(text), ["a.md", "../b/c.rs"]);
        let page = Path::new("docs/page.md");
        assert_eq!(beside(page, "../b/c.rs").unwrap(), Path::new("b/c.rs"));
        assert_eq!(beside(page, "../../outside.md"), None);
    }
}
