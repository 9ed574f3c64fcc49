//! Finds the libraries that one needs, as the dynamic linker does.

use super::{Facts, Needed, System, bytes, read};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Libraries followed through the libraries that they need.
const DEPTH: usize = 256;

/// What the libraries that one needs provide, found as the dynamic linker finds them.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Where each needed library lies.
    pub found: BTreeMap<String, PathBuf>,
    /// Libraries that are nowhere, and who needs them.
    pub missing: BTreeMap<String, String>,
    exports: BTreeSet<String>,
}

impl Surroundings {
    /// Follows what the library at `path` needs. Of a library for another machine nothing is found and nothing missing,
    /// and neither of one for macOS or Windows, whose own libraries are no files or tell no exports.
    #[must_use]
    pub fn of(path: &Path, facts: &Facts) -> Self {
        let mut surroundings = Self::default();
        if !Self::follows(facts) {
            return surroundings;
        }
        let system = system_folders();
        let folder = |path: &Path| {
            std::path::absolute(path)
                .ok()
                .and_then(|path| path.parent().map(Path::to_owned))
                .unwrap_or_default()
        };
        let own = search_folders(&facts.search, &folder(path));
        let mut queue: Vec<(String, String, Vec<PathBuf>)> = facts
            .needs
            .iter()
            .map(|name| (name.clone(), path.display().to_string(), own.clone()))
            .collect();
        while let Some((name, by, folders)) = queue.pop() {
            if surroundings.found.contains_key(&name)
                || surroundings.missing.contains_key(&name)
                || surroundings.found.len() >= DEPTH
            {
                continue;
            }
            let candidates: Vec<PathBuf> = if name.contains('/') {
                vec![PathBuf::from(&name)]
            } else {
                folders
                    .iter()
                    .chain(&system)
                    .map(|folder| folder.join(&name))
                    .collect()
            };
            // A file of another machine is passed over, as the dynamic linker does.
            let hit = candidates.into_iter().find_map(|candidate| {
                let found = read(&candidate, &bytes(&candidate).ok()?).ok()?;
                (found.machine == facts.machine).then_some((candidate, found))
            });
            match hit {
                Some((candidate, facts)) => {
                    let mut inner = search_folders(&facts.search, &folder(&candidate));
                    inner.extend(folders);
                    queue.extend(
                        facts
                            .needs
                            .into_iter()
                            .map(|next| (next, candidate.display().to_string(), inner.clone())),
                    );
                    surroundings.exports.extend(facts.exports);
                    surroundings.found.insert(name, candidate);
                }
                None => {
                    surroundings.missing.insert(name, by);
                }
            }
        }
        surroundings
    }

    /// Whether what a library needs can be followed here.
    #[must_use]
    pub fn follows(facts: &Facts) -> bool {
        facts.machine.is_current() && facts.machine.system == System::Linux
    }

    /// What nobody provides and the library does not load without. A symbol whose library the file names is that
    /// library's affair.
    #[must_use]
    pub fn unresolved<'a>(&self, facts: &'a Facts) -> Vec<&'a Needed> {
        facts
            .imports
            .iter()
            .filter(|needed| {
                !needed.weak
                    && needed.library.is_none()
                    && !self.exports.contains(&needed.name)
                    && !facts.exports.contains(&needed.name)
            })
            .collect()
    }
}

fn search_folders(entries: &[String], origin: &Path) -> Vec<PathBuf> {
    let origin = origin.display().to_string();
    entries
        .iter()
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            PathBuf::from(
                entry
                    .replace("${ORIGIN}", &origin)
                    .replace("$ORIGIN", &origin),
            )
        })
        .collect()
}

/// `LD_LIBRARY_PATH`, then what the system is set up to search.
fn system_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    configured(Path::new("/etc/ld.so.conf"), 0, &mut folders);
    for triple in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        folders.push(PathBuf::from(format!("/lib/{triple}")));
        folders.push(PathBuf::from(format!("/usr/lib/{triple}")));
    }
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    folders
}

/// The folders that a configuration file of the dynamic linker names.
fn configured(file: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read_to_string(file) else {
        return;
    };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include ") {
            let pattern = Path::new(pattern.trim());
            let Some(folder) = pattern.parent().filter(|_| depth < 4) else {
                continue;
            };
            let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| path.extension().is_some_and(|e| e == "conf"))
                .collect();
            files.sort();
            for file in files {
                configured(&file, depth + 1, folders);
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
}
