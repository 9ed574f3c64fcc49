//! What a handler declares about itself, as constant data: it feeds the floor, the diagnostics and
//! the manifest.

use crate::operand::element::DataTypes;
use xla_ffi_sys::{Revision, XLA_FFI_DataType, XLA_FFI_ExecutionStage};

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
    /// Several attributes, the [`Param::members`].
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

/// The type of an attribute.
///
/// ```
/// use xla_ffi::{AttrType, Attribute, DataType};
///
/// assert_eq!(<&[f32] as Attribute>::TYPE, AttrType::Array(DataType::F32));
/// assert_eq!(<&[f32] as Attribute>::TYPE.name(), "[f32]");
/// assert_eq!(AttrType::String.name(), "str");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrType {
    /// One value of an element type.
    Scalar(XLA_FFI_DataType),
    /// An array of an element type.
    Array(XLA_FFI_DataType),
    /// A string.
    String,
    /// A dictionary.
    Dictionary,
    /// Whatever comes.
    Any,
}

impl AttrType {
    /// The name in the manifest: `f32`, `[i64]`, `str`, `dict`, `any`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        macro_rules! of {
            ($dtype:expr, $($name:ident $scalar:literal $array:literal)*) => {
                match (self, $dtype) {
                    $((Self::Scalar(_), XLA_FFI_DataType::$name) => $scalar,
                    (_, XLA_FFI_DataType::$name) => $array,)*
                    _ => "any",
                }
            };
        }
        let dtype = match self {
            Self::Scalar(dtype) | Self::Array(dtype) => dtype,
            Self::String => return "str",
            Self::Dictionary => return "dict",
            Self::Any => return "any",
        };
        of!(dtype,
            PRED "bool" "[bool]" S8 "i8" "[i8]" S16 "i16" "[i16]" S32 "i32" "[i32]"
            S64 "i64" "[i64]" U8 "u8" "[u8]" U16 "u16" "[u16]" U32 "u32" "[u32]" U64 "u64" "[u64]"
            F32 "f32" "[f32]" F64 "f64" "[f64]" C64 "c64" "[c64]" C128 "c128" "[c128]")
    }
}

/// One parameter of a handler: what it takes, and what the manifest says of it. See [`Bind`] for the
/// place where one is made by hand.
///
/// [`Bind`]: crate::Bind
///
/// ```
/// use xla_ffi::{AttrType, Bind, Buffer, DataType, DataTypes, Kind, Param, Presence, Revision, RunId};
///
/// const MATRIX: Param = Param::operand(Kind::Arg, DataTypes::only(DataType::F32), Some(2));
/// assert_eq!(<Buffer<f32, 2> as Bind>::PARAM.rank, MATRIX.rank);
/// assert!(MATRIX.on_device().device);
/// assert_eq!(MATRIX.named("a").optional().presence, Presence::Optional);
/// assert_eq!(MATRIX.variadic().presence, Presence::Variadic);
///
/// const STEPS: Param = Param::attribute(AttrType::Scalar(DataType::S32)).named("steps");
/// assert!(STEPS.narrowed().narrow);
/// assert_eq!(STEPS.with_default(Some("3")).default, Some("3"));
/// const GRID: Param = Param::attributes(&[STEPS]);
/// assert_eq!(GRID.members[0].name, "steps");
/// const OPTIONS: Param = Param::attribute(AttrType::Dictionary).with_members(&[STEPS]);
/// assert_eq!(OPTIONS.members.len(), 1);
///
/// assert_eq!(<RunId as Bind>::PARAM.since, Revision::R4);
/// // What may be absent needs no revision.
/// assert_eq!(Param::context("run_id", Revision::R4).optional().since, Revision::R0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// How often it comes.
    pub presence: Presence,
    /// Accepted element types of an operand.
    pub dtypes: DataTypes,
    /// Rank of an operand; `None` for any.
    pub rank: Option<usize>,
    /// Whether an operand may lie in device memory.
    pub device: bool,
    /// Type of an attribute.
    pub attr: AttrType,
    /// JSON of a literal default.
    pub default: Option<&'static str>,
    /// Whether wider attribute types are converted when the value fits.
    pub narrow: bool,
    /// Name of a context part, as in the manifest; empty for other kinds.
    pub context: &'static str,
    /// The oldest revision that can serve it.
    pub since: Revision,
    /// The attributes of a struct that is taken from the handler's own attributes, or the known
    /// entries of a dictionary.
    pub members: &'static [Param],
    /// The type of a context part that the host carries: made known before the first call.
    pub(crate) host_type: Option<fn() -> &'static crate::declare::types::KnownType>,
}

impl Param {
    const fn new(kind: Kind) -> Self {
        Self {
            name: "",
            kind,
            presence: Presence::Required,
            dtypes: DataTypes::ANY,
            rank: None,
            device: false,
            attr: AttrType::Any,
            default: None,
            narrow: false,
            context: "",
            since: Revision::R0,
            members: &[],
            host_type: None,
        }
    }

    /// An operand.
    #[must_use]
    pub const fn operand(kind: Kind, dtypes: DataTypes, rank: Option<usize>) -> Self {
        let mut param = Self::new(kind);
        param.dtypes = dtypes;
        param.rank = rank;
        param
    }

    /// The same operand, wherever its memory lies.
    #[must_use]
    pub const fn on_device(mut self) -> Self {
        self.device = true;
        self
    }

    /// An attribute.
    #[must_use]
    pub const fn attribute(attr: AttrType) -> Self {
        let mut param = Self::new(Kind::Attr);
        param.attr = attr;
        param
    }

    /// The same attribute, a dictionary with these entries.
    #[must_use]
    pub const fn with_members(mut self, members: &'static [Param]) -> Self {
        self.members = members;
        self
    }

    /// Several attributes.
    #[must_use]
    pub const fn attributes(members: &'static [Param]) -> Self {
        let mut param = Self::new(Kind::Attrs);
        param.members = members;
        param
    }

    /// A part of the context.
    #[must_use]
    pub const fn context(context: &'static str, since: Revision) -> Self {
        let mut param = Self::new(Kind::Context);
        param.context = context;
        param.since = since;
        param
    }

    /// The same part of the context, made of a type that the host carries.
    pub(crate) const fn of_type(
        mut self,
        host_type: Option<fn() -> &'static crate::declare::types::KnownType>,
    ) -> Self {
        self.host_type = host_type;
        self
    }

    /// The same with a name.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// The same, but it may be absent; then it needs no revision.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.presence = Presence::Optional;
        self.since = Revision::R0;
        self
    }

    /// The same, any number of times.
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.presence = Presence::Variadic;
        self
    }

    /// The same with a default; `json` is `None` where the default is not a literal.
    #[must_use]
    pub const fn with_default(mut self, json: Option<&'static str>) -> Self {
        self.presence = Presence::Optional;
        self.default = json;
        self
    }

    /// The same, converting from wider types.
    #[must_use]
    pub const fn narrowed(mut self) -> Self {
        assert!(
            !matches!(
                self.attr,
                AttrType::String
                    | AttrType::Dictionary
                    | AttrType::Scalar(XLA_FFI_DataType::PRED)
                    | AttrType::Array(XLA_FFI_DataType::PRED)
            ),
            "#[attr(narrow)] is for numbers and arrays of numbers: nothing else is converted"
        );
        self.narrow = true;
        self
    }

    pub(crate) const fn takes_arg(&self) -> bool {
        matches!(self.kind, Kind::Arg | Kind::InOut)
    }

    pub(crate) const fn takes_ret(&self) -> bool {
        matches!(self.kind, Kind::Ret | Kind::InOut)
    }
}

/// The name of what the internal API takes from the context.
pub(crate) const INTERNAL: &str = "internal";

/// For the macros: refuses a stage whose context comes from both APIs.
pub const fn one_api(params: &[Param]) {
    let (mut internal, mut external, mut i) = (false, false, 0);
    while i < params.len() {
        if matches!(params[i].kind, Kind::Context) {
            if same(params[i].context, INTERNAL) {
                internal = true;
            } else {
                external = true;
            }
        }
        i += 1;
    }
    assert!(
        !(internal && external),
        "a handler takes its context from one API: `internal::Invocation` has the runtime's own \
         objects, which the external parts of the context (ThreadPool, Stream, UserData, …) hide; \
         use the one or the other"
    );
}

/// One stage of a handler.
#[derive(Clone, Copy, Debug)]
pub struct StageInfo {
    /// The number of the stage in the ABI.
    pub stage: u32,
    /// Its parameters.
    pub params: &'static [Param],
    /// Whether it returns a future.
    pub is_async: bool,
}

/// A handler, as constant data.
#[derive(Clone, Copy, Debug)]
pub struct HandlerInfo {
    /// Its name: that of the custom call's target.
    pub name: &'static str,
    /// The platforms that it is registered for.
    pub platforms: &'static [&'static str],
    /// Its stages.
    pub stages: &'static [StageInfo],
    /// Whether attributes that it does not know are ignored.
    pub open_attrs: bool,
    /// The shape contract as text; empty for none.
    pub shape: &'static str,
    /// Bits of `XLA_FFI_Handler_Traits`.
    pub traits: u32,
    /// The type of its state.
    pub state: Option<StateInfo>,
    /// A floor that the author set by hand.
    pub floor: Revision,
}

const fn max(a: Revision, b: Revision) -> Revision {
    if (a as u8) < b as u8 { b } else { a }
}

const fn floor_of(params: &[Param]) -> Revision {
    let mut floor = Revision::R0;
    let mut i = 0;
    while i < params.len() {
        floor = max(floor, params[i].since);
        floor = max(floor, floor_of(params[i].members));
        i += 1;
    }
    floor
}

pub(crate) const fn same(a: &str, b: &str) -> bool {
    matches!(order(a, b), std::cmp::Ordering::Equal)
}

const fn order(a: &str, b: &str) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return if a[i] < b[i] {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
        i += 1;
    }
    if a.len() < b.len() {
        Ordering::Less
    } else if a.len() > b.len() {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

/// The names of a handler's attributes, sorted as hosts sort them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttrNames {
    names: [&'static str; Self::MOST],
    count: usize,
}

impl AttrNames {
    /// As many as there is room for.
    const MOST: usize = 24;

    /// The names.
    pub(crate) fn as_slice(&self) -> &[&'static str] {
        self.names.get(..self.count).unwrap_or_default()
    }
}

impl HandlerInfo {
    /// The oldest revision on which the handler can do all of its work.
    ///
    /// Futures do not count: where a host has none, the call completes before it returns.
    #[must_use]
    pub const fn floor(&self) -> Revision {
        let mut floor = self.floor;
        if self.state.is_some() {
            floor = max(floor, Revision::R1);
        }
        let mut i = 0;
        while i < self.stages.len() {
            floor = max(floor, floor_of(self.stages[i].params));
            if self.stages[i].stage == 4 {
                floor = max(floor, Revision::R9);
            }
            i += 1;
        }
        floor
    }

    /// Makes the types of user data that parameters take known to the host. What goes wrong here is
    /// told when the parameter is bound.
    pub(crate) fn register_types(&self, host: crate::Host) {
        let params = self.stages.iter().flat_map(|stage| stage.params);
        for host_type in params.filter_map(|param| param.host_type) {
            let _ = host_type().id(host);
        }
    }

    /// The `i`-th attribute in the order of declaration over all stages, structs unfolded; a name
    /// that several stages share comes once.
    pub(crate) const fn attr(&self, index: usize) -> Option<&'static Param> {
        let mut seen = 0;
        let mut s = 0;
        while s < self.stages.len() {
            let params = self.stages[s].params;
            let mut p = 0;
            while p < params.len() {
                let mut m = 0;
                while let Some(attr) = member(&params[p], m) {
                    if !self.declared_before(attr.name, s, p, m) {
                        if seen == index {
                            return Some(attr);
                        }
                        seen += 1;
                    }
                    m += 1;
                }
                p += 1;
            }
            s += 1;
        }
        None
    }

    const fn declared_before(&self, name: &str, stage: usize, param: usize, m: usize) -> bool {
        let mut s = 0;
        while s <= stage {
            let params = self.stages[s].params;
            let mut p = 0;
            while p < params.len() {
                let mut k = 0;
                while let Some(attr) = member(&params[p], k) {
                    if s == stage && p == param && k == m {
                        return false;
                    }
                    if same(attr.name, name) {
                        return true;
                    }
                    k += 1;
                }
                p += 1;
            }
            s += 1;
        }
        false
    }

    /// Number of attributes over all stages.
    #[must_use]
    pub const fn attr_count(&self) -> usize {
        let mut count = 0;
        while self.attr(count).is_some() {
            count += 1;
        }
        count
    }

    /// Whether any attribute may be absent.
    #[must_use]
    pub const fn has_optional_attrs(&self) -> bool {
        let mut i = 0;
        while let Some(attr) = self.attr(i) {
            if !matches!(attr.presence, Presence::Required) {
                return true;
            }
            i += 1;
        }
        false
    }

    /// Where an attribute lies among the sorted names when all are present.
    #[must_use]
    pub const fn attr_position(&self, name: &str) -> usize {
        let mut position = 0;
        let mut i = 0;
        while let Some(attr) = self.attr(i) {
            if matches!(order(attr.name, name), std::cmp::Ordering::Less) {
                position += 1;
            }
            i += 1;
        }
        position
    }

    /// The names of all attributes over all stages, sorted, where they are not too many.
    pub(crate) const fn attr_names(&self) -> Option<AttrNames> {
        let mut names = AttrNames {
            names: [""; AttrNames::MOST],
            count: 0,
        };
        while let Some(attr) = self.attr(names.count) {
            if names.count == AttrNames::MOST {
                return None;
            }
            names.names[self.attr_position(attr.name)] = attr.name;
            names.count += 1;
        }
        Some(names)
    }

    /// All attributes over all stages.
    pub(crate) fn attrs(&self) -> impl Iterator<Item = &'static Param> + use<'_> {
        (0..).map_while(|index| self.attr(index))
    }
}

/// The `m`-th attribute of a parameter: itself, or a member of its struct.
const fn member(param: &'static Param, m: usize) -> Option<&'static Param> {
    match param.kind {
        Kind::Attr if m == 0 => Some(param),
        Kind::Attrs if m < param.members.len() => Some(&param.members[m]),
        _ => None,
    }
}

/// Where a parameter finds what it takes. The macros make it, and implementations of [`Bind`] are
/// given it.
///
/// [`Bind`]: crate::Bind
///
/// ```
/// use xla_ffi::{At, Bind, Frame, Param, Problems, Region, prelude::*};
///
/// /// An argument, and which one it is.
/// struct Numbered<'f>(usize, Buffer<'f, f32>);
///
/// // SAFETY: as its buffer.
/// unsafe impl<'f> Bind<'f> for Numbered<'f> {
///     const PARAM: Param = <Buffer<'f, f32> as Bind>::PARAM;
///
///     fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
///         Some(Self(at.arg, <Buffer<'f, f32> as Bind>::bind(frame, at)?))
///     }
///
///     fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
///         <Buffer<'f, f32> as Bind>::explain(frame, at, problems);
///     }
///
///     fn region(&self) -> Region {
///         self.1.region()
///     }
/// }
///
/// #[xla_ffi::handler]
/// fn second(_a: Buffer<i32>, b: Numbered, mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(b.0 as i64 + b.1.len() as i64);
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape, Tensor};
/// let call = internal::call::<second>("{}")?
///     .arg(Tensor::from_slice([1], &[1])?)
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![3_i64]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The parameter.
    pub param: Param,
    /// Number of arguments before it.
    pub arg: usize,
    /// Number of results before it.
    pub ret: usize,
    /// Probable position of its (first) attribute.
    pub attr: usize,
}

impl At {
    /// For the macros: the place of parameter `index` of a stage.
    #[doc(hidden)]
    #[must_use]
    pub const fn of(info: &HandlerInfo, params: &'static [Param], index: usize) -> Self {
        let (mut arg, mut ret, mut i) = (0, 0, 0);
        while i < index {
            if params[i].takes_arg() {
                arg += 1;
            }
            if params[i].takes_ret() {
                ret += 1;
            }
            i += 1;
        }
        let param = params[index];
        let attr = match param.kind {
            Kind::Attrs => {
                // Structs decode their members in sorted order, from the first on.
                let mut first = usize::MAX;
                let mut m = 0;
                while m < param.members.len() {
                    let position = info.attr_position(param.members[m].name);
                    if position < first {
                        first = position;
                    }
                    m += 1;
                }
                first
            }
            _ => info.attr_position(param.name),
        };
        Self {
            param,
            arg,
            ret,
            attr,
        }
    }
}

/// Whether a stage's arguments, or its results, have to be as many as declared: always at execute;
/// elsewhere only if the stage takes any, since hosts may give none, or give them all.
pub(crate) const fn counts_matter(stage: u32, params: &[Param], args: bool) -> bool {
    if stage == XLA_FFI_ExecutionStage::EXECUTE.0 {
        return true;
    }
    let mut i = 0;
    while i < params.len() {
        if if args {
            params[i].takes_arg()
        } else {
            params[i].takes_ret()
        } {
            return true;
        }
        i += 1;
    }
    false
}

/// How many operands a stage takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// At least.
    pub(crate) min: usize,
    /// At most; `usize::MAX` with variadic operands.
    pub(crate) max: usize,
}

impl Counts {
    /// The arguments of a stage.
    #[must_use]
    pub(crate) const fn args(params: &[Param]) -> Self {
        Self::count(params, true)
    }

    /// The results of a stage.
    #[must_use]
    pub(crate) const fn rets(params: &[Param]) -> Self {
        Self::count(params, false)
    }

    const fn count(params: &[Param], args: bool) -> Self {
        let mut counts = Self { min: 0, max: 0 };
        let mut i = 0;
        let mut last = Presence::Required;
        while i < params.len() {
            let param = &params[i];
            i += 1;
            if !(if args {
                param.takes_arg()
            } else {
                param.takes_ret()
            }) {
                continue;
            }
            match param.presence {
                Presence::Required => {
                    assert!(
                        matches!(last, Presence::Required),
                        "a required operand stands behind an optional or variadic one"
                    );
                    counts.min += 1;
                    counts.max += 1;
                }
                Presence::Optional => {
                    assert!(
                        !matches!(last, Presence::Variadic),
                        "an optional operand stands behind a variadic one"
                    );
                    counts.max += 1;
                }
                Presence::Variadic => {
                    assert!(
                        !matches!(last, Presence::Variadic),
                        "two variadic operands of one kind"
                    );
                    counts.max = usize::MAX;
                }
            }
            last = param.presence;
        }
        counts
    }

    /// Whether `count` operands are right.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn contains(self, count: usize) -> bool {
        self.min <= count && count <= self.max
    }
}

/// The type of a handler's state, as constant data.
#[derive(Clone, Copy, Debug)]
pub struct StateInfo {
    /// The name under which it is registered.
    pub name: &'static str,
    /// How hosts know it.
    pub host_type: fn() -> &'static crate::declare::types::KnownType,
}
