//! Checks the links of the pages, the promises of `docs/stability.md`, the layers of the crates, and the wording.

mod architecture;
mod stability;
mod wording;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn read(relative: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every link from the book's pages points to an existing file and heading.
#[test]
fn links_have_targets() {
    let mut waiting = vec![PathBuf::from("README.md"), PathBuf::from("docs/README.md")];
    let mut known = BTreeSet::new();
    while let Some(page) = waiting.pop() {
        for target in links(&read(&page)) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => page.clone(),
                _ => page.with_file_name(file),
            };
            let at = format!("{}: {target}", page.display());
            assert!(
                Path::new(env!("CARGO_MANIFEST_DIR")).join(&file).exists(),
                "{at}"
            );
            if file.extension().is_some_and(|it| it == "md") {
                assert!(
                    anchor.is_empty() || anchors(&read(&file)).contains(anchor),
                    "{at}"
                );
                let full = Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join(&file)
                    .canonicalize()
                    .unwrap();
                if known.insert(full) {
                    waiting.push(file);
                }
            }
        }
    }
    assert!(known.len() > 20, "{known:?}");
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut parts = text.split("```").step_by(2);
    std::iter::from_fn(move || parts.next()).flat_map(str::lines)
}

/// Returns the targets of a page's links within the checkout.
fn links(text: &str) -> Vec<String> {
    let all = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = all.map(|rest| rest.split([')', ' ']).next().unwrap_or_default());
    let own = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    own.map(str::to_owned).collect()
}

/// Returns the anchors of a page's headings, as GitHub generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}
