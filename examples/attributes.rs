//! Attributes: arrays, an enumeration, a dictionary, optional values.
#![forbid(unsafe_code)]

use xla_ffi::{Attribute, prelude::*};

/// The treatment of values beyond the ends of a signal: callers pass 0, 1 or 2. Other numbers are
/// refused.
#[derive(Attribute, Clone, Copy)]
#[repr(i32)]
enum Edge {
    Zero,
    Clamp,
    Wrap,
}

/// A dictionary; unknown entries are refused.
#[derive(Attribute)]
struct Scale {
    gain: f32,
    #[attr(default = 0.0)]
    offset: f32,
}

/// y[i] = gain Σ weights[k] x[i + k - len(weights) / 2] + offset
#[xla_ffi::handler(shape = "n -> n")]
fn filter(
    x: Buffer<f32, 1>,
    mut y: Out<f32, 1>,
    weights: &[f32],
    #[attr(default = Edge::Zero)] edge: Edge,
    scale: Option<Scale>,
) -> Result<()> {
    if weights.is_empty() {
        return Err(Error::invalid_argument("`weights` is empty"));
    }
    let Scale { gain, offset } = scale.unwrap_or(Scale {
        gain: 1.0,
        offset: 0.0,
    });
    let n = x.len() as isize;
    let at = |i: isize| match edge {
        _ if (0..n).contains(&i) => x[i as usize],
        Edge::Zero => 0.0,
        Edge::Clamp => x[i.clamp(0, n - 1) as usize],
        Edge::Wrap => x[i.rem_euclid(n) as usize],
    };
    y.write_with(|i| {
        let first = i as isize - weights.len() as isize / 2;
        let sum: f32 = (first..).zip(weights).map(|(i, w)| w * at(i)).sum();
        gain * sum + offset
    });
    Ok(())
}

// The attribute `degree` determines the size of the result:

/// y[i, k] = x[i]ᵏ, for k up to `degree`
#[xla_ffi::handler(shape = "n -> n degree+1")]
fn powers(x: Buffer<f32, 1>, mut y: Out<f32, 2>, #[attr(default = 2)] degree: i64) -> Result<()> {
    // Decoding compared `degree` with the result's shape, so it is not negative here.
    let columns = degree as usize + 1;
    y.write_with(|i| x[i / columns].powi((i % columns) as i32));
    Ok(())
}

// The handler accepts any number of operands, with one weight per operand:

/// y = Σ weights[k] xs[k], for arrays of the same shape.
#[xla_ffi::handler(shape = "...* -> ...")]
fn weighted_sum(xs: RemainingArgs, mut y: Out<f32>, weights: &[f32]) -> Result<()> {
    if xs.len() != weights.len() {
        return Err(Error::invalid_argument(format!(
            "{} arrays, but {} `weights`",
            xs.len(),
            weights.len()
        )));
    }
    let y = y.fill(0.0);
    for (k, weight) in weights.iter().enumerate() {
        let x = xs.get::<f32, ANY_RANK>(k)?;
        for (y, x) in y.iter_mut().zip(&*x) {
            *y += weight * x;
        }
    }
    Ok(())
}

xla_ffi::library! { filter, powers, weighted_sum }
