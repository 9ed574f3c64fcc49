//! Files that import each other in a circle: a few may lean on each other, a knot may not.
//!
//! Arrows are the `crate::` and `super::` paths of the code outside tests, wherever they stand,
//! macros included. A path leads to the file that defines what it names: re-exports are followed.

mod module;

use crate::counts::Counts;
use crate::jaxlibs;
use anyhow::{Context, Result};
use module::Modules;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// As many files may lean on each other.
const LIMIT: usize = 3;

/// Command line of `circles`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Tell which arrows hold each circle, small ones too.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    for (name, arrows) in crates(&root)? {
        let files: BTreeSet<&PathBuf> = arrows.iter().flat_map(|(from, to)| [from, to]).collect();
        println!("{name}: {} files, {} arrows", files.len(), arrows.len());
        for circle in circles(&arrows) {
            if circle.len() > LIMIT || args.all {
                tell(&root, &circle, &arrows);
            }
        }
    }
    Ok(())
}

/// The check: every crate is one, a circle of more than [`LIMIT`] files fails it.
pub(crate) fn check(root: &Path) -> Result<Counts> {
    let mut counts = Counts::default();
    for (name, arrows) in crates(root)? {
        let knots: Vec<_> = circles(&arrows)
            .into_iter()
            .filter(|circle| circle.len() > LIMIT)
            .collect();
        if !knots.is_empty() {
            println!("{name}: more than {LIMIT} files import each other");
            knots.iter().for_each(|knot| tell(root, knot, &arrows));
        }
        counts.passed += usize::from(knots.is_empty());
        counts.failed += usize::from(!knots.is_empty());
    }
    Ok(counts)
}

fn tell(root: &Path, circle: &BTreeSet<PathBuf>, arrows: &Arrows) {
    let shown = |path: &Path| {
        path.strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    println!("  a circle of {} files:", circle.len());
    for (from, to) in arrows {
        if circle.contains(from) && circle.contains(to) {
            println!("    {} -> {}", shown(from), shown(to));
        }
    }
}

type Arrows = BTreeSet<(PathBuf, PathBuf)>;

/// The arrows of each library and program of the workspace.
fn crates(root: &Path) -> Result<BTreeMap<String, Arrows>> {
    let manifest =
        std::fs::read_to_string(root.join("Cargo.toml")).context("reading Cargo.toml")?;
    let mut crates = BTreeMap::new();
    for member in members(&manifest) {
        for start in ["src/lib.rs", "src/main.rs"] {
            let start = root.join(member).join(start);
            if start.is_file() {
                let modules = Modules::read(&start)?;
                crates.insert(member.to_owned(), modules.arrows());
            }
        }
    }
    anyhow::ensure!(!crates.is_empty(), "Cargo.toml names no members");
    Ok(crates)
}

/// The members that the root manifest lists.
pub(crate) fn members(manifest: &str) -> Vec<&str> {
    let list = manifest
        .split_once("members = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).collect()
}

/// The sets of more than one file in which each is reached from each.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<PathBuf>> {
    let mut next: BTreeMap<&PathBuf, Vec<&PathBuf>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().push(to);
    }
    let reached = |start: &PathBuf| -> BTreeSet<PathBuf> {
        let mut seen = BTreeSet::new();
        let mut left = vec![start];
        while let Some(file) = left.pop() {
            for to in next.get(file).into_iter().flatten() {
                if seen.insert((*to).clone()) {
                    left.push(to);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        next.keys().map(|file| (*file, reached(file))).collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = all
        .iter()
        .filter(|(file, reached)| reached.contains(**file))
        .map(|(file, reached)| {
            let back = |other: &&PathBuf| all.get(other).is_some_and(|set| set.contains(*file));
            reached.iter().filter(back).cloned().collect()
        })
        .filter(|circle: &BTreeSet<PathBuf>| circle.len() > 1)
        .collect();
    circles.sort();
    circles.dedup();
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found() {
        let arrow = |from: &str, to: &str| (PathBuf::from(from), PathBuf::from(to));
        let arrows = Arrows::from([
            arrow("a", "b"),
            arrow("b", "c"),
            arrow("c", "a"),
            arrow("c", "d"),
            arrow("d", "e"),
            arrow("e", "d"),
            arrow("e", "f"),
        ]);
        let circle = |files: &[&str]| files.iter().map(PathBuf::from).collect();
        let want: [BTreeSet<PathBuf>; 2] = [circle(&["a", "b", "c"]), circle(&["d", "e"])];
        assert_eq!(circles(&arrows), want);
    }

    #[test]
    fn the_manifest_lists_members() {
        let text = "[workspace]\nmembers = [\"a\", \"b/c\"]\n";
        assert_eq!(members(text), ["a", "b/c"]);
    }
}
