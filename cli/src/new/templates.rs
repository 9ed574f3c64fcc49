//! The files of a new project.

use super::Language;
use std::path::Path;

/// The files with their paths in the project.
pub(crate) fn files(language: Language, name: &str, sdk: &Path) -> Vec<(String, String)> {
    let sdk = sdk.display().to_string();
    let fill = |text: &str| text.replace("@NAME@", name).replace("@SDK@", &sdk);
    let (library, symbol) = match language {
        Language::Rust => (
            format!("target/release/lib{name}.so"),
            format!("{name}__scale"),
        ),
        _ => (format!("lib{name}.so"), "scale".to_owned()),
    };
    let jax = fill(JAX)
        .replace("@LIBRARY@", &library)
        .replace("@SYMBOL@", &symbol);
    let mut files = match language {
        Language::Rust => vec![
            ("Cargo.toml".to_owned(), fill(CARGO)),
            ("src/lib.rs".to_owned(), fill(RUST)),
            ("tests/embedded.rs".to_owned(), fill(RUST_TEST)),
            (".gitignore".to_owned(), "/target\n".to_owned()),
        ],
        Language::C => vec![
            (format!("{name}.c"), fill(C)),
            (
                "Makefile".to_owned(),
                makefile(&fill(MAKEFILE), "c", "$(CC) -std=c11"),
            ),
            (".gitignore".to_owned(), "*.so\n".to_owned()),
        ],
        Language::Cpp => vec![
            (format!("{name}.cc"), fill(CPP)),
            (
                "Makefile".to_owned(),
                makefile(&fill(MAKEFILE), "cc", "$(CXX) -std=c++17"),
            ),
            (".gitignore".to_owned(), "*.so\n".to_owned()),
        ],
    };
    files.push(("jax_test.py".to_owned(), jax));
    files
}

fn makefile(text: &str, extension: &str, compile: &str) -> String {
    text.replace("@EXT@", extension)
        .replace("@COMPILE@", compile)
}

const CARGO: &str = r#"[package]
name = "@NAME@"
version = "0.1.0"
edition = "2024"

[lib]
# The shared library is the product; the other form is for the tests.
crate-type = ["cdylib", "rlib"]

[dependencies]
xla-ffi = { path = "@SDK@/ffi" }

[dev-dependencies]
xla-ffi-runtime = { path = "@SDK@/runtime" }

[workspace]
"#;

const RUST: &str = r#"//! y = factor x
#![forbid(unsafe_code)]

use xla_ffi::prelude::*;

/// y = factor x, element by element.
#[xla_ffi::handler(shape = "... -> ...")]
fn scale(x: Buffer<f32>, mut y: Out<f32>, factor: f32) -> Result<()> {
    for (x, y) in x.as_slice().iter().zip(y.as_uninit()) {
        y.write(factor * x);
    }
    Ok(())
}

xla_ffi::library! { scale }
"#;

const RUST_TEST: &str = r#"//! The library on the embedded runtime, on every revision of the ABI that it can run on.

use xla_ffi_runtime::{Attributes, Revision, Runtime, Stage, Tensor};

#[test]
fn scales() {
    let file = format!(
        "{}@NAME@{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = std::env::current_exe().unwrap().with_file_name(file);
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let library = runtime.open(&library).unwrap();
        let stages = [(Stage::Execute, "@NAME@__scale")];
        let handler = library.handler("scale", &stages).unwrap();
        let attributes = Attributes::new().with("factor", 2.0_f32);
        let x = Tensor::from_slice([3], &[1.0_f32, 2.0, 3.0]).unwrap();
        let shape = x.shape().clone();
        let call = handler.instantiate(&attributes).unwrap().call();
        let outcome = call.arg(x).ret(shape).run().unwrap();
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    }
}
"#;

const C: &str = r#"/* y = factor x, element by element. x, y: f32[...]; factor: f32. */
#include "xla_ffi/handler.h"

static XLA_FFI_Error* scale_impl(xffi_call* call) {
  xffi_buffer x = xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  const float factor = xffi_attr_f32(call, "factor");
  XLA_FFI_Error* error;
  xffi_same_shape(call, "x", &x, "y", &y);
  if ((error = xffi_decoded(call)) != NULL) return error;
  for (int64_t i = 0; i < x.count; ++i) ((float*)y.data)[i] = factor * ((const float*)x.data)[i];
  return NULL;
}

XFFI_HANDLER(scale, scale_impl);
"#;

const CPP: &str = r#"// y = factor x, element by element.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(ffi::Buffer<ffi::F32> x, ffi::Result<ffi::Buffer<ffi::F32>> y, float factor) {
  if (x.dimensions() != y->dimensions()) return ffi::Error::InvalidArgument("x and y differ in shape");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("factor"));
"#;

const MAKEFILE: &str = "# Builds lib@NAME@.so; `make test` runs it on the embedded runtime.
SDK ?= @SDK@
XLA_FFI ?= xla-ffi
CFLAGS ?= -O2 -Wall -Wextra

lib@NAME@.so: @NAME@.@EXT@
\t@COMPILE@ $(CFLAGS) -fPIC -shared -fvisibility=hidden -I$(SDK)/include $< -o $@

test: lib@NAME@.so
\tfor revision in r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10; do \\
\t  $(XLA_FFI) run lib@NAME@.so --handler scale --arg 'f32[3]=1,2,3' --ret 'f32[3]' \\
\t    --attrs '{factor = 2.0 : f32}' --revision $$revision | grep -F '[2, 4, 6]' || exit 1; \\
\tdone

.PHONY: test
";

const JAX: &str = r#""""The library in JAX: python3 jax_test.py"""
import ctypes
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

library = ctypes.cdll.LoadLibrary(pathlib.Path(__file__).parent / "@LIBRARY@")
jax.ffi.register_ffi_target("@NAME@.scale", jax.ffi.pycapsule(library.@SYMBOL@), platform="cpu")


def scale(x, factor):
    call = jax.ffi.ffi_call("@NAME@.scale", jax.ShapeDtypeStruct(x.shape, x.dtype))
    return call(x, factor=np.float32(factor))


x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
scale = jax.jit(scale, static_argnums=1)
np.testing.assert_allclose(scale(x, 2.0), 2 * np.asarray(x))
print("ok")
"#;
