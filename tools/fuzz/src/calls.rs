//! Calls: shape contracts, shapes in opaque bytes, recorded calls.

use std::ffi::c_void;
use xla_ffi_contract::Contract;
use xla_ffi_legacy::ShapeProto;
use xla_ffi_record::{Call, Data, Operand, Recorded};

/// What the attribute `k` is.
const K: i128 = 3;

/// Shape contracts: two of them, a line each, then for each argument a byte with its rank and one for each dimension.
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

/// The contract of a line, if it is one.
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
        // Most are few, so that names meet; some have no double.
        let size = |dim: u8| match dim {
            0..250 => i64::from(dim % 7),
            _ => i64::MAX - i64::from(dim),
        };
        shapes.push(dims.map(size).collect());
    }
    shapes
}

unsafe extern "C" {
    /// Writes a shape as numbers, at most `room` of them, and gives how many there are; `usize::MAX` where the bytes are no
    /// shape.
    fn fuzz_shape_proto(bytes: *const c_void, size: usize, numbers: *mut i64, room: usize)
    -> usize;
}

/// `xla::ShapeProto` as opaque bytes: Rust and C give the same shape, or both refuse.
///
/// Unsafe: a function of C is called.
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
    // SAFETY: so many bytes, and room for so many numbers.
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

/// A shape as numbers: each node's kind, then how many there are of what follows, then those.
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

/// Where the sections begin, behind magic and version.
const HEAD: usize = 12;

/// Recorded calls: files whose checksums are put right, as no damage does.
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
            // What is announced may be missing where the call never ended.
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

/// Writes the checksum of each section.
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
