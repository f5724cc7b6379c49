//! Names of devices, as far as rules distinguish them.

use std::collections::HashSet;

use weir_model::{ElementPart, Family, Firewall};

/// The word for devices that no rule names.
pub(crate) const ANY_OTHER_DEVICE_PHRASE: &str = "any other device";

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
    fn find_untested_name_with_prefix(&self, prefix: &str) -> Option<String> {
        let stem = if prefix.is_empty() { "eth" } else { prefix };
        let numbered = (0..1000).map(|n| format!("{stem}{n}"));
        let lettered = ('a'..='z').map(|c| format!("{prefix}{c}"));
        let bare = (!prefix.is_empty()).then(|| prefix.to_owned());
        numbered.chain(lettered).chain(bare).find(|name| {
            self.tested_names.iter().all(|(asked, is_prefix)| match is_prefix {
                false => asked != name,
                true => asked.len() <= prefix.len() || !name.starts_with(asked.as_str()),
            })
        })
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
