//! Programs: built, verified, printed; run on the embedded runtime, in jaxlib and on a PJRT plugin.

mod execution;
mod generate;
mod generated;
mod hlo;
mod in_jaxlib;
mod one_option;
mod rules;
mod unwritten;
