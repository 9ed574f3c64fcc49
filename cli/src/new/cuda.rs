//! The files of a new project for GPUs.

use super::Language;
use anyhow::{Result, bail};
use std::path::Path;

/// The files with their paths in the project.
pub(super) fn files(language: Language, name: &str, sdk: &Path) -> Result<Vec<(String, String)>> {
    let sdk = sdk.display().to_string();
    let (library, symbol) = match language {
        Language::Rust => (
            format!("target/release/lib{name}.so"),
            format!("{name}__scale"),
        ),
        _ => (format!("lib{name}.so"), "scale".to_owned()),
    };
    let fill = |text: &str| {
        text.replace("@NAME@", name)
            .replace("@SDK@", &sdk)
            .replace("@LIBRARY@", &library)
            .replace("@SYMBOL@", &symbol)
    };
    let mut files = match language {
        Language::Rust => vec![
            ("Cargo.toml", CARGO),
            ("build.rs", BUILD),
            ("src/lib.rs", RUST),
            ("tests/embedded.rs", RUST_TEST),
            (".gitignore", "/target\n"),
        ],
        Language::Cpp => vec![
            ("handler.cc", CPP),
            ("Makefile", MAKEFILE),
            (".gitignore", "*.so\n"),
        ],
        Language::C => bail!(
            "--cuda makes projects in Rust and C++: nvcc compiles no C; take --lang cpp, whose kernels \
             are the same"
        ),
    };
    files.push(("src/kernels.cu", KERNELS));
    files.push(("jax_test.py", JAX));
    Ok(files
        .into_iter()
        .map(|(path, text)| (path.to_owned(), fill(text)))
        .collect())
}

const KERNELS: &str = r#"// y = factor x, element by element; any grid. It includes nothing, so that NVRTC compiles it too.
extern "C" __global__ void scale_kernel(const float* x, float* y, unsigned long long n, float factor) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    y[i] = factor * x[i];
  }
}
"#;

const CARGO: &str = r#"[package]
name = "@NAME@"
version = "0.1.0"
edition = "2024"

[lib]
# The shared library is the product; the other form is for the tests.
crate-type = ["cdylib", "rlib"]

[dependencies]
# The driver is loaded when the first call needs it: this builds on any machine.
xla-ffi = { path = "@SDK@/ffi", features = ["cuda"] }

[dev-dependencies]
xla-ffi-runtime = { path = "@SDK@/runtime" }

[workspace]
"#;

const BUILD: &str = r#"//! Compiles the kernels with nvcc (NVCC, else that of CUDA_HOME, else on PATH). Without one the library
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
"#;

const RUST: &str = r#"//! y = factor x, on NVIDIA GPUs.

use xla_ffi::cuda::{Kernel, Module, Stream};
use xla_ffi::{DeviceBuffer, DeviceOut, Launch, Result};

static MODULE: Module = Module::new(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.image")));
static SCALE: Kernel = MODULE.kernel("scale_kernel");

/// y = factor x, element by element.
#[xla_ffi::handler(platforms = ["cuda"], shape = "... -> ...")]
fn scale(x: DeviceBuffer<f32>, y: DeviceOut<f32>, factor: f32, stream: Stream) -> Result<()> {
    let arguments = (&x, &y, x.len() as u64, factor);
    // SAFETY: these are the kernel's parameters, and it touches `len` elements of each.
    unsafe { SCALE.launch(&stream, Launch::over(x.len(), 256), arguments) }
}

xla_ffi::library! { scale }
"#;

const RUST_TEST: &str = r#"//! What can be tested without a GPU: operands and attributes, and the words for what is missing.

use std::ffi::c_void;
use xla_ffi_runtime::{Attributes, Executable, Runtime, Stage, Stream, Tensor};

fn scale(factor: f64) -> Executable {
    let file = format!(
        "{}@NAME@{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = std::env::current_exe().unwrap().with_file_name(file);
    let library = Runtime::default().open(&library).unwrap();
    let stages = [(Stage::Execute, "@NAME@__scale")];
    let handler = library.handler("scale", &stages).unwrap();
    let attributes = Attributes::new().with("factor", factor as f32);
    handler.instantiate(&attributes).unwrap()
}

#[test]
fn a_host_without_a_device_is_refused() {
    let x = Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let shape = x.shape().clone();
    let error = scale(2.0).call().arg(x).ret(shape).run().unwrap_err();
    assert!(error.message().contains("stream"), "{error}");
}

#[test]
fn wrong_operands_are_told_by_name() {
    let x = Tensor::from_slice([2], &[1, 2]).unwrap();
    let shape = x.shape().clone();
    // An address that is never followed.
    let stream = Stream::borrowed(0x5000 as *mut c_void);
    let call = scale(2.0).call().stream(stream).arg(x).ret(shape);
    let error = call.run().unwrap_err();
    assert!(error.message().contains("argument `x`: expected F32"), "{error}");
}
"#;

const CPP: &str = r#"// y = factor x, on NVIDIA GPUs. Compiled by nvcc.
#include "src/kernels.cu"

#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(cudaStream_t stream, ffi::Buffer<ffi::F32> x,
                        ffi::Result<ffi::Buffer<ffi::F32>> y, float factor) {
  if (x.dimensions() != y->dimensions()) return ffi::Error::InvalidArgument("x and y differ in shape");
  const size_t n = x.element_count();
  if (n == 0) return ffi::Error::Success();
  const size_t blocks = (n + 255) / 256;
  scale_kernel<<<blocks < 65536 ? blocks : 65536, 256, 0, stream>>>(x.typed_data(), y->typed_data(), n,
                                                                    factor);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return ffi::Error::Internal(std::string("launch: ") + cudaGetErrorString(error));
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("factor"));
"#;

const MAKEFILE: &str = "# Builds lib@NAME@.so with nvcc; `make test` runs what can be run without a GPU.
SDK ?= @SDK@
XLA_FFI ?= xla-ffi
NVCC ?= nvcc
# PTX for any GPU since Turing; add -gencode arch=compute_90,code=sm_90 for machine code.
NVCCFLAGS ?= -O3 -gencode arch=compute_75,code=compute_75
# The CUDA runtime, for an nvcc that does not know where it lies.
LIBRARIES ?= $(addprefix -L,$(wildcard $(dir $(shell command -v $(NVCC)))../lib))

lib@NAME@.so: handler.cc src/kernels.cu
\t$(NVCC) -x cu -std=c++17 $(NVCCFLAGS) -Xcompiler -fPIC,-fvisibility=hidden -shared -cudart static \\
\t  -I$(SDK)/include $< -o $@ $(LIBRARIES)

# The library loads and answers, and a host without a device is refused.
test: lib@NAME@.so
\t$(XLA_FFI) inspect lib@NAME@.so --handler scale
\t! $(XLA_FFI) run lib@NAME@.so --handler scale --arg 'f32[3]=1,2,3' --ret 'f32[3]' \\
\t  --attrs '{factor = 2.0 : f32}' 2> refused.txt
\tgrep stream refused.txt
\trm refused.txt

.PHONY: test
";

const JAX: &str = r#""""The library in JAX on a GPU: python3 jax_test.py"""
import ctypes
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

if jax.default_backend() != "gpu":
    sys.exit("JAX finds no GPU here: nothing was tested")

library = ctypes.cdll.LoadLibrary(pathlib.Path(__file__).parent / "@LIBRARY@")
jax.ffi.register_ffi_target("@NAME@.scale", jax.ffi.pycapsule(library.@SYMBOL@), platform="CUDA")


def scale(x, factor):
    call = jax.ffi.ffi_call("@NAME@.scale", jax.ShapeDtypeStruct(x.shape, x.dtype))
    return call(x, factor=np.float32(factor))


x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
scale = jax.jit(scale, static_argnums=1)
np.testing.assert_allclose(scale(x, 2.0), 2 * np.asarray(x))
print("ok")
"#;
