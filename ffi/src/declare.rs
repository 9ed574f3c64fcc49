//! What handlers declare: parameters, types, the manifest, registration.

pub(crate) mod about;
pub(crate) mod at;
pub(crate) mod attr_type;
pub(crate) mod contract_check;
pub(crate) mod copies;
pub(crate) mod counts;
pub(crate) mod given;
pub(crate) mod handler_info;
pub(crate) mod layout;
pub(crate) mod library_check;
pub(crate) mod manifest;
#[cfg(unix)]
pub(crate) mod on_load;
pub(crate) mod param;
pub(crate) mod range;
pub(crate) mod register;
pub(crate) mod text;
pub(crate) mod types;
