//! What a manifest says of a handler, as the format spells it.

use serde::{Deserialize, Serialize};
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage};

/// One handler: a target name with the functions behind it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Handler {
    /// Target name.
    pub name: String,
    /// Platforms it is for, `"cpu"` for instance.
    pub platforms: Vec<String>,
    /// The exported symbol of each stage.
    pub stages: Stages,
    /// What its author says about it.
    #[serde(default)]
    pub doc: String,
    /// Whether its operands and attributes are described; where not, they have to be told by the caller.
    #[serde(default = "yes")]
    pub described: bool,
    /// Operands.
    #[serde(default)]
    pub args: Vec<Operand>,
    /// Results.
    #[serde(default)]
    pub rets: Vec<Operand>,
    /// Attributes.
    #[serde(default)]
    pub attrs: Vec<Attribute>,
    /// The handlers that compute its derivatives.
    #[serde(default)]
    pub gradient: Option<Gradient>,
    /// How calls may be batched, where the contract is not to decide.
    #[serde(default)]
    pub batch: Option<Batch>,
    /// Whether attributes that are not listed are ignored instead of refused.
    #[serde(default)]
    pub open_attrs: bool,
    /// The shape contract.
    #[serde(default)]
    pub shape: Option<String>,
    /// What it takes from its context.
    #[serde(default)]
    pub context: Vec<String>,
    /// Traits, by name.
    #[serde(default)]
    pub traits: Vec<String>,
    /// Whether it completes after it returns.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// The type of its state.
    #[serde(default)]
    pub state: Option<State>,
    /// The oldest revision on which it can do all of its work, `"r1"` for instance; see
    /// [`Handler::floor_revision`].
    pub floor: String,
}

fn yes() -> bool {
    true
}

/// The handlers that compute derivatives, by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Gradient {
    /// Cotangents of the arguments from those of the results.
    #[serde(default)]
    pub vjp: Option<String>,
    /// What is called in the handler's place where a gradient is wanted.
    #[serde(default)]
    pub forward: Option<String>,
    /// Tangents of the results from those of the arguments.
    #[serde(default)]
    pub jvp: Option<String>,
    /// The transpose of the map from tangents to tangents.
    #[serde(default)]
    pub transpose: Option<String>,
    /// Whether the handler is its own `jvp`.
    #[serde(default)]
    pub linear: bool,
    /// The operands that these handlers get first; all arguments without it.
    #[serde(default)]
    pub residuals: Option<Vec<String>>,
}

impl Gradient {
    /// The handlers that it names, each under its key.
    pub fn handlers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let keys = [
            ("vjp", &self.vjp),
            ("forward", &self.forward),
            ("jvp", &self.jvp),
            ("transpose", &self.transpose),
        ];
        keys.into_iter()
            .filter_map(|(key, name)| Some((key, name.as_deref()?)))
    }
}

/// How calls may be batched.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Batch {
    /// `leading`, `sequential` or `none`.
    Word(String),
    /// `leading` or `shared` for each argument.
    Each(Vec<String>),
    /// By another handler.
    Handler {
        /// Its name.
        handler: String,
    },
}

/// The order of an operand's elements in memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Layout {
    /// `row` or `column`.
    Word(String),
    /// The dimensions from the slowest to the fastest.
    Order(Vec<usize>),
}

impl Default for Layout {
    /// The last dimension varies fastest.
    fn default() -> Self {
        Self::Word("row".to_owned())
    }
}

impl Handler {
    /// The floor; `None` for a revision that is newer than this tool.
    #[must_use]
    pub fn floor_revision(&self) -> Option<Revision> {
        Revision::from_name(&self.floor)
    }
}

/// The exported symbols of a handler's stages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Stages {
    /// Instantiate.
    #[serde(default)]
    pub instantiate: Option<String>,
    /// Prepare.
    #[serde(default)]
    pub prepare: Option<String>,
    /// Initialize.
    #[serde(default)]
    pub initialize: Option<String>,
    /// Execute; always there.
    pub execute: String,
    /// Record.
    #[serde(default)]
    pub record: Option<String>,
}

impl Stages {
    /// The names of all stages that there are.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let stages = XLA_FFI_ExecutionStage::ENUM.values.iter();
        stages.filter_map(|stage| XLA_FFI_ExecutionStage(stage.value).lower_name())
    }

    /// Name and symbol of each stage that there is, in the order in which hosts run them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        use XLA_FFI_ExecutionStage as Stage;
        [
            (Stage::INSTANTIATE, self.instantiate.as_deref()),
            (Stage::PREPARE, self.prepare.as_deref()),
            (Stage::INITIALIZE, self.initialize.as_deref()),
            (Stage::EXECUTE, Some(self.execute.as_str())),
            (Stage::RECORD, self.record.as_deref()),
        ]
        .into_iter()
        .filter_map(|(stage, symbol)| Some((stage.lower_name()?, symbol?)))
    }
}

/// What an operand or result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// An array.
    Buffer,
    /// An ordering token.
    Token,
}

/// An operand or a result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Operand {
    /// Name of the parameter.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Accepted element types by their C names without prefix; `None` accepts all.
    pub dtypes: Option<Vec<String>>,
    /// Number of dimensions; `None` for any.
    pub rank: Option<u32>,
    /// Whether it may be missing.
    #[serde(default)]
    pub optional: bool,
    /// Whether it stands for all that remain.
    #[serde(default)]
    pub variadic: bool,
    /// Whether a result shares the memory of the argument of the same name.
    #[serde(default)]
    pub inout: bool,
    /// The order of its elements.
    #[serde(default)]
    pub layout: Layout,
    /// What its author says about it.
    #[serde(default)]
    pub doc: String,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// `bool`, `i8` … `c128`, `str`, `[T]`, `dict` or `any`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether it may be missing.
    #[serde(default)]
    pub optional: bool,
    /// The literal default, or null.
    #[serde(default)]
    pub default: serde_json::Value,
    /// Whether wider types are converted where the value fits.
    #[serde(default)]
    pub narrow: bool,
    /// The least value of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<serde_json::Number>,
    /// The greatest value of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<serde_json::Number>,
    /// The dictionary that it belongs to.
    #[serde(default)]
    pub from: Option<String>,
    /// What its author says about it.
    #[serde(default)]
    pub doc: String,
}

/// The type of a handler's state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// The name under which the type is registered.
    #[serde(rename = "type")]
    pub ty: String,
}
