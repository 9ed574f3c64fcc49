//! Attributes: their types, defaults and bounds.
#![allow(unused)]

/// Invalid types of attributes in derived structs and enumerations.
mod derive_attribute {
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
}

/// `narrow` on attributes that are not numbers.
mod narrow {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(#[attr(narrow)] _name: &str) {}

    #[xla_ffi::handler]
    fn below(#[attr(min = 1, default = 0)] _n: i64) {}

    #[derive(xla_ffi::Attribute)]
    struct Above {
        #[attr(max = 0.5, default = 1)]
        a: f32,
    }

    #[derive(xla_ffi::Attribute)]
    struct Options {
        #[attr(narrow)]
        b: bool,
    }

    #[xla_ffi::handler]
    fn of_text(#[attr(min = 1)] _text: &str) {}

    #[xla_ffi::handler]
    fn of_integers(#[attr(min = 0.5)] _n: i64) {}

    #[xla_ffi::handler]
    fn of_words(#[attr(min = "1")] _n: i64) {}
}

/// A default of the wrong type.
mod default_type {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(#[attr(default = "one")] n: i64) {}
}

/// `#[attr]` on a parameter that is not an attribute.
mod attr_on_operand {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(#[attr(narrow)] x: Buffer<f32>) {}
}

/// Two attributes with the same name.
mod duplicate_names {
    use xla_ffi::prelude::*;

    #[xla_ffi::handler]
    fn f(x: f32, #[attr(name = "x")] y: f32) {}

    #[derive(xla_ffi::Attribute)]
    struct S {
        a: i64,
        #[attr(name = "a")]
        b: i64,
    }
}

fn main() {}
