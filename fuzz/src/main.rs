//! libFuzzer over the target that `XLA_FFI_FUZZ` names.
#![no_main]

use std::sync::OnceLock;
use xla_ffi_fuzz::Target;

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("XLA_FFI_FUZZ").expect("XLA_FFI_FUZZ names a target");
        Target::find(&name).expect("XLA_FFI_FUZZ names a target")
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| target().run(input));

libfuzzer_sys::fuzz_mutator!(|input: &mut [u8], size: usize, most: usize, seed: u32| {
    match target().change(&input[..size], seed) {
        Some(changed) if changed.len() <= most.min(input.len()) => {
            input[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(input, size, most),
    }
});
