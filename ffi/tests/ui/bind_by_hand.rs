//! `Bind` is a promise, `HostType` is made for its type.
use xla_ffi::{At, Bind, Frame, HostType, Param, Problems, State, prelude::*};

struct Twice<'f>(Out<'f, f32>, Out<'f, f32>);

impl<'f> Bind<'f> for Twice<'f> {
    const PARAM: Param = <Out<'f, f32> as Bind<'f>>::PARAM;

    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        Some(Self(Bind::bind(frame, at)?, Bind::bind(frame, at)?))
    }

    fn explain(_: &Frame<'f>, _: &At, _: &mut Problems<'_>) {}
}

struct A;
struct B;

static A_TYPE: HostType<A> = HostType::state("a");

impl State for B {
    fn host_type() -> &'static HostType<B> {
        &A_TYPE
    }
}

fn main() {}
