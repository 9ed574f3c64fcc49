//! The manifest of a library, created at compile time. See `docs/manifest.md` for the format.

use crate::declare::handler_info::{About, Batch, Gradient, HandlerInfo};
use crate::declare::stage_params::uses_host_memory;
use crate::frame::element::DataTypes;
use crate::param::text::Text;
use crate::param::{Kind, Layout as Order, Param, Presence};
use xla_ffi_sys::manifest::{HEAD, MAGIC, VERSION};
use xla_ffi_sys::{ELEMENT_TYPES, XLA_FFI_DataType, XLA_FFI_ExecutionStage};

/// A handler, its description for callers, and the symbols of the handler's stages.
pub type Listed = (&'static HandlerInfo, About, &'static [&'static str]);

/// The data that the manifest is created from.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The name of the library, which is the prefix of its symbols.
    pub name: &'static str,
    /// The symbol of the library's function that registers its handlers.
    pub register: &'static str,
    /// The handlers, their descriptions for callers, and the exported symbols of their stages in
    /// the order of [`HandlerInfo::stages`].
    pub handlers: &'static [Listed],
    /// The targets of the original custom calls in the library.
    pub legacy: &'static [&'static ListedTarget],
}

/// The element type and the dimensions of a target's operand.
pub type OperandShape = (XLA_FFI_DataType, &'static [i64]);

/// A target of the original custom calls, as listed in a library.
#[derive(Clone, Copy, Debug)]
pub struct ListedTarget {
    /// The target's name.
    pub name: &'static str,
    /// The platforms that the target is registered for.
    pub platforms: &'static [&'static str],
    /// The function that hosts call, with the calling convention that `convention` names.
    pub function: unsafe extern "C" fn(),
    /// The name of the calling convention.
    pub convention: &'static str,
    /// The number of the calling convention.
    pub signature: u32,
    /// The target's `CustomCallApiVersion` number, for all platforms.
    pub api_version: usize,
    /// The shapes of the arguments and results, if they are the same in all calls.
    pub shapes: Option<(&'static [OperandShape], &'static [OperandShape])>,
    /// The form and the structure of the target's tuples, if it has tuples.
    pub tuples: Option<(&'static str, &'static str)>,
}

/// Returns the number of bytes that [`manifest`] needs for a library.
#[must_use]
pub const fn size(library: &Library) -> usize {
    HEAD + payload::<0>(library).len
}

/// Returns the manifest of a library. `N` must be the [`size`] of the library.
#[must_use]
pub const fn manifest<const N: usize>(library: &Library) -> [u8; N] {
    let body = payload::<N>(library);
    let mut bytes = [0; N];
    let mut i = 0;
    while i < 8 {
        bytes[i] = MAGIC[i];
        i += 1;
    }
    let (format, len) = (VERSION.to_le_bytes(), (body.len as u32).to_le_bytes());
    let mut i = 0;
    while i < 4 {
        bytes[8 + i] = format[i];
        bytes[12 + i] = len[i];
        i += 1;
    }
    let mut i = 0;
    while i < body.len {
        bytes[HEAD + i] = body.bytes[i];
        i += 1;
    }
    bytes
}

const fn payload<const N: usize>(library: &Library) -> Text<N> {
    Text::new().library(library)
}

impl<const N: usize> Text<N> {
    const fn library(mut self, library: &Library) -> Self {
        self = self.raw("{\"library\":").string(library.name);
        self = self.raw(",\"sdk\":").string(env!("CARGO_PKG_VERSION"));
        self = self.raw(",\"register\":").string(library.register);
        self = self.raw(",\"handlers\":[");
        let mut i = 0;
        while i < library.handlers.len() {
            let (info, about, symbols) = &library.handlers[i];
            self = self.comma(i == 0).handler(info, about, symbols);
            i += 1;
        }
        self = self.byte(b']');
        if !library.legacy.is_empty() {
            self = self.raw(",\"legacy\":[");
            let mut i = 0;
            while i < library.legacy.len() {
                self = self.comma(i == 0).target(library.name, library.legacy[i]);
                i += 1;
            }
            self = self.byte(b']');
        }
        self.byte(b'}')
    }

    /// Writes the start of an entry, with the entry's name and platforms, and leaves the JSON
    /// object open.
    const fn head(mut self, name: &str, platforms: &[&str]) -> Self {
        self = self.raw("{\"name\":").string(name);
        self = self.raw(",\"platforms\":[");
        let mut i = 0;
        while i < platforms.len() {
            self = self.comma(i == 0).string(platforms[i]);
            i += 1;
        }
        self
    }

    const fn target(mut self, library: &str, info: &ListedTarget) -> Self {
        self = self.head(info.name, info.platforms);
        self = self.raw("],\"signature\":").string(info.convention);
        self = self.raw(",\"api_version\":").number(info.api_version);
        self = self.raw(",\"symbol\":\"").escaped(library).raw("__");
        self = self.escaped(info.name).byte(b'"');
        if let Some((args, rets)) = info.shapes {
            self = self.raw(",\"args\":[").shapes(args);
            self = self.raw("],\"rets\":[").shapes(rets).byte(b']');
        }
        if let Some((form, structure)) = info.tuples {
            self = self.raw(",\"tuples\":").string(form);
            self = self.raw(",\"structure\":").string(structure);
        }
        self.byte(b'}')
    }

    const fn shapes(mut self, shapes: &[OperandShape]) -> Self {
        let mut i = 0;
        while i < shapes.len() {
            let (dtype, dims) = shapes[i];
            self = self.comma(i == 0).raw("{\"dtypes\":");
            self = self.dtypes(DataTypes::only(dtype)).raw(",\"dims\":[");
            let mut d = 0;
            while d < dims.len() {
                self = self.comma(d == 0).number(dims[d] as usize);
                d += 1;
            }
            self = self.raw("]}");
            i += 1;
        }
        self
    }

    const fn handler(mut self, info: &HandlerInfo, about: &About, symbols: &[&str]) -> Self {
        self = self.head(info.name, info.platforms).byte(b']');
        self = self.doc(about.doc).raw(",\"stages\":{");
        let mut is_async = false;
        let mut i = 0;
        while i < info.stages.len() {
            self = self.comma(i == 0).stage(info.stages[i].stage);
            self = self.byte(b':').string(symbols[i]);
            is_async |= info.stages[i].is_async;
            i += 1;
        }
        let params = info.execute();
        self = self.raw("},\"args\":[").operands(params, true);
        self = self.raw("],\"rets\":[").operands(params, false);
        self = self.raw("],\"attrs\":[").attrs(info);
        self = self.raw("],\"open_attrs\":").boolean(info.open_attrs);
        self = self.raw(",\"shape\":");
        self = if info.shape.is_empty() {
            self.raw("null")
        } else {
            self.string(info.shape)
        };
        self = self.raw(",\"context\":[").context(info);
        self = self.byte(b']').gradient(about.gradient).batch(about.batch);
        self = self.raw(",\"traits\":[").traits(info, about);
        self = self.raw("],\"async\":").boolean(is_async);
        self = self.raw(",\"state\":");
        self = match info.state {
            Some(state) => self.raw("{\"type\":").string(state.name).byte(b'}'),
            None => self.raw("null"),
        };
        self = self.raw(",\"floor\":").string(info.floor().name());
        self.byte(b'}')
    }

    const fn traits(mut self, info: &HandlerInfo, about: &About) -> Self {
        let traits = [
            (info.traits & 1 != 0, "command_buffer_compatible"),
            (about.nondeterministic, "nondeterministic"),
            (uses_host_memory(info.execute()), "host_only"),
        ];
        let (mut first, mut i) = (true, 0);
        while i < traits.len() {
            if traits[i].0 {
                self = self.comma(first).string(traits[i].1);
                first = false;
            }
            i += 1;
        }
        self
    }

    const fn gradient(mut self, gradient: Option<Gradient>) -> Self {
        let Some(gradient) = gradient else {
            return self;
        };
        let rules = [
            ("vjp", gradient.vjp),
            ("forward", gradient.forward),
            ("jvp", gradient.jvp),
            ("transpose", gradient.transpose),
        ];
        self = self
            .raw(",\"gradient\":{\"linear\":")
            .boolean(gradient.linear);
        let mut i = 0;
        while i < rules.len() {
            if let (key, Some(name)) = rules[i] {
                self = self.byte(b',').string(key).byte(b':').string(name);
            }
            i += 1;
        }
        if let Some(residuals) = gradient.residuals {
            self = self.raw(",\"residuals\":[");
            let mut i = 0;
            while i < residuals.len() {
                self = self.comma(i == 0).string(residuals[i]);
                i += 1;
            }
            self = self.byte(b']');
        }
        self.byte(b'}')
    }

    const fn batch(self, batch: Batch) -> Self {
        match batch {
            Batch::Undeclared => self,
            Batch::Word(word) => self.raw(",\"batch\":").string(word),
            Batch::Handler(name) => {
                let named = self.raw(",\"batch\":{\"handler\":").string(name);
                named.byte(b'}')
            }
            Batch::Each(leading) => {
                let mut list = self.raw(",\"batch\":[");
                let mut i = 0;
                while i < leading.len() {
                    let word = if leading[i] { "leading" } else { "shared" };
                    list = list.comma(i == 0).string(word);
                    i += 1;
                }
                list.byte(b']')
            }
        }
    }

    const fn stage(self, stage: u32) -> Self {
        match XLA_FFI_ExecutionStage(stage).lower_name() {
            Some(name) => self.string(name),
            None => panic!("a handler has stages of the ABI"),
        }
    }

    const fn context(mut self, info: &HandlerInfo) -> Self {
        let mut first = true;
        let mut s = 0;
        while s < info.stages.len() {
            let params = info.stages[s].params;
            let mut p = 0;
            while p < params.len() {
                if matches!(params[p].kind, Kind::Context) {
                    self = self.comma(first).string(params[p].context);
                    first = false;
                }
                p += 1;
            }
            s += 1;
        }
        self
    }
}

impl<const N: usize> Text<N> {
    const fn layout(self, layout: Order) -> Self {
        match layout {
            Order::Row => self,
            Order::Column => self.raw(",\"layout\":\"column\""),
            Order::Order(axes) => {
                let mut list = self.raw(",\"layout\":[");
                let mut i = 0;
                while i < axes.len() {
                    list = list.comma(i == 0).number(axes[i]);
                    i += 1;
                }
                list.byte(b']')
            }
        }
    }

    pub(super) const fn operands(mut self, params: &[Param], args: bool) -> Self {
        let mut first = true;
        let mut i = 0;
        while i < params.len() {
            let param = &params[i];
            if param.takes(args) {
                self = self.comma(first).operand(param);
                first = false;
            }
            i += 1;
        }
        self
    }

    const fn operand(mut self, param: &Param) -> Self {
        let token = param.dtypes.is_only_token();
        self = self.raw("{\"name\":").string(param.name);
        self = self
            .raw(",\"kind\":")
            .string(if token { "token" } else { "buffer" });
        self = self.raw(",\"dtypes\":").dtypes(param.dtypes);
        self = self.raw(",\"rank\":");
        self = match param.rank {
            Some(rank) => self.number(rank),
            None => self.raw("null"),
        };
        self = self.raw(",\"optional\":");
        self = self.boolean(matches!(param.presence, Presence::Optional));
        self = self.raw(",\"variadic\":");
        self = self.boolean(matches!(param.presence, Presence::Variadic));
        if matches!(param.kind, Kind::InOut) {
            self = self.raw(",\"inout\":true");
        }
        self.layout(param.layout).doc(param.doc).byte(b'}')
    }

    pub(super) const fn dtypes(mut self, dtypes: DataTypes) -> Self {
        if dtypes.is_any() {
            return self.raw("null");
        }
        self = self.byte(b'[');
        let mut first = true;
        let mut i = 0;
        while i < ELEMENT_TYPES.len() {
            let dtype = ELEMENT_TYPES[i].dtype;
            if let (true, Some(name)) = (dtypes.contains(dtype), dtype.name()) {
                self = self.comma(first).string(name);
                first = false;
            }
            i += 1;
        }
        self.byte(b']')
    }

    pub(super) const fn attrs(mut self, info: &HandlerInfo) -> Self {
        let mut i = 0;
        while let Some(attr) = info.attr(i) {
            self = self.comma(i == 0).attr(attr, None);
            i += 1;
        }
        self
    }

    /// Appends an attribute, with the known entries if the attribute is a dictionary.
    const fn attr(mut self, attr: &Param, from: Option<&str>) -> Self {
        self = self.raw("{\"name\":").string(attr.name);
        if let Some(dictionary) = from {
            self = self.raw(",\"from\":").string(dictionary);
        }
        self = self.raw(",\"type\":").string(attr.attr.name());
        self = self.raw(",\"optional\":");
        self = self.boolean(!matches!(attr.presence, Presence::Required));
        self = self.raw(",\"default\":");
        self = match attr.default {
            Some(json) => self.raw(json),
            None => self.raw("null"),
        };
        self = self.raw(",\"narrow\":").boolean(attr.narrow);
        if let Some(min) = attr.range.min {
            self = self.raw(",\"min\":").raw(min.json);
        }
        if let Some(max) = attr.range.max {
            self = self.raw(",\"max\":").raw(max.json);
        }
        self = self.doc(attr.doc).byte(b'}');
        let mut i = 0;
        while i < attr.members.len() {
            self = self.byte(b',').attr(&attr.members[i], Some(attr.name));
            i += 1;
        }
        self
    }

    /// Appends the key `doc` if the text is not empty.
    pub(super) const fn doc(self, doc: &str) -> Self {
        if doc.is_empty() {
            return self;
        }
        self.raw(",\"doc\":").string(doc)
    }
}
