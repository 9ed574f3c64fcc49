//! Tests attributes as structs, enumerations and dictionaries.

use crate::attributes::{answer, wrong};
use crate::{call, shape};
use xla_ffi::{Attribute, prelude::*};
use xla_ffi_runtime::DType;

#[xla_ffi::handler]
fn dictionary(mut y: Out<f64, 1>, d: Dictionary) -> Result<()> {
    let inner: Dictionary = d.get("inner")?;
    let missing: Option<i64> = d.get_optional("missing")?;
    assert_eq!(missing, None);
    assert!(d.contains("x") && !d.contains("y") && !d.is_empty());
    let names: Vec<String> = d.iter().map(|(name, _)| name.into_owned()).collect();
    assert_eq!(names, ["inner", "n", "x"]);
    let kinds: Vec<Option<_>> = d.iter().map(|(_, value)| value.dtype()).collect();
    assert_eq!(
        kinds,
        [
            None,
            Some(xla_ffi::DataType::S64),
            Some(xla_ffi::DataType::F64)
        ]
    );
    // A float that the iterator returns is unchanged.
    let x = d.iter().find_map(|(_, value)| value.get::<f64>()).unwrap();
    y.copy_from(&[
        x,
        d.get("x")?,
        d.get::<i64>("n")? as f64,
        inner.get("deep")?,
        d.len() as f64,
    ])?;
    Ok(())
}

#[xla_ffi::handler(open_attrs)]
fn lenient(mut y: Out<f64, 1>, n: i64) -> Result<()> {
    y.fill(n as f64);
    Ok(())
}

/// Covers XLA's tests DictionaryAttr and AutoBindingDictionary, and attributes that a handler
/// ignores.
#[test]
fn dictionaries() {
    let attrs = "{d = {x = 0.5, n = 3 : i64, inner = {deep = 2.5}}}";
    assert_eq!(
        answer(call::<dictionary>(attrs), 5),
        [0.5, 0.5, 3.0, 2.5, 3.0]
    );
    let missing = call::<dictionary>("{d = {x = 0.5}}").ret(shape(DType::F64, &[1]));
    assert_eq!(
        crate::failed(missing),
        (
            xla_ffi_runtime::ErrorCode::NotFound,
            "dictionary (execute): no entry `inner`".to_owned()
        )
    );
    assert_eq!(
        answer(
            call::<lenient>("{n = 1 : i64, other = 2 : i64, zoo = {}}"),
            1
        ),
        [1.0]
    );
}

#[derive(Attribute)]
struct Range<'a> {
    hi: i64,
    lo: i64,
    #[attr(default = 2)]
    step: i64,
    #[attr(name = "kind")]
    named: &'a str,
    label: Option<&'a str>,
    #[attr(narrow)]
    weight: f32,
}

impl Range<'_> {
    fn told(&self) -> [f64; 6] {
        [
            self.lo as f64,
            self.hi as f64,
            self.step as f64,
            self.named.len() as f64,
            self.label.map_or(-1.0, |label| label.len() as f64),
            self.weight.into(),
        ]
    }
}

#[xla_ffi::handler]
fn from_dictionary(mut y: Out<f64, 1>, range: Range) -> Result<()> {
    y.copy_from(&range.told())
}

#[xla_ffi::handler]
fn from_attributes(mut y: Out<f64, 1>, #[attr(flatten)] range: Range, scale: f64) -> Result<()> {
    y.write_iter(range.told().map(|told| told * scale))
}

/// Covers XLA's tests StructAttr, AttrsAsStruct and AutoBindingStructs: structs as attributes.
#[test]
fn structs() {
    let fields = "lo = 1 : i64, hi = 9 : i64, kind = \"odd\", weight = 0.5";
    let expected = [1.0, 9.0, 2.0, 3.0, -1.0, 0.5];
    let whole = format!("{{range = {{{fields}}}}}");
    assert_eq!(answer(call::<from_dictionary>(&whole), 6), expected);
    let flat = format!("{{{fields}, label = \"x\", step = 3 : i64, scale = 2.0}}");
    assert_eq!(
        answer(call::<from_attributes>(&flat), 6),
        [2.0, 18.0, 6.0, 6.0, 2.0, 1.0]
    );
    assert_eq!(
        wrong(call::<from_dictionary>(
            "{range = {lo = 1 : i32, kind = 2.0, other = 1.0, weight = 1.0e300}}"
        )),
        "from_dictionary (execute): attribute `range`: missing entry `hi`; entry `kind`: expected a string, got F64; entry `lo`: expected S64, got S32; pass np.int64(value); entry `weight`: expected F32, got F64; 1e+300 does not fit; unknown entry `other`; remove it",
    );
    assert_eq!(
        wrong(call::<from_attributes>(
            "{lo = 1 : i64, hi = 9 : i64, kind = \"odd\", weight = 0.5, scale = 1 : i64}"
        )),
        "from_attributes (execute): attribute `scale`: expected F64, got S64; pass np.float64(value)"
    );
    assert_eq!(
        wrong(call::<from_dictionary>("{range = 1 : i64}")),
        "from_dictionary (execute): attribute `range`: expected a dictionary, got S64"
    );
}

#[derive(Attribute, Debug, PartialEq)]
#[repr(i32)]
enum Mode {
    Fast = 1,
    Exact = 5,
}

#[derive(Attribute)]
enum Plain {
    Zero,
    One,
}

#[derive(Attribute)]
#[attr(strings)]
enum Word {
    Up,
    VeryDown,
}

#[derive(Attribute)]
enum Either<'a> {
    Number(f32),
    Name(&'a str),
    List(&'a [i64]),
}

#[xla_ffi::handler]
fn enums(
    mut y: Out<f64, 1>,
    mode: Mode,
    plain: Plain,
    word: Word,
    either: Either,
    #[attr(default = Mode::Exact)] other: Mode,
) -> Result<()> {
    let either = match either {
        Either::Number(number) => number.into(),
        Either::Name(name) => name.len() as f64,
        Either::List(list) => list.iter().sum::<i64>() as f64,
    };
    let word = match word {
        Word::Up => 1.0,
        Word::VeryDown => -1.0,
    };
    let modes = [mode, other].map(|mode| f64::from(mode as i32));
    y.copy_from(&[modes[0], f64::from(plain as u8), word, either, modes[1]])
}

/// Covers XLA's tests EnumAttr, WrongEnumAttrType and VariantAttrDecoding.
#[test]
fn enumerations_and_variants() {
    let run = |text: &str| answer(call::<enums>(text), 5);
    assert_eq!(
        run(r#"{mode = 1 : i32, plain = 1 : i64, word = "very_down", either = 2.5 : f32}"#),
        [1.0, 1.0, -1.0, 2.5, 5.0]
    );
    assert_eq!(
        run(r#"{mode = 5 : i32, plain = 0 : i64, word = "up", either = "four", other = 1 : i32}"#),
        [5.0, 0.0, 1.0, 4.0, 1.0]
    );
    assert_eq!(
        run(r#"{mode = 5 : i32, plain = 0 : i64, word = "up", either = array<i64: 1, 2>}"#)[3],
        3.0
    );
    assert_eq!(
        wrong(call::<enums>(
            r#"{mode = 2 : i32, plain = 9 : i64, word = "down", either = true}"#
        )),
        "enums (execute): 4 problems\n  attribute `mode`: expected one of 1 (Fast), 5 (Exact), got 2\n  attribute `plain`: expected one of 0 (Zero), 1 (One), got 9\n  attribute `word`: expected one of [\"up\", \"very_down\"], got \"down\"\n  attribute `either`: expected F32 or a string or S64[?], got PRED"
    );
    let text = wrong(call::<enums>(
        r#"{mode = 1 : i64, plain = 0 : i64, word = 3 : i64, either = "x"}"#,
    ));
    for line in [
        "attribute `mode`: expected S32, got S64",
        "attribute `word`: expected one of [\"up\", \"very_down\"], got S64",
    ] {
        assert!(text.contains(line), "{text}\n{line}");
    }
}

xla_ffi::library! {
    name = "structs";
    dictionary, lenient, from_dictionary, from_attributes, enums,
}
