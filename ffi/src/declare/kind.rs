//! What a parameter takes from the call, and how often it comes.

/// What a parameter of a handler takes from the call.
///
/// ```
/// use xla_ffi::{Bind, InOut, Kind, Out};
///
/// assert_eq!(<Out<f32> as Bind>::PARAM.kind, Kind::Ret);
/// assert_eq!(<InOut<f32> as Bind>::PARAM.kind, Kind::InOut);
/// assert_eq!(<i64 as Bind>::PARAM.kind, Kind::Attr);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The next argument.
    Arg,
    /// The next result.
    Ret,
    /// The next argument and the next result, which share their memory.
    InOut,
    /// The attribute with the parameter's name.
    Attr,
    /// Several attributes, the [`Param::members`](crate::Param::members).
    Attrs,
    /// A part of the context.
    Context,
}

/// How often an operand or attribute comes.
///
/// ```
/// use xla_ffi::{Bind, Buffer, Presence, RemainingArgs};
///
/// assert_eq!(<Buffer<f32> as Bind>::PARAM.presence, Presence::Required);
/// assert_eq!(<Option<Buffer<f32>> as Bind>::PARAM.presence, Presence::Optional);
/// assert_eq!(<RemainingArgs as Bind>::PARAM.presence, Presence::Variadic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Exactly once.
    Required,
    /// Once or not at all.
    Optional,
    /// All that are left.
    Variadic,
}
