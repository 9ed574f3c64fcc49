//! The user's cache folder: what xtask fetches and unpacks lives here, outside the checkout.
//!
//! | folder | content |
//! |---|---|
//! | `wheels` | wheels as the package index gave them |
//! | `unpacked` | one folder a wheel, shared by all virtual environments |
//! | `include` | one folder a jaxlib, its wheel's `jaxlib/include` |
//! | `venvs` | one virtual environment a (Python, jaxlib) pair |
//! | `resolved` | which wheels such a pair needs, so that a warm cache works offline |
//! | `tools` | one virtual environment a Python that only lends its pip; nvcc |
//! | `locks`, `tmp` | what keeps two xtasks from each other's way |
//!
//! Nothing is ever written in place: a thing is made under `tmp` and renamed when it is whole.

use anyhow::{Context, Result};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Environment variable that moves the cache.
pub(crate) const MOVED_BY: &str = "XLA_FFI_CACHE";

/// The cache folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

/// A lock on one name of the cache, given back when dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, never read")] File);

/// A folder to build something in, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl Cache {
    /// Opens the cache, creates it when it is missing, and clears what a killed xtask left behind.
    pub(crate) fn open() -> Result<Self> {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let root = if let Some(moved) = named(MOVED_BY) {
            std::path::absolute(moved)?
        } else if let Some(caches) = named("XDG_CACHE_HOME") {
            Path::new(&caches).join("xla-ffi")
        } else {
            let home = std::env::home_dir().with_context(|| {
                format!("no home folder known for the cache: set {MOVED_BY} to a folder")
            })?;
            home.join(".cache/xla-ffi")
        };
        let cache = Self { root };
        for folder in ["locks", "tmp", "wheels", "unpacked", "resolved"] {
            let path = cache.path(folder);
            fs::create_dir_all(&path).map_err(|error| cache.io(error, &path))?;
        }
        cache.clear_abandoned();
        Ok(cache)
    }

    /// The folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path below it.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Waits until no other thread or process works on `name`.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock> {
        let path = self.path("locks").join(name);
        let open = || File::options().create(true).append(true).open(&path);
        let file = open().map_err(|error| self.io(error, &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                crate::ui::note(format_args!(
                    "waiting for another xtask that prepares {name}"
                ));
                file.lock().map_err(|error| self.io(error, &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(self.io(error, &path)),
        }
        Ok(Lock(file))
    }

    /// A new empty folder on the cache's own disk.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self
            .path("tmp")
            .join(format!("{}-{number}", std::process::id()));
        let lock_path = path.with_extension("lock");
        let lock = File::create(&lock_path).map_err(|error| self.io(error, &lock_path))?;
        lock.lock().map_err(|error| self.io(error, &lock_path))?;
        if path.exists() {
            fs::remove_dir_all(&path).map_err(|error| self.io(error, &path))?;
        }
        fs::create_dir(&path).map_err(|error| self.io(error, &path))?;
        Ok(Scratch {
            path,
            lock_path,
            _lock: lock,
        })
    }

    /// Moves `made`, a file or folder below a scratch folder, to its place; what lay there before goes.
    pub(crate) fn publish(&self, made: &Path, place: &Path) -> Result<()> {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(|error| self.io(error, parent))?;
        }
        if made.is_dir() && place.exists() {
            // A folder cannot be renamed over another: the old one steps aside first.
            let aside = self.scratch()?;
            fs::rename(place, aside.path().join("old")).map_err(|error| self.io(error, place))?;
        }
        fs::rename(made, place).map_err(|error| self.io(error, place))
    }

    /// Bytes free on the cache's disk.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let answer = rustix::fs::statvfs(&self.root)
            .with_context(|| format!("asking for the free space of {}", self.root.display()))?;
        Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
    }

    /// Puts an I/O error in words; a full disk gets its remedy.
    pub(crate) fn io(&self, error: io::Error, path: &Path) -> anyhow::Error {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.full(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                anyhow::Error::new(error).context(format!(
                    "{} cannot be written: set {MOVED_BY} to a folder of your own",
                    path.display()
                ))
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => anyhow::Error::new(
                error,
            )
            .context(format!(
                "{} cannot be a folder, since it or a part of its path is a file: set {MOVED_BY} \
                     to a folder",
                path.display()
            )),
            _ => anyhow::Error::new(error).context(path.display().to_string()),
        }
    }

    /// The error for a full disk.
    pub(crate) fn full(&self) -> anyhow::Error {
        anyhow::anyhow!(
            "the disk that holds {} is full: free some space there, or move the cache with {MOVED_BY}",
            self.root.display()
        )
    }

    fn clear_abandoned(&self) {
        let Ok(entries) = fs::read_dir(self.path("tmp")) else {
            return;
        };
        for entry in entries.flatten() {
            let lock_path = entry.path();
            if lock_path
                .extension()
                .is_none_or(|extension| extension != "lock")
            {
                continue;
            }
            let Ok(file) = File::open(&lock_path) else {
                continue;
            };
            // Whoever holds the lock still works there. Clearing is a courtesy: failing is no error.
            if file.try_lock().is_ok() {
                let _ = fs::remove_dir_all(lock_path.with_extension(""));
                let _ = fs::remove_file(&lock_path);
            }
        }
    }
}

impl Scratch {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}
