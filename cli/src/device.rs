//! The device on which the embedded runtime runs a handler: the CPU, or a CUDA device.

use crate::target::Chosen;
use anyhow::{Result, bail};
use xla_ffi_doctor::manifest;
use xla_ffi_runtime::{Call, Outcome};

/// The value of `--device`: the device on which the handler runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Device {
    /// The CPU, with the host's memory and threads.
    Host,
    /// A CUDA device, by its index in this process.
    Cuda(i32),
}

impl std::str::FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text.split_once(':') {
            None if text == "host" => return Ok(Self::Host),
            None if text == "cuda" => "0",
            Some(("cuda", number)) => number,
            _ => "",
        };
        match number.parse() {
            Ok(number) if number >= 0 => Ok(Self::Cuda(number)),
            _ => Err("expected `host`, `cuda` or `cuda:N`".into()),
        }
    }
}

/// Returns the names of the platforms in a handler's manifest entry, in XLA's canonical spelling.
fn canonical(handler: &manifest::Handler) -> impl Iterator<Item = String> {
    let platforms = handler.platforms.iter();
    platforms.map(|platform| xla_ffi_runtime::canonical_platform(platform))
}

impl Device {
    /// Returns the name of the device's platform in manifests.
    fn platform(self) -> &'static str {
        match self {
            Self::Host => "cpu",
            Self::Cuda(_) => "cuda",
        }
    }

    /// Returns true if the manifest declares the handler for this device. A handler without platforms is for all
    /// devices.
    pub(crate) fn is_for(self, handler: &manifest::Handler) -> bool {
        handler.platforms.is_empty() || canonical(handler).any(|name| name == self.platform())
    }

    /// Returns an error if the manifest declares the handler only for platforms other than that of this device.
    pub(crate) fn check(self, chosen: &Chosen<'_>) -> Result<()> {
        let Some(manifest) = chosen.manifest else {
            return Ok(());
        };
        if self.is_for(manifest) {
            return Ok(());
        }
        let platforms: Vec<_> = canonical(manifest).collect();
        let (name, declared) = (&chosen.name, manifest.platforms.join(", "));
        match self {
            Self::Host if platforms.iter().any(|name| name == "cuda") => bail!(
                "{name}: expected a handler for cpu, got one for {declared}; on a machine with a GPU, use `xla-ffi run --device cuda`"
            ),
            _ => bail!(
                "{name}: expected a handler for {}, got one for {declared}; choose a different --device or --handler",
                self.platform()
            ),
        }
    }

    /// Opens the device. Returns an error if it does not exist.
    pub(crate) fn open(self) -> Result<Opened> {
        match self {
            Self::Host => Ok(Opened::Host),
            #[cfg(feature = "cuda")]
            Self::Cuda(number) => Ok(Opened::Cuda(xla_ffi_runtime::CudaDevice::new(number)?)),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => {
                bail!(
                    "xla-ffi was built without the feature `cuda`: run `cargo install xla-ffi-cli`"
                )
            }
        }
    }
}

/// A device that is ready for calls.
pub(crate) enum Opened {
    Host,
    #[cfg(feature = "cuda")]
    Cuda(xla_ffi_runtime::CudaDevice),
}

impl Opened {
    /// Returns an error if a handler that declares support for command buffers launches different work in different
    /// calls.
    pub(crate) fn check_capture(&self, call: Call) -> xla_ffi_runtime::Result<()> {
        match self {
            Self::Host => {
                drop(call);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => call.check_capture(device),
        }
    }

    /// Runs a call on the device and waits for its results.
    pub(crate) fn run(&self, call: Call) -> xla_ffi_runtime::Result<Outcome> {
        match self {
            Self::Host => call.run(),
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => call.run_on(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices() {
        assert_eq!("host".parse(), Ok(Device::Host));
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        for text in [
            "",
            "cpu",
            "cuda:",
            "cuda:-1",
            "cuda:x",
            "rocm",
            "cuda:99999999999",
        ] {
            assert!(text.parse::<Device>().is_err(), "{text}");
        }
    }
}
