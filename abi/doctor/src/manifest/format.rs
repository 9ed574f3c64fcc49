//! The description of handlers in a manifest, as parsed from JSON.

use serde::{Deserialize, Serialize};
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage};

/// A handler: its target name, its functions, and the description of its operands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Handler {
    /// The target name of the handler in custom calls.
    pub name: String,
    /// The platforms that the handler supports, for example `"cpu"`.
    pub platforms: Vec<String>,
    /// The exported symbols of the handler's stages.
    pub stages: Stages,
    /// The author's documentation of the handler.
    #[serde(default)]
    pub doc: String,
    /// Whether the manifest describes operands and attributes. Otherwise, callers must specify operands and attributes.
    #[serde(default = "yes")]
    pub described: bool,
    /// The arguments of the handler.
    #[serde(default)]
    pub args: Vec<Operand>,
    /// The results of the handler.
    #[serde(default)]
    pub rets: Vec<Operand>,
    /// The attributes of the handler.
    #[serde(default)]
    pub attrs: Vec<Attribute>,
    /// The handlers that compute this handler's derivatives.
    #[serde(default)]
    pub gradient: Option<Gradient>,
    /// The rule for calls under `vmap`, if the shape contract does not determine it.
    #[serde(default)]
    pub batch: Option<Batch>,
    /// Whether the handler ignores attributes that the manifest does not list, instead of refusing them.
    #[serde(default)]
    pub open_attrs: bool,
    /// The shape contract, as text.
    #[serde(default)]
    pub shape: Option<String>,
    /// The names of the values that the handler reads from its context.
    #[serde(default)]
    pub context: Vec<String>,
    /// The names of the handler's traits.
    #[serde(default)]
    pub traits: Vec<String>,
    /// Whether the handler may complete asynchronously, after its function returns.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// The handler's state; `None` if the handler has no state.
    #[serde(default)]
    pub state: Option<State>,
    /// The oldest revision on which the handler has its full functionality, for example `"r1"`. See
    /// [`Handler::floor_revision`].
    pub floor: String,
}

fn yes() -> bool {
    true
}

/// The names of the handlers that compute derivatives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Gradient {
    /// The handler that computes the arguments' cotangents from the results' cotangents.
    #[serde(default)]
    pub vjp: Option<String>,
    /// The handler that is called instead of the differentiated handler if a gradient is needed. Its additional results
    /// are residuals.
    #[serde(default)]
    pub forward: Option<String>,
    /// The handler that computes the results' tangents from the arguments' tangents.
    #[serde(default)]
    pub jvp: Option<String>,
    /// The handler that computes the transpose of the linear map from tangents to tangents.
    #[serde(default)]
    pub transpose: Option<String>,
    /// Whether the handler is linear, so that the handler is its own `jvp`.
    #[serde(default)]
    pub linear: bool,
    /// The names of the operands that the handlers for derivatives receive first; `None` for all arguments.
    #[serde(default)]
    pub residuals: Option<Vec<String>>,
}

impl Gradient {
    /// Returns the names of the handlers with their keys, such as `vjp`.
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

/// The rule for calls under `vmap`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Batch {
    /// One rule for all arguments: `leading`, `sequential` or `none`.
    Word(String),
    /// One rule per argument: `leading` or `shared`.
    Each(Vec<String>),
    /// A different handler that computes a whole batch.
    Handler {
        /// The name of the handler that computes a batch.
        handler: String,
    },
}

/// The order of an operand's elements in memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Layout {
    /// A layout by name: `row` or `column`.
    Word(String),
    /// The dimensions in order, from the slowest to the fastest varying index.
    Order(Vec<usize>),
}

impl Default for Layout {
    /// Returns the row-major layout, in which the last dimension varies fastest.
    fn default() -> Self {
        Self::Word("row".to_owned())
    }
}

impl Handler {
    /// Returns the floor as a revision; `None` if the revision is newer than this tool.
    #[must_use]
    pub fn floor_revision(&self) -> Option<Revision> {
        Revision::from_name(&self.floor)
    }
}

/// The exported symbols of a handler's stages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Stages {
    /// The symbol of the instantiate stage.
    #[serde(default)]
    pub instantiate: Option<String>,
    /// The symbol of the prepare stage.
    #[serde(default)]
    pub prepare: Option<String>,
    /// The symbol of the initialize stage.
    #[serde(default)]
    pub initialize: Option<String>,
    /// The symbol of the execute stage, which every handler has.
    pub execute: String,
    /// The symbol of the record stage.
    #[serde(default)]
    pub record: Option<String>,
}

impl Stages {
    /// Returns the names of all stages that a manifest may list.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let stages = XLA_FFI_ExecutionStage::ENUM.values.iter();
        stages.filter_map(|stage| XLA_FFI_ExecutionStage(stage.value).lower_name())
    }

    /// Returns the name and symbol of each stage that the handler has, in the order in which hosts run them.
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

/// The kind of an operand or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// An array, whose elements have a type and dimensions.
    Buffer,
    /// A token without data, which orders calls.
    Token,
}

/// An argument or a result of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Operand {
    /// The name of the operand.
    pub name: String,
    /// The kind of operand: array or token.
    pub kind: Kind,
    /// The accepted element types, by their C names without a prefix; `None` for all types.
    pub dtypes: Option<Vec<String>>,
    /// The number of dimensions; `None` for any number.
    pub rank: Option<u32>,
    /// Whether callers may omit the operand.
    #[serde(default)]
    pub optional: bool,
    /// Whether the operand accepts any number of remaining operands.
    #[serde(default)]
    pub variadic: bool,
    /// Whether the result shares the memory of the argument with the same name.
    #[serde(default)]
    pub inout: bool,
    /// The order of the operand's elements in memory.
    #[serde(default)]
    pub layout: Layout,
    /// The author's documentation of the operand.
    #[serde(default)]
    pub doc: String,
}

/// An attribute of a handler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Attribute {
    /// The name of the attribute.
    pub name: String,
    /// The type of the attribute: `bool`, `i8` … `c128`, `str`, `[T]`, `dict` or `any`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether callers may omit the attribute.
    #[serde(default)]
    pub optional: bool,
    /// The default value of the attribute, or null if the attribute has no default.
    #[serde(default)]
    pub default: serde_json::Value,
    /// Whether values of wider types are accepted and converted if the attribute's type can represent them.
    #[serde(default)]
    pub narrow: bool,
    /// The smallest value of the attribute that the handler accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<serde_json::Number>,
    /// The largest value of the attribute that the handler accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<serde_json::Number>,
    /// The name of the dictionary that contains the attribute; `None` if no dictionary contains the attribute.
    #[serde(default)]
    pub from: Option<String>,
    /// The author's documentation of the attribute.
    #[serde(default)]
    pub doc: String,
}

/// The state of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// The name under which the state's type is registered.
    #[serde(rename = "type")]
    pub ty: String,
}
