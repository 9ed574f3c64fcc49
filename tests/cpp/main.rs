//! The C++ headers.

mod cases;
mod compilation;
mod compile_errors;
mod exports;
mod install;
mod other_headers;
mod programs;
mod state;
mod suite;
mod suite_in_jax;
