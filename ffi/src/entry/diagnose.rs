//! Collects all problems of a call, by parameter name. Runs only for calls that fail.

use crate::declare::handler_info::HandlerInfo;
use crate::declare::stage_params::{Counts, counts_matter};
use crate::error::problems::{Problems, number, put};
use crate::frame::Frame;
use crate::param::Param;

/// Reports surplus arguments or results. Also reports missing operands if the operands' parameters reported no
/// problem.
fn check_count(is_arg: bool, got: usize, params: &[Param], problems: &mut Problems<'_>) {
    let what = if is_arg { "argument" } else { "result" };
    let takes = params.iter().filter(|param| param.takes(is_arg));
    let counts = if is_arg {
        Counts::args(params)
    } else {
        Counts::rets(params)
    };
    if got > counts.max {
        let text = problems.line();
        text.push_str("expected ");
        number(text, counts.max as i64);
        put(text, &[" ", what, if counts.max == 1 { "" } else { "s" }]);
        let mut joint = " (`";
        for param in takes {
            put(text, &[joint, param.name, "`"]);
            joint = ", `";
        }
        text.push_str(if joint == ", `" { "), got " } else { ", got " });
        number(text, got as i64);
    } else if got < counts.min && problems.is_empty() {
        (takes.take(counts.min).skip(got)).for_each(|param| problems.missing(what, param));
    }
}

/// Checks that the numbers of operands and the names of attributes match the stage's declaration. Does not check the
/// decoded parameters.
pub(crate) fn frame(
    frame: &Frame<'_>,
    info: &HandlerInfo,
    params: &'static [Param],
    problems: &mut Problems<'_>,
) {
    for (is_arg, got) in [(true, frame.arg_count()), (false, frame.ret_count())] {
        if counts_matter(frame.stage(), params, is_arg) {
            check_count(is_arg, got, params, problems);
        }
    }
    if info.open_attrs {
        return;
    }
    let attrs = frame.attrs();
    for index in 0..attrs.len() {
        let name = attrs.name(index);
        if !info.attrs().any(|param| param.name.as_bytes() == name) {
            let name = String::from_utf8_lossy(name);
            put(
                problems.line(),
                &["unknown attribute `", &name, "`; remove it"],
            );
        }
    }
}
