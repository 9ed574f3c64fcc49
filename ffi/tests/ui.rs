//! Tests the compile errors of incorrect uses of the macros. Code that must compile has its own
//! tests (`rust_api/hygiene.rs`), so a single cargo run can check all cases.
//!
//! The expected messages are in the `.stderr` file of each case. To update these files, run
//! `TRYBUILD=overwrite cargo test -p xla-ffi --test ui`.

use xla_ffi_testing::TRYBUILD_FLAGS;

#[test]
fn mistakes_are_told_where_they_are() {
    // SAFETY: this is the only test of the program, and no other thread uses the environment.
    unsafe { std::env::set_var("CARGO_ENCODED_RUSTFLAGS", TRYBUILD_FLAGS.join("\x1f")) };
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
