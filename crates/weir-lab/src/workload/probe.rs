//! What others feel while a firewall is idle or forwards what it can.

pub(crate) mod echo;
pub(crate) mod load;
pub(crate) mod open_loop;
pub(crate) mod stream;
