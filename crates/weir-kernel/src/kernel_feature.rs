//! Whether a part of the kernel is there, found out without loading it.
//!
//! Asking a subsystem of netlink makes the kernel load its module (`request_module` in
//! net/netfilter/nfnetlink.c). A kernel without loadable modules loads nothing; otherwise the part
//! is there if it is a loaded module, or if the kernel has one of its symbols.

use std::fs;
use std::path::Path;

/// A part of the kernel that netlink would load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFeature {
    /// nf_tables.
    NfTables,
    /// ipset.
    Ipset,
    /// The list of netfilter hooks (Linux 5.14).
    HookList,
}

impl KernelFeature {
    /// Its module, and a function of it that is not inlined.
    const fn module_and_symbol(self) -> (&'static str, &'static str) {
        match self {
            KernelFeature::NfTables => ("nf_tables", "nft_register_chain_type"),
            KernelFeature::Ipset => ("ip_set", "ip_set_nfnl_get_byindex"),
            KernelFeature::HookList => ("nfnetlink_hook", "nfnl_hook_dump"),
        }
    }

    /// Whether it is there; `false` where it would have to be loaded.
    pub fn is_loaded(self) -> bool {
        let (module, symbol) = self.module_and_symbol();
        if !Path::new("/proc/modules").exists() || Path::new("/sys/module").join(module).exists() {
            return true;
        }
        // `address type name [module]`; readable by all, the addresses are zero then.
        let symbols = fs::read("/proc/kallsyms").unwrap_or_default();
        symbols.split(|byte| *byte == b'\n').any(|line| has_symbol_name(line, symbol))
    }
}

fn has_symbol_name(line: &[u8], symbol: &str) -> bool {
    let mut words = line.split(|byte| byte.is_ascii_whitespace());
    words.nth(2) == Some(symbol.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_symbol_is_matched_by_its_whole_name() {
        let line = b"0000000000000000 T nft_register_chain_type\t[nf_tables]";
        assert!(has_symbol_name(line, "nft_register_chain_type"));
        assert!(!has_symbol_name(line, "nft_register_chain"));
        assert!(!has_symbol_name(b"", "nft_register_chain_type"));
    }
}
