//! Whether the handlers that other handlers of a library name are there and fit, told when the
//! library is compiled.

use crate::declare::about::{Batch, Gradient};
use crate::declare::counts::operands;
use crate::declare::handler_info::HandlerInfo;
use crate::declare::manifest::Library;
use crate::declare::param::{Param, Presence};
use crate::declare::text::{Text, same};
use crate::operand::element::DataTypes;
use xla_ffi_sys::{ELEMENT_TYPES, ElementClass};

/// For the macros: refuses a library in which two handlers export one symbol, or a handler names another one for its
/// derivatives or its batches that is not there, or that takes and gives another number of operands.
pub const fn check(library: &Library) {
    let mut i = 0;
    while i < library.handlers.len() {
        // What an entry with an error of its own stands for is not known.
        if library.handlers[i].0.name.is_empty() {
            return;
        }
        check_symbols(library, i);
        i += 1;
    }
    i = 0;
    while i < library.handlers.len() {
        let (info, about, _) = library.handlers[i];
        if let Some(gradient) = &about.gradient {
            check_gradient(library, info, gradient);
        }
        if let Batch::Handler(name) = about.batch {
            let params = info.execute();
            let (args, rets) = (Some(operands(params, true)), Some(operands(params, false)));
            Reference::new(info, name, "batch_with").check(library, args, rets);
        }
        i += 1;
    }
}

/// Refuses the handler if one before it exports the same symbol: the linker would, and not before.
const fn check_symbols(library: &Library, index: usize) {
    let (info, _, symbols) = library.handlers[index];
    let mut i = 0;
    while i < index {
        let (other, _, others) = library.handlers[i];
        if same(symbols[symbols.len() - 1], others[others.len() - 1]) {
            let message = Message::new().raw("handlers `").raw(other.name);
            let message = message.raw("` and `").raw(info.name);
            fail(&message.raw("` export one symbol: give one of them another name"));
        }
        i += 1;
    }
}

const fn check_gradient(library: &Library, info: &HandlerInfo, gradient: &Gradient) {
    let params = info.execute();
    let (args, rets) = (differentiable(params, true), differentiable(params, false));
    let residuals = match (gradient.residuals, gradient.linear) {
        (Some(residuals), _) => Some(residuals.len()),
        (None, false) => fixed(params, true),
        (None, true) => match (fixed(params, true), args) {
            (Some(all), Some(some)) => Some(all - some),
            _ => None,
        },
    };
    let reverse = [(gradient.vjp, "vjp"), (gradient.transpose, "transpose")];
    let mut i = 0;
    while i < reverse.len() {
        if let (Some(name), what) = reverse[i] {
            Reference::new(info, name, what).check(library, sum(residuals, rets), args);
        }
        i += 1;
    }
    if let Some(name) = gradient.jvp {
        Reference::new(info, name, "jvp").check(library, sum(residuals, args), rets);
    }
    if let Some(name) = gradient.forward {
        // It gives at least what the handler gives.
        Reference::new(info, name, "forward").check(library, fixed(params, true), None);
    }
}

const fn sum(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        _ => None,
    }
}

/// The number of arguments or results, where it is always the same.
const fn fixed(params: &[Param], args: bool) -> Option<usize> {
    let mut i = 0;
    while i < params.len() {
        if params[i].takes(args) && !matches!(params[i].presence, Presence::Required) {
            return None;
        }
        i += 1;
    }
    Some(operands(params, args))
}

/// How many of them are of float and complex types; `None` where that is not certain.
const fn differentiable(params: &[Param], args: bool) -> Option<usize> {
    if fixed(params, args).is_none() {
        return None;
    }
    let (mut count, mut i) = (0, 0);
    while i < params.len() {
        if params[i].takes(args) {
            match is_differentiable(params[i].dtypes) {
                Some(true) => count += 1,
                Some(false) => {}
                None => return None,
            }
        }
        i += 1;
    }
    Some(count)
}

const fn is_differentiable(dtypes: DataTypes) -> Option<bool> {
    let (mut some, mut all, mut i) = (false, true, 0);
    while i < ELEMENT_TYPES.len() {
        if dtypes.contains(ELEMENT_TYPES[i].dtype) {
            match ELEMENT_TYPES[i].class {
                ElementClass::Float | ElementClass::Complex => some = true,
                _ => all = false,
            }
        }
        i += 1;
    }
    match (some, all) {
        (true, true) => Some(true),
        (true, false) => None,
        (false, _) => Some(false),
    }
}

/// That a handler names another one.
struct Reference<'a> {
    from: &'a HandlerInfo,
    name: &'static str,
    what: &'static str,
}

impl<'a> Reference<'a> {
    const fn new(from: &'a HandlerInfo, name: &'static str, what: &'static str) -> Self {
        Self { from, name, what }
    }

    /// Panics where the library has no such handler, or one with another number of operands.
    const fn check(self, library: &Library, args: Option<usize>, rets: Option<usize>) {
        let mut i = 0;
        while i < library.handlers.len() {
            let (info, ..) = library.handlers[i];
            if same(info.name, self.name) {
                let params = info.execute();
                self.compare("arguments", fixed(params, true), args);
                self.compare("results", fixed(params, false), rets);
                return;
            }
            i += 1;
        }
        fail(&self.head().raw(": the library has no handler of that name"));
    }

    const fn compare(&self, what: &str, have: Option<usize>, want: Option<usize>) {
        let (Some(have), Some(want)) = (have, want) else {
            return;
        };
        if have != want {
            let message = self.head().raw(", which has ").number(have).raw(" ");
            fail(&message.raw(what).raw("; expected ").number(want));
        }
    }

    const fn head(&self) -> Message {
        let message = Message::new().raw("handler `").raw(self.from.name);
        let message = message.raw("` says ").raw(self.what);
        message.raw(" = \"").raw(self.name).raw("\"")
    }
}

/// A message; longer ones are cut.
type Message = Text<256>;

const fn fail(message: &Message) -> ! {
    let len = if message.len < message.bytes.len() {
        message.len
    } else {
        message.bytes.len()
    };
    match std::str::from_utf8(message.bytes.split_at(len).0) {
        Ok(text) => panic!("{}", text),
        // A name was cut in the middle of a character.
        Err(_) => panic!("a handler names another one that the library lacks or that does not fit"),
    }
}
