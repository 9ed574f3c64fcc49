//! Only numbers are narrowed.
use xla_ffi::prelude::*;

#[xla_ffi::handler]
fn f(#[attr(narrow)] _name: &str) {}

#[xla_ffi::handler]
fn g(#[attr(narrow)] _options: Dictionary) {}

#[xla_ffi::handler]
fn h(#[attr(narrow)] _flag: bool) {}

#[xla_ffi::handler]
fn below(#[attr(min = 1, default = 0)] _n: i64) {}

#[xla_ffi::handler]
fn empty(#[attr(min = 2, max = 1)] _n: i64) {}

#[derive(xla_ffi::Attribute)]
struct Above {
    #[attr(max = 0.5, default = 1)]
    a: f32,
}

#[xla_ffi::handler]
fn of_text(#[attr(min = 1)] _text: &str) {}

#[xla_ffi::handler]
fn of_integers(#[attr(min = 0.5)] _n: i64) {}

#[xla_ffi::handler]
fn of_words(#[attr(min = "1")] _n: i64) {}

fn main() {}
