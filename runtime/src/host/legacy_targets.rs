//! The legacy targets of a runtime: functions, and the API versions under which programs call them.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_sys::{Error, Result};
use xla_ffi_sys::{
    XlaCustomCallCpu, XlaCustomCallCpuStatus, XlaCustomCallCpuUnified, XlaCustomCallGpu,
    XlaCustomCallGpuStatus, XlaFfiLegacyTarget,
};

/// The API version under which a custom call calls its target. The numbers are those of XLA's `CustomCallApiVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum ApiVersion {
    /// `API_VERSION_ORIGINAL`: the platform's original signature, without a status.
    Original = 1,
    /// `API_VERSION_STATUS_RETURNING`: the platform's original signature with a status.
    StatusReturning = 2,
    /// `API_VERSION_STATUS_RETURNING_UNIFIED`: a signature with opaque bytes and a status, on every platform.
    StatusReturningUnified = 3,
    /// `API_VERSION_TYPED_FFI`: a handler of XLA FFI.
    TypedFfi = 4,
}

impl ApiVersion {
    /// All API versions, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Original,
        Self::StatusReturning,
        Self::StatusReturningUnified,
        Self::TypedFfi,
    ];

    /// Returns the API version with XLA's number; `None` for 0 (unspecified) and unknown numbers.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| *version as i32 == number)
    }

    /// Returns XLA's name of the API version, as in HLO text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "API_VERSION_ORIGINAL",
            Self::StatusReturning => "API_VERSION_STATUS_RETURNING",
            Self::StatusReturningUnified => "API_VERSION_STATUS_RETURNING_UNIFIED",
            Self::TypedFfi => "API_VERSION_TYPED_FFI",
        }
    }

    /// Returns the API version with XLA's name `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Returns the signature of a target that is called under this API version on a platform; `None` for typed
    /// handlers.
    #[must_use]
    pub fn signature(self, platform: &str) -> Option<Signature> {
        let host = is_host(platform);
        match self {
            Self::Original if host => Some(Signature::Cpu),
            Self::Original => Some(Signature::Gpu),
            Self::StatusReturning if host => Some(Signature::CpuStatus),
            Self::StatusReturningUnified if host => Some(Signature::CpuUnified),
            Self::StatusReturning | Self::StatusReturningUnified => Some(Signature::GpuStatus),
            Self::TypedFfi => None,
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns true if targets of a platform receive host memory.
pub(crate) fn is_host(platform: &str) -> bool {
    crate::host::canonical_platform(platform) == "cpu"
}

/// The signature of a legacy target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Signature {
    /// The signature [`XlaCustomCallCpu`].
    Cpu = XlaFfiLegacyTarget::CPU,
    /// The signature [`XlaCustomCallCpuStatus`].
    CpuStatus = XlaFfiLegacyTarget::CPU_STATUS,
    /// The signature [`XlaCustomCallGpu`].
    Gpu = XlaFfiLegacyTarget::GPU,
    /// The signature [`XlaCustomCallGpuStatus`].
    GpuStatus = XlaFfiLegacyTarget::GPU_STATUS,
    /// The signature [`XlaCustomCallCpuUnified`].
    CpuUnified = XlaFfiLegacyTarget::CPU_UNIFIED,
}

impl Signature {
    /// All signatures, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Cpu,
        Self::CpuStatus,
        Self::Gpu,
        Self::GpuStatus,
        Self::CpuUnified,
    ];

    /// Returns true if a target of this signature receives operands in host memory.
    #[must_use]
    pub fn is_cpu(self) -> bool {
        !matches!(self, Self::Gpu | Self::GpuStatus)
    }

    /// Returns the signature with a number of [`XlaFfiLegacyTarget`]; `None` for 0 and unknown numbers.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|signature| *signature as u32 == raw)
    }

    /// Returns the parameter list in C.
    #[must_use]
    pub fn parameters(self) -> &'static str {
        match self {
            Self::Cpu => "(void* out, const void** in)",
            Self::CpuStatus => "(void* out, const void** in, XlaCustomCallStatus*)",
            Self::Gpu => "(CUstream, void** buffers, const char* opaque, size_t opaque_len)",
            Self::CpuUnified => {
                "(void* out, const void** in, const char* opaque, size_t opaque_len, \
                 XlaCustomCallStatus*)"
            }
            Self::GpuStatus => {
                "(CUstream, void** buffers, const char* opaque, size_t opaque_len, \
                 XlaCustomCallStatus*)"
            }
        }
    }

    /// Returns the API versions under which programs may call a target of this signature on a platform.
    #[must_use]
    pub fn versions(self, platform: &str) -> Vec<ApiVersion> {
        ApiVersion::ALL
            .into_iter()
            .filter(|version| version.signature(platform) == Some(self))
            .collect()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "void{}", self.parameters())
    }
}

/// The function of a legacy target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub(crate) address: usize,
    /// The signature; `None` if the program registered only an address. The API version of each call then determines
    /// the signature.
    pub(crate) signature: Option<Signature>,
}

impl Function {
    /// Returns a CPU target for `API_VERSION_ORIGINAL`.
    ///
    /// # Safety
    /// The function must stay loaded. Every call of the target must have operands with which the function is safe.
    #[must_use]
    pub unsafe fn cpu(function: XlaCustomCallCpu) -> Self {
        Self::typed(function as usize, Signature::Cpu)
    }

    /// Returns a CPU target for `API_VERSION_STATUS_RETURNING`.
    ///
    /// # Safety
    /// The requirements of [`Function::cpu`] apply.
    #[must_use]
    pub unsafe fn cpu_status(function: XlaCustomCallCpuStatus) -> Self {
        Self::typed(function as usize, Signature::CpuStatus)
    }

    /// Returns a device target for `API_VERSION_ORIGINAL`.
    ///
    /// # Safety
    /// The requirements of [`Function::cpu`] apply.
    #[must_use]
    pub unsafe fn gpu(function: XlaCustomCallGpu) -> Self {
        Self::typed(function as usize, Signature::Gpu)
    }

    /// Returns a device target for `API_VERSION_STATUS_RETURNING` or
    /// `API_VERSION_STATUS_RETURNING_UNIFIED`.
    ///
    /// # Safety
    /// The requirements of [`Function::cpu`] apply.
    #[must_use]
    pub unsafe fn gpu_status(function: XlaCustomCallGpuStatus) -> Self {
        Self::typed(function as usize, Signature::GpuStatus)
    }

    /// Returns a CPU target for `API_VERSION_STATUS_RETURNING_UNIFIED`.
    ///
    /// # Safety
    /// The requirements of [`Function::cpu`] apply.
    #[must_use]
    pub unsafe fn cpu_unified(function: XlaCustomCallCpuUnified) -> Self {
        Self::typed(function as usize, Signature::CpuUnified)
    }

    /// Returns a target whose signature is known only at run time. Without a signature, the API version of each call
    /// determines the signature, as for addresses that are registered with XLA.
    ///
    /// # Safety
    /// The requirements of [`Function::cpu`] apply. The address must be that of a function with this signature.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for null.
    pub unsafe fn at(address: *const c_void, signature: Option<Signature>) -> Result<Self> {
        if address.is_null() {
            return Err(Error::invalid_argument(
                "the address of a legacy target is null",
            ));
        }
        Ok(Self {
            address: address as usize,
            signature,
        })
    }

    fn typed(address: usize, signature: Signature) -> Self {
        Self {
            address,
            signature: Some(signature),
        }
    }

    /// Returns the address of the function.
    #[must_use]
    pub fn address(&self) -> *const c_void {
        self.address as *const c_void
    }

    /// Returns the signature; `None` if the program registered only an address.
    #[must_use]
    pub fn signature(&self) -> Option<Signature> {
        self.signature
    }
}

/// The legacy targets of a runtime, by name and canonical platform.
#[derive(Default)]
pub(crate) struct Targets(Mutex<BTreeMap<(String, String), Function>>);

impl Targets {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Function>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the API versions under which programs may call a target on a canonical platform; an empty list if the
    /// target is not registered.
    pub(crate) fn versions(&self, name: &str, platform: &str) -> Vec<ApiVersion> {
        let targets = self.lock();
        let found = targets.get(&(name.to_owned(), platform.to_owned()));
        found.map_or_else(Vec::new, |function| versions(function, platform))
    }
}

/// Returns the API versions under which programs may call a function on a platform.
pub(crate) fn versions(function: &Function, platform: &str) -> Vec<ApiVersion> {
    match function.signature {
        Some(signature) => signature.versions(platform),
        None => ApiVersion::ALL[..3].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_signatures() {
        for version in ApiVersion::ALL {
            assert_eq!(ApiVersion::from_number(version as i32), Some(version));
            assert_eq!(ApiVersion::from_name(version.name()), Some(version));
        }
        assert_eq!(ApiVersion::from_number(0), None);
        use {ApiVersion::*, Signature as S};
        assert_eq!(Original.signature("Host"), Some(S::Cpu));
        assert_eq!(Original.signature("CUDA"), Some(S::Gpu));
        assert_eq!(StatusReturning.signature("cpu"), Some(S::CpuStatus));
        assert_eq!(StatusReturning.signature("ROCM"), Some(S::GpuStatus));
        assert_eq!(StatusReturningUnified.signature("cpu"), Some(S::CpuUnified));
        assert_eq!(TypedFfi.signature("cpu"), None);
        assert_eq!(S::CpuUnified.versions("cpu"), [StatusReturningUnified]);
        assert_eq!(
            S::GpuStatus.versions("cuda"),
            [StatusReturning, StatusReturningUnified]
        );
        assert_eq!(S::Cpu.versions("cuda"), []);
        assert_eq!(S::GpuStatus.versions("cpu"), []);
        for raw in 0..7 {
            assert_eq!(
                S::from_raw(raw).map(|s| s as u32),
                (1..6).contains(&raw).then_some(raw)
            );
        }
    }
}
