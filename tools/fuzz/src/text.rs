//! Inputs that are text.

/// The input as text; what is no UTF-8 is nothing that a command line passes on.
pub(crate) fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// An error says something, and a place in the text that is one.
pub(crate) fn told(text: &str, error: &xla_ffi_runtime::ParseError) {
    assert!(!error.message().is_empty());
    let span = error.span();
    assert!(
        span.start <= text.len() && text.is_char_boundary(span.start),
        "{error} begins inside of a character: {span:?}"
    );
    assert!(error.to_string().lines().count() == 3, "{error}");
}
