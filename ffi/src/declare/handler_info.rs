//! A handler, its stages and its attributes as constant data, and the handler's description for
//! callers.

use crate::frame::host::Host;
use crate::param::bind::At;
use crate::param::text::{order, same};
use crate::param::{Kind, Param, Presence};
use xla_ffi_sys::{Feature, Revision, XLA_FFI_ExecutionStage};

/// The declaration of one stage of a handler.
#[derive(Clone, Copy, Debug)]
pub struct StageInfo {
    /// The stage's number in the ABI.
    pub stage: u32,
    /// The stage's parameters.
    pub params: &'static [Param],
    /// Whether the stage returns a future of the host.
    pub is_async: bool,
}

/// The type of a handler's state, as constant data.
#[derive(Clone, Copy, Debug)]
pub struct StateInfo {
    /// The name under which hosts know the type.
    pub name: &'static str,
    /// The registration of the type with hosts.
    pub host_type: fn() -> &'static crate::frame::host_type::KnownType,
}

/// The declaration of a handler, as constant data.
#[derive(Clone, Copy, Debug)]
pub struct HandlerInfo {
    /// The name of the custom call target.
    pub name: &'static str,
    /// The platforms that the handler is registered for.
    pub platforms: &'static [&'static str],
    /// The handler's stages.
    pub stages: &'static [StageInfo],
    /// Whether unknown attributes are ignored.
    pub open_attrs: bool,
    /// The shape contract as text; empty if there is none.
    pub shape: &'static str,
    /// The handler's traits, as bits of `XLA_FFI_Handler_Traits`.
    pub traits: u32,
    /// The type of the handler's state.
    pub state: Option<StateInfo>,
    /// The minimum revision that the author set with `floor`.
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

/// The names of a handler's attributes, in the order in which hosts sort them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttrNames {
    names: [&'static str; Self::MOST],
    count: usize,
}

impl AttrNames {
    /// The maximum number of names that the type can hold.
    const MOST: usize = 24;

    /// Returns the names as a slice.
    pub(crate) fn as_slice(&self) -> &[&'static str] {
        self.names.get(..self.count).unwrap_or_default()
    }
}

impl HandlerInfo {
    /// Returns the oldest revision that supports all features that the handler needs.
    ///
    /// Futures do not raise the floor, because on a host without futures the call completes before it returns.
    #[must_use]
    pub const fn floor(&self) -> Revision {
        let mut floor = self.floor;
        if self.state.is_some() {
            floor = max(floor, Feature::State.since());
        }
        let mut i = 0;
        while i < self.stages.len() {
            floor = max(floor, floor_of(self.stages[i].params));
            if self.stages[i].stage == XLA_FFI_ExecutionStage::RECORD.0 {
                floor = max(floor, Feature::RecordStage.since());
            }
            i += 1;
        }
        floor
    }

    /// Returns the parameters of the execute stage.
    pub(crate) const fn execute(&self) -> &'static [Param] {
        let mut i = 0;
        while i < self.stages.len() {
            if self.stages[i].stage == XLA_FFI_ExecutionStage::EXECUTE.0 {
                return self.stages[i].params;
            }
            i += 1;
        }
        &[]
    }

    /// Returns true if a parameter of any stage uses the context part with the name `context`.
    #[cfg(feature = "internal")]
    pub(crate) fn takes(&self, context: &str) -> bool {
        let mut params = self.stages.iter().flat_map(|stage| stage.params);
        params.any(|param| param.context == context)
    }

    /// Registers with the host the user data types of the handler's parameters. A failure is
    /// reported when the parameter is decoded.
    pub(crate) fn register_types(&self, host: Host) {
        let params = self.stages.iter().flat_map(|stage| stage.params);
        for host_type in params.filter_map(|param| param.host_type) {
            let _ = host_type().id(host);
        }
    }

    /// Returns the `i`-th attribute in declaration order over all stages, with structs expanded. A
    /// name that several stages share counts once.
    pub(crate) const fn attr(&self, index: usize) -> Option<&'static Param> {
        let mut seen = 0;
        let mut s = 0;
        while s < self.stages.len() {
            let params = self.stages[s].params;
            let mut p = 0;
            while p < params.len() {
                let mut m = 0;
                while let Some(attr) = params[p].attribute_at(m) {
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
                while let Some(attr) = params[p].attribute_at(k) {
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

    /// Returns the number of attributes over all stages.
    #[must_use]
    pub const fn attr_count(&self) -> usize {
        let mut count = 0;
        while self.attr(count).is_some() {
            count += 1;
        }
        count
    }

    /// Returns true if any attribute may be absent.
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

    /// Returns the first attribute called `name`, in the order of [`HandlerInfo::attr`].
    pub(crate) const fn attr_called(&self, name: &str) -> Option<&'static Param> {
        let mut i = 0;
        while let Some(attr) = self.attr(i) {
            if same(attr.name, name) {
                return Some(attr);
            }
            i += 1;
        }
        None
    }

    /// Returns the index of an attribute in the sorted list of the handler's attributes if all
    /// attributes are present.
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

    /// Returns the sorted names of all attributes over all stages, or `None` if there are too many
    /// names.
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

    /// Iterates over the attributes of all stages.
    pub fn attrs(&self) -> impl Iterator<Item = &'static Param> + use<'_> {
        (0..).map_while(|index| self.attr(index))
    }
}

/// The author's description of a handler, apart from its operands.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The handler's documentation comment.
    pub doc: &'static str,
    /// The handlers that compute the handler's derivatives.
    pub gradient: Option<Gradient>,
    /// How `vmap` may batch the handler's calls.
    pub batch: Batch,
    /// Whether equal calls may return different results.
    pub nondeterministic: bool,
}

/// The names of the handlers that compute derivatives. `docs/manifest.md` describes the operands of
/// these handlers.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    /// The handler that computes cotangents of the arguments from cotangents of the results.
    pub vjp: Option<&'static str>,
    /// The handler to call instead of this handler if a gradient is needed.
    pub forward: Option<&'static str>,
    /// The handler that computes tangents of the results from tangents of the arguments.
    pub jvp: Option<&'static str>,
    /// The handler that computes the transpose of the map from tangents to tangents.
    pub transpose: Option<&'static str>,
    /// Whether the handler is linear, and therefore equal to its `jvp`.
    pub linear: bool,
    /// The operands that the derivative handlers receive first; `None` means the arguments.
    pub residuals: Option<&'static [&'static str]>,
}

/// How `vmap` may batch the calls of a handler.
#[derive(Clone, Copy, Debug)]
pub enum Batch {
    /// No declaration: calls may be batched if the shape contract allows it.
    Undeclared,
    /// One batching mode for all operands: `leading`, `sequential` or `none`.
    Word(&'static str),
    /// For each argument, whether it may have an additional leading dimension.
    Each(&'static [bool]),
    /// The name of the handler that computes a batch.
    Handler(&'static str),
}

impl At {
    /// Returns the place of a stage's parameter `index` in the call. Used by the macros.
    #[doc(hidden)]
    #[must_use]
    pub const fn parameter(info: &HandlerInfo, params: &'static [Param], index: usize) -> Self {
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
                // A struct decodes its members in sorted order, so the first member determines the
                // struct's place.
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
