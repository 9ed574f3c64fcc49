//! libFuzzer over the target that `XLA_FFI_FUZZ` names.
#![no_main]

use std::sync::OnceLock;
use xla_ffi_fuzz::{Target, mutate};

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("XLA_FFI_FUZZ").expect("XLA_FFI_FUZZ names a target");
        Target::find(&name).expect("XLA_FFI_FUZZ names a target")
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| target().run(input));

libfuzzer_sys::fuzz_mutator!(|input: &mut [u8], size: usize, most: usize, seed: u32| {
    // libFuzzer calls for less than there is when it wants the input shorter.
    let room = most.min(input.len());
    if size > room {
        return libfuzzer_sys::fuzzer_mutate(input, size, most);
    }
    if let Some(changed) = target().change(&input[..size], seed) {
        if changed.len() <= room {
            input[..changed.len()].copy_from_slice(&changed);
            return changed.len();
        }
    }
    mutate(
        target().name,
        &mut input[..room],
        size,
        seed,
        |part, size| {
            let most = part.len();
            libfuzzer_sys::fuzzer_mutate(part, size, most)
        },
    )
});
