//! Property tests: every input results in a value or an error. The inputs are texts of attributes, operands of the
//! command line, files, and arguments of table functions.
//!
//! The environment variable `XLA_FFI_CASES` sets the number of cases per property (default: 3000). Slow properties
//! run a tenth of the cases.

use proptest::collection::vec;
use proptest::prelude::*;
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{Attribute, Attributes, DType, Error, Shape, Tensor, npy, scalar_codec};

/// Returns a strategy for texts that are similar to valid input of the parsers.
fn nearly(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => proptest::sample::select(words).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => any::<f64>().prop_map(|x| format!("{x:e}")),
    ];
    vec(word, 0..24).prop_map(|words| words.concat())
}

const DICTIONARY: &[&str] = &[
    "{", "}", "=", ",", ":", " ", "a", "b", "eps", "\"", "\\", "\\n", "\\00", "1", "-1", "0x",
    "0xFF", "1.5", "e", "i32", "f32", "ui8", "i1", "true", "false", "array<", "dense<", ">", "[",
    "]", "tensor<", "2x", "complex<", "(", ")", "{a = 1", "f8e4m3fn", "token", "é",
];
const SPEC: &[&str] = &[
    "f32", "s4", "u2", "pred", "c64", "token", "bf16", "[", "]", ",", "=", "2", "0", "-1", "1",
    "1.5", "iota", "zeros", "ones", "random", "@", "inf", "nan", "+", "i", "1+2i", "true", " ",
    "[2,3]", "[2]=",
];

fn dtype() -> impl Strategy<Value = DType> {
    let all: Vec<_> = DType::all()
        .filter(|dtype| *dtype != DType::Token)
        .collect();
    proptest::sample::select(all)
}

fn attribute() -> impl Strategy<Value = Attribute> {
    let bits = |dtype: DType, raw: u128| {
        let mask = if dtype.bits() == 128 {
            u128::MAX
        } else {
            (1 << dtype.bits()) - 1
        };
        if dtype == DType::Pred {
            raw & 1
        } else {
            raw & mask
        }
    };
    let scalar = (dtype(), any::<u128>())
        .prop_map(move |(dtype, raw)| Attribute::Scalar(dtype, bits(dtype, raw)));
    let array = vec(any::<f64>(), 0..6).prop_map(|values| Attribute::array(&values));
    let small = vec(any::<i8>(), 0..20).prop_map(|values| Attribute::array(&values));
    let string = vec(any::<u8>(), 0..20).prop_map(Attribute::Str);
    let leaf = prop_oneof![scalar, array, small, string];
    leaf.prop_recursive(3, 16, 4, |inner| {
        vec((".{0,6}", inner), 0..4).prop_map(|entries| Attribute::Dict(dictionary(entries)))
    })
}

fn dictionary(entries: Vec<(String, Attribute)>) -> Attributes {
    entries
        .into_iter()
        .fold(Attributes::new(), |all, (name, value)| {
            all.with(name, value)
        })
}

/// Returns true if two attributes are equal. The signs and payloads of NaN may differ.
fn same(one: &Attribute, two: &Attribute) -> bool {
    match (one, two) {
        (Attribute::Scalar(a, x), Attribute::Scalar(b, y)) if a == b && x != y => {
            let text = |bits: &u128| scalar_codec::shortest(*a, *bits);
            text(x) == text(y) || text(x).contains("NaN")
        }
        (Attribute::Dict(a), Attribute::Dict(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b.iter())
                    .all(|((m, x), (n, y))| m == n && same(x, y))
        }
        _ => one == two,
    }
}

proptest! {
    #![proptest_config(config(3_000, 1))]

    #[test]
    fn attribute_text_never_panics(text in nearly(DICTIONARY)) {
        if let Ok(attributes) = Attributes::parse(&text) {
            let printed = attributes.to_string();
            let again = Attributes::parse(&printed).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(same(&again.into(), &attributes.into()), "{}", printed);
        }
    }

    #[test]
    fn printed_attributes_read_back(entries in vec((".{0,8}", attribute()), 0..5)) {
        let attributes = dictionary(entries);
        let text = attributes.to_string();
        let again = Attributes::parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(same(&again.into(), &attributes.into()), "{}", text);
    }

    #[test]
    fn specs_never_panic(text in nearly(SPEC)) {
        if let Ok(spec) = Spec::parse(&text)
            && spec.shape().bytes() < 1 << 16
        {
            let _ = spec.tensor().map(|tensor| tensor.to_string());
        }
        let _ = parse_result(&text);
    }

    #[test]
    fn files_never_panic(
        dtype in dtype(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let shape = Shape::new(dtype, [2, 3]).map_err(fail)?;
        let tensor = Tensor::zeros(shape.clone()).map_err(fail)?;
        let mut bytes = npy::encode(&tensor).map_err(fail)?;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = npy::decode(&bytes[..], shape.clone());
        bytes.truncate(cut.index(bytes.len() + 1));
        let _ = npy::decode(&bytes[..], shape);
    }

    #[test]
    fn numbers_round_trip(dtype in dtype(), raw in any::<u128>()) {
        let mask = if dtype.bits() == 128 { u128::MAX } else { (1 << dtype.bits()) - 1 };
        let bits = if dtype == DType::Pred { raw & 1 } else { raw & mask };
        let value = scalar_codec::decode(dtype, bits).expect("no token");
        let again = scalar_codec::encode(dtype, value).map_err(fail)?;
        let text = scalar_codec::shortest(dtype, bits);
        prop_assert!(again == bits || text.contains("NaN"), "{} {:#x} {:#x}", dtype, bits, again);
    }
}

/// Returns a configuration whose number of cases is `XLA_FFI_CASES` (default: `cases`) divided by `share`.
fn config(cases: u32, share: u32) -> ProptestConfig {
    ProptestConfig {
        cases: xla_ffi_testing::damage::cases(cases / share, share),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn fail(error: Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}
