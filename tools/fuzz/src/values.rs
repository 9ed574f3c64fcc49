//! Fuzz targets for values on a command line: attributes, SPECs, NumPy files.

use crate::{check_error, text};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{Attributes, DType, ValueShape, npy};

/// Fuzzes the text of attributes, `--attrs` on the command line.
pub(crate) fn attributes(input: &[u8]) {
    let Some(text) = text(input) else { return };
    if has_large_splat(text) {
        return;
    }
    match Attributes::parse(text) {
        Err(error) => check_error(text, &error),
        Ok(attributes) => {
            let printed = attributes.to_string();
            let again = Attributes::parse(&printed);
            let again =
                again.unwrap_or_else(|error| panic!("{printed} does not read back: {error}"));
            assert_eq!(again, attributes, "as it was printed: {printed}");
            assert_eq!(again.to_string(), printed);
        }
    }
}

/// Returns true for a text such as `dense<0> : tensor<1000000xi8>`, which is valid although it needs memory for a
/// million elements.
fn has_large_splat(text: &str) -> bool {
    text.split("tensor<").skip(1).any(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == 'x' || c.is_whitespace()));
        let dims = rest[..end.unwrap_or(rest.len())].split('x');
        let sizes = dims.filter_map(|dim| dim.trim().parse::<usize>().ok());
        sizes.fold(1_usize, usize::saturating_mul) > 1 << 12
    })
}

/// The largest size of arrays that are created, because a short text may describe gigabytes.
const LARGEST: usize = 1 << 12;

/// Fuzzes SPECs (`--arg` and `--ret` on the command line) and shapes of programs.
pub(crate) fn spec(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Spec::parse(text) {
        Err(error) => check_error(text, &error),
        Ok(spec) => argument(text, &spec),
    }
    match parse_result(text) {
        Err(error) => check_error(text, &error),
        Ok(shape) => assert_eq!(parse_result(&shape.to_string()), Ok(shape)),
    }
    match ValueShape::parse(text) {
        Err(error) => check_error(text, &error),
        Ok(shape) => assert_eq!(ValueShape::parse(&shape.to_string()), Ok(shape)),
    }
}

fn argument(text: &str, spec: &Spec) {
    let shape = spec.shape();
    if shape.dtype() == DType::Token {
        return;
    }
    // The part of a valid argument before `=` must be a valid SPEC; a value follows.
    let (alone, value) = text.split_once('=').expect("an argument has a value");
    assert_eq!(parse_result(alone).as_ref(), Ok(shape));
    if value.trim_start().starts_with('@') || shape.bytes() > LARGEST || shape.elements() > LARGEST
    {
        return;
    }
    let tensor = spec.tensor().expect("a small array fits");
    assert_eq!(tensor.shape(), shape);
    assert!(tensor.to_string().starts_with(&shape.to_string()));
    // Every printed element must parse to the same element.
    let values: Vec<String> = (0..shape.elements())
        .map(|index| tensor.text(index).expect("an element"))
        .collect();
    let printed = format!("{shape}={}", values.join(","));
    let again = Spec::parse(&printed).unwrap_or_else(|error| panic!("does not read back: {error}"));
    let again = again.tensor().expect("a small array fits");
    let same = (0..shape.elements()).all(|index| again.text(index) == tensor.text(index));
    assert!(same, "{again} is not {tensor}, from {printed}");
}

/// Fuzzes NumPy files. An input consists of the SPEC of a result, a line break, and the file.
pub(crate) fn npy(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (line, file) = (&input[..end], &input[end + 1..]);
    let Ok(shape) = std::str::from_utf8(line)
        .map_err(drop)
        .and_then(|line| parse_result(line).map_err(drop))
    else {
        return;
    };
    match npy::decode(file, shape.clone()) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(tensor) => {
            assert_eq!(tensor.shape(), &shape);
            let written = npy::encode(&tensor).expect("what was read can be written");
            let again = npy::decode(&written[..], shape).expect("what was written can be read");
            assert_eq!(again.bytes(), tensor.bytes());
        }
    }
}
