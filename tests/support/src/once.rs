//! Caches compiler runs: a command that succeeded on the same files does not run again, in this process or a later
//! process.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs a compiler, unless the same command already succeeded on the same files.
///
/// `inputs` are files or whole folders that the compiler reads. `output` is the file that it writes, if
/// any; this function adds `-o`.
///
/// # Errors
/// Returns the compiler's messages. Failures are not cached.
///
/// # Panics
/// Panics if the compiler does not start, or if the target folder is not writable.
pub fn compile(
    command: &mut Command,
    inputs: &[&Path],
    output: Option<&Path>,
) -> Result<(), String> {
    let mut key = DefaultHasher::new();
    content(Path::new(command.get_program())).hash(&mut key);
    format!("{command:?}").hash(&mut key);
    output.hash(&mut key);
    for input in inputs {
        content(input).hash(&mut key);
    }
    let folder = crate::target_folder().join("tmp/compiled");
    std::fs::create_dir_all(&folder).expect("the target folder");
    let key = format!("{:016x}", key.finish());
    // The stamp file is next to the output and records the command and its inputs, because other
    // commands may write the same output.
    let stamp = match output {
        Some(output) => {
            let mut name = output.to_owned().into_os_string();
            name.push(".made-by");
            PathBuf::from(name)
        }
        None => folder.join(&key),
    };
    let there = output.is_none_or(Path::exists);
    if there && std::fs::read_to_string(&stamp).is_ok_and(|made_by| made_by == key) {
        return Ok(());
    }
    let _ = std::fs::remove_file(&stamp);
    // Other processes and threads may write or read the same file, so the complete file is renamed into place.
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    let own = format!("{}.{number}.part", std::process::id());
    let part = output.map(|output| output.with_extension(own));
    if let Some(part) = &part {
        command.arg("-o").arg(part);
    }
    let done = command.output().expect("the compiler starts");
    if !done.status.success() {
        return Err(format!(
            "{command:?}:\n{}",
            String::from_utf8_lossy(&done.stderr)
        ));
    }
    if let (Some(part), Some(output)) = (part, output) {
        std::fs::rename(part, output).expect("the target folder");
    }
    std::fs::write(&stamp, key).expect("the target folder");
    Ok(())
}

/// Returns a hash of the contents of a file, or of all files in a folder. For the name of a program, hashes the output
/// of `--version`.
fn content(path: &Path) -> u64 {
    static KNOWN: Mutex<Option<HashMap<PathBuf, u64>>> = Mutex::new(None);
    let is_folder = path.is_dir();
    let is_program = path.components().count() == 1 && !path.exists();
    // Folders of headers are read once per process. Sources may change during the process.
    if is_folder || is_program {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.as_ref().and_then(|known| known.get(path)) {
            return *number;
        }
    }
    let mut hasher = DefaultHasher::new();
    if is_program {
        let version = Command::new(path).arg("--version").output();
        version.map(|output| output.stdout).ok().hash(&mut hasher);
    } else if is_folder {
        let entries = std::fs::read_dir(path).expect("a folder");
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            file.hash(&mut hasher);
            content(&file).hash(&mut hasher);
        }
    } else {
        std::fs::read(path).ok().hash(&mut hasher);
    }
    let number = hasher.finish();
    if is_folder || is_program {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get_or_insert_default()
            .insert(path.to_owned(), number);
    }
    number
}

/// Compiles a common header once per compiler and flags.
///
/// Returns the arguments that include the header before a source.
///
/// # Errors
/// Returns the compiler's messages.
///
/// # Panics
/// Panics if the target folder is not writable.
pub fn precompiled(
    compiler: &str,
    flags: &[String],
    text: &str,
    inputs: &[&Path],
) -> Result<Vec<String>, String> {
    // Concurrent tests need the same precompiled headers.
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _guard = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut key = DefaultHasher::new();
    (compiler, flags, text).hash(&mut key);
    let folder = crate::target_folder().join("tmp/precompiled");
    let folder = folder.join(format!("{:016x}", key.finish()));
    std::fs::create_dir_all(&folder).expect("the target folder");
    let header = folder.join("head.h");
    if std::fs::read_to_string(&header).ok().as_deref() != Some(text) {
        std::fs::write(&header, text).expect("the target folder");
    }
    // Each compiler searches for its own format next to the included header.
    let clang = compiler.contains("clang");
    let out = folder.join(if clang { "head.h.pch" } else { "head.h.gch" });
    let mut command = Command::new(compiler);
    command.args(flags).args(["-x", "c++-header"]).arg(&header);
    compile(&mut command, inputs, Some(&out))?;
    Ok(vec!["-include".to_owned(), header.display().to_string()])
}
