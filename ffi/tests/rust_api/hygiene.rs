//! Tests names that could conflict with the macros, and options in unusual positions.

use crate::{call, first, refused, shape, vector};
use xla_ffi::__private::Handler;
use xla_ffi_runtime::DType;

/// A module without the standard prelude, with raw identifiers everywhere.
mod hostile {
    #![no_implicit_prelude]

    use ::xla_ffi::{Buffer, Out};

    #[::xla_ffi::handler(shape = "n -> n")]
    pub(super) fn r#type(
        r#in: Buffer<'_, f32, 1>,
        mut r#fn: Out<'_, f32, 1>,
        #[attr(default = 3.0, narrow)] r#loop: f32,
    ) -> ::xla_ffi::Result<()> {
        r#fn.write_with(|i| r#in[i] * r#loop);
        ::xla_ffi::Result::Ok(())
    }

    pub(super) struct r#State(u8);

    #[::xla_ffi::stateful]
    impl r#State {
        fn instantiate() -> Self {
            Self(7)
        }

        async fn execute(&self, mut y: Out<'_, u8, 0>) {
            y.fill(self.0);
        }
    }
}

/// Passes literals and types to the options as macro fragments, which are in invisible groups.
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

        #[derive(xla_ffi::HostType)]
        // SAFETY: no other type has this name.
        #[host_type(unsafe(name = $name, id = $default))]
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
    assert_eq!(params[0].layout, xla_ffi::bind::Layout::Order(&[1, 0]));
    let defaults: Vec<_> = params[2..].iter().map(|param| param.default).collect();
    assert_eq!(defaults, [Some("4"), Some("-4"), Some("-7"), None]);
    let others = <fragments::others as Handler>::INFO;
    assert_eq!(others.platforms, ["x", "CUDA"]);
    let owner = <fragments::Owner as Handler>::INFO;
    assert_eq!(owner.name, "an owner");
    assert_eq!(owner.stages[0].params[0].default, Some("\"an owner\""));
    let known = <fragments::Known as xla_ffi::HostType>::registration();
    assert_eq!(known.name(), "a name");
}

use hostile::r#type;

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
