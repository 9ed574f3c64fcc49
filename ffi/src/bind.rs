//! Custom parameter types: the trait [`Bind`], the values that an implementation reads, and the
//! declarations that it makes.

pub(crate) mod one_of;
pub(crate) mod remaining;

pub use crate::attribute::AttrValue;
pub use crate::bind::one_of::Elements;
pub use crate::bind::remaining::{IntoArgs, IntoRets};
pub use crate::error::problems::Problems;
pub use crate::frame::Frame;
pub use crate::frame::element::DataTypes;
pub use crate::frame::host::Host;
pub use crate::frame::host_type::Registration;
pub use crate::future::outlives::OutlivesCall;
pub use crate::param::bind::At;
pub use crate::param::{AttrType, Kind, Layout, Param, Presence};
pub use xla_ffi_sys::Slot;

use crate::bind::one_of::{OneOf, OneOfOut};
use crate::bind::remaining::{RemainingArgs, RemainingRets};
use crate::future::outlives::impl_outlives_call;
use crate::param::bind::Bind;

/// Returns true if the call has the parameter's operand or attribute. A context part counts as
/// present; decoding the context part fails if the host lacks it.
#[inline(always)]
fn present(frame: &Frame<'_>, at: &At) -> bool {
    match at.param.kind {
        Kind::Arg => at.arg < frame.arg_count(),
        // An in-out operand that has only an argument or only a result is an error, not an absent
        // operand.
        Kind::InOut => at.arg < frame.arg_count() || at.ret < frame.ret_count(),
        Kind::Ret => at.ret < frame.ret_count(),
        Kind::Attr => frame.attrs().get(at.param.name, at.attr).is_some(),
        Kind::Attrs | Kind::Context => true,
    }
}

/// An optional parameter, which is `None` if the operand, the attribute or the context part is absent.
/// An optional context part does not raise the handler's minimum revision (its floor).
///
/// User data and state are `None` if the host has no object of the type for the call. The call is rejected if the
/// host does not know the type, or if the host's object has a different type.
// SAFETY: `T` upholds the contract of `Bind`.
unsafe impl<'f, T: Bind<'f>> Bind<'f> for Option<T> {
    const PARAM: Param = T::PARAM.optional();

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        if !present(frame, at) {
            return Some(None);
        }
        T::find(frame, at)
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        if !present(frame, at) {
            return;
        }
        if matches!(at.param.kind, Kind::Context) && matches!(T::find(frame, at), Some(None)) {
            return;
        }
        if matches!(at.param.kind, Kind::InOut) {
            let sides = (at.arg < frame.arg_count(), at.ret < frame.ret_count());
            let (there, lacking) = match sides {
                (true, false) => ("an argument", "a result"),
                (false, true) => ("a result", "an argument"),
                _ => return T::explain(frame, at, problems),
            };
            problems.push(format!(
                "in-out operand `{}`: passed as {there}, but not as {lacking}",
                at.param.name
            ));
            return;
        }
        T::explain(frame, at, problems);
    }
}

/// A value that hides the call frame from a default expression. Used by the macros.
#[doc(hidden)]
#[derive(Debug)]
pub struct Hidden;

/// Decodes an attribute, or returns the default if the attribute is absent.
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

/// Returns the declaration of the parameter that a `#[derive(Bind)]` type is created from. The
/// parameter must be read-only, because the type is created before operands are checked for shared
/// memory.
#[doc(hidden)]
#[must_use]
#[track_caller]
pub const fn readable(param: Param) -> Param {
    assert!(
        !matches!(param.kind, Kind::Ret | Kind::InOut | Kind::Attrs)
            && !crate::param::text::same(param.context, crate::future::CONTEXT),
        "`#[derive(Bind)]` makes types from arguments, attributes and parts of the context, not from results"
    );
    param
}

/// Reports why a value of a derived type could not be created.
#[doc(hidden)]
#[cold]
pub fn explain<'f, F, T>(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>)
where
    F: Bind<'f>,
    T: TryFrom<F, Error: std::fmt::Display>,
{
    let before = problems.len();
    F::explain(frame, at, problems);
    if problems.len() > before {
        return;
    }
    let Some(Err(error)) = F::bind(frame, at).map(T::try_from) else {
        return;
    };
    let what = match at.param.kind {
        Kind::Arg => "argument",
        Kind::Attr => "attribute",
        _ => "parameter",
    };
    problems.push(format!("{what} `{}`: {error:#}", at.param.name));
}

impl_outlives_call! {
    {} RemainingArgs<'_>;
    {} RemainingRets<'_>;
    {S, const RANK: usize} OneOf<'_, S, RANK>;
    {S, const RANK: usize} OneOfOut<'_, S, RANK>;
    {T: OutlivesCall} Option<T>;
}
