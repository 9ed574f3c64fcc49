//! Compilers that run once for the same command on the same files: what succeeded is not done again, in
//! this run or the next.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs a compiler that reads `inputs`, files or whole folders, and writes `output`, if anything: it is
/// told by `-o`. Where it succeeded on these very files before, nothing runs.
///
/// # Errors
/// What the compiler said; that is not kept.
///
/// # Panics
/// Where the compiler does not start, or the target folder cannot be written.
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
    // Beside an output lies what it was made by, since others may write it too.
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
    // Other programs and threads may make or read the same file: it comes as a whole.
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

/// A number for what a file, or all files of a folder, contain; programs by name are known by what
/// they say of their version.
fn content(path: &Path) -> u64 {
    static KNOWN: Mutex<Option<HashMap<PathBuf, u64>>> = Mutex::new(None);
    let is_folder = path.is_dir();
    let is_program = path.components().count() == 1 && !path.exists();
    // Folders of headers are read once a process; sources may be written anew in between.
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

/// A header that many sources begin with, compiled once for a compiler and its flags; what comes back
/// are the arguments that put it before a source.
///
/// # Errors
/// What the compiler said.
///
/// # Panics
/// Where the target folder cannot be written.
pub fn precompiled(
    compiler: &str,
    flags: &[String],
    text: &str,
    inputs: &[&Path],
) -> Result<Vec<String>, String> {
    // Tests side by side want the same ones.
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
    // Each compiler looks for its own beside the header that it is told to include.
    let clang = compiler.contains("clang");
    let out = folder.join(if clang { "head.h.pch" } else { "head.h.gch" });
    let mut command = Command::new(compiler);
    command.args(flags).args(["-x", "c++-header"]).arg(&header);
    compile(&mut command, inputs, Some(&out))?;
    Ok(vec!["-include".to_owned(), header.display().to_string()])
}
