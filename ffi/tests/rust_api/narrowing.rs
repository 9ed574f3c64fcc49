//! Tests integer and float attributes that are narrower than the caller's values.

use crate::attributes::{answer, wrong};
use crate::call;
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn narrowing(
    mut y: Out<f64, 1>,
    #[attr(narrow)] a: i8,
    #[attr(narrow)] b: u32,
    #[attr(narrow)] c: f32,
    #[attr(narrow)] d: f64,
) -> Result<()> {
    y.copy_from(&[a.into(), b.into(), c.into(), d])
}

/// Python's integers are i64 and its floats f64. Narrowed attributes accept values that fit.
#[xla_ffi::handler]
fn narrowed_arrays(
    mut y: Out<f64, 1>,
    #[attr(narrow)] a: Vec<i8>,
    #[attr(narrow)] b: [f32; 2],
    #[attr(narrow)] c: Option<Vec<u64>>,
    #[attr(narrow)] d: Option<&[i32]>,
) -> Result<()> {
    let all = a.iter().map(|a| f64::from(*a));
    let all = all.chain(b.iter().map(|b| f64::from(*b)));
    let all = all.chain(c.unwrap_or_default().into_iter().map(|c| c as f64));
    y.write_iter(all.chain(d.unwrap_or_default().iter().map(|d| f64::from(*d))))
}

/// Arrays are narrowed element by element if the parameter's type owns its elements.
#[test]
fn arrays_are_narrowed_by_element() {
    let run = |text: &str| answer(call::<narrowed_arrays>(text), 4);
    assert_eq!(
        run("{a = array<i64: 1, -2>, b = array<f64: 0.5, 2.0>}"),
        [1.0, -2.0, 0.5, 2.0]
    );
    assert_eq!(
        run("{a = array<i8: 1>, b = array<i32: 3, 4>, c = array<i64: 5>}"),
        [1.0, 3.0, 4.0, 5.0]
    );
    assert_eq!(
        run("{a = array<i64>, b = array<f32: 1.0, 2.0>, d = array<i32: 7, 8>}"),
        [1.0, 2.0, 7.0, 8.0]
    );
    let many: Vec<String> = (0..40).map(|element| element.to_string()).collect();
    let many = format!(
        "{{a = array<i64: {}>, b = array<f64: 0.5, 2.0>}}",
        many.join(", ")
    );
    assert_eq!(
        answer(call::<narrowed_arrays>(&many), 42)[38..],
        [38.0, 39.0, 0.5, 2.0]
    );
    let text = wrong(call::<narrowed_arrays>(
        "{a = array<i64: 1, 128>, b = array<f64: 1.0, 2.0, 3.0>, c = array<i64: -1>, d = array<i64: 1>}",
    ));
    for line in [
        "attribute `a`: expected S8[?], got S64[2]; element 1 does not fit",
        "attribute `b`: expected 2 elements, got 3",
        "attribute `c`: expected U64[?], got S64[1]; element 0 does not fit",
        "attribute `d`: expected S32[?], got S64[1]; elements are narrowed into a `Vec` only",
    ] {
        assert!(text.contains(line), "{text}\n{line}");
    }
}

#[test]
fn narrowing_is_checked() {
    let run = |text: &str| answer(call::<narrowing>(text), 4);
    assert_eq!(
        run("{a = -128 : i64, b = 4294967295 : i64, c = 1.0e-5 : f64, d = 3 : i32}"),
        [-128.0, 4_294_967_295.0, f64::from(1e-5_f32), 3.0]
    );
    assert_eq!(
        run("{a = 1 : i8, b = 2 : ui32, c = 3.0 : f32, d = 0.5 : f32}"),
        [1.0, 2.0, 3.0, 0.5]
    );
    let text = wrong(call::<narrowing>(
        "{a = 128 : i64, b = -1 : i64, c = 1.0e39 : f64, d = 9007199254740993 : i64}",
    ));
    for (name, told) in [
        ("a", "128"),
        ("b", "-1"),
        ("c", "1e+39"),
        ("d", "9007199254740993"),
    ] {
        let fits = text
            .lines()
            .find(|line| line.contains(&format!("attribute `{name}`")));
        assert!(
            fits.unwrap().ends_with(&format!("; {told} does not fit")),
            "{text}"
        );
    }
}

xla_ffi::library! {
    name = "narrowing";
    narrowing, narrowed_arrays,
}
