//! Compile-time checks that a library contains the handlers that its handlers refer to.

use crate::declare::handler_info::{Batch, HandlerInfo};
use crate::declare::manifest::Library;
use crate::param::text::{Text, same};

/// Panics if two handlers export the same symbol, or if the library lacks a handler that a handler names for
/// derivatives or batches. The loader and `xla-ffi doctor` check the operands of the named handlers. Used by the
/// macros.
#[track_caller]
pub const fn check(library: &Library) {
    let mut i = 0;
    while i < library.handlers.len() {
        // An entry without a name already causes a different compile error.
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
            check_name(library, info, "vjp", gradient.vjp);
            check_name(library, info, "forward", gradient.forward);
            check_name(library, info, "jvp", gradient.jvp);
            check_name(library, info, "transpose", gradient.transpose);
        }
        if let Batch::Handler(name) = about.batch {
            check_name(library, info, "batch_with", Some(name));
        }
        i += 1;
    }
}

/// Panics if a preceding handler exports the same symbol. Without this check, the error would appear only at link
/// time.
#[track_caller]
const fn check_symbols(library: &Library, index: usize) {
    let (info, _, symbols) = library.handlers[index];
    let mut i = 0;
    while i < index {
        let (other, _, others) = library.handlers[i];
        if same(symbols[symbols.len() - 1], others[others.len() - 1]) {
            let message = Text::new().raw("the handlers `").raw(other.name);
            let message = message.raw("` and `").raw(info.name);
            let message = message.raw("` export the same symbol: rename one, ");
            message.raw("`#[xla_ffi::handler(name = \"…\")]`").fail();
        }
        i += 1;
    }
}

/// Panics if the library lacks the handler `name`, which the option `what` of `info` refers to.
#[track_caller]
const fn check_name(library: &Library, info: &HandlerInfo, what: &str, name: Option<&str>) {
    let Some(name) = name else {
        return;
    };
    let mut i = 0;
    while i < library.handlers.len() {
        if same(library.handlers[i].0.name, name) {
            return;
        }
        i += 1;
    }
    let message = Text::new().raw("the handler `").raw(info.name);
    let message = message.raw("` has `").raw(what).raw(" = \"").raw(name);
    let message = message.raw("\"`, but this library lists no ");
    message.raw("handler of that name").fail();
}
