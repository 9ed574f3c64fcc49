//! Handlers that name others which the library lacks.

mod absent {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(vjp = "backwards")]
    fn norm(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)?;
        Ok(())
    }

    xla_ffi::library! { name = "absent"; norm }
}

fn main() {}
