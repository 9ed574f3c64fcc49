//! Finds the libraries that a library requires, in the same places as the dynamic linker.

use super::{Facts, Needed, System, bytes, read};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The maximum number of required libraries that are read, including libraries that these libraries require.
const DEPTH: usize = 256;

/// Libraries that the user's process has, but this machine's dynamic linker does not find.
#[derive(Clone, Debug, Default)]
pub struct Provided {
    /// Folders that are searched in addition to those of the system.
    pub folders: Vec<PathBuf>,
    /// Paths of libraries that are loaded before the examined library.
    pub preload: Vec<PathBuf>,
    /// The facts of each examined file, cached because the libraries of a wheel require the same libraries.
    known: RefCell<BTreeMap<PathBuf, Option<Rc<Facts>>>>,
}

/// The maximum depth of the searched folders in Python packages. `nvidia/cublas/lib` has depth 3.
const NESTED: usize = 4;

impl Provided {
    /// Finds the folders with libraries inside folders of Python packages (`site_packages`).
    #[must_use]
    pub fn of(site_packages: &[PathBuf], preload: &[PathBuf]) -> Self {
        let mut provided = Self {
            preload: preload.to_vec(),
            ..Self::default()
        };
        let mut queue: Vec<(PathBuf, usize)> = site_packages
            .iter()
            .map(|folder| (folder.clone(), 0))
            .collect();
        while let Some((folder, depth)) = queue.pop() {
            let mut has_libraries = false;
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                has_libraries |= name.starts_with("lib") && name.contains(".so");
                if depth < NESTED && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    queue.push((entry.path(), depth + 1));
                }
            }
            if has_libraries {
                provided.folders.extend(std::path::absolute(folder));
            }
        }
        provided
    }

    /// Returns the facts of the library at `path`; `None` if the file is not a library.
    fn facts(&self, path: &Path) -> Option<Rc<Facts>> {
        if let Some(known) = self.known.borrow().get(path) {
            return known.clone();
        }
        let facts = bytes(path).ok().and_then(|bytes| read(path, &bytes).ok());
        // The other symbols are dropped, because only exported symbols resolve imports.
        let facts = facts.map(|mut facts| {
            let exports = std::mem::take(&mut facts.exports);
            let facts = facts.without_definitions();
            Rc::new(Facts {
                exports,
                imports: BTreeSet::new(),
                ..facts
            })
        });
        self.known
            .borrow_mut()
            .insert(path.to_owned(), facts.clone());
        facts
    }
}

/// The libraries that the examined library requires, and the symbols that they export.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The path of each required library, by its name.
    pub found: BTreeMap<String, PathBuf>,
    /// The names of missing libraries, each with the library that requires it.
    pub missing: BTreeMap<String, String>,
    exported: Vec<Rc<Facts>>,
}

impl Surroundings {
    /// Finds the libraries that the library at `path` requires. The result is empty for libraries for macOS, for
    /// Windows and for other machines, because the required libraries cannot be read.
    #[must_use]
    pub fn of(path: &Path, facts: &Facts, provided: &Provided) -> Self {
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
        for file in &provided.preload {
            let Some(loaded) = provided.facts(file) else {
                continue;
            };
            let name = file
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            for name in name.into_iter().chain(loaded.soname.clone()) {
                surroundings.found.insert(name, file.clone());
            }
            let folders = search_folders(&loaded.search, &folder(file));
            let by = file.display().to_string();
            queue.extend(
                loaded
                    .needs
                    .iter()
                    .map(|next| (next.clone(), by.clone(), folders.clone())),
            );
            surroundings.exported.push(loaded);
        }
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
                    .chain(&provided.folders)
                    .chain(&system)
                    .map(|folder| folder.join(&name))
                    .collect()
            };
            // The dynamic linker skips libraries for other machines and continues to search.
            let hit = candidates.into_iter().find_map(|candidate| {
                let found = provided.facts(&candidate)?;
                (found.machine == facts.machine).then_some((candidate, found))
            });
            match hit {
                Some((candidate, facts)) => {
                    let mut inner = search_folders(&facts.search, &folder(&candidate));
                    inner.extend(folders);
                    queue.extend(facts.needs.iter().map(|next| {
                        (next.clone(), candidate.display().to_string(), inner.clone())
                    }));
                    surroundings.exported.push(facts);
                    surroundings.found.insert(name, candidate);
                }
                None => {
                    surroundings.missing.insert(name, by);
                }
            }
        }
        surroundings
    }

    /// Returns true if the libraries that the examined library requires can be found on this machine.
    #[must_use]
    pub fn follows(facts: &Facts) -> bool {
        facts.machine.is_current() && facts.machine.system == System::Linux
    }

    /// Returns the imported symbols that no required library exports. The result omits symbols for which the file names
    /// the required library.
    #[must_use]
    pub fn unresolved<'a>(&self, facts: &'a Facts) -> Vec<&'a Needed> {
        facts
            .imports
            .iter()
            .filter(|needed| {
                !needed.weak
                    && needed.library.is_none()
                    && !self
                        .exported
                        .iter()
                        .any(|library| library.exports.contains(&needed.name))
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

/// Returns the folders of `LD_LIBRARY_PATH` and of the system's search path.
fn system_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default();
    // The main configuration file usually includes all files of this folder. Reading all of them makes it unnecessary
    // to parse `include` lines.
    let files = std::fs::read_dir("/etc/ld.so.conf.d")
        .into_iter()
        .flatten()
        .flatten();
    let files = files
        .map(|entry| entry.path())
        .chain([PathBuf::from("/etc/ld.so.conf")]);
    for text in files.filter_map(|file| std::fs::read_to_string(file).ok()) {
        let listed = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('/'));
        folders.extend(listed.map(PathBuf::from));
    }
    for triple in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
        folders.push(PathBuf::from(format!("/lib/{triple}")));
        folders.push(PathBuf::from(format!("/usr/lib/{triple}")));
    }
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    folders
}
