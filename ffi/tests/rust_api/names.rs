//! Names that could get into the macros' way, and what stands in odd places.

use crate::kit::{call, first, refused, ret, shape, vector};
use xla_ffi::__private::Handler;
use xla_ffi_runtime::{Attributes, DType, Runtime};

/// Everything that a module may call as the standard prelude does, or as the macros' own names.
#[expect(
    non_camel_case_types,
    dead_code,
    reason = "they are there to be in the way"
)]
mod hostile {
    #![no_implicit_prelude]

    use ::xla_ffi::{Buffer, Future, Later, Out};

    pub(super) struct Result;
    pub(super) struct Option;
    pub(super) struct String;
    pub(super) struct Vec;
    pub(super) struct Box;
    pub(super) struct Ok;
    pub(super) struct Err;
    pub(super) struct Some;
    pub(super) struct None;
    pub(super) struct Send;
    pub(super) struct Into;
    pub(super) struct Default;
    pub(super) struct core;
    pub(super) struct std;
    pub(super) struct Frame;
    pub(super) struct Param;
    pub(super) trait Bind {}
    pub(super) trait Stage {}
    pub(super) trait Handler {}
    pub(super) const CONTRACT: u8 = 1;

    /// Raw identifiers, everywhere.
    #[::xla_ffi::handler(shape = "n -> n")]
    pub(super) fn r#type(
        r#in: Buffer<'_, f32, 1>,
        mut r#fn: Out<'_, f32, 1>,
        #[attr(default = 3.0, narrow)] r#loop: f32,
    ) -> ::xla_ffi::Result<()> {
        r#fn.write_with(|i| r#in[i] * r#loop);
        ::xla_ffi::Result::Ok(())
    }

    /// The names of the macros' own variables.
    #[::xla_ffi::handler]
    #[expect(clippy::too_many_arguments, reason = "one of each name")]
    pub(super) fn locals(
        frame: i64,
        at: i64,
        problems: i64,
        error: i64,
        state: i64,
        body: i64,
        start: i64,
        value: i64,
        __p0: i64,
        __args: i64,
        __rets: i64,
        __outcome: i64,
        mut __y: Out<'_, i64, 0>,
    ) {
        let own = frame + at + problems + error + state + body + start + value;
        __y.fill(own + __p0 + __args + __rets + __outcome);
    }

    #[::xla_ffi::handler]
    pub(super) async fn asynchronous(
        frame: Buffer<'_, f32, 1>,
        start: i64,
        body: i64,
        mut owner: Out<'_, f32, 1>,
    ) -> ::xla_ffi::Result<()> {
        owner.write_with(|i| frame[i] + (start + body) as f32);
        ::xla_ffi::Result::Ok(())
    }

    #[::xla_ffi::handler]
    pub(super) fn one_lifetime<'a>(
        x: Buffer<'a, f32>,
        mut y: Out<'a, f32>,
        name: &'a str,
        later: Later<'a>,
    ) -> ::xla_ffi::Result<Future> {
        y.fill((x.len() + name.len()) as f32);
        let (promise, future) = later.promise(());
        promise.complete(::xla_ffi::Result::Ok(()));
        ::xla_ffi::Result::Ok(future)
    }

    /// Fields called as the variables of the derived code.
    #[derive(::xla_ffi::Attribute)]
    pub(super) struct Fields<'f> {
        pub(super) value: i64,
        pub(super) found: i64,
        pub(super) cursor: f64,
        pub(super) dictionary: &'f str,
        #[attr(default = 2)]
        pub(super) narrow: i32,
        #[attr(default)]
        pub(super) r#type: u8,
        pub(super) name: ::core::option::Option<bool>,
    }

    #[::xla_ffi::handler]
    pub(super) fn fields(
        whole: Fields<'_>,
        #[attr(flatten)] flat: Fields<'_>,
        mut y: Out<'_, f64, 1>,
    ) {
        let sum = |fields: &Fields<'_>| {
            let counts = fields.value + fields.found + fields.dictionary.len() as i64;
            let small = fields.narrow as i64 + fields.r#type as i64;
            let last = fields.name.is_some() as i64;
            (counts + small + last) as f64 + fields.cursor
        };
        let both = [sum(&whole), sum(&flat)];
        y.write_with(|i| both[i]);
    }

    pub(super) struct r#State(u8);

    #[::xla_ffi::stateful]
    impl r#State {
        const OWN: u8 = 7;

        fn instantiate() -> Self {
            Self(Self::OWN)
        }

        async fn execute(&self, mut y: Out<'_, u8, 0>) {
            y.fill(self.0);
        }
    }
}

/// Literals and types that reach the options as fragments, which come in invisible groups.
macro_rules! fragments {
    ($name:literal, $shape:expr, $platforms:expr, $platform:literal, $floor:expr, $batch:expr, $default:literal, $negative:literal,
     $order:expr, $doc:literal, $element:ty, $handler:ident) => {
        #[xla_ffi::handler(name = $name, shape = $shape, platforms = $platforms, floor = $floor, batch = $batch, open_attrs)]
        #[doc = $doc]
        pub(super) fn $handler(
            #[operand(layout = $order)] x: Buffer<$element, 2>,
            mut y: Out<$element, 2>,
            #[attr(name = $name, default = $default, narrow)] a: i32,
            #[attr(default = -$default, narrow)] b: i32,
            #[attr(default = $negative, narrow)] c: i32,
            #[attr(default = [$default, $negative][0], narrow)] d: i32,
        ) {
            y.write_with(|i| x.iter().sum::<$element>() + (a + b + c + d + i as i32) as $element);
        }

        #[derive(xla_ffi::Attribute)]
        #[attr(strings)]
        pub(super) enum Mode {
            #[attr(name = $name)]
            First,
        }

        #[derive(xla_ffi::UserType)]
        // SAFETY: no other type has the name.
        #[user_type(unsafe(name = $name, id = $default))]
        pub(super) struct Known;

        #[xla_ffi::handler(platforms = [$platform, "CUDA"], nondeterministic)]
        pub(super) fn others(_mode: Mode) {}
    };
}
macro_rules! stages {
    ($owner:ty, $name:literal) => {
        #[xla_ffi::stateful(name = $name, open_attrs)]
        impl $owner {
            fn execute(#[attr(default = $name)] _text: &str) {}
        }
    };
}
mod fragments {
    use xla_ffi::prelude::*;

    pub(super) struct Owner;
    fragments!(
        "a name",
        "n n -> n n",
        ["cpu", "ROCM"],
        "x",
        "r2",
        "sequential",
        4,
        -7,
        [1, 0],
        "Of it.",
        f32,
        given
    );
    stages!(Owner, "an owner");
}

#[test]
fn options_may_come_from_macros() {
    let info = <fragments::given as Handler>::INFO;
    assert_eq!(
        (info.name, info.shape, info.platforms),
        ("a name", "n n -> n n", &["cpu", "ROCM"][..])
    );
    assert_eq!(info.floor(), xla_ffi::Revision::R2);
    let about = <fragments::given as Handler>::ABOUT;
    assert_eq!(about.doc, "Of it.");
    let params = info.stages[0].params;
    assert_eq!(params[0].layout, xla_ffi::Layout::Order(&[1, 0]));
    let defaults: Vec<_> = params[2..].iter().map(|param| param.default).collect();
    assert_eq!(defaults, [Some("4"), Some("-4"), Some("-7"), None]);
    let others = <fragments::others as Handler>::INFO;
    assert_eq!(others.platforms, ["x", "CUDA"]);
    let owner = <fragments::Owner as Handler>::INFO;
    assert_eq!(owner.name, "an owner");
    assert_eq!(owner.stages[0].params[0].default, Some("\"an owner\""));
    let known = <fragments::Known as xla_ffi::UserType>::host_type();
    assert_eq!(known.name(), "a name");
}

use hostile::{asynchronous, fields, locals, one_lifetime, r#type};

#[test]
fn raw_names_are_plain_to_others() {
    assert_eq!(<r#type as Handler>::INFO.name, "type");
    assert_eq!(<hostile::State as Handler>::INFO.name, "State");
    let x = || vector(&[1.0_f32, 2.0]);
    let on = |attrs| call::<r#type>(attrs).arg(x());
    let y = shape(DType::F32, &[2]);
    assert_eq!(first::<f32>(on("{}").ret(y.clone())), [3.0, 6.0]);
    assert_eq!(first::<f32>(on("{loop = 2.0}").ret(y)), [2.0, 4.0]);
    let text = refused(on("{loop = true}").ret(shape(DType::S8, &[2])));
    assert!(text.starts_with("type (execute): 2 problems"), "{text}");
    assert!(
        text.contains("result `fn`: ") && text.contains("attribute `loop`: "),
        "{text}"
    );
}

#[test]
fn the_macros_own_names_are_no_trouble() {
    // Leading underscores are how Rust marks what is not used: they are no part of the name.
    let names = "frame at problems error state body start value p0 args rets outcome";
    let attributes = names
        .split(' ')
        .fold(Attributes::new(), |attributes, name| {
            attributes.with(name, 1_i64)
        });
    let handler = crate::kit::handler::<locals>(&Runtime::default());
    let call_site = handler.instantiate(&attributes).unwrap();
    let outcome = call_site.call().ret(shape(DType::S64, &[])).run().unwrap();
    assert_eq!(ret::<i64>(&outcome, 0), [12]);

    let y = shape(DType::F32, &[1]);
    let x = vector(&[1.0_f32]);
    let later = call::<asynchronous>("{start = 1 : i64, body = 2 : i64}");
    assert_eq!(first::<f32>(later.arg(x.clone()).ret(y.clone())), [4.0]);
    let named = call::<one_lifetime>("{name = \"four\"}");
    assert_eq!(first::<f32>(named.arg(x).ret(y)), [5.0]);
}

#[test]
fn fields_may_be_called_as_anything() {
    let members = "value = 1 : i64, found = 2 : i64, cursor = 0.5, dictionary = \"abc\"";
    let attrs = format!("{{whole = {{{members}, name = true}}, {members}, type = 9 : ui8}}");
    let y = first::<f64>(call::<fields>(&attrs).ret(shape(DType::F64, &[2])));
    assert_eq!(y, [9.5, 17.5]);
}
