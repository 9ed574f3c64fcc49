//! Tests the compile errors of wrong uses of `legacy!` and `adapt!`. To update the expected errors, run
//! `TRYBUILD=overwrite cargo test -p xla-ffi-legacy --test ui`.

use xla_ffi_testing::TRYBUILD_FLAGS;

#[test]
fn mistakes_are_told_where_they_are() {
    // SAFETY: this is the only test of the program, and no other thread uses the environment.
    unsafe { std::env::set_var("CARGO_ENCODED_RUSTFLAGS", TRYBUILD_FLAGS.join("\x1f")) };
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
