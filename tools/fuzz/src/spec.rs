//! SPECs, `--arg` and `--ret` of the command line, and the shapes of programs.

use crate::text::{text, told};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{DType, ValueShape};

/// Arrays that are made: a short text may ask for gigabytes.
const LARGEST: usize = 1 << 12;

pub(crate) fn attack(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Spec::parse(text) {
        Err(error) => told(text, &error),
        Ok(spec) => argument(text, &spec),
    }
    match parse_result(text) {
        Err(error) => told(text, &error),
        Ok(shape) => assert_eq!(parse_result(&shape.to_string()), Ok(shape)),
    }
    match ValueShape::parse(text) {
        Err(error) => told(text, &error),
        Ok(shape) => assert_eq!(ValueShape::parse(&shape.to_string()), Ok(shape)),
    }
}

fn argument(text: &str, spec: &Spec) {
    let shape = spec.shape();
    if shape.dtype() == DType::Token {
        return;
    }
    // It is the result with a value behind it.
    let (alone, value) = text.split_once('=').expect("an argument has a value");
    assert_eq!(parse_result(alone).as_ref(), Ok(shape));
    if value.trim_start().starts_with('@') || shape.bytes() > LARGEST || shape.elements() > LARGEST
    {
        return;
    }
    let tensor = spec.tensor().expect("a small array fits");
    assert_eq!(tensor.shape(), shape);
    assert!(tensor.to_string().starts_with(&shape.to_string()));
    // Each element as it is printed is the same element again.
    let values: Vec<String> = (0..shape.elements())
        .map(|index| tensor.text(index).expect("an element"))
        .collect();
    let printed = format!("{shape}={}", values.join(","));
    let again = Spec::parse(&printed).unwrap_or_else(|error| panic!("does not read back: {error}"));
    let again = again.tensor().expect("a small array fits");
    let same = (0..shape.elements()).all(|index| again.text(index) == tensor.text(index));
    assert!(same, "{again} is not {tensor}, from {printed}");
}
