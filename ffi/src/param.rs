//! The declaration of a handler's parameter: constant data for the minimum revision, error messages and the manifest.

pub(crate) mod bind;
pub(crate) mod mismatch;
pub(crate) mod text;

use crate::frame::element::{DataTypes, Wide};
use crate::param::text::same;
use xla_ffi_sys::{Revision, XLA_FFI_DataType};

/// The part of the call that a parameter receives.
///
/// ```
/// use xla_ffi::{Bind, InOut, Out, bind::Kind};
///
/// assert_eq!(<Out<f32> as Bind>::PARAM.kind, Kind::Ret);
/// assert_eq!(<InOut<f32> as Bind>::PARAM.kind, Kind::InOut);
/// assert_eq!(<i64 as Bind>::PARAM.kind, Kind::Attr);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The parameter receives the next argument.
    Arg,
    /// The parameter receives the next result.
    Ret,
    /// The parameter receives the next argument and the next result, which share their memory.
    InOut,
    /// The parameter receives the attribute with the parameter's name.
    Attr,
    /// The parameter receives several attributes, listed in [`Param::members`](crate::bind::Param::members).
    Attrs,
    /// The parameter receives a part of the call's context.
    Context,
}

/// How often a parameter's operand or attribute may occur in a call.
///
/// ```
/// use xla_ffi::{Bind, Buffer, RemainingArgs, bind::Presence};
///
/// assert_eq!(<Buffer<f32> as Bind>::PARAM.presence, Presence::Required);
/// assert_eq!(<Option<Buffer<f32>> as Bind>::PARAM.presence, Presence::Optional);
/// assert_eq!(<RemainingArgs as Bind>::PARAM.presence, Presence::Variadic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The operand or attribute occurs exactly once.
    Required,
    /// The operand or attribute occurs at most once.
    Optional,
    /// The parameter receives any number of remaining operands.
    Variadic,
}

/// The declaration of one handler parameter, also used for the manifest. For an example that creates a declaration by
/// hand, see [`Bind`].
///
/// [`Bind`]: crate::Bind
///
/// ```
/// use xla_ffi::{Bind, Buffer, DataType, Revision, RunId, bind::{AttrType, DataTypes, Kind, Param, Presence}};
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
    /// The parameter's name.
    pub name: &'static str,
    /// The author's description of the parameter, for the manifest.
    pub doc: &'static str,
    /// The part of the call that the parameter receives.
    pub kind: Kind,
    /// How often the operand or attribute may occur.
    pub presence: Presence,
    /// The accepted element types of an operand.
    pub dtypes: DataTypes,
    /// The rank of an operand, or `None` for any rank.
    pub rank: Option<usize>,
    /// Whether the operand may be in device memory.
    pub device: bool,
    /// The memory order of an operand's elements.
    pub layout: Layout,
    /// The type of an attribute.
    pub attr: AttrType,
    /// The default as JSON, if the default is a literal.
    pub default: Option<&'static str>,
    /// Whether values of wider types are converted to the attribute's type if they fit.
    pub narrow: bool,
    /// The name of a context part in the manifest; empty for other kinds of parameters.
    pub context: &'static str,
    /// The oldest revision that supports the parameter.
    pub since: Revision,
    /// The members of a struct: attributes of the handler, or the known entries of a dictionary.
    pub members: &'static [Param],
    /// The range of values that an attribute may have.
    pub(crate) range: Range,
    /// The host type of a context part, which is registered before the first call.
    pub(crate) host_type: Option<fn() -> &'static crate::frame::host_type::KnownType>,
}

impl Param {
    const fn new(kind: Kind) -> Self {
        Self {
            name: "",
            doc: "",
            kind,
            presence: Presence::Required,
            dtypes: DataTypes::ANY,
            rank: None,
            device: false,
            layout: Layout::Row,
            attr: AttrType::Any,
            default: None,
            narrow: false,
            context: "",
            since: Revision::R0,
            members: &[],
            range: Range::ALL,
            host_type: None,
        }
    }

    /// Creates the declaration of an operand.
    #[must_use]
    pub const fn operand(kind: Kind, dtypes: DataTypes, rank: Option<usize>) -> Self {
        let mut param = Self::new(kind);
        param.dtypes = dtypes;
        param.rank = rank;
        param
    }

    /// Returns this operand declaration, changed to allow device memory.
    #[must_use]
    pub const fn on_device(mut self) -> Self {
        self.device = true;
        self
    }

    /// Creates the declaration of an attribute.
    #[must_use]
    pub const fn attribute(attr: AttrType) -> Self {
        let mut param = Self::new(Kind::Attr);
        param.attr = attr;
        param
    }

    /// Returns this attribute declaration with the known entries of its dictionary.
    #[must_use]
    pub const fn with_members(mut self, members: &'static [Param]) -> Self {
        self.members = members;
        self
    }

    /// Creates the declaration of a struct whose fields are attributes of the handler.
    #[must_use]
    pub const fn attributes(members: &'static [Param]) -> Self {
        let mut param = Self::new(Kind::Attrs);
        param.members = members;
        param
    }

    /// Creates the declaration of a context part that hosts support from revision `since` on.
    #[must_use]
    pub const fn context(context: &'static str, since: Revision) -> Self {
        let mut param = Self::new(Kind::Context);
        param.context = context;
        param.since = since;
        param
    }

    /// Returns this context part with the type that must be registered with the host.
    pub(crate) const fn of_type(
        mut self,
        host_type: Option<fn() -> &'static crate::frame::host_type::KnownType>,
    ) -> Self {
        self.host_type = host_type;
        self
    }

    /// Returns this parameter with a name.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Returns this parameter with a description.
    ///
    /// ```
    /// use xla_ffi::bind::{AttrType, Param};
    ///
    /// const UNIT: Param = Param::attribute(AttrType::String).named("unit").documented("Of length.");
    /// assert_eq!(UNIT.doc, "Of length.");
    /// ```
    #[must_use]
    pub const fn documented(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Returns this parameter as optional. An optional parameter does not raise the handler's minimum revision.
    ///
    /// # Panics
    /// If the parameter is variadic.
    #[must_use]
    #[track_caller]
    pub const fn optional(mut self) -> Self {
        assert!(
            !matches!(self.presence, Presence::Variadic),
            "`RemainingArgs` and `RemainingRets` may be empty: write them without `Option`"
        );
        self.presence = Presence::Optional;
        self.since = Revision::R0;
        self
    }

    /// Returns this parameter as variadic: it receives all remaining operands. A variadic parameter cannot be
    /// [`Param::optional`].
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.presence = Presence::Variadic;
        self
    }

    /// Returns this parameter with a default. Pass `None` for `json` if the default is not a literal.
    #[must_use]
    pub const fn with_default(mut self, json: Option<&'static str>) -> Self {
        self.presence = Presence::Optional;
        self.default = json;
        self
    }

    /// Returns this parameter, changed to accept values of wider types if the values fit.
    #[must_use]
    pub const fn narrowed(mut self) -> Self {
        self.narrow = true;
        self
    }

    /// Returns this parameter with a range of values. Used by the macros.
    #[doc(hidden)]
    #[must_use]
    pub const fn within(mut self, range: Range) -> Self {
        self.range = range;
        self
    }

    /// Returns this operand with a layout. Used by the macros.
    #[doc(hidden)]
    #[must_use]
    pub const fn laid_out(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Panics if the attribute's type does not allow its options. Used by the macros at compile time.
    #[doc(hidden)]
    #[track_caller]
    pub const fn check_options(&self) {
        assert!(
            !self.narrow
                || !matches!(
                    self.attr,
                    AttrType::String
                        | AttrType::Dictionary
                        | AttrType::Scalar(XLA_FFI_DataType::PRED)
                        | AttrType::Array(XLA_FFI_DataType::PRED)
                ),
            "`#[attr(narrow)]` is for numbers and arrays of numbers: remove it here"
        );
        assert!(
            self.range.is_for(self.attr),
            "`min` and `max` are for integers, with integer bounds, and for `f32` and `f64`"
        );
    }

    /// Panics if the operand's kind or rank does not allow its layout. Used by the macros at compile time.
    #[doc(hidden)]
    #[track_caller]
    pub const fn check_layout(&self) {
        assert!(
            self.takes_arg() || self.takes_ret(),
            "`#[operand(…)]` is for arguments and results: remove it here"
        );
        match (self.layout, self.rank) {
            (Layout::Order(axes), Some(rank)) => assert!(
                axes.len() == rank,
                "this layout must list as many dimensions as the operand has"
            ),
            (Layout::Order(_), None) => {
                panic!("a list of dimensions needs a rank, for instance `Buffer<f32, 2>`")
            }
            _ => {}
        }
    }

    /// Returns true if the parameter uses an argument (`arg`) or a result (`!arg`).
    pub(crate) const fn takes(&self, arg: bool) -> bool {
        if arg {
            self.takes_arg()
        } else {
            self.takes_ret()
        }
    }

    /// Returns the `m`-th handler attribute that the parameter uses: the attribute itself or a member of the
    /// parameter's struct.
    pub(crate) const fn attribute_at(&'static self, m: usize) -> Option<&'static Self> {
        match self.kind {
            Kind::Attr if m == 0 => Some(self),
            Kind::Attrs if m < self.members.len() => Some(&self.members[m]),
            _ => None,
        }
    }

    pub(crate) const fn takes_arg(&self) -> bool {
        matches!(self.kind, Kind::Arg | Kind::InOut)
    }

    pub(crate) const fn takes_ret(&self) -> bool {
        matches!(self.kind, Kind::Ret | Kind::InOut)
    }
}

/// The context name of parameters that use the internal API.
pub(crate) const INTERNAL: &str = "internal";

/// Panics if a stage uses both `Invocation` and other context parameters. Used by the macros at compile time.
#[track_caller]
pub const fn assert_one_api(params: &[Param]) {
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
        "a handler takes either `embed::Invocation` or `ThreadPool`, `Stream`, `UserData` and the like: remove one"
    );
}

/// The type of an attribute.
///
/// ```
/// use xla_ffi::{Attribute, DataType, bind::AttrType};
///
/// assert_eq!(<&[f32] as Attribute>::TYPE, AttrType::Array(DataType::F32));
/// assert_eq!(<&[f32] as Attribute>::TYPE.name(), "[f32]");
/// assert_eq!(AttrType::String.name(), "str");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrType {
    /// A scalar of an element type.
    Scalar(XLA_FFI_DataType),
    /// An array of an element type.
    Array(XLA_FFI_DataType),
    /// A string attribute.
    String,
    /// A dictionary of attributes.
    Dictionary,
    /// An attribute of any type.
    Any,
}

impl AttrType {
    /// Returns the type's name in the manifest, for example `f32`, `[i64]`, `str`, `dict` or `any`.
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

/// The memory order of an operand's elements, declared with `#[operand(layout = …)]`. The operand's shape still lists
/// the dimensions in logical order.
///
/// Call frames do not contain the layout, so the layout cannot be checked. Callers read the declaration from the
/// manifest and request this layout from XLA.
///
/// ```
/// use xla_ffi::{Bind, prelude::*, bind::Layout};
///
/// /// Sums each column, whose elements lie side by side.
/// #[xla_ffi::handler(shape = "n m -> m")]
/// fn column_sums(#[operand(layout = "column")] x: Buffer<f32, 2>, mut y: Out<f32, 1>) -> Result<()> {
///     let rows = x.dims()[0];
///     for (column, sum) in y.as_uninit().iter_mut().enumerate() {
///         sum.write(x[column * rows..][..rows].iter().sum());
///     }
///     Ok(())
/// }
///
/// assert_eq!(<Buffer<f32, 2> as Bind>::PARAM.layout, Layout::Row);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The last dimension varies fastest.
    Row,
    /// The first dimension varies fastest.
    Column,
    /// The order of the dimensions, from slowest to fastest varying.
    Order(&'static [usize]),
}

/// The minimum or maximum value of an attribute.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The bound as JSON text, for the manifest.
    pub json: &'static str,
    /// The bound as a number.
    pub value: Wide,
}

/// The range of values that an attribute may have. Both bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The smallest allowed value, if there is a minimum.
    pub min: Option<Bound>,
    /// The largest allowed value, if there is a maximum.
    pub max: Option<Bound>,
}

impl Range {
    pub(crate) const ALL: Self = Self {
        min: None,
        max: None,
    };

    /// Returns true if attributes of this type can be compared with the bounds.
    pub(crate) const fn is_for(&self, ty: AttrType) -> bool {
        use XLA_FFI_DataType as D;
        let whole = matches!(
            (self.min, self.max),
            (
                None | Some(Bound {
                    value: Wide::Int(_),
                    ..
                }),
                None | Some(Bound {
                    value: Wide::Int(_),
                    ..
                })
            )
        );
        match ty {
            AttrType::Scalar(D::F32 | D::F64) => true,
            AttrType::Scalar(
                D::S8 | D::S16 | D::S32 | D::S64 | D::U8 | D::U16 | D::U32 | D::U64,
            ) => whole,
            _ => self.min.is_none() && self.max.is_none(),
        }
    }
}
