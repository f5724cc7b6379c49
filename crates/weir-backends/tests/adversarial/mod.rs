//! What commands use of their budgets for an adversarial ruleset.

use std::time::{Duration, Instant};

use weir_artefact::CompiledForm;
use weir_backends::{CompileOptions, compile};
use weir_diagram::{CompareOptions, Comparison, StatefulTestPairing, compare_firewalls};
use weir_lint::{LintOptions, lint_firewall};
use weir_model::{Family, Firewall};
use weir_passes::{
    CheckedPassesOptions, PacketCheckOptions, Pass, passes, run_passes_until_first_refusal,
};
use weir_syntax::ipset;
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::adversarial_ruleset::AdversarialRuleset;
use weir_testkit::random_ruleset::{
    RandomRulesetEdit, TestRng, make_meaning_preserving_edit, make_probably_meaning_changing_edit,
};

/// What every command may use.
#[derive(Clone, Copy, Debug)]
pub struct CommandBudget {
    /// Steps of all proofs of a command; sets of packets that a check compares.
    pub steps: u64,
    /// Memory of diagrams, in bytes.
    pub memory_bytes: usize,
    /// Packets that a form is compared on.
    pub packets: usize,
}

/// What one command used.
#[derive(Clone, Debug)]
pub struct UsedBudget {
    /// The command.
    pub command: &'static str,
    /// Steps of its proofs; `None` where they are not known.
    pub steps: Option<u64>,
    /// The most memory that its diagrams took, in bytes; `None` where that is not known.
    pub memory_bytes: Option<usize>,
    /// Everything was decided.
    pub is_decided: bool,
    /// How long it took.
    pub time: Duration,
}

/// The ruleset as a firewall.
pub fn parse_adversarial_ruleset(ruleset: &AdversarialRuleset) -> Firewall {
    parse_firewall(&ruleset.iptables_save_text, &ruleset.ipset_save_text)
        .unwrap_or_else(|| panic!("{}", ruleset.iptables_save_text))
}

/// `None` if the text is no ruleset: an edit may make one that the kernel refuses.
pub fn parse_firewall(rules: &str, sets: &str) -> Option<Firewall> {
    let settings = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let v4 = iptables::parse(rules, &settings).ok()?;
    Some(Firewall { v4: Some(v4), v6: None, sets: ipset::parse(sets).ok()? })
}

/// Rules that an edit is tried on: not every rule can be edited.
const EDITS_TRIED: usize = 20;

/// The text without the rule in its middle.
fn remove_middle_rule(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let rules: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].starts_with("-A")).collect();
    if let Some(middle) = rules.get(rules.len() / 2) {
        lines.remove(*middle);
    }
    lines.join("\n") + "\n"
}

/// Checks the ruleset, compiles it to each form, and compares it with edited ones.
pub fn use_budgets(
    ruleset: &AdversarialRuleset,
    seed: u64,
    budget: CommandBudget,
) -> Vec<UsedBudget> {
    let firewall = parse_adversarial_ruleset(ruleset);
    let mut rng = TestRng::new(seed);
    let mut used = Vec::new();
    let mut try_edit = |edit: fn(&str, &mut TestRng) -> Option<RandomRulesetEdit>| {
        let edited = (0..EDITS_TRIED).find_map(|_| edit(&ruleset.iptables_save_text, &mut rng));
        edited.map(|edited| edited.edited_text)
    };
    let edits = [
        ("diff after an edit", try_edit(make_probably_meaning_changing_edit)),
        ("diff after an equal edit", try_edit(make_meaning_preserving_edit)),
        ("diff without a rule", Some(remove_middle_rule(&ruleset.iptables_save_text))),
    ];
    for (command, edited) in edits {
        let edited = edited.and_then(|text| parse_firewall(&text, &ruleset.ipset_save_text));
        used.extend(edited.and_then(|edited| use_for_diff(command, &firewall, &edited, budget)));
    }
    let tree: &[&str] = &["chain_tree"];
    let ipset: &[&str] = &["fold_into_set", "chain_tree"];
    let more: &[&str] = &["remove_shadowed", "split_by_protocol"];
    for (command, names) in
        [("compile to tree", tree), ("compile to ipset", ipset), ("compile with passes", more)]
    {
        used.push(use_for_passes(command, names, &firewall, budget));
    }
    used.push(use_for_nft(&firewall, budget));
    used.push(use_for_check(&firewall, budget));
    used
}

fn use_for_diff(
    command: &'static str,
    before: &Firewall,
    after: &Firewall,
    budget: CommandBudget,
) -> Option<UsedBudget> {
    let start = Instant::now();
    let options = CompareOptions {
        steps_max: budget.steps,
        memory_bytes: budget.memory_bytes,
        stateful_pairing: StatefulTestPairing::ByRuleText,
        regions_max: 1,
        ..CompareOptions::default()
    };
    // An edit may make a ruleset that the kernel refuses.
    let comparison: Comparison = compare_firewalls(before, after, &options).ok()?;
    Some(UsedBudget {
        command,
        steps: Some(comparison.steps),
        memory_bytes: comparison.parts.iter().map(|part| part.statistics.memory_bytes).max(),
        is_decided: comparison.undecided_comparisons().next().is_none(),
        time: start.elapsed(),
    })
}

fn use_for_passes(
    command: &'static str,
    names: &[&str],
    firewall: &Firewall,
    budget: CommandBudget,
) -> UsedBudget {
    let start = Instant::now();
    let all: Vec<&dyn Pass> =
        names.iter().map(|name| passes::find_pass(name).expect("the pass is there")).collect();
    let options = CheckedPassesOptions {
        packet_check: PacketCheckOptions { seed: 1, packets_per_family: budget.packets },
        proof_steps_max: budget.steps,
        proof_memory_bytes: budget.memory_bytes,
        ..CheckedPassesOptions::default()
    };
    let run = run_passes_until_first_refusal(firewall, &all, &options, &mut |_, _| {})
        .expect("passes are right");
    UsedBudget {
        command,
        steps: Some(run.proof_budget.steps_spent()),
        memory_bytes: None,
        is_decided: run.pass_reports.iter().all(|step| {
            !matches!(step.evidence, weir_artefact::PassEqualityEvidence::ComparedPackets(..))
        }),
        time: start.elapsed(),
    }
}

fn use_for_nft(firewall: &Firewall, budget: CommandBudget) -> UsedBudget {
    let start = Instant::now();
    let options = CompileOptions {
        check_packets_per_family: budget.packets,
        all_proofs_steps_max: budget.steps,
        diagram_memory_bytes_per_path_max: budget.memory_bytes,
        ..CompileOptions::default()
    };
    let made = compile(firewall, CompiledForm::Nft, &options, &mut |_, _| {});
    let is_decided = made.is_ok_and(|artefact| {
        let mut steps = artefact.manifest.checked.passes.iter();
        steps.all(|step| {
            !matches!(step.evidence, weir_artefact::PassEqualityEvidence::ComparedPackets(..))
        })
    });
    UsedBudget {
        command: "compile to nft",
        steps: None,
        memory_bytes: None,
        is_decided,
        time: start.elapsed(),
    }
}

fn use_for_check(firewall: &Firewall, budget: CommandBudget) -> UsedBudget {
    let start = Instant::now();
    let options =
        LintOptions { examined_boxes_max_per_ruleset: budget.steps, ..LintOptions::default() };
    let report = lint_firewall(firewall, &options);
    UsedBudget {
        command: "check",
        steps: Some(report.examined_box_count),
        memory_bytes: None,
        is_decided: report.unfinished_tables.is_empty(),
        time: start.elapsed(),
    }
}
