//! Results of the tool, the kernel and weir for a case.

use std::fmt;

use weir_model::{Match, Ruleset, Target};
use weir_syntax::iptables::{ParserSettings, parse, print};

use crate::cases::Case;
use crate::loaded::Kernel;

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Loads to the same bytes and is saved the same.
    Same,
    /// The same, of a module that weir keeps verbatim.
    SameOpaque,
    /// Loads to something else.
    Different,
    /// weir refuses what the kernel takes.
    Refused,
    /// weir refuses what the kernel or the tool refuses.
    BothRefuse,
    /// weir takes a text that the tool takes and the kernel refuses.
    TakenAgainstKernel,
    /// weir keeps verbatim what the tool refuses for its text.
    TakenOpaque,
    /// weir reads what the tool refuses for its text.
    TakenAgainstText,
}

impl Outcome {
    /// Whether each of its cases is printed.
    pub fn is_listed(self) -> bool {
        !matches!(self, Outcome::Same | Outcome::SameOpaque | Outcome::BothRefuse)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Same => "the same",
            Outcome::SameOpaque => "the same, kept to the letter",
            Outcome::Different => "DIFFERENT after printing",
            Outcome::Refused => "REFUSED by weir",
            Outcome::BothRefuse => "refused by weir, too",
            Outcome::TakenAgainstKernel => "taken by weir, and by the tool's --test",
            Outcome::TakenOpaque => "kept to the letter by weir",
            Outcome::TakenAgainstText => "TAKEN by weir though the text is refused",
        })
    }
}

/// The tools of a namespace, and weir.
pub struct Judge {
    kernel: Kernel,
}

impl Judge {
    pub fn new() -> Judge {
        Judge { kernel: Kernel::new("suite") }
    }

    /// The outcome of a case, and why.
    pub fn decide(&self, case: &Case) -> (Outcome, String) {
        for command in &case.before {
            let words: Vec<&str> = command.split_whitespace().collect();
            let words = match words[..] {
                ["iptables", ref rest @ ..] => [&["iptables-legacy"], rest].concat(),
                ref other => other.to_vec(),
            };
            // Programs that are not installed (nfct, nfacct): what needs them is refused.
            let _ = self.kernel.run(&words, "");
        }
        let decided = self.compare(case);
        self.kernel.clear(case.family, &case.table);
        decided
    }

    fn compare(&self, case: &Case) -> (Outcome, String) {
        let text = format!("*{}\n-A {} {}\nCOMMIT\n", case.table, case.chain, case.rule);
        // No set exists in the namespace.
        let (family, sets) = (Some(case.family), Some(&[][..]));
        let options = ParserSettings { family, known_sets: sets, ..ParserSettings::default() };
        let read = parse(&text, &options);
        let weir = read.as_ref().map_err(|e| format!("weir: {}", e[0].message));
        let theirs = self.kernel.load(case.family, &case.table, &text);
        match (theirs, weir) {
            (Ok(theirs), Ok(ruleset)) => {
                let printed = print(ruleset, false);
                match self.kernel.load(case.family, &case.table, &printed) {
                    Ok(ours) if ours == theirs && is_opaque(ruleset) => {
                        (Outcome::SameOpaque, String::new())
                    }
                    Ok(ours) if ours == theirs => (Outcome::Same, String::new()),
                    Ok(ours) => {
                        let what = if ours.saved == theirs.saved { "bytes" } else { "save" };
                        (Outcome::Different, format!("{what} differ: {}", rule_of(&printed)))
                    }
                    Err(why) => (Outcome::Different, format!("{}: {why}", rule_of(&printed))),
                }
            }
            (Ok(_), Err(why)) => (Outcome::Refused, why),
            (Err(why), Err(own)) => (Outcome::BothRefuse, format!("{why}; {own}")),
            (Err(theirs_said), Ok(ruleset)) => {
                match self.kernel.restore(case.family, &["--test"], &text) {
                    Ok(()) => (Outcome::TakenAgainstKernel, theirs_said),
                    Err(why) if is_opaque(ruleset) => (Outcome::TakenOpaque, why),
                    Err(why) => (Outcome::TakenAgainstText, why),
                }
            }
        }
    }
}

fn rule_of(printed: &str) -> &str {
    printed.lines().find(|l| l.starts_with("-A")).unwrap_or("")
}

fn is_opaque(ruleset: &Ruleset) -> bool {
    let chains = ruleset.tables.iter().flat_map(|t| &t.chains);
    chains.flat_map(|c| &c.rules).any(|r| {
        matches!(r.target, Target::Opaque(_))
            || r.matches.iter().any(|m| matches!(m, Match::Opaque(_)))
    })
}
