//! Handlers in C on the embedded runtime.

mod examples;
mod functions;
mod loops;
mod promises;
