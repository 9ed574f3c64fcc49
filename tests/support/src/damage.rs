//! Generates damaged bytes, such as those of truncated, corrupted or spliced files.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A kind of damage to bytes.
#[derive(Clone, Debug)]
pub enum Damage {
    /// Removes everything after a position.
    Truncate(prop::sample::Index),
    /// Flips bits of a byte.
    Flip(prop::sample::Index, u8),
    /// Replaces eight bytes by a number.
    Word(prop::sample::Index, u64),
    /// Inserts bytes at a position.
    Insert(prop::sample::Index, Vec<u8>),
}

/// Generates any kind of damage.
pub fn damage() -> impl Strategy<Value = Damage> {
    use prop::sample::Index;
    let extreme = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        Just(1 << 40),
        any::<u64>()
    ];
    prop_oneof![
        any::<Index>().prop_map(Damage::Truncate),
        (any::<Index>(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (any::<Index>(), extreme).prop_map(|(at, word)| Damage::Word(at, word)),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

/// Applies the damage to `bytes`.
pub fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Truncate(at) => bytes.truncate(at.index(length)),
        Damage::Flip(at, bits) => bytes[at.index(length)] ^= bits,
        Damage::Word(at, word) => {
            // Fields of object files are aligned to eight bytes.
            let at = at.index(length) & !7;
            for (place, byte) in bytes[at..].iter_mut().zip(word.to_le_bytes()) {
                *place = byte;
            }
        }
        Damage::Insert(at, chunk) => {
            let at = at.index(length);
            bytes.splice(at..at, chunk.iter().copied());
        }
    }
}

/// Returns a test runner with this number of cases.
#[must_use]
pub fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        // This setting avoids files next to the sources. A failure prints its input in any case.
        failure_persistence: None,
        ..Config::default()
    })
}

/// Returns `XLA_FFI_CASES` divided by `share`, or `otherwise` if the variable is not set.
#[must_use]
pub fn cases(otherwise: u32, share: u32) -> u32 {
    let given = std::env::var("XLA_FFI_CASES")
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    given.map_or(otherwise, |cases| cases / share)
}
