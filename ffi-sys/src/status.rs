//! Status codes, and the error type of all crates of the SDK. Requires the feature `std`.

use crate::XLA_FFI_Error_Code;
use std::borrow::Cow;
use std::boxed::Box;
use std::fmt;
use std::string::{String, ToString};
use std::sync::Arc;
use std::vec::Vec;

/// The result type of all fallible functions, including handlers.
///
/// ```
/// use xla_ffi_sys::{Error, Result};
///
/// fn positive(x: i64) -> Result<i64> {
///     if x > 0 { Ok(x) } else { Err(Error::out_of_range(format!("{x} is not above 0"))) }
/// }
///
/// assert_eq!(positive(3), Ok(3));
/// assert_eq!(positive(-1).unwrap_err().message(), "-1 is not above 0");
/// ```
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $code:ident = $raw:ident,)* }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $code = XLA_FFI_Error_Code::$raw.0 as isize,)*
        }

        impl $name {
            /// All error codes, in numerical order.
            pub const ALL: [Self; 16] = [$(Self::$code),*];

            /// Returns the error code's number in the C header.
            #[must_use]
            pub const fn to_raw(self) -> XLA_FFI_Error_Code {
                XLA_FFI_Error_Code(self as u32)
            }

            /// Converts a number of the C header to an error code. Returns `None` for 0 (success), and
            /// [`ErrorCode::Unknown`] for unknown numbers.
            #[must_use]
            pub const fn from_raw(raw: XLA_FFI_Error_Code) -> Option<Self> {
                Some(match raw {
                    XLA_FFI_Error_Code::OK => return None,
                    $(XLA_FFI_Error_Code::$raw => Self::$code,)*
                    _ => Self::Unknown,
                })
            }
        }
    };
}

codes! {
    /// The canonical absl status codes, except success.
    ///
    /// Hosts of r0 and r1 (jaxlib 0.4.31 and 0.4.33) report every code as `Internal`.
    ///
    /// ```
    /// use xla_ffi_sys::{ErrorCode, XLA_FFI_Error_Code};
    ///
    /// assert_eq!(ErrorCode::NotFound.to_raw(), XLA_FFI_Error_Code(5));
    /// assert_eq!(ErrorCode::from_raw(XLA_FFI_Error_Code(5)), Some(ErrorCode::NotFound));
    /// assert_eq!(ErrorCode::from_raw(XLA_FFI_Error_Code(0)), None); // success
    /// assert_eq!(ErrorCode::from_raw(XLA_FFI_Error_Code(77)), Some(ErrorCode::Unknown));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    ErrorCode {
        /// The operation was cancelled.
        Cancelled = CANCELLED,
        /// The cause is unknown.
        Unknown = UNKNOWN,
        /// An argument is invalid in every state of the system.
        InvalidArgument = INVALID_ARGUMENT,
        /// The deadline passed before the operation ended.
        DeadlineExceeded = DEADLINE_EXCEEDED,
        /// A requested object does not exist.
        NotFound = NOT_FOUND,
        /// The object to create already exists.
        AlreadyExists = ALREADY_EXISTS,
        /// The caller lacks permission.
        PermissionDenied = PERMISSION_DENIED,
        /// Memory, a quota or another resource is exhausted.
        ResourceExhausted = RESOURCE_EXHAUSTED,
        /// The system is not in the required state.
        FailedPrecondition = FAILED_PRECONDITION,
        /// The operation was aborted.
        Aborted = ABORTED,
        /// A value is outside the valid range.
        OutOfRange = OUT_OF_RANGE,
        /// The operation is not implemented or not supported.
        Unimplemented = UNIMPLEMENTED,
        /// An invariant is violated.
        Internal = INTERNAL,
        /// The service is temporarily unavailable.
        Unavailable = UNAVAILABLE,
        /// Data is lost or corrupt.
        DataLoss = DATA_LOSS,
        /// Credentials are missing or invalid.
        Unauthenticated = UNAUTHENTICATED,
    }
}

impl ErrorCode {
    /// Returns the upper-case name of the code, for example `"INVALID_ARGUMENT"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.to_raw().name().unwrap_or_default()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! hazards {
    ($($(#[$doc:meta])* $hazard:ident = $name:literal,)*) => {
        /// A handler's mistake that would crash XLA or corrupt memory. The embedded runtime detects the mistake,
        /// prevents its effects and reports it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Hazard {
            $($(#[$doc])* $hazard,)*
        }

        impl Hazard {
            /// All hazards, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$hazard),*];

            /// Returns the short name of the hazard, for tables and scripts.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$hazard => $name,)*
                }
            }
        }
    };
}

hazards! {
    /// The arguments of a state function have the layout of a different version of the ABI.
    StateLayout = "state-layout",
    /// A type was registered without the `type_info` that hosts of this revision read.
    TypeInfo = "type-info",
    /// The handler wrote bytes after the call frame: `future` does not exist on r0 and r1.
    FrameOverrun = "frame-overrun",
    /// The handler wrote bytes after the metadata: `state_type_id` does not exist before r6.
    MetadataOverrun = "metadata-overrun",
    /// The handler wrote bytes after a buffer.
    BufferOverrun = "buffer-overrun",
    /// The handler used the context after the call had ended.
    ContextAfterCall = "context-after-call",
    /// The handler returned both an error and a future.
    ErrorAndFuture = "error-and-future",
    /// A future was completed twice, or a different host created it.
    FutureMisuse = "future-misuse",
    /// An error was destroyed twice, or a different host created it.
    ErrorMisuse = "error-misuse",
    /// A handler registration has the layout of a later version of the ABI.
    RegisterLayout = "register-layout",
    /// The handler called a function that the revision's function table lacks.
    AbsentFunction = "absent-function",
    /// The handler read or stored state that the call's context does not have.
    AbsentState = "absent-state",
    /// A panic or a C++ exception escaped from the handler.
    Unwound = "unwound",
    /// A result or part of it was not written. This hazard is checked only in calls that reject
    /// unwritten results.
    UnwrittenResult = "unwritten-result",
    /// Scratch memory was not freed. XLA does not free scratch memory itself.
    ScratchLeak = "scratch-leak",
}

/// A detected hazard with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of hazard.
    pub hazard: Hazard,
    /// The observation, and the fix of the problem.
    pub message: String,
}

impl Finding {
    /// Creates a finding with a description.
    #[doc(hidden)]
    #[must_use]
    pub fn new(hazard: Hazard, message: impl Into<String>) -> Self {
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

/// An error with a code and a text.
///
/// Errors of the embedded runtime also have the detected hazards, and any error may have a source. The text reaches a
/// host as a C string, so a NUL in the text is shown as `\0`.
///
/// ```
/// use xla_ffi_sys::{Error, ErrorCode};
///
/// let error = Error::invalid_argument("the matrix is singular");
/// assert_eq!(error.code(), ErrorCode::InvalidArgument);
/// assert_eq!(error.message(), "the matrix is singular");
///
/// let error = Error::new(ErrorCode::Aborted, format!("gave up after {} steps", 5));
/// assert_eq!(error.to_string(), "ABORTED: gave up after 5 steps");
///
/// // `?` converts I/O errors, failed conversions and boxed errors.
/// let error = Error::from(std::io::Error::from(std::io::ErrorKind::NotFound));
/// assert_eq!(error.code(), ErrorCode::NotFound);
/// assert_eq!(Error::from("by itself").code(), ErrorCode::Internal);
/// ```
#[derive(Clone)]
pub struct Error {
    code: ErrorCode,
    message: Cow<'static, str>,
    // An `Arc` keeps the code that drops an error small.
    details: Option<Arc<Details>>,
}

/// The optional parts of an error, which most errors lack.
#[derive(Clone, Debug, Default)]
struct Details {
    from_handler: bool,
    findings: Vec<Finding>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Two errors are equal if their codes and texts are equal.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && self.message == other.message
    }
}

impl Eq for Error {}

macro_rules! constructors {
    ($($name:ident $code:ident;)*) => {
        $(
            #[doc = concat!("Creates an error with [`ErrorCode::", stringify!($code), "`].")]
            #[must_use]
            pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
                Self::new(ErrorCode::$code, message)
            }
        )*
    };
}

impl Error {
    /// Creates an error with a code and a text.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
        }
    }

    constructors! {
        invalid_argument InvalidArgument;
        not_found NotFound;
        already_exists AlreadyExists;
        resource_exhausted ResourceExhausted;
        failed_precondition FailedPrecondition;
        out_of_range OutOfRange;
        unimplemented Unimplemented;
        internal Internal;
        unavailable Unavailable;
    }

    /// Creates an error with [`ErrorCode::Internal`] for a hazard.
    #[doc(hidden)]
    #[must_use]
    pub fn hazard(hazard: Hazard, message: impl Into<String>) -> Self {
        let finding = Finding::new(hazard, message);
        Self::internal(finding.to_string()).with_findings([finding])
    }

    /// Adds the cause of the error, which [`source`](std::error::Error::source) returns.
    ///
    /// If the handler is linked with the embedded runtime (feature `internal`), the caller receives the cause. Other
    /// hosts receive only code and text.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.details_mut().source = Some(Arc::from(source.into()));
        self
    }

    /// Marks the error as returned by the handler.
    #[doc(hidden)]
    #[must_use]
    pub fn into_handlers(mut self) -> Self {
        self.details_mut().from_handler = true;
        self
    }

    /// Adds findings to the error.
    #[doc(hidden)]
    #[must_use]
    pub fn with_findings(mut self, findings: impl IntoIterator<Item = Finding>) -> Self {
        self.details_mut().findings.extend(findings);
        self
    }

    /// Replaces the error's code.
    #[doc(hidden)]
    #[must_use]
    pub fn with_code(mut self, code: ErrorCode) -> Self {
        self.code = code;
        self
    }

    /// Adds the prefix `context: ` to the error's text.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        // The capacity usually suffices for the prefix, which has the handler's name.
        let mut text = String::with_capacity(self.message.len() + 64);
        // Writing to a string cannot fail.
        let _ = fmt::Write::write_fmt(&mut text, format_args!("{context}: "));
        text.push_str(&self.message);
        self.message = text.into();
        self
    }

    fn details_mut(&mut self) -> &mut Details {
        Arc::make_mut(self.details.get_or_insert_default())
    }

    /// Returns the code of the error.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the text of the error.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns true if the handler returned this error, and false if the embedded runtime rejected the call.
    #[must_use]
    pub fn is_from_handler(&self) -> bool {
        self.details
            .as_ref()
            .is_some_and(|details| details.from_handler)
    }

    /// Returns the hazards that the embedded runtime detected.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.details
            .as_ref()
            .map_or(&[], |details| &details.findings)
    }

    /// Returns true if `hazard` is among the findings.
    #[must_use]
    pub fn has(&self, hazard: Hazard) -> bool {
        self.findings()
            .iter()
            .any(|finding| finding.hazard == hazard)
    }
}

// Implemented by hand to omit the optional parts of an error, which makes libraries smaller.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Displays the error as `CODE: text`, or only the text with `{:#}`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.details.as_ref()?.source.as_ref()?;
        Some(&**source)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let code = match error.kind() {
            ErrorKind::NotFound => ErrorCode::NotFound,
            ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            ErrorKind::AlreadyExists => ErrorCode::AlreadyExists,
            ErrorKind::InvalidInput => ErrorCode::InvalidArgument,
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => ErrorCode::DataLoss,
            ErrorKind::TimedOut => ErrorCode::DeadlineExceeded,
            ErrorKind::OutOfMemory => ErrorCode::ResourceExhausted,
            ErrorKind::Unsupported => ErrorCode::Unimplemented,
            _ => ErrorCode::Unknown,
        };
        Self::new(code, error.to_string())
    }
}

macro_rules! from {
    ($($error:ty => $code:ident;)*) => {
        $(impl From<$error> for Error {
            #[doc = concat!("Converts the error to one with [`ErrorCode::", stringify!($code), "`].")]
            fn from(error: $error) -> Self {
                Self::new(ErrorCode::$code, error.to_string())
            }
        })*
    };
}

from! {
    std::num::TryFromIntError => OutOfRange;
    std::num::ParseIntError => InvalidArgument;
    std::num::ParseFloatError => InvalidArgument;
    std::str::Utf8Error => InvalidArgument;
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    /// Unboxes an [`Error`], or converts an I/O error of the standard library. Other errors get the code
    /// [`ErrorCode::Internal`].
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::from(error as Box<dyn std::error::Error>)
    }
}

impl From<Box<dyn std::error::Error>> for Error {
    /// Unboxes an [`Error`], or converts an I/O error of the standard library. Other errors get the code
    /// [`ErrorCode::Internal`].
    fn from(error: Box<dyn std::error::Error>) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(error) => return *error,
            Err(error) => error,
        };
        match error.downcast::<std::io::Error>() {
            Ok(error) => Self::from(*error),
            Err(error) => Self::internal(error.to_string()),
        }
    }
}

impl From<String> for Error {
    /// Creates an error with [`ErrorCode::Internal`].
    fn from(message: String) -> Self {
        Self::internal(message)
    }
}

impl From<&'static str> for Error {
    /// Creates an error with [`ErrorCode::Internal`].
    fn from(message: &'static str) -> Self {
        Self::internal(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_others_keep_what_they_say() {
        fn dimension(size: i64) -> std::result::Result<usize, Box<dyn std::error::Error>> {
            if size == 0 {
                return Err(Error::not_found("no size").into());
            }
            if size == 1 {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            if size == 2 {
                return Err("words".into());
            }
            Ok(usize::try_from(size)?)
        }
        let code = |size| Error::from(dimension(size).unwrap_err()).code();
        assert_eq!(code(0), ErrorCode::NotFound);
        assert_eq!(code(1), ErrorCode::DeadlineExceeded);
        assert_eq!(code(2), ErrorCode::Internal);
        assert_eq!(code(-1), ErrorCode::Internal);
        let boxed: Box<dyn std::error::Error + Send + Sync> = Error::not_found("it").into();
        assert_eq!(Error::from(boxed), Error::not_found("it"));
        let narrow = usize::try_from(-1).map_err(Error::from).unwrap_err();
        assert_eq!(narrow.code(), ErrorCode::OutOfRange);
        let parsed = "x".parse::<i64>().map_err(Error::from).unwrap_err();
        assert_eq!(parsed.code(), ErrorCode::InvalidArgument);
    }
}
