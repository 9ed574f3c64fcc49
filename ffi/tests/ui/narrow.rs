//! Only numbers are narrowed.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(#[attr(narrow)] _name: &str) {}

#[xla_ffi::handler]
fn g(#[attr(narrow)] _options: Dictionary) {}

#[xla_ffi::handler]
fn h(#[attr(narrow)] _flag: bool) {}

fn main() {}
