//! Tests the original custom calls with XLA's documented example, A[i] = B[i % 128] + C[i].

mod adapters;
mod device;
mod host;

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use xla_ffi_runtime::legacy::{Invocation, Target};
use xla_ffi_runtime::{Attributes, Error, Handler, Result, Stream, Tensor, Tree, spec};
use xla_ffi_testing::{rust_examples, skip};

/// Returns the example's library in each language that has a compiler.
pub(crate) fn languages(test: &str) -> Vec<(&'static str, PathBuf)> {
    let mut found = vec![("Rust", rust_examples().join("liblegacy.so"))];
    for (language, here, file) in [
        ("C", option_env!("C_COMPILER").is_some(), "liblegacy.so"),
        (
            "C++",
            option_env!("CPP_COMPILER").is_some(),
            "liblegacy_cpp.so",
        ),
    ] {
        if here {
            found.push((language, Path::new(env!("C_EXAMPLES_DIR")).join(file)));
        } else {
            skip(
                test,
                &format!("no {language} compiler when the tests were built"),
            );
        }
    }
    found
}

/// Operands and result of the example.
pub(crate) struct Example {
    b: Vec<f32>,
    c: Vec<f32>,
    pub(crate) a: Vec<f32>,
}

impl Example {
    /// Returns operands with this first element of B.
    pub(crate) fn new(first: f32) -> Self {
        let b = (0..128_u8).map(|i| if i == 0 { first } else { f32::from(i) });
        Self {
            b: b.collect(),
            c: (0..2048_u16).map(|i| 0.5 * f32::from(i)).collect(),
            a: vec![f32::NAN; 2048],
        }
    }

    /// Returns the addresses of the arrays B, C and A.
    pub(crate) fn pointers(&mut self) -> [*mut c_void; 3] {
        [&mut self.b, &mut self.c, &mut self.a].map(|buffer| buffer.as_mut_ptr().cast())
    }

    /// Calls a target of the original custom calls.
    pub(crate) fn run(
        &mut self,
        target: &Target,
        opaque: &[u8],
        stream: Option<Stream>,
    ) -> Result<(), Error> {
        let [b, c, a] = self.pointers();
        let (operands, result) = ([Tree::Leaf(b), Tree::Leaf(c)], Tree::Leaf(a));
        let mut call = Invocation::new(target, &operands, &result).opaque(opaque);
        if let Some(stream) = stream {
            call = call.stream(stream);
        }
        // SAFETY: the buffers are as the example expects and outlive the call.
        unsafe { call.run() }
    }

    /// Returns the expected A, with `more` added to each element.
    pub(crate) fn expected(&self, more: f32) -> Vec<f32> {
        (0..2048)
            .map(|i| self.b[i % 128] + self.c[i] + more)
            .collect()
    }

    pub(crate) fn check(&self, more: f32, context: &str) {
        assert_eq!(self.a, self.expected(more), "{context}");
    }

    /// Calls an XLA FFI handler with the same operands.
    pub(crate) fn call(
        &self,
        handler: &Handler,
        attributes: &str,
        rets: &[&str],
    ) -> Result<Vec<Vec<f32>>> {
        let mut call = handler
            .instantiate(&Attributes::parse(attributes)?)?
            .call()
            .arg(Tensor::from_slice([128], &self.b)?)
            .arg(Tensor::from_slice([2048], &self.c)?);
        for ret in rets {
            call = call.ret(spec::parse_result(ret)?);
        }
        let outcome = call.run()?;
        let values = outcome.rets.iter().map(|ret| ret.to_vec().expect("f32"));
        Ok(values.collect())
    }
}
