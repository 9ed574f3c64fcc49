//! What is wrong with a call, all of it at once and by name. Nothing here runs on the way of a
//! call that succeeds.

use crate::declare::handler_info::HandlerInfo;
use crate::declare::stage_params::{Counts, counts_matter};
use crate::error::problems::{Problems, number, put};
use crate::frame::Frame;
use crate::param::Param;

fn counted(text: &mut String, count: usize, what: &str) {
    number(text, count as i64);
    put(text, &[" ", what, if count == 1 { "" } else { "s" }]);
}

fn check_count(
    what: &str,
    counts: Counts,
    got: usize,
    params: &[Param],
    problems: &mut Problems<'_>,
) {
    if counts.contains(got) {
        return;
    }
    let text = problems.line();
    text.push_str("expected ");
    if counts.min == counts.max {
        counted(text, counts.min, what);
    } else if counts.max == usize::MAX {
        text.push_str("at least ");
        counted(text, counts.min, what);
    } else {
        number(text, counts.min as i64);
        text.push_str(" to ");
        counted(text, counts.max, what);
    }
    let takes = if what == "argument" {
        Param::takes_arg
    } else {
        Param::takes_ret
    };
    let mut joint = " (";
    for param in params.iter().filter(|param| takes(param)) {
        put(text, &[joint, param.name]);
        joint = ", ";
    }
    text.push_str(if joint == ", " { "), got " } else { ", got " });
    number(text, got as i64);
}

/// Whether the numbers of operands and the names of attributes are what the stage declares. The
/// decoded parameters are not looked at.
pub(crate) fn frame(
    frame: &Frame<'_>,
    info: &HandlerInfo,
    params: &'static [Param],
    problems: &mut Problems<'_>,
) {
    if counts_matter(frame.stage(), params, true) {
        check_count(
            "argument",
            Counts::args(params),
            frame.arg_count(),
            params,
            problems,
        );
    }
    if counts_matter(frame.stage(), params, false) {
        check_count(
            "result",
            Counts::rets(params),
            frame.ret_count(),
            params,
            problems,
        );
    }
    if info.open_attrs {
        return;
    }
    let attrs = frame.attrs();
    for index in 0..attrs.len() {
        let name = attrs.name(index);
        if !info.attrs().any(|param| param.name.as_bytes() == name) {
            let text = problems.line();
            let name = String::from_utf8_lossy(name);
            put(
                text,
                &[
                    "attribute `",
                    &name,
                    "` is not known to the handler: it has ",
                ],
            );
            let mut joint = "";
            for param in info.attrs() {
                put(text, &[joint, param.name]);
                joint = ", ";
            }
            text.push_str(if joint.is_empty() { "none" } else { "" });
        }
    }
}
