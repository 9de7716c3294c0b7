//! What others may ask of a running job: the one path for the local socket and for a server. A request is answered when it
//! is done, not when it is taken.

mod handle;
pub mod socket; // requests from another process on this machine

pub use handle::Handle;
pub(super) use handle::Wish;
