//! Whether a call came out as it was recorded, and in words how not.

use xla_ffi_record::{Outcome, Recorded};
use xla_ffi_runtime::{Error, ErrorCode, Tensor};

/// What a replayed call came to.
#[derive(Debug)]
pub(super) enum Answer {
    /// To the same.
    Equal(String),
    /// To something else.
    Differs(String),
    /// To something that nothing is recorded for.
    NotCompared(String),
}

impl Answer {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Equal(why) | Self::Differs(why) | Self::NotCompared(why) => why,
        }
    }
}

/// Compares what came of a call with what was recorded of it, bit for bit.
pub(super) fn compare(recorded: &Recorded, came: Result<&[Tensor], &Error>) -> Answer {
    if let Some(why) = nothing_recorded(recorded) {
        return Answer::NotCompared(match came {
            Ok(_) => format!("{why}; here it went well"),
            Err(error) => format!("{why}; here it failed: {error}"),
        });
    }
    let outcome = recorded.end.as_ref().map(|end| &end.outcome);
    match (outcome, came) {
        (Some(Outcome::Error { code, message }), Err(error)) => same_error(*code, message, error),
        (Some(Outcome::Error { message, .. }), Ok(_)) => {
            Answer::Differs(format!("it went well; recorded is the error: {message}"))
        }
        (_, Err(error)) => Answer::Differs(format!("recorded is success, here it failed: {error}")),
        (_, Ok(rets)) => same_results(recorded, rets),
    }
}

fn same_error(code: Option<u32>, message: &str, error: &Error) -> Answer {
    let name = |code: u32| {
        let known = ErrorCode::from_raw(xla_ffi_sys::XLA_FFI_Error_Code(code));
        known.map_or_else(|| code.to_string(), |code| code.name().to_owned())
    };
    let same_code = code.is_none_or(|code| code == error.code().to_raw().0);
    // Hosts before r9 do not tell the code, and put its name before the text; elsewhere such a text is the handler's own.
    let prefixed = || format!("{}: {}", error.code().name(), error.message());
    let same_text = message == error.message() || (code.is_none() && message == prefixed());
    if same_code && same_text {
        return Answer::Equal("the same error".into());
    }
    Answer::Differs(format!(
        "the errors are two: recorded {}{message}; here {}: {}",
        code.map_or_else(String::new, |code| format!("{}: ", name(code))),
        error.code().name(),
        error.message()
    ))
}

fn same_results(recorded: &Recorded, rets: &[Tensor]) -> Answer {
    let (mut bytes, mut left_out, mut differences) = (0, 0, vec![]);
    for (index, (ret, wanted)) in rets.iter().zip(&recorded.rets).enumerate() {
        match wanted {
            None => left_out += 1,
            Some(wanted) => {
                bytes += wanted.len();
                differences.extend(difference(index, ret, wanted));
            }
        }
    }
    if !differences.is_empty() {
        return Answer::Differs(differences.join("; "));
    }
    if left_out > 0 {
        return Answer::NotCompared(format!(
            "{left_out} results were left out of the recording at its limit"
        ));
    }
    let count = rets.len();
    let s = if count == 1 { "" } else { "s" };
    Answer::Equal(format!("{count} result{s}, {bytes} bytes"))
}

/// How a result differs from what was recorded; elements that share bytes are compared one by one, since
/// what lies behind the last is nobody's.
fn difference(index: usize, ret: &Tensor, wanted: &[u8]) -> Option<String> {
    let shape = ret.shape();
    let wanted = match Tensor::from_bytes(shape.clone(), wanted) {
        Ok(wanted) => wanted,
        Err(error) => return Some(format!("result {index}: {error}")),
    };
    if ret.bytes() == wanted.bytes() {
        return None;
    }
    let load = |tensor: &Tensor, element| {
        xla_ffi_runtime::scalar_codec::load(tensor.bytes(), shape.dtype(), element)
    };
    let mut differ =
        (0..shape.elements()).filter(|element| load(ret, *element) != load(&wanted, *element));
    let first = differ.next()?;
    let text = |tensor: &Tensor| tensor.text(first).unwrap_or_default();
    Some(format!(
        "result {index} ({shape}): {} of {} elements, first element {first}, which is {} and was {}",
        differ.count() + 1,
        shape.elements(),
        text(ret),
        text(&wanted)
    ))
}

/// How the recorded call ended, where there is nothing to compare with.
fn nothing_recorded(recorded: &Recorded) -> Option<&'static str> {
    match recorded.end.as_ref().map(|end| &end.outcome) {
        None => Some(
            "the recorded call never ended: its process did, or it was under way when the recording ended, or the disk \
             was full",
        ),
        Some(Outcome::Unwound) => Some("an exception or a panic left the recorded call"),
        Some(Outcome::Unwatched) => Some("how the recorded call ended could not be watched"),
        Some(_) => None,
    }
}
