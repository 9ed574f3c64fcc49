//! Lifetimes may be written or left out, and names may be those of the macros' own.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn written<'a>(x: Buffer<'a, f32>, y: Out<'a, f32>, name: &'a str) -> Result<()> {
    let _ = (x, y, name);
    Ok(())
}

#[xla_ffi::handler]
fn elided(x: Buffer<'_, f32>, r#type: i64, _unused: i64) -> Result<()> {
    let _ = (x, r#type);
    Ok(())
}

#[xla_ffi::handler]
fn names(frame: Buffer<f32>, problems: Out<f32>, at: i64, error: f32, body: f64) -> Result<()> {
    let _ = (frame, problems, at, error, body);
    Ok(())
}

#[xla_ffi::handler]
async fn names_too(frame: Buffer<f32>, problems: i64, start: i64, body: f64) -> Result<()> {
    let _ = (frame, problems, start, body);
    Ok(())
}

mod inner {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler(name = "other.name-1")]
    pub(crate) fn deep() {}

    pub(crate) mod deeper {
        pub(crate) struct Thing;

        #[xla_ffi::stateful(open_attrs)]
        impl Thing {
            fn execute() -> super::Result<()> {
                Ok(())
            }
        }
    }
}

xla_ffi::library! { name = "lib"; written, elided, names, names_too, inner::deep, inner::deeper::Thing }

#[test]
fn lifetimes_are_written_or_left_out() {
    let written: fn(Buffer<'static, f32>, Out<'static, f32>, &'static str) -> Result<()> = written;
    let elided: fn(Buffer<'static, f32>, i64, i64) -> Result<()> = elided;
    assert_ne!(written as usize, elided as usize);
}
