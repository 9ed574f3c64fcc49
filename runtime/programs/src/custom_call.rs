//! Custom calls: their targets, operands, configuration and options.

use super::{ApiVersion, Program, ValueShape};
use std::fmt;
use xla_ffi_runtime::{Attributes, Tensor};

/// A preference for the time at which XLA's scheduler runs a call. The embedded runtime runs calls in the order in
/// which they were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Schedule {
    /// The scheduler may run the call at any time.
    #[default]
    None = 0,
    /// The scheduler runs the call as late as its users allow.
    Latest = 1,
    /// The scheduler runs the call as soon as its operands are available.
    Earliest = 2,
}

impl Schedule {
    /// Returns the schedule with XLA's number, from 0 to 2; `None` for other numbers.
    #[must_use]
    pub fn from_raw(raw: i32) -> Option<Self> {
        [Self::None, Self::Latest, Self::Earliest]
            .into_iter()
            .find(|schedule| *schedule as i32 == raw)
    }

    /// Returns XLA's name of the schedule, for example `"SCHEDULE_NONE"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "SCHEDULE_NONE",
            Self::Latest => "SCHEDULE_LATEST",
            Self::Earliest => "SCHEDULE_EARLIEST",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The configuration of a call: opaque bytes or attributes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Config {
    /// Bytes that a legacy target receives unchanged.
    Opaque(Vec<u8>),
    /// The attributes of a typed FFI handler.
    Attributes(Attributes),
}

/// An array in the result of a call that shares the memory of an array in an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Alias {
    /// The path of the array in the result, as tuple indices.
    pub output: Vec<usize>,
    /// The index of the operand.
    pub operand: usize,
    /// The path of the array in the operand, as tuple indices.
    pub operand_index: Vec<usize>,
}

/// The description of a custom call; [`Builder::custom_call`](super::Builder::custom_call) adds it to a
/// program.
///
/// ```
/// use xla_ffi_programs::{ApiVersion, Builder, CustomCall, ValueShape};
/// use xla_ffi_runtime::{Attributes, DType};
///
/// let mut b = Builder::new("two_calls");
/// let x = b.parameter(0, ValueShape::array(DType::F32, [4])?, "x");
/// let typed = CustomCall::ffi("rms_norm", [x], ValueShape::array(DType::F32, [4])?)
///     .attributes(Attributes::parse("{eps = 1.0e-5 : f32}")?);
/// let y = b.custom_call(typed);
/// let legacy = CustomCall::legacy(
///     ApiVersion::StatusReturning,
///     "in_place",
///     [y],
///     ValueShape::array(DType::F32, [4])?,
/// );
/// let y = b.custom_call(legacy.opaque(*b"any\0bytes").alias([], 0, []).with_side_effect());
/// let program = b.build(y)?;
/// assert!(program.to_hlo()?.contains(r#"backend_config="any\000bytes""#));
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CustomCall<O = Op> {
    pub(super) name: Option<String>,
    pub(super) target: String,
    pub(super) operands: Vec<O>,
    pub(super) shape: ValueShape,
    pub(super) operand_layouts: Option<Vec<ValueShape>>,
    pub(super) config: Config,
    pub(super) side_effect: bool,
    pub(super) aliases: Vec<Alias>,
    pub(super) literal: Option<Tensor>,
    pub(super) schedule: Schedule,
    pub(super) api_version: ApiVersion,
    pub(super) called: Vec<Program>,
}

impl CustomCall {
    /// Returns the description of a call of a typed FFI handler, without attributes.
    pub fn ffi(
        target: impl Into<String>,
        operands: impl IntoIterator<Item = Op>,
        shape: ValueShape,
    ) -> Self {
        let config = Config::Attributes(Attributes::new());
        Self::new(ApiVersion::TypedFfi, target, operands, shape, config)
    }

    /// Creates an original custom call with an empty opaque. With [`ApiVersion::TypedFfi`], the opaque is the text of
    /// an attribute dictionary, as in XLA's builder.
    pub fn legacy(
        api_version: ApiVersion,
        target: impl Into<String>,
        operands: impl IntoIterator<Item = Op>,
        shape: ValueShape,
    ) -> Self {
        let config = Config::Opaque(vec![]);
        Self::new(api_version, target, operands, shape, config)
    }

    fn new(
        api_version: ApiVersion,
        target: impl Into<String>,
        operands: impl IntoIterator<Item = Op>,
        shape: ValueShape,
        config: Config,
    ) -> Self {
        Self {
            name: None,
            target: target.into(),
            operands: operands.into_iter().collect(),
            shape,
            operand_layouts: None,
            config,
            side_effect: false,
            aliases: vec![],
            literal: None,
            schedule: Schedule::None,
            api_version,
            called: vec![],
        }
    }

    /// Sets the name of the instruction. The default is `custom-call.N`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the attributes of a typed FFI handler.
    #[must_use]
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.config = Config::Attributes(attributes);
        self
    }

    /// Sets the opaque bytes of an original custom call.
    #[must_use]
    pub fn opaque(mut self, opaque: impl Into<Vec<u8>>) -> Self {
        self.config = Config::Opaque(opaque.into());
        self
    }

    /// Declares that the call has a side effect, so that it runs even if its result is not used.
    #[must_use]
    pub fn with_side_effect(mut self) -> Self {
        self.side_effect = true;
        self
    }

    /// Declares that the array at `output` in the result shares the memory of the array at `operand_index` in operand
    /// `operand`. If the operand has other uses, it is copied before the call.
    #[must_use]
    pub fn alias(
        mut self,
        output: impl Into<Vec<usize>>,
        operand: usize,
        operand_index: impl Into<Vec<usize>>,
    ) -> Self {
        self.aliases.push(Alias {
            output: output.into(),
            operand,
            operand_index: operand_index.into(),
        });
        self
    }

    /// Sets the layouts in which the target receives its operands; the result then has the layout of its shape. By
    /// default, all layouts are row-major.
    #[must_use]
    pub fn operand_layouts(mut self, shapes: impl IntoIterator<Item = ValueShape>) -> Self {
        self.operand_layouts = Some(shapes.into_iter().collect());
        self
    }

    /// Attaches a constant array, which handlers of the internal API receive in [`Called`](super::Called). HLO also
    /// allows tuples, but its parser does not.
    #[must_use]
    pub fn literal(mut self, literal: Tensor) -> Self {
        self.literal = Some(literal);
        self
    }

    /// Sets the preference for the time of the call in XLA's schedule.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Adds a computation that the target may run. Handlers of the internal API receive it in
    /// [`Called`](super::Called).
    #[must_use]
    pub fn called_computation(mut self, computation: Program) -> Self {
        self.called.push(computation);
        self
    }
}

impl<O> CustomCall<O> {
    /// Returns a copy of the call with the given operands.
    pub(super) fn with_operands<P>(self, operands: Vec<P>) -> CustomCall<P> {
        CustomCall {
            name: self.name,
            target: self.target,
            operands,
            shape: self.shape,
            operand_layouts: self.operand_layouts,
            config: self.config,
            side_effect: self.side_effect,
            aliases: self.aliases,
            literal: self.literal,
            schedule: self.schedule,
            api_version: self.api_version,
            called: self.called,
        }
    }

    /// Returns the shape of an operand, with the layout in which the target receives it.
    pub(super) fn laid_out<'a>(&'a self, operand: usize, shape: &'a ValueShape) -> &'a ValueShape {
        self.operand_layouts
            .as_ref()
            .and_then(|layouts| layouts.get(operand))
            .unwrap_or(shape)
    }
}

/// An instruction of a program that is being built. Only the builder that created the instruction accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub(super) builder: u64,
    pub(super) index: usize,
}

impl Op {
    /// Returns the instruction's index in its program.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// Returns two numbers that identify the instruction, for bindings in other languages.
    #[must_use]
    pub fn to_raw(self) -> (u64, usize) {
        (self.builder, self.index)
    }

    /// Returns the instruction that the two numbers identify. All numbers are accepted;
    /// [`Builder::build`](super::Builder::build) reports invalid instructions.
    #[must_use]
    pub fn from_raw(builder: u64, index: usize) -> Self {
        Self { builder, index }
    }
}
