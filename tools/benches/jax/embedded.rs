//! The copies of `calls.rs` on the embedded runtime: `embedded LIBRARY` prints nanoseconds of one prepared call, by
//! handler and number of elements, as JSON.

use anyhow::{Context, Result};
use std::time::Instant;
use xla_ffi_runtime::{Attributes, Bundle, DType, Revision, Runtime, Shape, Tensor};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

type Entry = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("name the library")?;
    // SAFETY: a library of this project: loading it runs no code of its own.
    let library = unsafe { libloading::Library::new(path) }?;
    let runtime = Runtime::new(Revision::NEWEST);
    let mut report = serde_json::Map::new();
    for (name, operands) in [("copy_1", 1), ("copy_8", 8)] {
        // SAFETY: the library exports handlers under these names.
        let entry = unsafe { library.get::<Entry>(name.as_bytes()) }?;
        // SAFETY: it is a handler.
        let bundle = unsafe { Bundle::execute(*entry) };
        let executable = runtime
            .handler(name, bundle)?
            .instantiate(&Attributes::new())?;
        for (elements, calls) in [(16_usize, 5_000_u32), (1 << 20, 20)] {
            let mut call = executable.call();
            for _ in 0..operands {
                let x = Tensor::from_slice([elements as i64], &vec![1.0_f32; elements])?;
                call = call.arg(x).ret(Shape::new(DType::F32, [elements as i64])?);
            }
            let mut call = call.prepare()?;
            let mut best = f64::INFINITY;
            for _ in 0..50 {
                let start = Instant::now();
                for _ in 0..calls {
                    call.invoke()?;
                }
                best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
            }
            report.insert(format!("{name}, {elements}"), best.into());
        }
    }
    println!("{}", serde_json::Value::Object(report));
    Ok(())
}
