//! Names of devices, as far as rules distinguish them.

use std::collections::HashSet;

use weir_model::{ElementPart, Family, Firewall};

/// The word for devices that no rule names.
pub(crate) const ANY_OTHER_DEVICE_PHRASE: &str = "any other device";

/// `IFNAMSIZ` in include/uapi/linux/if.h, less the byte that ends a name.
const DEVICE_NAME_BYTES_MAX: usize = 15;

/// Characters of device names, the usual ones first. `dev_valid_name` (net/core/dev.c) refuses `/`,
/// `:` and what its `isspace` takes for a space, which the byte 0xa0 is. There are more than these:
/// what rules leave of them is a class as well, of which one name is enough.
fn name_characters() -> impl Iterator<Item = char> {
    let is_usual = |c: &char| c.is_ascii_alphanumeric();
    let is_valid = |c: &char| !matches!(c, '/' | ':') && !c.to_string().as_bytes().contains(&0xa0);
    let others = ('!'..='~').filter(move |c| !is_usual(c));
    ('0'..='9')
        .chain('a'..='z')
        .chain('A'..='Z')
        .chain(others)
        .chain('\u{c0}'..='\u{24f}')
        .filter(is_valid)
}

/// Classes of device names that no rule distinguishes.
#[derive(Clone, Debug, Default)]
pub struct DeviceNameClasses {
    /// Names, and prefixes (true), that rules test; sorted.
    tested_names: Vec<(String, bool)>,
    /// One name of each class; the first is the empty name.
    class_names: Vec<String>,
}

impl DeviceNameClasses {
    /// The classes that the rules of a family and the sets of some firewalls distinguish.
    pub fn of_firewalls(firewalls: &[&Firewall], family: Family) -> DeviceNameClasses {
        DeviceNameClasses::new(firewalls.iter().flat_map(|f| collect_device_names(f, family)))
    }

    /// The same, where names, and prefixes (true), are distinguished in addition.
    pub(crate) fn of_firewalls_and_names(
        firewalls: &[&Firewall],
        family: Family,
        names: &[(String, bool)],
    ) -> DeviceNameClasses {
        let of_firewalls = firewalls.iter().flat_map(|f| collect_device_names(f, family));
        DeviceNameClasses::new(of_firewalls.chain(names.iter().cloned()))
    }

    /// The meaning of a device name in the packets of a comparison: `any other device`, `ppp+`; the
    /// name itself if rules test it.
    pub fn describe_name(&self, name: &str) -> String {
        let class = self.class_of_name(name);
        let words = class.and_then(|class| self.describe_device_class(class as usize));
        words.unwrap_or_else(|| name.to_owned())
    }

    /// The classes of the tested names and prefixes. `lo` always has its own class.
    pub(crate) fn new(asked: impl IntoIterator<Item = (String, bool)>) -> DeviceNameClasses {
        let mut asked: Vec<_> = asked.into_iter().collect();
        asked.push(("lo".to_owned(), false));
        asked.sort();
        asked.dedup();
        let mut devices = DeviceNameClasses { tested_names: asked, class_names: Vec::new() };
        // A class is known by the set of tests that hold for it: one example for each name, for
        // each prefix something that no other test names, and something that none names at all.
        let mut candidates = vec![String::new()];
        candidates.extend(devices.find_untested_name_with_prefix(""));
        for (name, prefix) in &devices.tested_names {
            candidates.extend(if *prefix {
                devices.find_untested_name_with_prefix(name)
            } else {
                Some(name.clone())
            });
        }
        let mut seen = HashSet::new();
        for name in candidates {
            // The empty name is apart: a missing device.
            if seen.insert((name.is_empty(), devices.evaluate_name_tests(&name))) {
                devices.class_names.push(name);
            }
        }
        devices
    }

    /// A name with this prefix that no test names exactly nor by a longer prefix, if there is one.
    ///
    /// The names are searched in order of their length below the prefix. A name is extended only if
    /// it is tested itself, so the search ends after as many names as there are tests, times the
    /// characters that a name may have.
    fn find_untested_name_with_prefix(&self, prefix: &str) -> Option<String> {
        let is_tested = |name: &str, is_prefix: bool| {
            let is_name =
                |(tested, kind): &(String, bool)| (tested.as_str(), kind).cmp(&(name, &is_prefix));
            self.tested_names.binary_search_by(is_name).is_ok()
        };
        // Names of some length below the prefix, all of which are tested.
        let mut tested = vec![prefix.to_owned()];
        if prefix.is_empty()
            && !"eth".char_indices().any(|(at, c)| is_tested(&"eth"[..at + c.len_utf8()], true))
        {
            tested.insert(0, "eth".to_owned());
        }
        while !tested.is_empty() {
            let mut longer = Vec::new();
            for (name, next) in tested.iter().flat_map(|n| name_characters().map(move |c| (n, c))) {
                let name = format!("{name}{next}");
                if name.len() > DEVICE_NAME_BYTES_MAX || is_tested(&name, true) {
                    continue;
                }
                if !is_tested(&name, false) {
                    return Some(name);
                }
                longer.push(name);
            }
            tested = longer;
        }
        (!prefix.is_empty() && !is_tested(prefix, false)).then(|| prefix.to_owned())
    }

    fn evaluate_name_tests(&self, name: &str) -> Vec<bool> {
        let holds = |(asked, prefix): &(String, bool)| match prefix {
            true => name.starts_with(asked.as_str()),
            false => name == asked,
        };
        self.tested_names.iter().map(holds).collect()
    }

    /// Bits of a class's number.
    pub fn class_number_bit_width(&self) -> u32 {
        usize::BITS - (self.class_names.len() - 1).leading_zeros()
    }

    /// One name of each class.
    pub fn class_example_names(&self) -> &[String] {
        &self.class_names
    }

    /// A class in words: the name that rules test, `ppp+` for names that only the prefix matches.
    pub fn describe_device_class(&self, class: usize) -> Option<String> {
        let name = self.class_names.get(class)?;
        if name.is_empty() {
            return Some("none".to_owned());
        }
        if self.tested_names.iter().any(|(asked, prefix)| !prefix && asked == name) {
            return Some(name.clone());
        }
        let prefixes =
            self.tested_names.iter().filter(|(p, is_prefix)| *is_prefix && name.starts_with(p));
        let Some((longest, _)) = prefixes.max_by_key(|(prefix, _)| prefix.len()) else {
            return Some(ANY_OTHER_DEVICE_PHRASE.to_owned());
        };
        let narrower = |(asked, is_prefix): &(String, bool)| {
            asked.starts_with(longest.as_str()) && !(*is_prefix && asked == longest)
        };
        let other = if self.tested_names.iter().any(narrower) { "other " } else { "" };
        Some(format!("{other}{longest}+"))
    }

    /// The class of a name; `None` for one that is like no other and that no rule names, where
    /// the prefixes that rules name leave hardly any.
    pub fn class_of_name(&self, name: &str) -> Option<u32> {
        let held = self.evaluate_name_tests(name);
        let same =
            |n: &String| n.is_empty() == name.is_empty() && self.evaluate_name_tests(n) == held;
        self.class_names.iter().position(same).map(|i| i as u32)
    }
}

/// Device names and prefixes (true) that a family's rules and the sets test.
fn collect_device_names(firewall: &Firewall, family: Family) -> HashSet<(String, bool)> {
    let mut names: HashSet<(&str, bool)> = HashSet::new();
    let rules = firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
    for (_, _, rule) in rules {
        for m in [&rule.base.iif, &rule.base.oif].into_iter().flatten() {
            names.insert((&m.name, m.is_prefix));
        }
    }
    for element in firewall.sets.iter().flat_map(|s| s.elements.iter()) {
        for part in &element.parts {
            if let ElementPart::Iface { name, .. } = part {
                names.insert((name, element.other_words.iter().any(|w| w == "wildcard")));
            }
        }
    }
    names.into_iter().map(|(name, is_prefix)| (name.to_owned(), is_prefix)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_rule_distinguishes_share_a_class() {
        let asked = [("eth0", false), ("eth", true), ("ppp", true), ("eth1", false)];
        let devices = DeviceNameClasses::new(asked.map(|(n, p)| (n.to_owned(), p)));
        let class = |name| devices.class_of_name(name);
        assert_eq!(class("eth7"), class("eth123"));
        assert_eq!(class("wlan0"), class("tun0"));
        let apart = ["", "lo", "eth0", "eth1", "eth7", "ppp3", "wlan0"];
        for (i, a) in apart.iter().enumerate() {
            assert!(apart[i + 1..].iter().all(|b| class(a) != class(b)), "{a}");
        }
        for (i, name) in devices.class_example_names().iter().enumerate() {
            assert_eq!(class(name), Some(i as u32), "{name}");
        }
    }

    #[test]
    fn a_prefix_has_a_class_however_many_of_its_names_are_tested() {
        let numbered = (0..1200).map(|n| (format!("eth{n}"), false));
        let lettered = ('a'..='z').map(|c| (format!("eth{c}"), false));
        let all = numbered.chain(lettered).chain([("eth".into(), false), ("eth".into(), true)]);
        let devices = DeviceNameClasses::new(all);
        let other = devices.class_of_name("eth-x");
        assert!(other.is_some());
        assert_eq!(other, devices.class_of_name("eth1200"));
        assert_ne!(other, devices.class_of_name("eth7"));
        // All first characters are tested by prefixes, up to the last one.
        let prefixes: Vec<_> = name_characters().map(|c| (format!("eth{c}"), true)).collect();
        let with_rest = |rest: &[(String, bool)]| {
            let devices =
                DeviceNameClasses::new([("eth".into(), true)].into_iter().chain(rest.to_vec()));
            devices.class_of_name("eth").expect("the prefix alone is a name")
                == devices.class_of_name("eth\u{24f}").expect("a class")
        };
        assert!(with_rest(&prefixes[..prefixes.len() - 1]));
        assert!(!with_rest(&prefixes));
        // A name of 15 bytes has no longer one.
        let longest = [("a23456789012345", false), ("a23456789012345", true)];
        let devices = DeviceNameClasses::new(longest.map(|(n, p)| (n.to_owned(), p)));
        assert_eq!(devices.class_example_names().len(), 4);
    }

    #[test]
    fn a_class_is_described_by_the_device_tests_of_rules() {
        let asked = [("eth0", false), ("eth", true), ("ppp", true)];
        let devices = DeviceNameClasses::new(asked.map(|(n, p)| (n.to_owned(), p)));
        let word = |name| {
            devices.describe_device_class(devices.class_of_name(name).expect("a class") as usize)
        };
        for (name, want) in [
            ("eth0", "eth0"),
            ("eth7", "other eth+"),
            ("ppp1", "ppp+"),
            ("wlan0", "any other device"),
            ("lo", "lo"),
        ] {
            assert_eq!(word(name).as_deref(), Some(want));
        }
    }
}
