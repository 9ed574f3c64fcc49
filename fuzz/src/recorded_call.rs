//! Recorded calls: files whose checksums are put right, as no damage does.

use crate::change::Dice;
use crate::change::json;
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

/// Sections, with the letters of each.
type Sections = Vec<([u8; 4], Vec<u8>)>;

/// Changes the JSON of a section, or which sections there are, and writes the lengths anew.
pub(crate) fn change(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let (head, rest) = input.split_at(HEAD.min(input.len()));
    let mut sections = sections(rest);
    let at = dice.below(sections.len());
    match (dice.below(16), sections.get_mut(at)) {
        (0, Some(section)) => {
            let again = section.clone();
            sections.push(again);
        }
        (1, Some(_)) => drop(sections.remove(at)),
        (2, Some(section)) => {
            let kinds = [b"CALL", b"ARGS", b"STAT", b"RETS", b"DONE", b"MORE"];
            section.0 = *kinds[dice.below(kinds.len())];
        }
        (3, Some(_)) => {
            let other = dice.below(sections.len());
            sections.swap(at, other);
        }
        (4..8, Some(_)) => announce(&mut sections, dice),
        (8, _) => sections.push((*b"STAT", b"{\"instance\":1}".to_vec())),
        (9, _) => {
            let outcome = [
                "\"done\"",
                "\"unwound\"",
                "\"unwatched\"",
                "{\"error\":{\"code\":1,\"message\":\"\"}}",
            ];
            let outcome = outcome[dice.below(outcome.len())];
            sections.push((
                *b"DONE",
                format!("{{\"outcome\":{outcome},\"later\":true}}").into_bytes(),
            ));
        }
        (_, Some((kind, content)))
            if matches!(&*kind, b"ARGS" | b"RETS") && !content.is_empty() =>
        {
            // The index of the operand.
            content[0] = dice.below(4) as u8;
        }
        (_, Some((_, content))) => json::change(content, dice),
        (_, None) => {}
    }
    let mut changed = head.to_vec();
    for (kind, content) in sections {
        changed.extend(kind);
        changed.extend((content.len() as u64).to_le_bytes());
        changed.extend(content);
        changed.extend([0; 4]);
    }
    changed
}

/// Gives operands the bytes that the call says they have.
fn announce(sections: &mut Sections, dice: &mut Dice) {
    let call = sections
        .first()
        .map(|(_, content)| serde_json::from_slice::<Call>(content));
    let Some(Ok(call)) = call else { return };
    let end = sections
        .iter()
        .rposition(|(kind, _)| kind == b"DONE")
        .map(|at| sections.remove(at));
    sections.retain(|(kind, _)| kind != b"ARGS" && kind != b"RETS");
    for (kind, operands) in [(*b"ARGS", &call.args), (*b"RETS", &call.rets)] {
        for (index, operand) in operands.iter().enumerate() {
            let Data::Kept(length @ ..4096) = operand.data else {
                continue;
            };
            let mut content = (index as u64).to_le_bytes().to_vec();
            content.resize(8 + length as usize, dice.below(256) as u8);
            sections.push((kind, content));
        }
    }
    sections.extend(end);
}

/// The sections; of one whose end is missing, what is there.
fn sections(mut rest: &[u8]) -> Sections {
    let mut sections = vec![];
    while let Some((head, behind)) = rest.split_first_chunk::<12>() {
        let (kind, length) = head.split_at(4);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (content, behind) = behind.split_at(length.min(behind.len()));
        sections.push((kind.try_into().expect("four bytes"), content.to_vec()));
        rest = behind.get(4..).unwrap_or_default();
    }
    sections
}
