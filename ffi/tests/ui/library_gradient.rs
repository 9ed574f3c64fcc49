//! Handlers that name others which the library lacks, or which do not fit.

mod absent {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(vjp = "backwards")]
    fn norm(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)?;
        Ok(())
    }

    xla_ffi::library! { name = "absent"; norm }
}

mod unfit {
    use xla_ffi::prelude::*;

    /// One differentiable argument, one that is not.
    #[xla_ffi::handler(vjp = "backward", residuals = ["x"])]
    fn norm(x: Buffer<f32>, _n: Buffer<i32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)?;
        Ok(())
    }

    #[xla_ffi::handler]
    fn backward(_x: Buffer<f32>, g: Buffer<f32>, mut dx: Out<f32>, mut _dn: Out<f32>) -> Result<()> {
        dx.copy_from(&g)?;
        Ok(())
    }

    xla_ffi::library! { name = "unfit"; norm, backward }
}

mod batches {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(batch_with = "many")]
    fn one(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)?;
        Ok(())
    }

    #[xla_ffi::handler]
    fn many(x: Buffer<f32>, _more: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
        y.copy_from(&x)?;
        Ok(())
    }

    xla_ffi::library! { name = "batches"; one, many }
}

fn main() {}
