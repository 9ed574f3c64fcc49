//! Tests attributes of every kind.

use crate::{call, failed, first, refused, shape};
use num_complex::Complex;
use std::borrow::Cow;
use xla_ffi::{
    Attribute, Pred,
    bind::{AttrType, AttrValue},
    ext::Pointer,
    prelude::*,
};
use xla_ffi_runtime::{
    Attribute as Attr, AttributeArray, Attributes, Call, DType, ErrorCode, Runtime,
};

pub(crate) fn answer(call: Call, count: i64) -> Vec<f64> {
    first(call.ret(shape(DType::F64, &[count])))
}

pub(crate) fn wrong(call: Call) -> String {
    refused(call.ret(shape(DType::F64, &[1])))
}

/// Returns a call with attributes that the text format cannot express.
pub(crate) fn with<H: xla_ffi::__private::Handler>(attributes: &Attributes) -> Call {
    crate::handler::<H>(&Runtime::default())
        .instantiate_any(attributes)
        .unwrap()
        .call()
}

#[xla_ffi::handler]
#[expect(clippy::too_many_arguments, reason = "one attribute of each type")]
fn scalars(
    mut y: Out<f64, 1>,
    flag: bool,
    a: i8,
    b: i16,
    c: i32,
    d: i64,
    e: u8,
    f: u16,
    g: u32,
    h: u64,
    i: f32,
    j: f64,
) -> Result<()> {
    y.copy_from(&[
        f64::from(u8::from(flag)),
        a.into(),
        b.into(),
        c.into(),
        d as f64,
        e.into(),
        f.into(),
        g.into(),
        h as f64,
        i.into(),
        j,
    ])?;
    Ok(())
}

/// Covers XLA's tests BuiltinAttributes and AutoBinding: scalars of every type.
#[test]
fn scalars_of_every_type() {
    let attrs = "{flag = true, a = -1 : i8, b = -2 : i16, c = -3 : i32, d = -4 : i64, e = 5 : ui8, \
                 f = 6 : ui16, g = 7 : ui32, h = 8 : ui64, i = 0.5 : f32, j = 0.25 : f64}";
    let expected = [1.0, -1.0, -2.0, -3.0, -4.0, 5.0, 6.0, 7.0, 8.0, 0.5, 0.25];
    assert_eq!(answer(call::<scalars>(attrs), 11), expected);
}

#[xla_ffi::handler]
fn complex(
    mut y: Out<f64, 1>,
    z: Complex<f32>,
    w: Complex<f64>,
    zs: &[Complex<f32>],
) -> Result<()> {
    y.copy_from(&[z.re.into(), z.im.into(), w.re, w.im, zs[1].im.into()])
}

#[test]
fn complex_numbers() {
    let bytes: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let bits = |bytes: &[u8]| {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        u128::from_le_bytes(all)
    };
    let wide: Vec<u8> = [5.0_f64, 6.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let attributes = Attributes::new()
        .with("z", Attr::Scalar(DType::C64, bits(&bytes[..8])))
        .with("w", Attr::Scalar(DType::C128, bits(&wide)))
        .with("zs", AttributeArray::new(DType::C64, 2, bytes).unwrap());
    assert_eq!(
        answer(with::<complex>(&attributes), 5),
        [1.0, 2.0, 5.0, 6.0, 4.0]
    );
}

#[xla_ffi::handler]
#[expect(clippy::too_many_arguments, reason = "one attribute of each type")]
fn arrays(
    mut y: Out<f64, 1>,
    a: &[i8],
    b: &[i16],
    c: &[i32],
    d: &[i64],
    e: &[u8],
    f: &[u16],
    g: &[u32],
    h: &[u64],
    i: &[f32],
    j: &[f64],
    k: &[Pred],
) -> Result<()> {
    let lens = [a.len(), b.len(), c.len(), d.len(), e.len(), f.len()];
    let lens = lens
        .into_iter()
        .chain([g.len(), h.len(), i.len(), j.len(), k.len()]);
    y.write_iter(lens.map(|len| len as f64))?;
    assert_eq!(
        (a, j, k),
        (
            &[-1_i8][..],
            &[0.5, 1.5][..],
            &[Pred::TRUE, Pred::FALSE][..]
        )
    );
    Ok(())
}

#[xla_ffi::handler]
fn owned_arrays(mut y: Out<f64, 1>, v: Vec<i32>, a: [f32; 2]) -> Result<()> {
    y.write_iter(v.into_iter().map(f64::from).chain(a.map(f64::from)))
}

/// Covers XLA's test ArrayAttr: ten element types, and booleans, which the text format lacks.
#[test]
fn arrays_of_every_type() {
    let attributes = Attributes::new()
        .with("a", Attr::array(&[-1_i8]))
        .with("b", Attr::array(&[0_i16; 2]))
        .with("c", Attr::array(&[0_i32; 3]))
        .with("d", Attr::array(&[0_i64; 4]))
        .with("e", Attr::array::<u8>(&[]))
        .with("f", Attr::array(&[0_u16; 6]))
        .with("g", Attr::array(&[0_u32; 7]))
        .with("h", Attr::array(&[0_u64; 8]))
        .with("i", Attr::array(&[0_f32; 9]))
        .with("j", Attr::array(&[0.5_f64, 1.5]))
        .with(
            "k",
            AttributeArray::new(DType::Pred, 2, vec![1, 0]).unwrap(),
        );
    let lens = [1.0, 2.0, 3.0, 4.0, 0.0, 6.0, 7.0, 8.0, 9.0, 2.0, 2.0];
    assert_eq!(answer(with::<arrays>(&attributes), 11), lens);
    let call = crate::call::<owned_arrays>("{v = array<i32: 1, 2>, a = array<f32: 0.5, 1.5>}");
    assert_eq!(answer(call, 4), [1.0, 2.0, 0.5, 1.5]);
    assert_eq!(
        wrong(crate::call::<owned_arrays>(
            "{v = array<i64: 1>, a = array<f32: 0.5>}"
        )),
        "owned_arrays (execute): 2 problems\n  attribute `v`: expected S32[?], got S64[1]\n  attribute `a`: expected 2 elements, got 1"
    );
}

#[xla_ffi::handler]
fn strings(mut y: Out<f64, 1>, a: &str, b: String, c: Cow<'_, str>) -> Result<()> {
    y.copy_from(&[a.len() as f64, b.len() as f64, c.len() as f64])
}

#[test]
fn strings_are_utf8() {
    let call = call::<strings>(r#"{a = "", b = "b\"b", c = "ccc"}"#);
    assert_eq!(answer(call, 3), [0.0, 3.0, 3.0]);
    let attributes = Attributes::new()
        .with("a", Attr::Str(vec![0xFF]))
        .with("b", "b")
        .with("c", "c");
    assert_eq!(
        wrong(with::<strings>(&attributes)),
        "strings (execute): attribute `a`: expected a string in UTF-8, got a string"
    );
}

#[xla_ffi::handler]
fn optional(
    mut y: Out<f64, 1>,
    n: Option<i64>,
    #[attr(default = 0.5)] x: f64,
    #[attr(default = "none")] s: &str,
    #[attr(name = "d")] dictionary: Option<Dictionary>,
) -> Result<()> {
    let size = dictionary.map_or(-1.0, |d| d.len() as f64);
    y.copy_from(&[n.map_or(-1.0, |n| n as f64), x, s.len() as f64, size])
}

#[test]
fn optional_attributes_and_defaults() {
    assert_eq!(answer(call::<optional>("{}"), 4), [-1.0, 0.5, 4.0, -1.0]);
    let all = "{n = 3 : i64, x = 1.5, s = \"\", d = {}}";
    assert_eq!(answer(call::<optional>(all), 4), [3.0, 1.5, 0.0, 0.0]);
    assert_eq!(
        wrong(call::<optional>("{m = 3 : i64}")),
        "optional (execute): unknown attribute `m`; remove it"
    );
    assert_eq!(
        wrong(call::<optional>("{x = 1.0 : f32, d = 1 : i64}")),
        "optional (execute): 2 problems\n  attribute `x`: expected F64, got F32; pass np.float64(value)\n  attribute `d`: expected a dictionary, got S64"
    );
}

#[xla_ffi::handler]
fn pointer(mut y: Out<f64, 1>, p: Pointer<f64>, null: Pointer<u8>) -> Result<()> {
    assert!(null.as_ptr().is_null());
    // SAFETY: the test passes the address of a number that outlives the call.
    y.fill(unsafe { *p.as_ptr() });
    Ok(())
}

/// Covers XLA's test PointerAttr: addresses as attributes.
#[test]
fn pointers() {
    let number = Box::new(4.5_f64);
    let attributes = Attributes::new()
        .with("p", Attr::pointer(&raw const *number))
        .with("null", 0_i64);
    assert_eq!(answer(with::<pointer>(&attributes), 1), [4.5]);
}

struct Degrees(f64);

impl<'f> Attribute<'f> for Degrees {
    const TYPE: AttrType = <f64 as Attribute>::TYPE;

    fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self> {
        f64::decode(value, narrow)
            .filter(|degrees| degrees.abs() <= 360.0)
            .map(Degrees)
    }

    fn explain(value: AttrValue<'f>, _narrow: bool, name: &str) -> String {
        assert!(value.get::<f64>() != Some(1e6), "a large angle");
        format!("{name} is {value:?}, not an angle")
    }
}

#[xla_ffi::handler]
fn own(mut y: Out<f64, 1>, angle: Degrees, #[attr(narrow)] other: Option<Degrees>) -> Result<()> {
    y.fill(angle.0 + other.map_or(0.0, |other| other.0));
    Ok(())
}

#[xla_ffi::handler]
fn whatever(mut y: Out<f64, 1>, v: AttrValue) -> Result<()> {
    y.fill(v.get::<f32>().map_or(-1.0, f64::from));
    Ok(())
}

#[test]
fn types_of_ones_own() {
    assert_eq!(answer(call::<own>("{angle = 90.0}"), 1), [90.0]);
    assert_eq!(
        answer(call::<own>("{angle = 90.0, other = 1 : i64}"), 1),
        [91.0]
    );
    assert_eq!(
        wrong(call::<own>("{angle = 720.0}")),
        "own (execute): attribute `angle`: angle is F64, not an angle"
    );
    let (code, text) = failed(call::<own>("{angle = 1.0e6}"));
    assert_eq!(code, ErrorCode::Internal);
    assert!(text.starts_with("own (execute): panicked: a large angle"));
    assert_eq!(answer(call::<whatever>("{v = 1.5 : f32}"), 1), [1.5]);
    assert_eq!(answer(call::<whatever>("{v = \"text\"}"), 1), [-1.0]);
}

xla_ffi::library! {
    name = "attributes";
    scalars, complex, arrays, owned_arrays, strings,     optional, pointer, own, whatever,
}

#[derive(Attribute)]
struct Ranged {
    #[attr(min = 1)]
    bins: i64,
    #[attr(max = 0.5, default = 0.25)]
    width: f64,
}

#[xla_ffi::handler]
fn ranged(
    #[attr(min = 1, max = 4)] n: i64,
    #[attr(min = -1, default = 0, narrow)] small: i8,
    #[attr(min = 0, max = 18446744073709551615)] large: Option<u64>,
    #[attr(min = -0.5, max = 0.1)] x: Option<f32>,
    given: Option<Ranged>,
    #[attr(flatten)] flat: Ranged,
    mut y: Out<i64, 0>,
) {
    let given = given.map_or(0, |given| given.bins + given.width as i64);
    let sum = n + i64::from(small) + large.unwrap_or(0) as i64 + x.unwrap_or(0.0) as i64;
    y.fill(sum + given + flat.bins + flat.width as i64);
}

#[test]
fn numbers_outside_their_range_are_refused() {
    let on = |attrs: &str| {
        let flat = if attrs.contains("bins") {
            ""
        } else {
            ", bins = 1 : i64"
        };
        let attrs = format!("{{{attrs}{flat}}}");
        call::<ranged>(&attrs).ret(shape(DType::S64, &[]))
    };
    for (attrs, expected) in [
        ("n = 1 : i64", 2),
        ("n = 1 : i64, x = 0.1 : f32", 2),
        (
            "n = 4 : i64, small = -1 : i64, large = 7 : ui64, x = -0.5 : f32",
            11,
        ),
        (
            "n = 1 : i64, width = 0.5, bins = 9 : i64, given = {bins = 1 : i64}",
            11,
        ),
    ] {
        assert_eq!(first::<i64>(on(attrs)), [expected], "{attrs}");
    }
    for (attrs, attribute, bound, value) in [
        ("n = 0 : i64", "n", "least 1", "0"),
        ("n = 5 : i64", "n", "most 4", "5"),
        ("n = 1 : i64, small = -2 : i64", "small", "least -1", "-2"),
        ("n = 1 : i64, x = -0.75 : f32", "x", "least -0.5", "-0.75"),
        ("n = 1 : i64, bins = 0 : i64", "bins", "least 1", "0"),
        ("n = 1 : i64, width = 0.75", "width", "most 0.5", "0.75"),
        (
            "n = 1 : i64, given = {bins = -3 : i64}, bins = 1 : i64",
            "bins",
            "least 1",
            "-3",
        ),
    ] {
        let text = refused(on(attrs));
        assert!(text.starts_with("ranged (execute): "), "{text}");
        for part in [
            format!("`{attribute}`"),
            bound.to_owned(),
            format!("got {value}"),
        ] {
            assert!(text.contains(&part), "{text}");
        }
    }
}
