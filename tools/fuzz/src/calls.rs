//! Fuzz targets for calls: shape contracts, shapes in opaque bytes, recorded calls.

use std::ffi::c_void;
use xla_ffi_contract::Contract;
use xla_ffi_legacy::ShapeProto;
use xla_ffi_record::{Call, Data, Operand, Recorded};

/// The value of the attribute `k`, which contracts may use as a size.
const K: i128 = 3;

/// Fuzzes shape contracts.
///
/// The input contains two contracts, one per line. For each argument, a byte with the rank and a byte per dimension
/// follow.
pub(crate) fn contract(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut contract = || parse_contract(lines.next().unwrap_or_default());
    let contracts = [contract(), contract()];
    let shapes = shapes(lines.next().unwrap_or_default());
    let args: Vec<(&str, &[i64])> = shapes.iter().map(|dims| ("x", dims.as_slice())).collect();
    for contract in contracts.into_iter().flatten() {
        match contract.infer(&args, &[("k", K)]) {
            Ok(rets) => {
                assert_eq!(rets.len(), contract.rets.len());
                assert!(rets.iter().flatten().flatten().all(|size| *size >= 0));
            }
            Err(why) => assert!(why.to_string().contains(&contract.text)),
        }
    }
}

/// Parses a contract from a line; `None` if the line is not a valid contract.
fn parse_contract(line: &[u8]) -> Option<Contract> {
    let text = std::str::from_utf8(line).ok()?;
    match Contract::parse(text) {
        Ok(contract) => {
            assert_eq!(contract.text, text);
            assert!(contract.names.len() <= Contract::MAX_NAMES);
            Some(contract)
        }
        Err(why) => {
            assert!(!why.is_empty());
            None
        }
    }
}

fn shapes(bytes: &[u8]) -> Vec<Vec<i64>> {
    let mut bytes = bytes.iter().copied();
    let mut shapes = vec![];
    while let Some(rank) = bytes.next() {
        let dims = bytes.by_ref().take((rank % 8).into());
        // Most sizes are small, so that sizes with the same name often agree. Some sizes cannot be represented exactly
        // as a double.
        let size = |dim: u8| match dim {
            0..250 => i64::from(dim % 7),
            _ => i64::MAX - i64::from(dim),
        };
        shapes.push(dims.map(size).collect());
    }
    shapes
}

unsafe extern "C" {
    /// Writes a shape as at most `room` numbers. Returns the number of numbers that the shape needs, or `usize::MAX` if
    /// the bytes are not a shape.
    fn fuzz_shape_proto(bytes: *const c_void, size: usize, numbers: *mut i64, room: usize)
    -> usize;
}

/// Fuzzes `xla::ShapeProto` in opaque bytes. Rust and C must return the same shape, or both must reject the bytes.
///
/// The function calls C code, in which undefined behaviour ends the process.
pub(crate) fn shape_proto(input: &[u8]) {
    let mut wanted = vec![];
    let parsed = ShapeProto::parse(input);
    let is_shape = match &parsed {
        Ok(shape) => {
            flatten(shape, &mut wanted);
            true
        }
        Err(error) => {
            assert!(
                error.to_string().contains("no xla::ShapeProto: "),
                "{error}"
            );
            false
        }
    };
    let mut got = vec![0; wanted.len()];
    // SAFETY: the C function receives the sizes of the input and of the output, and does not exceed them.
    let count = unsafe {
        fuzz_shape_proto(
            input.as_ptr().cast(),
            input.len(),
            got.as_mut_ptr(),
            got.len(),
        )
    };
    let expected = if is_shape { wanted.len() } else { usize::MAX };
    assert_eq!(count, expected, "{parsed:?}");
    assert_eq!(got, wanted, "{parsed:?}");
}

/// Writes a shape as numbers: the kind of each node, and the length and elements of each list.
fn flatten(shape: &ShapeProto, to: &mut Vec<i64>) {
    let mut list = |values: &[i64]| {
        to.push(i64::try_from(values.len()).expect("few"));
        to.extend(values);
    };
    match shape {
        ShapeProto::Array {
            dtype,
            dims,
            minor_to_major,
        } => {
            list(&[i64::from(dtype.0)]);
            list(dims);
            list(minor_to_major);
        }
        ShapeProto::Tuple(elements) => {
            list(&[]);
            to.push(i64::try_from(elements.len()).expect("few"));
            elements.iter().for_each(|element| flatten(element, to));
        }
    }
}

/// The offset of the first section in a recording, after the magic and the version.
const HEAD: usize = 12;

/// Fuzzes recorded calls. Corrects the checksums of the input, because almost every random input has wrong checksums.
pub(crate) fn recorded_call(input: &[u8]) {
    let mut file = input.to_vec();
    mend(&mut file);
    let recorded = match Recorded::parse(&file) {
        Ok(recorded) => recorded,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let kept = |operands: &[Operand], bytes: &[Option<Vec<u8>>]| {
        assert_eq!(operands.len(), bytes.len());
        for (operand, bytes) in operands.iter().zip(bytes) {
            // If a call did not complete, its recording may lack the bytes of some operands.
            if let Some(bytes) = bytes {
                assert_eq!(operand.data, Data::Kept(bytes.len() as u64));
            }
        }
    };
    kept(&recorded.call.args, &recorded.args);
    kept(&recorded.call.rets, &recorded.rets);
    let text = serde_json::to_vec(&recorded.call).expect("a call is written");
    let again: Call = serde_json::from_slice(&text).expect("what is written is read");
    assert_eq!(again, recorded.call);
}

/// Writes the correct checksum of each section into a recording.
fn mend(file: &mut [u8]) {
    let mut at = HEAD;
    while let Some(length) = file.get(at + 4..at + 12) {
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(at + 12));
        let Some(end) =
            end.filter(|end| file.len().checked_sub(4).is_some_and(|last| *end <= last))
        else {
            return;
        };
        let sum = crc32fast::hash(&file[at..end]);
        file[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        at = end + 4;
    }
}
