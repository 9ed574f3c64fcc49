//! Operands and attributes in a manifest.

use crate::declare::handler_info::HandlerInfo;
use crate::param::Layout as Order;
use crate::param::{Kind, Param, Presence};
use crate::param::text::Text;
use crate::frame::element::DataTypes;
use xla_ffi_sys::ELEMENT_TYPES;

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

    /// An attribute, and behind it the known entries of a dictionary.
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

    /// The key `doc`, where there is something to say.
    pub(super) const fn doc(self, doc: &str) -> Self {
        if doc.is_empty() {
            return self;
        }
        self.raw(",\"doc\":").string(doc)
    }
}
