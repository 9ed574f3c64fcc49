//! Device memory has no slices on the host.

use xla_ffi::{AnyDeviceBuffer, DeviceBuffer, DeviceOut, prelude::*};

#[xla_ffi::handler(platforms = ["cuda"])]
fn reads(x: DeviceBuffer<f32>, mut y: DeviceOut<f32>) -> Result<()> {
    for (x, y) in x.as_slice().iter().zip(y.as_uninit()) {
        y.write(*x);
    }
    Ok(())
}

#[xla_ffi::handler(platforms = ["cuda"])]
fn indexes(x: DeviceBuffer<f32>, any: AnyDeviceBuffer, mut y: DeviceOut<f32>) -> Result<()> {
    y.write_with(|i| x[i]);
    let _ = any.as_bytes();
    Ok(())
}

fn main() {}
