//! Writes an image of each kernel source to OUT_DIR, as `NAME.image`: nvcc's output, or a copy of the source if nvcc is
//! not found. NVRTC compiles such a source when a kernel is first used.
//!
//! This script looks for nvcc at XLA_FFI_NVCC, in CUDA_HOME, and in PATH, in this order. XLA_FFI_CUDA_ARCHS lists the
//! compute capabilities that get machine code (default: 90). Older and newer devices compile the PTX of capability 7.5.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["XLA_FFI_NVCC", "XLA_FFI_CUDA_ARCHS", "CUDA_HOME"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let nvcc = nvcc();
    // The environment variable KERNELS records for tests whether nvcc compiled the kernels.
    let made_of = if nvcc.is_some() { "nvcc" } else { "source" };
    println!("cargo:rustc-env=KERNELS={made_of}");
    let target = env::var("TARGET").expect("cargo sets it");
    println!("cargo:rustc-env=TARGET={target}");
    if nvcc.is_none() {
        println!(
            "cargo:warning=no nvcc (XLA_FFI_NVCC, CUDA_HOME, PATH): the GPU examples carry their \
             kernels' source, which NVRTC compiles at run time"
        );
    }
    for source in fs::read_dir(".").expect("the package's folder") {
        let source = source.expect("its entries").path();
        if source.extension().is_none_or(|extension| extension != "cu") {
            continue;
        }
        let name = source.file_stem().expect("a file").to_string_lossy();
        let image = out.join(format!("{name}.image"));
        println!("cargo:rerun-if-changed={}", source.display());
        match &nvcc {
            Some(nvcc) => compile(nvcc, &source, &image),
            None => {
                fs::copy(&source, &image).expect("OUT_DIR is writable");
            }
        }
    }
}

fn nvcc() -> Option<PathBuf> {
    if let Some(named) = env::var_os("XLA_FFI_NVCC").filter(|name| !name.is_empty()) {
        return Some(named.into());
    }
    let home = env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    home.into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file())
}

fn compile(nvcc: &Path, source: &Path, image: &Path) {
    let mut command = Command::new(nvcc);
    command.args(["-fatbin", "-O3", "-std=c++17"]);
    command.args(["-gencode", "arch=compute_75,code=compute_75"]);
    let archs = env::var("XLA_FFI_CUDA_ARCHS").unwrap_or_else(|_| "90".into());
    for arch in archs.split(',').filter(|arch| !arch.is_empty()) {
        command.args(["-gencode", &format!("arch=compute_{arch},code=sm_{arch}")]);
    }
    let status = command.arg(source).arg("-o").arg(image).status();
    let status = status.unwrap_or_else(|error| panic!("starting {}: {error}", nvcc.display()));
    assert!(status.success(), "{} does not compile", source.display());
}
