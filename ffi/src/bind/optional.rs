//! Parameters that may be absent.

use crate::bind::{Bind, Region};
use crate::diagnose::Problems;
use crate::frame::Frame;
use crate::param::{At, Kind, Param};

/// Whether the call has what the parameter takes. Parts of the context are asked by taking them.
#[inline(always)]
fn present(frame: &Frame<'_>, at: &At) -> bool {
    match at.param.kind {
        Kind::Arg | Kind::InOut => at.arg < frame.arg_count(),
        Kind::Ret => at.ret < frame.ret_count(),
        Kind::Attr => frame.attrs().get(at.param.name, at.attr).is_some(),
        Kind::Attrs | Kind::Context => true,
    }
}

/// `None` where the operand or attribute did not come, or the host lacks the part of the context;
/// such a parameter does not raise the handler's floor.
// SAFETY: what it wraps keeps the promise.
unsafe impl<'f, T: Bind<'f>> Bind<'f> for Option<T> {
    const PARAM: Param = T::PARAM.optional();

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        if !present(frame, at) {
            return Some(None);
        }
        let value = T::bind(frame, at);
        if value.is_none() && !matches!(at.param.kind, Kind::Context) {
            return None;
        }
        Some(value)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        if !present(frame, at) || matches!(at.param.kind, Kind::Context) {
            return;
        }
        if matches!(at.param.kind, Kind::InOut) && at.ret >= frame.ret_count() {
            problems.push(format!(
                "in-out operand `{}`: came as an argument, but not as a result",
                at.param.name
            ));
            return;
        }
        T::explain(frame, at, problems);
    }

    #[inline(always)]
    fn region(&self) -> Region {
        self.as_ref().map_or(Region::EMPTY, T::region)
    }

    #[inline(always)]
    fn region_at(&self, frame: &Frame<'f>, at: &At) -> Region {
        self.as_ref()
            .map_or(Region::EMPTY, |value| value.region_at(frame, at))
    }
}

/// For the macros: what the name of the call frame means in a default.
#[doc(hidden)]
#[derive(Debug)]
pub struct Hidden;

/// For attributes with a default: absent means the default.
#[doc(hidden)]
#[inline(always)]
pub fn or_default<'f, T: Bind<'f>>(
    frame: &Frame<'f>,
    at: &At,
    default: impl FnOnce() -> T,
) -> Option<T> {
    match frame.attrs().get(at.param.name, at.attr) {
        Some(_) => T::bind(frame, at),
        None => Some(default()),
    }
}
