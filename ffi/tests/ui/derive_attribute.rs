//! Types of attributes.
use xla_ffi::Attribute;

#[derive(Attribute)]
struct Tuple(i64);

#[derive(Attribute)]
struct Generic<T> {
    value: T,
}

#[derive(Attribute)]
enum Empty {}

#[derive(Attribute)]
enum Mixed {
    A,
    B(i64),
}

#[derive(Attribute)]
#[attr(string)]
enum Misspelt {
    A,
}

#[derive(Attribute)]
struct Field {
    value: std::time::Duration,
}

#[derive(Attribute)]
union Union {
    a: i64,
}

#[derive(Attribute)]
struct Question {
    #[attr(default = limit()?)]
    limit: i64,
}

fn limit() -> Option<i64> {
    None
}

fn main() {}
