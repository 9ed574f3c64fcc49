//! Remaining operands are taken once, behind all others: a further one behind them would be the same.
use xla_ffi::{Bind, prelude::*};

#[xla_ffi::handler]
fn over(rest: Option<RemainingArgs>, mut y: Out<f32, 1>) -> Result<()> {
    y.fill(rest.map_or(0.0, |rest| rest.len() as f32));
    Ok(())
}

#[xla_ffi::handler]
fn twice(all: Option<RemainingRets>, last: Option<Out<f32, 1>>) -> Result<()> {
    let _ = (all, last);
    Ok(())
}

#[derive(Bind)]
#[bind(from = Option<RemainingArgs<'f>>)]
struct Count(usize);

impl<'f> TryFrom<Option<RemainingArgs<'f>>> for Count {
    type Error = Error;

    fn try_from(rest: Option<RemainingArgs<'f>>) -> Result<Self> {
        Ok(Self(rest.map_or(0, |rest| rest.len())))
    }
}

#[xla_ffi::handler]
fn counted(count: Count, mut y: Out<f32, 1>) -> Result<()> {
    y.fill(count.0 as f32);
    Ok(())
}

#[xla_ffi::handler]
fn absurd(x: Buffer<f32, { usize::MAX - 1 }>) -> Result<()> {
    let _ = x;
    Ok(())
}

fn main() {}
