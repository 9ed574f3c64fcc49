//! Runs libFuzzer on the target in `XLA_FFI_FUZZ`.
#![no_main]

use std::sync::LazyLock;
use xla_ffi_fuzz::TARGETS;

static ATTACK: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("XLA_FFI_FUZZ").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("XLA_FFI_FUZZ names a target").1
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| ATTACK(input));
