//! Rules for texts and for the names of keys.

use crate::command_variables::COMMAND_VARIABLE_NAMES;
use crate::value_rules::InvalidKey;

/// Longest name of a device, bytes: `IFNAMSIZ` (include/uapi/linux/if.h) without the NUL.
const MAX_DEVICE_NAME_BYTES: usize = 15;

/// Variables by which a shell finds programs and splits words: an axis must not replace them.
const RESERVED_SHELL_VARIABLE_NAMES: [&str; 4] = ["PATH", "IFS", "ENV", "PWD"];

/// A text with something else than white space.
pub(crate) fn check_not_blank(text: &str) -> Result<(), String> {
    let is_blank = text.trim().is_empty();
    if is_blank { Err("it needs a text".to_owned()) } else { Ok(()) }
}

/// The name of a device that can be created in a namespace.
///
/// `dev_valid_name` (net/core/dev.c) refuses the first kinds. `%` would be replaced by a number;
/// `lo` exists in every namespace; `all` and `default` are folders of `/proc/sys/net/ipv4/conf`.
pub(crate) fn check_device_name(name: &str) -> Result<(), String> {
    let is_refused = |c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace();
    if name.is_empty() || name.len() > MAX_DEVICE_NAME_BYTES {
        return Err(format!("the name of a device has 1 to {MAX_DEVICE_NAME_BYTES} bytes"));
    }
    if let Some(wrong) = name.chars().find(|c| is_refused(*c)) {
        return Err(format!("the name of a device cannot contain {wrong:?}"));
    }
    if [".", "..", "lo", "all", "default"].contains(&name) {
        return Err("no device can be created with this name".to_owned());
    }
    Ok(())
}

/// A name that can be part of a file's: letters, digits and `._+-`, not hidden.
pub(crate) fn check_file_name(name: &str) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_letter) {
        return Err("it takes letters, digits and `._+-`, and begins with none of `.-`".to_owned());
    }
    Ok(())
}

/// A value on an axis that is a text: part of the names of files, and printed as `axis=value`.
pub(crate) fn check_axis_value_text(text: &str) -> Result<(), String> {
    check_file_name(text).map_err(|why| format!("a value on an axis is part of file names: {why}"))
}

/// Names of subjects: each is part of the name of a folder.
pub(crate) fn check_subject_names(names: &[&str]) -> Result<(), InvalidKey> {
    for (index, name) in names.iter().enumerate() {
        check_file_name(name)
            .map_err(|why| InvalidKey { index, message: format!("subject {name:?}: {why}") })?;
    }
    Ok(())
}

/// Names of axes: in capital letters each is a variable of its own for commands.
pub(crate) fn check_axis_names(names: &[&str]) -> Result<(), InvalidKey> {
    for (index, name) in names.iter().enumerate() {
        let refuse = |message| Err(InvalidKey { index, message });
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return refuse(format!("axis {name:?}: the name of an axis begins with a letter"));
        }
        if !name.chars().all(is_letter) {
            return refuse(format!(
                "axis {name:?}: commands see it as a variable, so it takes letters, digits and `_`"
            ));
        }
        let variable = name.to_ascii_uppercase();
        if COMMAND_VARIABLE_NAMES
            .iter()
            .chain(&RESERVED_SHELL_VARIABLE_NAMES)
            .any(|taken| *taken == variable)
        {
            return refuse(format!(
                "axis `{name}`: commands have a variable `{variable}` of another meaning; rename \
                 the axis"
            ));
        }
        if let Some(other) = names[..index].iter().find(|other| other.eq_ignore_ascii_case(name)) {
            return refuse(format!(
                "axes `{other}` and `{name}` are the same variable `{variable}`; rename one"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_follow_the_rules_of_the_kernel() {
        for good in ["eth0", "eth0.101", "-x", "ü", "123456789012345"] {
            assert_eq!(check_device_name(good), Ok(()), "{good}");
        }
        let bad = ["", "a/b", "a:b", "a b", "a\tb", ".", "..", "1234567890123456", "üüüüüüüü"];
        for bad in bad.iter().chain(&["e%d", "lo", "all", "default"]) {
            assert!(check_device_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn file_names_that_need_quoting_are_refused() {
        for good in ["6.1", "6.12.8-rt+", "no_mitigations"] {
            assert_eq!(check_file_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "-o", "a/b", "a b", "ü"] {
            assert!(check_file_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn axis_names_must_be_unreserved_variable_names() {
        let check = |names: &[&str]| check_axis_names(names).map_err(|wrong| wrong.index);
        assert_eq!(check(&["rules", "time_wait", "rules2"]), Ok(()));
        for (names, index) in [
            (["rules", "Rules"], 1),
            (["seed", "rules"], 0),
            (["rules", "path"], 1),
            (["rules", "1st"], 1),
            (["rules", "a-b"], 1),
            (["", "rules"], 0),
        ] {
            assert_eq!(check(&names), Err(index), "{names:?}");
        }
    }
}
