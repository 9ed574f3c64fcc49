//! What `#[derive(Bind)]` expands to: parameters made from other parameters.

use crate::param::bind::Bind;
use crate::frame::Frame;
use crate::param::bind::At;
use crate::param::{Kind, Param};
use crate::error::problems::Problems;

/// The parameter that a type is made from: one that is only read, since types are made before it is
/// known whether operands share memory.
#[must_use]
pub const fn readable(param: Param) -> Param {
    assert!(
        !matches!(param.kind, Kind::Ret | Kind::InOut | Kind::Attrs)
            && !crate::param::text::same(param.context, crate::future::CONTEXT),
        "#[derive(Bind)] makes types from arguments, attributes and parts of the context"
    );
    param
}

/// Says why a type could not be made.
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
    problems.push(format!("{what} `{}`: {error}", at.param.name));
}
