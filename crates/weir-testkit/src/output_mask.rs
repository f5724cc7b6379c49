//! Masks what differs from run to run, so that the rest can be compared exactly.

/// Units of time that a number may be before.
const TIME_UNITS: [&str; 9] = ["ns", "µs", "us", "ms", "seconds", "second", "min", "h", "s"];

/// The text with durations as `[time]` and each of the given paths as its name.
///
/// ```
/// let text = "wrote /tmp/a1b2/out in 0.31 s";
/// assert_eq!(weir_testkit::mask_durations_and_paths(text, &[("/tmp/a1b2", "[dir]")]), "wrote [dir]/out in [time]");
/// ```
pub fn mask_durations_and_paths(text: &str, paths: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (path, name) in paths {
        text = text.replace(path, name);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let number = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let is_in_word = before.ends_with(|c: char| c.is_alphanumeric() || "./:-_".contains(c));
        match leading_time_unit_len(&from[number..]).filter(|_| !is_in_word) {
            Some(len) => {
                out.push_str("[time]");
                rest = &from[number + len..];
            }
            None => {
                out.push_str(&from[..number]);
                rest = &from[number..];
            }
        }
    }
    out + rest
}

/// Length of a unit of time, with the space before it, that the text begins with.
fn leading_time_unit_len(text: &str) -> Option<usize> {
    let bare = text.strip_prefix(' ').unwrap_or(text);
    let unit = TIME_UNITS.iter().find(|unit| {
        let after = bare.strip_prefix(**unit);
        after.is_some_and(|a| !a.starts_with(|c: char| c.is_alphanumeric() || "/_-".contains(c)))
    })?;
    Some(text.len() - bare.len() + unit.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_masked_and_other_numbers_stay() {
        for (text, masked) in [
            ("took 12 ms.", "took [time]."),
            ("took 1.5s, 3 min", "took [time], [time]"),
            ("3 sets, 4 /s, rule 12", "3 sets, 4 /s, rule 12"),
            ("192.0.2.1 seen", "192.0.2.1 seen"),
            ("10.0.0.0/8 s", "10.0.0.0/8 s"),
            ("limit 3/s", "limit 3/s"),
        ] {
            assert_eq!(mask_durations_and_paths(text, &[]), masked);
        }
    }

    #[test]
    fn known_paths_are_replaced_by_placeholders() {
        assert_eq!(mask_durations_and_paths("a /x/y/z b", &[("/x/y", "[dir]")]), "a [dir]/z b");
    }
}
