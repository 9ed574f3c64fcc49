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

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn what_programs_call_is_reserved_and_what_handlers_compute_is_not() {
        let reserved = [
            "sched_yield",
            "sysconf",
            "getauxval",
            "realpath",
            "statx",
            "sigaltstack",
            "pthread_create",
            "__errno_location",
            "_Unwind_Resume",
            "_exit",
            "conj",
            "cexp",
            "csqrtf",
            "round",
            "main",
        ];
        for symbol in reserved {
            assert!(is_reserved(symbol), "{symbol}");
        }
        for symbol in ["add", "rms_norm", "step", "_private", "softmax", "scale"] {
            assert!(!is_reserved(symbol), "{symbol}");
        }
    }
}
