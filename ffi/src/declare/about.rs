//! What a handler says to callers alone: it is in the manifest, and no call looks at it.

/// What its author says of a handler beyond its operands.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The documentation comment.
    pub doc: &'static str,
    /// The handlers that compute its derivatives.
    pub gradient: Option<Gradient>,
    /// How calls may be batched.
    pub batch: Batch,
    /// Whether equal calls may give different results.
    pub nondeterministic: bool,
}

/// The handlers that compute derivatives, by name; `docs/manifest.md` tells what they take and give.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    /// Cotangents of the arguments from those of the results.
    pub vjp: Option<&'static str>,
    /// What is called in the handler's place where a gradient is wanted.
    pub forward: Option<&'static str>,
    /// Tangents of the results from those of the arguments.
    pub jvp: Option<&'static str>,
    /// The transpose of the map from tangents to tangents.
    pub transpose: Option<&'static str>,
    /// Whether the handler is linear, and so its own `jvp`.
    pub linear: bool,
    /// The operands that these handlers get first; `None` for the arguments.
    pub residuals: Option<&'static [&'static str]>,
}

/// How calls may be batched.
#[derive(Clone, Copy, Debug)]
pub enum Batch {
    /// As the shape contract says.
    Unsaid,
    /// `leading`, `sequential` or `none`.
    Word(&'static str),
    /// Whether each argument may have one more leading dimension.
    Each(&'static [bool]),
    /// By another handler.
    Handler(&'static str),
}
