//! What the macros say when they are used wrongly, and that what should compile does.
//!
//! The expected words lie beside each case, in `.stderr`; `TRYBUILD=overwrite cargo test -p xla-ffi
//! --test ui` writes them anew.

#[test]
fn mistakes_are_told_where_they_are() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
