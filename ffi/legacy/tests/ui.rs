//! What `legacy!` and `adapt!` say when they are used wrongly. `TRYBUILD=overwrite cargo test -p xla-ffi-legacy --test ui`
//! writes the expected words anew.

/// trybuild's own flags for the cases. It builds what they depend on without the last one, and again
/// with it; given here, they are the same for both.
const FLAGS: [&str; 6] = [
    "--cfg",
    "trybuild",
    "--verbose",
    "-A",
    "dead_code",
    "--diagnostic-width=140",
];

#[test]
fn mistakes_are_told_where_they_are() {
    // SAFETY: the only test of this program; no other thread reads or writes the environment.
    unsafe { std::env::set_var("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")) };
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
