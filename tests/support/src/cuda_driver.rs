//! A stand-in for NVIDIA's driver, which runs the kernels of the GPU examples on the host.

use crate::{compiler, once, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds it as `libcuda.so` in `folder`, once; `None`, told as a skip, where there is no C++ compiler.
///
/// # Panics
/// Where it does not compile.
#[must_use]
pub fn stand_in(folder: &Path, test: &str) -> Option<PathBuf> {
    let compiler = compiler::compiler(true, test)?;
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
