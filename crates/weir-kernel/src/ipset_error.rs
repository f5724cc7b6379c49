//! What ipset refuses, in words.

use std::io;

use crate::KernelError;

/// An operation on a set that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpsetError {
    /// The kernel refused it.
    #[error("{action} set {set}: {}", describe_ipset_errno(*.errno, .type_name))]
    Refused {
        /// What was tried, e.g. `create`.
        action: &'static str,
        /// The name of the set.
        set: String,
        /// Its type, if it is known: some numbers have a meaning for each type.
        type_name: String,
        /// The number of the error: the system's, or one of ipset's from 4096.
        errno: i32,
        /// Which element the kernel refused, from 0, in the order in which they were given.
        element_index: Option<usize>,
    },
    /// The machine, or the socket.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl IpsetError {
    /// Whether there is no such set.
    pub fn is_missing_set(&self) -> bool {
        matches!(self, IpsetError::Refused { errno: libc::ENOENT, .. })
    }
}

/// What a number means (`enum ipset_errno` in include/uapi/linux/netfilter/ipset/ip_set.h, and those
/// of the types in include/linux/netfilter/ipset).
fn describe_ipset_errno(errno: i32, type_name: &str) -> String {
    let text = match (errno, type_name.split(':').next().unwrap_or_default()) {
        (libc::ENOENT, _) => "there is no set of this name",
        (libc::EEXIST, _) => "a set of this name exists",
        (4097, _) => "the kernel does not take this message",
        (4098, _) => "the kernel has no such type of set",
        (4099, _) => "there are as many sets as the kernel can hold",
        (4100, _) => "a rule, another set or a listing uses it: remove the rule first",
        (4101, _) => "a set of the new name exists",
        (4102, _) => "the two sets are of different types or families",
        (4103, "list") => "the set is or is not in the list",
        (4103, _) => "the element is in the set already, or is not there to be deleted",
        (4104, _) => "the prefix length is not one of this family",
        (4105, _) => "the netmask is not one of this family",
        (4106, _) => "the set is of the other family",
        (4107, _) => "the set was created without timeout",
        (4108, _) => "a rule or another set uses it: remove the rule first",
        (4109 | 4110, _) => "the address is of the other family",
        (4111, _) => "the set was created without counters",
        (4112, _) => "the set was created without comment",
        (4113, _) => "the markmask is not one that the kernel takes",
        (4114, _) => "the set was created without skbinfo",
        (4352, "hash") => "the set is full: create it with a larger maxelem",
        (4353, "hash") => "the element is not one that this type can store",
        (4354, "hash") => "the protocol has no ports that this type knows",
        (4355, "hash") => "the element lacks its protocol",
        (4352, "bitmap") => "the element is outside the range of the set",
        (4353, "bitmap") => "the range is larger than a bitmap can be",
        (4352, "list") => "there is no set of the name that is to be a member",
        (4353, "list") => "the member is itself a list",
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
    fn numbers_of_types_differ_by_type() {
        assert!(describe_ipset_errno(4352, "hash:net").contains("maxelem"));
        assert!(describe_ipset_errno(4352, "bitmap:ip").contains("range"));
        assert_eq!(describe_ipset_errno(4400, "hash:ip"), "ipset error 4400");
        assert!(describe_ipset_errno(libc::EPERM, "").contains("not permitted"));
    }
}
