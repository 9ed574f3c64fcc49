//! Status codes and the error that everything in this crate answers with.

use std::fmt;
use xla_ffi_sys::XLA_FFI_Error_Code;

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $raw:ident,)*) => {
        /// One of the canonical absl status codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Code {
            $($(#[$doc])* $code = XLA_FFI_Error_Code::$raw.0,)*
        }

        impl Code {
            /// All codes, in numerical order.
            pub const ALL: [Self; 16] = [$(Self::$code),*];
        }
    };
}

codes! {
    /// The operation was cancelled.
    Cancelled = CANCELLED,
    /// The cause is not known.
    Unknown = UNKNOWN,
    /// An argument is wrong whatever the state of the system.
    InvalidArgument = INVALID_ARGUMENT,
    /// Time ran out.
    DeadlineExceeded = DEADLINE_EXCEEDED,
    /// Something does not exist.
    NotFound = NOT_FOUND,
    /// Something that was to be made exists.
    AlreadyExists = ALREADY_EXISTS,
    /// The caller may not do this.
    PermissionDenied = PERMISSION_DENIED,
    /// A resource is used up.
    ResourceExhausted = RESOURCE_EXHAUSTED,
    /// The system is not in the state that the operation needs.
    FailedPrecondition = FAILED_PRECONDITION,
    /// The operation was given up.
    Aborted = ABORTED,
    /// Past a valid range.
    OutOfRange = OUT_OF_RANGE,
    /// Not implemented or not supported here.
    Unimplemented = UNIMPLEMENTED,
    /// An invariant is broken.
    Internal = INTERNAL,
    /// Down for the moment.
    Unavailable = UNAVAILABLE,
    /// Data is lost or corrupt.
    DataLoss = DATA_LOSS,
    /// Credentials are missing or wrong.
    Unauthenticated = UNAUTHENTICATED,
}

impl Code {
    /// The code with this number; `None` for 0 (OK) and for numbers that absl does not have.
    #[must_use]
    pub fn from_raw(raw: XLA_FFI_Error_Code) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.raw() == raw)
    }

    /// The number as the ABI has it.
    #[must_use]
    pub fn raw(self) -> XLA_FFI_Error_Code {
        XLA_FFI_Error_Code(self as u32)
    }

    /// The upper-case name, `"INVALID_ARGUMENT"` for instance.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.raw().name().unwrap_or_default()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a handler did that a real XLA would not have survived, or survived by luck. The embedded
/// runtime detects it, does not carry it out, and tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hazard {
    /// State arguments laid out for another version of the ABI.
    StateLayout,
    /// Type registration without the `type_info` that this version reads.
    TypeInfo,
    /// Bytes behind the call frame were written: `future` does not exist on r0 and r1.
    FrameOverrun,
    /// Bytes behind the metadata were written: `state_type_id` does not exist before r6.
    MetadataOverrun,
    /// Bytes behind a buffer were written.
    BufferOverrun,
    /// The context was used after the call that it belonged to.
    ContextAfterCall,
    /// Both an error and a future were returned.
    ErrorAndFuture,
    /// A future was completed twice, or one that this host did not make was named.
    FutureMisuse,
    /// An error that this host did not make, or that is gone, was named.
    ErrorMisuse,
    /// Handler registration laid out for a later version of the ABI.
    RegisterLayout,
    /// A function was called that the revision's table does not have.
    AbsentFunction,
    /// State was asked for or set that this call's context does not have.
    AbsentState,
    /// A panic or a C++ exception left the handler.
    Unwound,
    /// A result, or a part of it, was never written. Looked for where it is asked for
    /// ([`Call::unwritten`](crate::Call::unwritten)).
    UnwrittenResult,
    /// Scratch memory was not given back: XLA does not free what handlers allocate.
    ScratchLeak,
}

impl Hazard {
    /// All hazards, in the order of their declaration.
    pub const ALL: &[Self] = &[
        Self::StateLayout,
        Self::TypeInfo,
        Self::FrameOverrun,
        Self::MetadataOverrun,
        Self::BufferOverrun,
        Self::ContextAfterCall,
        Self::ErrorAndFuture,
        Self::FutureMisuse,
        Self::ErrorMisuse,
        Self::RegisterLayout,
        Self::AbsentFunction,
        Self::AbsentState,
        Self::Unwound,
        Self::UnwrittenResult,
        Self::ScratchLeak,
    ];

    /// A short name for tables and scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StateLayout => "state-layout",
            Self::TypeInfo => "type-info",
            Self::FrameOverrun => "frame-overrun",
            Self::MetadataOverrun => "metadata-overrun",
            Self::BufferOverrun => "buffer-overrun",
            Self::ContextAfterCall => "context-after-call",
            Self::ErrorAndFuture => "error-and-future",
            Self::FutureMisuse => "future-misuse",
            Self::ErrorMisuse => "error-misuse",
            Self::RegisterLayout => "register-layout",
            Self::AbsentFunction => "absent-function",
            Self::AbsentState => "absent-state",
            Self::Unwound => "unwound",
            Self::UnwrittenResult => "unwritten-result",
            Self::ScratchLeak => "scratch-leak",
        }
    }
}

/// A hazard with what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Which hazard.
    pub hazard: Hazard,
    /// What was seen, and what to do about it.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub(crate) fn new(hazard: Hazard, message: impl Into<String>) -> Self {
        Self {
            hazard,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hazard {}: {}", self.hazard.name(), self.message)
    }
}

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A failed operation: a code, a text, the hazards that were seen on the way, and its cause.
///
/// ```
/// use xla_ffi_runtime::{Code, DType, Error, Shape};
///
/// let error = Shape::new(DType::F32, [-1]).unwrap_err();
/// assert_eq!(error.code(), Code::InvalidArgument);
/// let error = Error::new(Code::NotFound, "no `table`");
/// assert_eq!((error.message(), error.to_string()), ("no `table`", "NOT_FOUND: no `table`".into()));
/// assert!(error.findings().is_empty());
/// ```
#[derive(Debug)]
pub struct Error {
    code: Code,
    message: String,
    from_handler: bool,
    findings: Vec<Finding>,
    source: Option<Source>,
}

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with `code` and `message`.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            from_handler: false,
            findings: vec![],
            source: None,
        }
    }

    /// An error with the code INVALID_ARGUMENT.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// An error with the code INTERNAL because of a hazard.
    #[must_use]
    pub fn hazard(hazard: Hazard, message: impl Into<String>) -> Self {
        let finding = Finding::new(hazard, message);
        let mut error = Self::new(Code::Internal, finding.to_string());
        error.findings.push(finding);
        error
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error, told to be the handler's own answer.
    #[must_use]
    pub(crate) fn handlers(mut self) -> Self {
        self.from_handler = true;
        self
    }

    /// The same error under the code INTERNAL.
    #[must_use]
    pub(crate) fn into_internal(mut self) -> Self {
        self.code = Code::Internal;
        self
    }

    /// The same error with more findings.
    #[must_use]
    pub(crate) fn with_findings(mut self, findings: Vec<Finding>) -> Self {
        self.findings.extend(findings);
        self
    }

    /// The same error with `context: ` before its text.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the handler itself answered this; otherwise the host refused.
    #[must_use]
    pub fn is_from_handler(&self) -> bool {
        self.from_handler
    }

    /// The hazards that were seen.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether `hazard` was seen.
    #[must_use]
    pub fn has(&self, hazard: Hazard) -> bool {
        self.findings.iter().any(|finding| finding.hazard == hazard)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
