//! What `legacy!` and `adapt!` say when they are used wrongly. `TRYBUILD=overwrite cargo test -p xla-ffi-legacy --test ui`
//! writes the expected words anew.

use xla_ffi_testing::TRYBUILD_FLAGS;

#[test]
fn mistakes_are_told_where_they_are() {
    // SAFETY: the only test of this program; no other thread reads or writes the environment.
    unsafe { std::env::set_var("CARGO_ENCODED_RUSTFLAGS", TRYBUILD_FLAGS.join("\x1f")) };
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
