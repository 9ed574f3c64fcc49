//! Compares the outcome of a replayed call with the recorded outcome.

use xla_ffi_record::{Outcome, Recorded};
use xla_ffi_runtime::{Error, ErrorCode, Tensor};

/// The result of comparing two outcomes, with a text for the report.
#[derive(Debug)]
pub(super) enum Answer {
    Equal(String),
    Differs(String),
    /// The recording contains no outcome to compare.
    NotCompared(String),
}

impl Answer {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Equal(why) | Self::Differs(why) | Self::NotCompared(why) => why,
        }
    }
}

/// Compares the outcome of a replayed call with the recorded outcome, bit for bit.
pub(super) fn compare(recorded: &Recorded, outcome: Result<&[Tensor], &Error>) -> Answer {
    if let Some(why) = nothing_recorded(recorded) {
        return Answer::NotCompared(match outcome {
            Ok(_) => format!("{why}; the replayed call succeeded"),
            Err(error) => format!("{why}; the replayed call failed: {error}"),
        });
    }
    let expected = recorded.end.as_ref().map(|end| &end.outcome);
    match (expected, outcome) {
        (Some(Outcome::Error { code, message }), Err(error)) => same_error(*code, message, error),
        (Some(Outcome::Error { message, .. }), Ok(_)) => {
            Answer::Differs(format!("expected the error {message}, got success"))
        }
        (_, Err(error)) => Answer::Differs(format!("expected success, got the error {error}")),
        (_, Ok(rets)) => same_results(recorded, rets),
    }
}

fn same_error(code: Option<u32>, message: &str, error: &Error) -> Answer {
    let name = |code: u32| {
        let known = ErrorCode::from_raw(xla_ffi_sys::XLA_FFI_Error_Code(code));
        known.map_or_else(|| code.to_string(), |code| code.name().to_owned())
    };
    let same_code = code.is_none_or(|code| code == error.code().to_raw().0);
    // Before revision r9, hosts do not report an error's code separately. Their error texts start with the code's name.
    let prefixed = || format!("{}: {}", error.code().name(), error.message());
    let same_text = message == error.message() || (code.is_none() && message == prefixed());
    if same_code && same_text {
        return Answer::Equal("the same error".into());
    }
    Answer::Differs(format!(
        "expected the error {}{message}, got {}: {}",
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
            "{left_out} results were not recorded, because the recording reached its size limit"
        ));
    }
    let count = rets.len();
    let s = if count == 1 { "" } else { "s" };
    Answer::Equal(format!("{count} result{s}, {bytes} bytes"))
}

/// Returns a description of the difference between a result and the recorded result; `None` if they are equal. Elements
/// smaller than a byte are compared one by one, because the padding after the last element is undefined.
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
        "result {index} ({shape}): {} of {} elements differ, the first at {first}: expected {}, got {}",
        differ.count() + 1,
        shape.elements(),
        text(&wanted),
        text(ret)
    ))
}

/// Returns the reason why the recording contains no outcome of the call; `None` if it contains an outcome.
fn nothing_recorded(recorded: &Recorded) -> Option<&'static str> {
    match recorded.end.as_ref().map(|end| &end.outcome) {
        None => Some(
            "the recording has no end of the call: its process ended, the recording stopped first, or the disk was full",
        ),
        Some(Outcome::Unwound) => Some("the recorded call ended with an exception or a panic"),
        Some(Outcome::Unwatched) => Some("the end of the recorded call could not be observed"),
        Some(_) => None,
    }
}
