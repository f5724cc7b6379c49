//! Errors of ipset.

use std::io;

use crate::KernelError;

/// An operation on a set that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpsetError {
    /// The kernel refused it.
    #[error("{action} set {set}: {}", describe_ipset_errno(*.errno, .action, .type_name))]
    Refused {
        /// The operation, e.g. `create`.
        action: &'static str,
        /// The name of the set.
        set: String,
        /// Its type, if known: some error numbers depend on the type.
        type_name: String,
        /// The error number: of the system, or from 4096 of ipset.
        errno: i32,
        /// Index of the refused element, from 0.
        element_index: Option<usize>,
    },
    /// The socket or the kernel failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl IpsetError {
    /// Whether there is no such set.
    pub fn is_missing_set(&self) -> bool {
        matches!(self, IpsetError::Refused { errno: libc::ENOENT, .. })
    }

    /// Whether a rule, another set or a listing uses the set (`IPSET_ERR_BUSY`,
    /// `IPSET_ERR_REFERENCED`).
    pub fn is_set_in_use(&self) -> bool {
        matches!(self, IpsetError::Refused { errno: 4100 | 4108, .. })
    }
}

/// Describes an error number (`enum ipset_errno` in include/uapi/linux/netfilter/ipset/ip_set.h,
/// and those of the types in include/linux/netfilter/ipset).
fn describe_ipset_errno(errno: i32, action: &str, type_name: &str) -> String {
    let text = match (errno, type_name.split(':').next().unwrap_or_default()) {
        (libc::ENOENT, _) => "there is no set of this name",
        (libc::EEXIST, _) => "a set of this name exists",
        (4097, _) => "the kernel does not accept this message",
        (4098, _) => "the kernel has no such set type",
        (4099, _) => "the maximum number of sets is reached",
        (4100, _) => "a rule, another set or a listing uses it: remove the rule first",
        // A swap (net/netfilter/ipset/ip_set_core.c) returns it for a second set that is missing.
        (4101, _) if action == "swap" => "there is no second set of that name: create it first",
        (4101, _) => "a set of the new name exists",
        (4102, _) => "the two sets are of different types or families",
        (4103, "list") => "the set is already in the list, or is not in it",
        (4103, _) => "the element is already in the set, or is not in it",
        (4104, _) => "the prefix length is invalid for this family",
        (4105, _) => "the netmask is invalid for this family",
        (4106, _) => "the set is of the other family",
        (4107, _) => "the set was created without timeout",
        (4108, _) => "a rule or another set uses it: remove the rule first",
        (4109 | 4110, _) => "the address is of the other family",
        (4111, _) => "the set was created without counters",
        (4112, _) => "the set was created without comment",
        (4113, _) => "the markmask is invalid",
        (4114, _) => "the set was created without skbinfo",
        (4352, "hash") => "the set is full: create it with a larger maxelem",
        (4353, "hash") => "this type cannot store the element",
        (4354, "hash") => "this type does not support ports of the protocol",
        (4355, "hash") => "the protocol of the element is missing",
        (4352, "bitmap") => "the element is outside the range of the set",
        (4353, "bitmap") => "the range is too large for a bitmap",
        (4352, "list") => "the set to be added does not exist",
        (4353, "list") => "a list cannot be a member of a list",
        (4356, "list") => "the list is full: create it with a larger size",
        (4096.., _) => return format!("ipset error {errno}"),
        _ => return io::Error::from_raw_os_error(errno).to_string(),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_are_described_by_set_type() {
        assert!(describe_ipset_errno(4352, "add", "hash:net").contains("maxelem"));
        assert!(describe_ipset_errno(4352, "add", "bitmap:ip").contains("range"));
        assert_eq!(describe_ipset_errno(4400, "add", "hash:ip"), "ipset error 4400");
        assert!(describe_ipset_errno(libc::EPERM, "add", "").contains("not permitted"));
        assert!(describe_ipset_errno(4101, "swap", "").contains("no second set"));
        assert!(describe_ipset_errno(4101, "rename", "").contains("exists"));
    }
}
