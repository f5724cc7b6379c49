//! Response times of a firewall while it is idle or forwards at full load.

pub(crate) mod echo;
pub(crate) mod load;
pub(crate) mod open_loop;
pub(crate) mod stream;
