//! Builds the folder that a GPU machine runs: libraries, drivers and a script.
//!
//! jaxlib supports NVIDIA GPUs only on Linux, so the libraries have file names for Linux.

use crate::cargo::{cargo, test_program};
use crate::libraries::{self, Compiler};
use crate::{python, uv};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::compiler::cuda_driver;

/// The jaxlib whose header the C++ handler for comparison uses. It is old enough for the JAX of GPU machines.
const UPSTREAM: &str = "0.11.1";

/// The names of libraries that exist in Rust and in C++.
const EXAMPLES: [&str; 3] = ["kernels", "rms_norm", "tuples"];

/// The drivers in `tests/jax`, each with its name in the folder.
const DRIVERS: [(&str, &str); 6] = [
    ("gpu_run.py", "run.py"),
    ("gpu.py", "gpu.py"),
    ("gpu_examples.py", "gpu_examples.py"),
    ("gpu_bench.py", "gpu_bench.py"),
    ("gpu_runtime.py", "gpu_runtime.py"),
    ("checks.py", "checks.py"),
];

/// nvcc's options for the C++ libraries.
const NVCC: &str = "-x cu -std=c++17 -Werror all-warnings -O3 -shared -cudart static -Xcompiler -fPIC,-fvisibility=hidden,-Wall \
    -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=sm_90";

/// Builds the folder for a GPU machine from scratch.
pub(super) fn build(root: &Path, folder: &Path) -> Result<()> {
    let folder = &std::path::absolute(folder)?;
    if folder.exists() {
        ensure!(
            folder.join("run.py").is_file(),
            "{} exists and was not made by this task; nothing was written",
            folder.display()
        );
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut pack = Pack {
        root,
        folder,
        nvcc: uv::nvcc()?,
        list: String::new(),
    };
    for sub in ["lib", "cpu", "bin"] {
        let path = folder.join(sub);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
    }
    pack.drivers()?;
    pack.rust()?;
    pack.cpp()?;
    pack.dispatch()?;
    pack.stand_ins()?;
    pack.programs()?;
    fs::write(folder.join("libraries.txt"), &pack.list)?;
    Ok(())
}

struct Pack<'a> {
    root: &'a Path,
    folder: &'a Path,
    nvcc: PathBuf,
    list: String,
}

impl Pack<'_> {
    /// Adds a library with its platforms and its name to the list in the folder.
    fn note(&mut self, platforms: &str, name: &str, file: &str) {
        let _ = writeln!(self.list, "{platforms} {name}={file}");
    }

    fn copy(&self, from: &Path, to: &str) -> Result<()> {
        fs::copy(from, self.folder.join(to)).with_context(|| from.display().to_string())?;
        Ok(())
    }

    fn drivers(&self) -> Result<()> {
        for (from, to) in DRIVERS {
            self.copy(&self.root.join("tests/jax").join(from), to)?;
        }
        let loader = self.root.join("python/xla_ffi");
        fs::create_dir_all(self.folder.join("python/xla_ffi"))?;
        for entry in fs::read_dir(&loader).with_context(|| loader.display().to_string())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "py") {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                self.copy(&path, &format!("python/xla_ffi/{name}"))?;
            }
        }
        Ok(())
    }

    /// Builds the Rust libraries, which are the same for the GPU and the CPU.
    fn rust(&mut self) -> Result<()> {
        // The two packages are built separately, because a single build would combine their features.
        libraries::build_rust(self.root)?;
        let mut command = cargo(self.root);
        command.args(["build", "--release", "--examples"]);
        command.args(["-p", "xla-ffi-cuda-examples"]);
        command.env("XLA_FFI_NVCC", &self.nvcc);
        python::output(&mut command, "cargo build of the GPU examples")?;
        for name in EXAMPLES.into_iter().chain(["probe"]) {
            let file = format!("lib/libcuda_{name}.so");
            self.copy(&libraries::rust(self.root, &format!("cuda_{name}"))?, &file)?;
            self.note("all", &format!("rust:{name}"), &file);
        }
        let file = "lib/librms_norm.so";
        self.copy(&libraries::rust(self.root, "rms_norm")?, file)?;
        self.note("all", "rust:host_rms_norm", file);
        Ok(())
    }

    /// Builds the C++ libraries: with nvcc for the GPU, and with emulated kernels for the CPU.
    fn cpp(&mut self) -> Result<()> {
        let examples = self.root.join("cuda_examples");
        let include = self.root.join("include");
        for name in EXAMPLES {
            let source = format!("{name}.cc");
            let file = format!("lib/libcpp_{name}.so");
            let mut nvcc = Command::new(&self.nvcc);
            nvcc.args(NVCC.split(' ')).arg("-I").arg(&include);
            if let Some(libraries) = uv::cudart(&self.nvcc) {
                nvcc.arg("-L").arg(libraries);
            }
            nvcc.arg(examples.join(&source)).arg("-o");
            python::output(nvcc.arg(self.folder.join(&file)), &source)?;
            self.note("cuda", &format!("cpp:{name}"), &file);

            let file = format!("cpu/libcpp_{name}.so");
            let flags = "-std=c++17 -O1 -shared -fPIC -fvisibility=hidden -pthread -include tests/cuda/emulator.h";
            let source = format!("cuda_examples/{source}");
            self.compile(Compiler::Cpp, flags, "include".as_ref(), &source, &file)?;
            self.note("cpu", &format!("cpp:{name}"), &file);
        }
        Ok(())
    }

    /// Compiles a source of the checkout.
    fn compile(
        &self,
        compiler: Compiler,
        flags: &str,
        include: &Path,
        source: &str,
        file: &str,
    ) -> Result<()> {
        let mut command = compiler.command();
        command.current_dir(self.root).args(flags.split(' '));
        command.arg("-I").arg(include).arg(source);
        command.arg("-o").arg(self.folder.join(file));
        libraries::compile(&mut command, source, "C or C++")
    }

    /// Builds the empty handler with this project's headers and with upstream's headers.
    fn dispatch(&mut self) -> Result<()> {
        let upstream = uv::headers(UPSTREAM)?;
        for (language, include) in [("cpp", Path::new("include")), ("upstream", &upstream)] {
            let file = format!("lib/lib{language}_dispatch.so");
            // Upstream's macros do not export symbols, so all symbols must have the default visibility.
            let flags =
                format!("-std=c++17 -O2 -w -shared -fPIC -pthread -DHANDLER={language}_dispatch");
            let source = "cuda_examples/dispatch.cc";
            self.compile(Compiler::Cpp, &flags, include, source, &file)?;
            self.note("all", &format!("{language}:dispatch"), &file);
        }
        Ok(())
    }

    /// Builds the libraries that emulate a GPU.
    fn stand_ins(&self) -> Result<()> {
        let driver = cuda_driver(&xla_ffi_testing::target_folder().join("gpu"), "gpu")
            .context("a C++ compiler, for the stand-in of the driver")?;
        self.copy(&driver, "cpu/libcuda.so")?;
        let flags = "-std=c11 -O1 -shared -fPIC -fvisibility=hidden";
        let (source, file) = ("tests/cuda/device_host.c", "cpu/libdevice_host.so");
        self.compile(Compiler::C, flags, "include".as_ref(), source, file)
    }

    /// Adds the command-line program and the embedded runtime's tests. They are added as stripped programs, because a
    /// GPU machine may not have cargo.
    fn programs(&self) -> Result<()> {
        let tests = test_program(
            self.root,
            &["--lib", "-p", "xla-ffi-runtime", "--features", "cuda"],
        )?;
        for (from, to) in [
            (libraries::build_cli(self.root)?, "xla-ffi"),
            (tests, "runtime-tests"),
        ] {
            let mut strip = Command::new("strip");
            strip
                .arg("-o")
                .arg(self.folder.join("bin").join(to))
                .arg(&from);
            python::output(&mut strip, to)?;
        }
        Ok(())
    }
}
