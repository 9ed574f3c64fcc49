//! What handlers declare: parameters, types, the manifest, registration.

pub(crate) mod contract_check;
pub(crate) mod manifest;
pub(crate) mod param;
pub(crate) mod register;
pub(crate) mod types;
