//! Manifests. The first byte of an input says whether a payload follows or a whole section, and where
//! that lies.

use crate::change::Dice;
use crate::change::json;
use std::collections::BTreeSet;
use xla_ffi_doctor::manifest::{self, MAGIC, Manifest};

pub(crate) fn attack(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let found = match first {
        b'p' => manifest::parse(bytes).map(|one| vec![one]),
        address => manifest::read_section(bytes, address.into()),
    };
    match found {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(manifests) => {
            assert!(!manifests.is_empty());
            manifests.iter().for_each(check);
        }
    }
}

/// What a loader may rely on.
fn check(manifest: &Manifest) {
    let mut names = BTreeSet::new();
    for handler in &manifest.handlers {
        assert!(!handler.name.is_empty() && names.insert(&handler.name));
        // One that is newer than this program is known by its number alone.
        let _ = handler.floor_revision();
        for (stage, symbol) in handler.stages.iter() {
            assert!(!stage.is_empty() && !symbol.is_empty() && symbol.is_ascii());
            assert!(!symbol.contains(|c: char| c.is_control() || c.is_whitespace()));
        }
    }
}

/// Changes a payload, or the payload of one of a section's records, and writes the section anew.
pub(crate) fn change(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let (first, bytes) = input.split_first().unwrap_or((&b'p', &[]));
    let mut changed = vec![*first];
    if *first == b'p' {
        let mut payload = bytes.to_vec();
        json::change(&mut payload, dice);
        changed.extend(payload);
        return changed;
    }
    let mut records = records(bytes);
    let one = dice.below(records.len());
    match (dice.below(8), records.get_mut(one)) {
        (0, Some(record)) => {
            let again = record.clone();
            records.push(again);
        }
        (1, Some(record)) => record.0 = dice.below(4) as u8,
        (2, Some(_)) => drop(records.remove(one)),
        (_, Some(record)) => json::change(&mut record.1, dice),
        (_, None) => records.push((
            1,
            b"{\"library\":\"l\",\"sdk\":\"0\",\"handlers\":[]}".to_vec(),
        )),
    }
    for (version, payload) in records {
        // Each begins at a multiple of 16 of the address, which is the first byte.
        while (changed.len() - 1 + usize::from(*first)) % 16 != 0 {
            changed.push(0);
        }
        changed.extend(MAGIC);
        changed.extend([version, 0, 0, 0]);
        changed.extend((payload.len() as u32).to_le_bytes());
        changed.extend(payload);
    }
    changed
}

/// The records of a section: version and payload of each, as far as there is one.
fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = vec![];
    while let Some(at) = bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)
    {
        let Some((head, rest)) = bytes[at + MAGIC.len()..].split_first_chunk::<8>() else {
            break;
        };
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        records.push((head[0], payload.to_vec()));
        bytes = rest;
    }
    records
}
