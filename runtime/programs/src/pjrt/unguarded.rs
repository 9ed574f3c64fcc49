//! What a plugin does where this module does not guard against it: for the check that says which plugin does what
//! (`tests/hosts`), and for stand-ins. No part of the interface.

use super::client::Client;
use super::executable::Loaded;
use xla_ffi_runtime::Result;
use xla_ffi_sys::XLA_FFI_Handler;

/// Registers an execute stage by the plugin's own function, which calls it inside of that, and may answer success
/// where XLA refused it.
///
/// # Safety
/// The function is a handler and stays loaded.
///
/// # Errors
/// What the plugin answers.
pub unsafe fn register(client: &Client, name: &str, handler: XLA_FFI_Handler) -> Result<()> {
    let extension = client.extension()?;
    // SAFETY: the caller's promise.
    unsafe { extension.register_handler(name, client.platform(), handler) }
}

/// Runs a program without arguments in an execution that has no context: where a handler asks for user data there,
/// some plugins crash.
///
/// # Errors
/// What the plugin answers.
pub fn run_without_context(program: &Loaded) -> Result<()> {
    program.launch().without_context().run().map(|_| ())
}
