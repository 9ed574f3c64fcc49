//! Errors that a handler gives to its host.

pub mod panics;
pub(crate) mod problems;
pub(crate) mod wording;

use std::borrow::Cow;
use std::fmt;

use xla_ffi_sys::XLA_FFI_Error_Code;

/// What a handler returns.
///
/// ```
/// use xla_ffi::{Error, Result};
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
            /// The code in the C header.
            #[must_use]
            pub const fn to_raw(self) -> XLA_FFI_Error_Code {
                XLA_FFI_Error_Code(self as u32)
            }

            /// The code for a number of the C header; `None` for 0 (success). Numbers that are not known
            /// become [`ErrorCode::Unknown`].
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
    /// The canonical absl status codes, success excepted.
    ///
    /// The hosts of r0 and r1 (jaxlib 0.4.31 and 0.4.33) report every code as `Internal`.
    ///
    /// ```
    /// use xla_ffi::{ErrorCode, sys::XLA_FFI_Error_Code};
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
        /// The cause is not known.
        Unknown = UNKNOWN,
        /// An argument is wrong whatever the state of the system.
        InvalidArgument = INVALID_ARGUMENT,
        /// Time ran out.
        DeadlineExceeded = DEADLINE_EXCEEDED,
        /// Something that was asked for does not exist.
        NotFound = NOT_FOUND,
        /// Something that was to be made exists.
        AlreadyExists = ALREADY_EXISTS,
        /// The caller may not do this.
        PermissionDenied = PERMISSION_DENIED,
        /// Memory, quota or another resource is used up.
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
        /// The service is down for the moment.
        Unavailable = UNAVAILABLE,
        /// Data is lost or corrupt.
        DataLoss = DATA_LOSS,
        /// Credentials are missing or wrong.
        Unauthenticated = UNAUTHENTICATED,
    }
}

/// An error: a code and a text.
///
/// The text reaches the host as a C string: a NUL in it is shown as `\0`.
///
/// ```
/// use xla_ffi::{Error, ErrorCode};
/// let error = Error::invalid_argument("the matrix is singular");
/// assert_eq!(error.code(), ErrorCode::InvalidArgument);
/// assert_eq!(error.message(), "the matrix is singular");
///
/// let error = Error::new(ErrorCode::Aborted, format!("gave up after {} steps", 5));
/// assert_eq!(error.to_string(), "gave up after 5 steps");
///
/// // Errors of files, conversions and boxes become one with `?`.
/// let error = Error::from(std::io::Error::from(std::io::ErrorKind::NotFound));
/// assert_eq!(error.code(), ErrorCode::NotFound);
/// assert_eq!(Error::from("by itself").code(), ErrorCode::Internal);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: ErrorCode,
    message: Cow<'static, str>,
}

macro_rules! constructors {
    ($($name:ident $code:ident;)*) => {
        $(
            #[doc = concat!("An error with [`ErrorCode::", stringify!($code), "`].")]
            #[must_use]
            pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
                Self::new(ErrorCode::$code, message)
            }
        )*
    };
}

impl Error {
    /// An error.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
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

    /// The code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// The text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

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
            #[doc = concat!("An error with [`ErrorCode::", stringify!($code), "`].")]
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
    /// The error in the box, if it is one of these or of the standard library's I/O; else one with
    /// [`ErrorCode::Internal`].
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::from(error as Box<dyn std::error::Error>)
    }
}

impl From<Box<dyn std::error::Error>> for Error {
    /// The error in the box, if it is one of these or of the standard library's I/O; else one with
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
    /// An error with [`ErrorCode::Internal`].
    fn from(message: String) -> Self {
        Self::internal(message)
    }
}

impl From<&'static str> for Error {
    /// An error with [`ErrorCode::Internal`].
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
