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
