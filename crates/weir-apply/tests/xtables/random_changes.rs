//! Random changes of a table, as lines of `iptables-restore`, and the calls that do the same.

use weir_apply::iptables::Transaction;
use weir_model::Family;
use weir_testkit::random_ruleset::TestRng;

/// Chains with the words of their rules, changed step by step.
pub struct RandomChanges {
    random: TestRng,
    family: Family,
    chains: Vec<(String, Vec<String>)>,
}

impl RandomChanges {
    pub fn new(seed: u64, family: Family) -> RandomChanges {
        // Rules jump to `last`, which stays empty.
        let chains = ["INPUT", "FORWARD", "last"].map(|name| (name.to_owned(), Vec::new()));
        RandomChanges { random: TestRng::new(seed), family, chains: chains.to_vec() }
    }

    fn random_rule(&mut self) -> String {
        let network = if self.family == Family::V4 { "192.0.2." } else { "2001:db8::" };
        let target = self.random.pick(&["ACCEPT", "DROP", "RETURN", "last", "LOG"]);
        format!("-s {network}{} -p tcp -j {target}", self.random.number_below(4))
    }

    /// The lines of a table, with counts of its rules.
    pub fn generate_table(&mut self) -> String {
        // The counts of policies are zero: the tool loses them when it changes a table.
        let mut text = String::from("*filter\n:last - [0:0]\n");
        for number in 0..self.random.number_below(20) {
            let (chain, rule) = (self.random.number_below(2), self.random_rule());
            text.push_str(&format!("[{number}:7] -A {} {rule}\n", self.chains[chain].0));
            self.chains[chain].1.push(rule);
        }
        text + "COMMIT\n"
    }

    /// The next line.
    pub fn generate_line(&mut self, step: usize) -> String {
        let (chain, rule) = (self.random.number_below(self.chains.len()), self.random_rule());
        let kind = self.random.number_below(10);
        let length = self.chains[chain].1.len();
        let place = self.random.number_below(length + 1);
        let (name, rules) = &mut self.chains[chain];
        match kind {
            0 => {
                let created = format!("new_{step}");
                let line = format!(":{created} - [0:0]");
                self.chains.push((created, Vec::new()));
                line
            }
            1 => {
                rules.clear();
                format!("-F {name}")
            }
            2 | 3 if place < length => {
                rules.remove(place);
                format!("-D {name} {}", place + 1)
            }
            4 if place < length => {
                let rule = rules[place].clone();
                rules.remove(rules.iter().position(|r| *r == rule).unwrap_or(place));
                format!("-D {name} {rule}")
            }
            _ if name == "last" => format!("-F {name}"),
            5 | 6 => {
                let line = format!("-I {name} {} {rule}", place + 1);
                rules.insert(place, rule);
                line
            }
            _ => {
                let line = format!("-A {name} {rule}");
                rules.push(rule);
                line
            }
        }
    }
}

/// Does in a transaction what a line does.
pub fn apply_line(table: &mut Transaction, line: &str) {
    let (command, rest) = line.split_once(' ').expect("a command and a chain");
    if let Some(chain) = command.strip_prefix(':') {
        return table.create_chain(chain).expect("a new name");
    }
    let (chain, words) = rest.split_once(' ').unwrap_or((rest, ""));
    let result = match command {
        "-F" => table.flush_entries(chain),
        "-A" => table.append_rule(chain, &table.parse_rule(words).expect("a rule")),
        "-I" => {
            let (number, words) = words.split_once(' ').expect("a number and a rule");
            let rule = table.parse_rule(words).expect("a rule");
            table.insert_rule(chain, number.parse().expect("a number"), &rule)
        }
        "-D" => match words.parse() {
            Ok(number) => table.delete_rule_of_number(chain, number),
            Err(_) => table.delete_rule(chain, &table.parse_rule(words).expect("a rule")),
        },
        other => panic!("{other}"),
    };
    result.unwrap_or_else(|e| panic!("{line}: {e}"));
}
