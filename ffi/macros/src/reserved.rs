//! Names that a library must not export: it would take their place in the whole process, or in the program that it is
//! linked into.

/// Functions that programs call: the file's head says which, and how they are listed.
const CALLED: &str = include_str!("reserved.txt");

/// Whether a symbol is the C library's, or its to use: ISO C keeps names of one underscore and a capital, or of two
/// underscores, for the implementation (`__errno_location`, `_Unwind_Resume`).
pub(crate) fn is_reserved(symbol: &str) -> bool {
    if let Some(rest) = symbol.strip_prefix('_') {
        if rest.starts_with(|c: char| c == '_' || c.is_ascii_uppercase()) {
            return true;
        }
    }
    symbol == "main" || CALLED.lines().any(|name| name == symbol)
}
