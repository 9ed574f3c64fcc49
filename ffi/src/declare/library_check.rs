//! Checks at compile time that a library has the handlers that its handlers name.

use crate::declare::handler_info::{Batch, HandlerInfo};
use crate::declare::manifest::Library;
use crate::param::text::{Text, same};

/// For the macros: refuses a library in which two handlers export one symbol, or a handler names another one for its
/// derivatives or its batches that is not there. What that one takes and gives is judged by the loader and the doctor.
#[track_caller]
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

/// Refuses the handler if one before it exports the same symbol: the linker would, and not before.
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

/// Refuses a library without the handler that `info` calls by this name.
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
