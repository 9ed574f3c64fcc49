//! C and C++ compilers, and other programs that a machine may lack.

use crate::{once, root, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Returns the file name of a library on this system: `libNAME.so`, `libNAME.dylib` or `NAME.dll`.
#[must_use]
pub fn file_name(name: &str) -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}{name}{DLL_SUFFIX}")
}

/// Returns true if a program runs with `--version`.
#[must_use]
pub fn works(program: impl AsRef<Path>) -> bool {
    Command::new(program.as_ref())
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Returns this machine's C or C++ compiler: `CC` or `CXX`, or else the first known compiler that works.
///
/// Without a compiler, reports a skip and returns `None`.
#[must_use]
pub fn compiler(cpp: bool, test: &str) -> Option<PathBuf> {
    let (variable, known, language): (_, &[&str], _) = if cpp {
        ("CXX", &["g++", "clang++", "c++"], "C++")
    } else {
        ("CC", &["gcc", "clang", "cc"], "C")
    };
    let named = std::env::var_os(variable).map(PathBuf::from);
    let found = named
        .into_iter()
        .chain(known.iter().map(PathBuf::from))
        .find(|program| works(program));
    if found.is_none() {
        skip(test, &format!("no {language} compiler"));
    }
    found
}

/// Returns the C++ compilers of this machine among GCC and Clang. Reports a skip for each missing compiler.
#[must_use]
pub fn cpp_compilers(test: &str) -> Vec<&'static str> {
    let (here, missing): (Vec<_>, Vec<_>) = ["g++", "clang++"]
        .into_iter()
        .partition(|program| works(program));
    for program in missing {
        skip(test, &format!("no {program}"));
    }
    here
}

/// Builds `libNAME.so` in `folder` from a C text, or from a C++ text if `program` compiles C++.
///
/// Folders in `flags` precede our headers in the search path. Returns `None` if the program does not exist.
///
/// # Panics
/// Panics if the text does not compile.
#[must_use]
pub fn library_of_text(
    folder: &Path,
    name: &str,
    program: &str,
    text: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let is_cpp = program.ends_with("++");
    let source = folder.join(format!("{name}.{}", if is_cpp { "cc" } else { "c" }));
    std::fs::write(&source, text).expect("the test's folder");
    let library = folder.join(file_name(name));
    let output = Command::new(program)
        .args(["-shared", "-fPIC", "-w"])
        .arg(&source)
        // Libraries in the flags must follow the source that needs these libraries.
        .args(flags)
        .arg("-idirafter")
        .arg(root().join("include"))
        .arg("-o")
        .arg(&library)
        // The compiler writes its by-products to the current folder, which is the library's folder.
        .current_dir(folder)
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(library)
}

/// Compiles `source` to `libNAME.so` in `folder`, unless the library is already up to date with this text and our
/// headers.
///
/// Without a compiler, reports a skip and returns `None`.
///
/// # Panics
/// Panics if the source does not compile.
#[must_use]
pub fn shared_library(
    folder: &Path,
    test: &str,
    source: &Path,
    name: &str,
    flags: &[String],
) -> Option<PathBuf> {
    // Builds are serialized, because concurrent tests need the same libraries.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let cpp = source
        .extension()
        .is_some_and(|extension| extension == "cc");
    let compiler = compiler(cpp, test)?;
    std::fs::create_dir_all(folder).expect("the target folder");
    let out = folder.join(file_name(name));
    let mut command = Command::new(compiler);
    command
        .args([
            if cpp { "-std=c++17" } else { "-std=c11" },
            "-O1",
            "-DNDEBUG",
            "-fPIC",
            "-shared",
            "-w",
        ])
        .args(flags)
        .arg(source);
    let include = root().join("include");
    once::compile(&mut command, &[include.as_path(), source], Some(&out)).expect("it builds");
    Some(out)
}

/// Builds an emulation of the CUDA driver as `libcuda.so` in `folder`, once. The emulation runs the GPU examples'
/// kernels on the host.
///
/// Without a C++ compiler, reports a skip and returns `None`.
///
/// # Panics
/// Panics if the emulation does not compile.
#[must_use]
pub fn cuda_driver(folder: &Path, test: &str) -> Option<PathBuf> {
    let compiler = compiler(true, test)?;
    let (kernels, emulator) = (root().join("cuda_examples"), root().join("tests/cuda"));
    std::fs::create_dir_all(folder).expect("the target folder");
    let library = folder.join("libcuda.so");
    let mut command = Command::new(compiler);
    command
        .args([
            "-std=c++17",
            "-O1",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
        ])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
        .arg("-I")
        .arg(&emulator)
        .arg("-I")
        .arg(&kernels)
        .arg(emulator.join("driver.cc"))
        .args(["-Wl,-soname,libcuda.so", "-pthread"]);
    let built = once::compile(&mut command, &[&emulator, &kernels], Some(&library));
    built.unwrap_or_else(|said| panic!("the stand-in for the driver does not compile:\n{said}"));
    Some(library)
}
