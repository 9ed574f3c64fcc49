//! Where the embedded runtime runs a handler: on the host, or on a CUDA device.

use crate::target::Chosen;
use anyhow::{Result, bail};
use xla_ffi_doctor::manifest;
use xla_ffi_runtime::{Call, Outcome};

/// What `--device` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Device {
    /// The host's memory and threads.
    Host,
    /// A CUDA device, by its number in this process.
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
            _ => Err("there are host, cuda and cuda:N".into()),
        }
    }
}

/// The platforms of a handler in the spelling that is compared.
fn canonical(handler: &manifest::Handler) -> impl Iterator<Item = String> {
    let platforms = handler.platforms.iter();
    platforms.map(|platform| xla_ffi_runtime::canonical_platform(platform))
}

impl Device {
    /// The platform as manifests name it.
    fn platform(self) -> &'static str {
        match self {
            Self::Host => "cpu",
            Self::Cuda(_) => "cuda",
        }
    }

    /// Whether the author declared the handler for it, under any spelling; one that names no platform is for all.
    pub(crate) fn is_for(self, handler: &manifest::Handler) -> bool {
        handler.platforms.is_empty() || canonical(handler).any(|name| name == self.platform())
    }

    /// Says where the author declared the handler for other platforms.
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
                "handler '{name}' is declared for {declared}: it runs with --device cuda, on a machine with a GPU"
            ),
            _ => bail!(
                "handler '{name}' is declared for {declared}, not for {}",
                self.platform()
            ),
        }
    }

    /// The device itself.
    pub(crate) fn open(self) -> Result<Opened> {
        match self {
            Self::Host => Ok(Opened::Host),
            #[cfg(feature = "cuda")]
            Self::Cuda(number) => Ok(Opened::Cuda(xla_ffi_runtime::CudaDevice::new(number)?)),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => {
                bail!("this xla-ffi was built without its feature cuda: cargo install xla-ffi-cli")
            }
        }
    }
}

/// A device that is there.
pub(crate) enum Opened {
    Host,
    #[cfg(feature = "cuda")]
    Cuda(xla_ffi_runtime::CudaDevice),
}

impl Opened {
    /// Says where a handler that a command buffer may replay launches other work from call to call.
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

    /// Runs a call there and waits for its results.
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
