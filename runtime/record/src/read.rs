//! Reads recorded calls from files.

use crate::call::{Call, Data, End, Operand, Outcome, State, bytes_of};
use crate::file::{ARGS, CALL, DONE, Kind, MAGIC, RETS, STATE, VERSION, checksum};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The maximum size in bytes of the section with the call, which is read before the rest of the file is checked.
const LONGEST_CALL: u64 = 1 << 28;

/// A recorded call and its outcome, as read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The description of the call.
    pub call: Call,
    /// The bytes of the arguments; `None` for arguments whose bytes were not kept.
    pub args: Vec<Option<Vec<u8>>>,
    /// The state of an instantiate stage that the call uses; `None` if the handler requested no state.
    pub state: Option<State>,
    /// The bytes of the results; `None` for results whose bytes were not kept or are missing.
    pub rets: Vec<Option<Vec<u8>>>,
    /// The end of the call; `None` if the process ended before the call.
    pub end: Option<End>,
}

/// The reason why a recorded call cannot be read from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is not a recorded call.
    #[error("no recorded call: it does not begin with XLAFFIRC")]
    Foreign,
    /// The file has a version of the format that this reader does not support.
    #[error("a recorded call of format {0}; this xla-ffi reads format {VERSION}: use a newer one")]
    Version(u32),
    /// The file is damaged.
    #[error("damaged at byte {at}: {what}")]
    Damaged {
        /// The position of the damage in the file, in bytes.
        at: usize,
        /// A description of the damage.
        what: String,
    },
}

fn damaged(at: usize, what: impl Into<String>) -> ReadError {
    ReadError::Damaged {
        at,
        what: what.into(),
    }
}

/// A section of a file, and the position at which it starts.
struct Section<'a> {
    at: usize,
    kind: Kind,
    content: &'a [u8],
}

impl Section<'_> {
    fn json<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        serde_json::from_slice(self.content)
            .map_err(|error| damaged(self.at, format!("section {}: {error}", name(self.kind))))
    }
}

fn name(kind: Kind) -> String {
    kind.escape_ascii().to_string()
}

/// Returns the section that starts at `at`; `None` if the file ends inside the section.
fn section(bytes: &[u8], at: usize) -> Result<Option<Section<'_>>, ReadError> {
    let Some((kind, rest)) = bytes[at..].split_first_chunk::<4>() else {
        return Ok(None);
    };
    if ![CALL, ARGS, STATE, RETS, DONE].contains(kind) {
        return Err(damaged(at, format!("no section is called {}", name(*kind))));
    }
    let Some((length, rest)) = rest.split_first_chunk::<8>() else {
        return Ok(None);
    };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let Some((content, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    let Some((sum, _)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    if u32::from_le_bytes(*sum) != checksum(*kind, &[content]) {
        return Err(damaged(
            at,
            format!("the checksum of {} is wrong", name(*kind)),
        ));
    }
    Ok(Some(Section {
        at,
        kind: *kind,
        content,
    }))
}

/// Checks the magic bytes and the version, and returns the position of the first section.
fn begin(bytes: &[u8]) -> Result<usize, ReadError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(ReadError::Foreign)?;
    match rest.split_first_chunk::<4>() {
        None => Err(damaged(MAGIC.len(), "the file ends in its head")),
        Some((version, _)) if *version != VERSION.to_le_bytes() => {
            Err(ReadError::Version(u32::from_le_bytes(*version)))
        }
        Some(_) => Ok(MAGIC.len() + 4),
    }
}

/// Returns an error for files that may be endless, such as pipes and devices.
fn check_is_file(path: &Path) -> std::io::Result<()> {
    if std::fs::metadata(path)?.is_file() {
        return Ok(());
    }
    let what = "it is not a regular file";
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what))
}

/// Reads the call from a file, without the operands.
///
/// # Errors
/// The errors of [`Recorded::read`].
pub fn head(path: &Path) -> Result<Call, ReadError> {
    check_is_file(path)?;
    let mut file = File::open(path)?;
    let mut bytes = vec![];
    file.by_ref().take(24).read_to_end(&mut bytes)?;
    let at = begin(&bytes)?;
    let length = bytes[at..]
        .get(4..12)
        .and_then(|length| length.try_into().ok());
    let length = length.map_or(0, u64::from_le_bytes).min(LONGEST_CALL);
    file.take(length + 4).read_to_end(&mut bytes)?;
    call(&bytes, at).map(|(call, _)| call)
}

/// Returns the call in the first section, and the position of the next section.
fn call(bytes: &[u8], at: usize) -> Result<(Call, usize), ReadError> {
    let section = section(bytes, at)?
        .ok_or_else(|| damaged(at, "the file ends within the description of the call"))?;
    if section.kind != CALL {
        return Err(damaged(
            at,
            format!("section {} before CALL", name(section.kind)),
        ));
    }
    let call: Call = section.json()?;
    for (what, operands) in [("argument", &call.args), ("result", &call.rets)] {
        for (index, operand) in operands.iter().enumerate() {
            if !consistent(operand, call.args.len()) {
                return Err(damaged(at, format!("{what} {index} contradicts itself")));
            }
        }
    }
    Ok((call, at + 16 + section.content.len()))
}

fn consistent(operand: &Operand, args: usize) -> bool {
    let size = match operand.data {
        Data::Kept(bytes) => {
            bytes_of(operand.dtype, &operand.dims).map(|size| size as u64) == Some(bytes)
        }
        _ => true,
    };
    size && operand.alias.is_none_or(|alias| alias < args)
}

impl Recorded {
    /// Reads a recorded call from a file.
    ///
    /// # Errors
    /// An error for a file that cannot be read, is not a recorded call, or is damaged.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        check_is_file(path)?;
        Self::parse(&std::fs::read(path)?)
    }

    /// Parses the bytes of a file. A file that ends after the arguments and before the section `DONE` is accepted:
    /// its call did not end.
    ///
    /// # Errors
    /// The errors of [`Recorded::read`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        let (call, mut at) = call(bytes, begin(bytes)?)?;
        let mut recorded = Self {
            args: vec![None; call.args.len()],
            rets: vec![None; call.rets.len()],
            state: None,
            end: None,
            call,
        };
        while let Some(section) = (at < bytes.len())
            .then(|| section(bytes, at))
            .transpose()?
            .flatten()
        {
            if recorded.end.is_some() {
                return Err(damaged(at, "there is data after the end of the call"));
            }
            recorded.take(&section)?;
            at += 16 + section.content.len();
        }
        let missing = |operands: &[Operand], bytes: &[Option<Vec<u8>>]| {
            let mut both = operands.iter().zip(bytes);
            both.position(|(operand, bytes)| {
                matches!(operand.data, Data::Kept(_)) && bytes.is_none()
            })
        };
        if let Some(index) = missing(&recorded.call.args, &recorded.args) {
            return Err(damaged(
                at,
                format!("the file ends before argument {index}"),
            ));
        }
        let Some(end) = &recorded.end else {
            return Ok(recorded);
        };
        if end.outcome == Outcome::Done {
            if let Some(index) = missing(&recorded.call.rets, &recorded.rets) {
                return Err(damaged(at, format!("result {index} is missing")));
            }
        }
        if at != bytes.len() {
            return Err(damaged(at, "there is data after the end of the call"));
        }
        Ok(recorded)
    }

    fn take(&mut self, section: &Section<'_>) -> Result<(), ReadError> {
        let at = section.at;
        let (operands, bytes) = match section.kind {
            ARGS => (&self.call.args, &mut self.args),
            RETS => (&self.call.rets, &mut self.rets),
            STATE => {
                self.state = Some(section.json()?);
                return Ok(());
            }
            DONE => {
                self.end = Some(section.json()?);
                return Ok(());
            }
            kind => {
                return Err(damaged(at, format!("section {} is repeated", name(kind))));
            }
        };
        let what = name(section.kind);
        let Some((index, content)) = section.content.split_first_chunk::<8>() else {
            return Err(damaged(at, format!("section {what} has no index")));
        };
        let index = u64::from_le_bytes(*index);
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        let (Some(operand), Some(bytes)) = (operands.get(place), bytes.get_mut(place)) else {
            return Err(damaged(
                at,
                format!("section {what} is of operand {index}, which there is not"),
            ));
        };
        if operand.data != Data::Kept(content.len() as u64) || bytes.is_some() {
            return Err(damaged(
                at,
                format!("section {what} of operand {index} is not the one that is announced"),
            ));
        }
        *bytes = Some(content.to_vec());
        Ok(())
    }
}
