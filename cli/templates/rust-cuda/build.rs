//! Compiles the kernels with the nvcc in NVCC, in CUDA_HOME, or the first on PATH. Without nvcc, the library contains
//! the kernels' source, and NVRTC compiles it on the GPU's machine.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

const SOURCE: &str = "src/kernels.cu";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    for name in ["NVCC", "CUDA_HOME"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let image = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("kernels.image");
    let home = env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin/nvcc"));
    let nvcc = env::var_os("NVCC").map(PathBuf::from).or(home);
    let mut compile = Command::new(nvcc.unwrap_or_else(|| "nvcc".into()));
    // Machine code for each generation of GPUs that nvcc supports, and PTX for later generations.
    compile.args(["-fatbin", "-O3", "-arch=all-major"]);
    match compile.arg(SOURCE).arg("-o").arg(&image).status() {
        Ok(status) => assert!(status.success(), "{SOURCE} does not compile"),
        Err(error) => {
            println!("cargo:warning=no nvcc ({error}): NVRTC will compile {SOURCE} at run time");
            fs::copy(SOURCE, &image).unwrap();
        }
    }
}
