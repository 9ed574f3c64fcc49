//! Calls a handler that is linked into the program.

use xla_ffi::embed::{self, Attributes, DType, Runtime, Shape, Tensor};
use xla_ffi::prelude::*;

/// y = x + 1
#[xla_ffi::handler(shape = "n -> n")]
fn next(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
    y.write_with(|i| x[i] + 1.0);
    Ok(())
}
embed::register_handler!("next", "Host", next);

fn main() -> Result<()> {
    let runtime = Runtime::default();
    runtime.register_static()?;
    runtime.require("Host", ["next"])?;
    let next = runtime.find("next", "Host")?;
    let call = next.instantiate(&Attributes::new())?.call();
    let outcome = call
        .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
        .ret(Shape::new(DType::F32, [2])?)
        .run()?;
    println!("{:?}", outcome.rets[0].as_slice::<f32>());
    Ok(())
}
