//! The folder of the checkout, and the user's cache folder with packages, environments and headers.
//!
//! | folder | content |
//! |---|---|
//! | `packages` | uv's own cache; everything below links to its files |
//! | `venvs` | one virtual environment per Python and jaxlib |
//! | `include` | one folder per jaxlib: its headers |
//! | `tools` | uv, compilers and Python packages that only tests use |
//! | `locks` | one file per folder under construction |

use anyhow::{Context, Result, ensure};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The environment variable that sets a different path of the cache.
const MOVED_BY: &str = "XLA_FFI_CACHE";

/// The name of the file that marks a folder of the cache as complete.
const COMPLETE: &str = ".complete";

/// Returns the path of the checkout.
pub(crate) fn checkout() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).map(PathBuf::from).unwrap_or(own)
}

/// Returns the path of the cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(moved) = named(MOVED_BY) {
        return Ok(std::path::absolute(moved)?);
    }
    if let Some(caches) = named("XDG_CACHE_HOME") {
        return Ok(Path::new(&caches).join("xla-ffi"));
    }
    let home = std::env::home_dir()
        .with_context(|| format!("no home folder for the cache: set {MOVED_BY} to a folder"))?;
    Ok(home.join(".cache/xla-ffi"))
}

/// Returns the path of the folder `name` in the cache, if the folder is complete and still contains `file`.
pub(crate) fn find(name: &str, file: &str) -> Option<PathBuf> {
    let place = cache().ok()?.join(name);
    (place.join(COMPLETE).is_file() && place.join(file).exists()).then_some(place)
}

/// Creates the folder `name` of the cache once. If the creation was interrupted, the next call starts again.
///
/// # Errors
/// Returns the error of `make`. Also fails if the cache is not writable, or if `make` does not create
/// `file`.
pub(crate) fn once(
    name: &str,
    file: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    if let Some(place) = find(name, file) {
        return Ok(place);
    }
    let root = cache()?;
    let advice = || {
        let root = root.display();
        format!("cannot write to {root}: free some space, or set {MOVED_BY} to another folder")
    };
    let locks = root.join("locks");
    fs::create_dir_all(&locks).with_context(advice)?;
    let lock = File::create(locks.join(name.replace('/', "-"))).with_context(advice)?;
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        crate::tally::note(format_args!("waiting for another xtask to prepare {name}"));
    }
    lock.lock().with_context(advice)?;
    if let Some(place) = find(name, file) {
        return Ok(place);
    }
    let place = root.join(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).with_context(advice)?;
    make(&place)?;
    ensure!(
        place.join(file).exists(),
        "{} has no {file}",
        place.display()
    );
    fs::write(place.join(COMPLETE), "").with_context(advice)?;
    Ok(place)
}
