//! Valid device names.

use crate::KernelError;

/// The kernel's rules for device names (dev_valid_name in net/core/dev.c), less what `ip -batch`
/// would read as something else.
pub(crate) fn check_batch_safe_device_name(name: &str) -> Result<(), KernelError> {
    let why = if name.is_empty() || name.len() > 15 {
        "it must have 1 to 15 bytes"
    } else if name == "." || name == ".." {
        "the kernel refuses it"
    } else if name.bytes().any(|b| b.is_ascii_whitespace() || b"/:#\"'\\%".contains(&b)) {
        "it holds white space, a quote, `/`, `:`, `#`, `%` or `\\`"
    } else {
        return Ok(());
    };
    Err(KernelError::InvalidNamespaceOrDeviceName { what: "device", name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_that_batch_lines_would_split_are_refused() {
        assert!(check_batch_safe_device_name("eth0.100").is_ok());
        for bad in ["", "a b", "0123456789abcdef", "x#y", "x'y", "."] {
            assert!(check_batch_safe_device_name(bad).is_err(), "{bad:?}");
        }
    }
}
