//! Recorded calls: files whose checksums are put right, as no damage does.

use xla_ffi_record::{Call, Data, Operand, Recorded};

/// Where the sections begin, behind magic and version.
const HEAD: usize = 12;

pub(crate) fn attack(input: &[u8]) {
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
