//! Compiles the kernels with nvcc (NVCC, else that of CUDA_HOME, else on PATH). Without one the library
//! carries their source, which NVRTC compiles on the GPU's machine.

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
    // PTX for any GPU since Turing; add `-gencode arch=compute_90,code=sm_90` for machine code.
    compile.args(["-fatbin", "-O3", "-gencode", "arch=compute_75,code=compute_75"]);
    match compile.arg(SOURCE).arg("-o").arg(&image).status() {
        Ok(status) => assert!(status.success(), "{SOURCE} does not compile"),
        Err(error) => {
            println!("cargo:warning=no nvcc ({error}): NVRTC will compile {SOURCE} at run time");
            fs::copy(SOURCE, &image).unwrap();
        }
    }
}
