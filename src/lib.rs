//! The root package holds tests only; see `tests/`.
