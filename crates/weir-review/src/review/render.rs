//! A review as text and as Markdown.

use std::fmt::Write as _;

use super::review_types::{
    CornerCaseReview, CounterComparison, DecisionsBeforeAndAfter, ExamplePacketReview,
    FamilyPathReview, LocatedRuleOrPolicy, PathsBeforeAndAfter, RegionReview, Review,
    RulesetDecision, TreatmentChange, TreatmentChangeKind,
};

/// Width of one path when two are shown side by side.
const PATH_COLUMN_WIDTH: usize = 56;
/// Counters that are listed.
const MAX_LISTED_COUNTER_DIFFERENCES: usize = 10;
/// Other pairs of rules of a region that are named.
const MAX_OTHER_DECISIONS_PER_REGION: usize = 2;

impl Review {
    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            push_family_path_answer(&mut out, part, self);
        }
        for change in &self.changes {
            push_treatment_change(&mut out, change);
        }
        if let Some(paths) = self.most_important_packet_paths() {
            let _ = writeln!(out, "\npath of {}", paths.example.packet);
            push_paths_side_by_side(&mut out, paths, self);
        }
        if let Some(counters) = &self.counters {
            push_counter_differences(&mut out, counters);
        }
        for sentence in &self.not_compared {
            let _ = writeln!(out, "not compared: {sentence}");
        }
        out
    }

    /// For a change review: a table for each change, and the path of one packet.
    pub fn to_markdown(&self) -> String {
        let mut out =
            format!("# {} → {}\n\n", escape_markdown(&self.before), escape_markdown(&self.after));
        let _ = writeln!(out, "{}\n", self.summary_sentence());
        for change in &self.changes {
            push_change_regions_table(&mut out, change);
        }
        for part in &self.parts {
            if let Some(why) = &part.explanation {
                let what = match part.answer {
                    "unknown" => "not decided",
                    _ if part.packets_agreed.is_some() => "differs on a packet",
                    _ if part.example.is_none() => "differs for fragments alone",
                    _ => "not all packets that differ were found",
                };
                let _ = writeln!(
                    out,
                    "{} {}: {what}: {}.\n",
                    part.family,
                    part.path,
                    escape_markdown(why)
                );
            }
        }
        if let Some(paths) = self.most_important_packet_paths() {
            let _ = writeln!(out, "Path of `{}`:\n\n```", paths.example.packet);
            push_paths_side_by_side(&mut out, paths, self);
            out.push_str("```\n\n");
        }
        let equal: Vec<String> = self
            .parts
            .iter()
            .filter(|p| p.answer == "equal")
            .map(|p| format!("{} {}", p.family, p.path))
            .collect();
        if !equal.is_empty() && !self.proven_equal {
            let _ = writeln!(out, "Proven equal: {}.\n", equal.join(", "));
        }
        if let Some(counters) = &self.counters {
            out.push_str("## Counters\n\n```\n");
            push_counter_differences(&mut out, counters);
            out.push_str("```\n\n");
        }
        for sentence in &self.not_compared {
            let _ = writeln!(out, "Not compared: {}\n", escape_markdown(sentence));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }

    /// The paths of the packet that shows the most important change.
    fn most_important_packet_paths(&self) -> Option<&PathsBeforeAndAfter> {
        let first = self.changes.first()?;
        let of_first = |p: &&FamilyPathReview| p.family == first.family && p.path == first.path;
        self.parts.iter().find(of_first)?.example.as_ref()
    }

    /// The answer in one sentence.
    fn summary_sentence(&self) -> String {
        let what = self.compared_outcome_words();
        if self.has_differences() {
            let differ = self.parts.iter().filter(|p| p.answer == "differs").count();
            let any = |kind| match self.changes.iter().any(|c| c.kind == kind) {
                true => "yes",
                false => "no",
            };
            return format!(
                "**Differs** on {differ} of {} paths. Newly allowed: {}. Newly denied: {}.",
                self.parts.len(),
                any(TreatmentChangeKind::NewlyAllowed),
                any(TreatmentChangeKind::NewlyDenied)
            );
        }
        if self.has_undecided_parts() {
            return "**Not decided**: some paths could not be compared.".to_owned();
        }
        format!("**Equal**: proven for every packet ({what}).")
    }

    fn compared_outcome_words(&self) -> &'static str {
        if self.compared == "verdict" { "verdict" } else { "verdict and effects" }
    }
}

/// The answer for a family and path, in a line.
fn push_family_path_answer(out: &mut String, part: &FamilyPathReview, review: &Review) {
    let why = part.explanation.as_deref().unwrap_or_default();
    let answer = match part.answer {
        "equal" => {
            // What ip6tables drops at the first test of a protocol is not modelled.
            let whose =
                if part.family == "ipv6" { " whose extension headers are whole" } else { "" };
            format!("equal, proven for every packet{whose} ({})", review.compared_outcome_words())
        }
        "unknown" => match part.packets_agreed {
            Some(agreed) => format!("not decided: {why}; {agreed} packets agree"),
            None => format!("not decided: {why}"),
        },
        _ if part.packets_agreed.is_some() => format!("differs on a packet: {why}"),
        _ if part.example.is_none() => format!("differs for fragments alone: {why}"),
        _ => {
            let of_part = |c: &&TreatmentChange| c.family == part.family && c.path == part.path;
            let mut kinds: Vec<_> =
                review.changes.iter().filter(of_part).map(|c| c.kind.words()).collect();
            kinds.dedup();
            let kinds = kinds.join("; ");
            match &part.explanation {
                Some(why) => format!("differs: {kinds}; not all packets were found ({why})"),
                None => format!("differs: {kinds}"),
            }
        }
    };
    let _ = writeln!(out, "{} {}: {answer}", part.family, part.path);
}

/// `newly allowed, ipv4 forward (drop -> accept)`.
fn change_title(change: &TreatmentChange, arrow: &str) -> String {
    let TreatmentChange {
        kind, family, path, verdict_before: before, verdict_after: after, ..
    } = change;
    let verdicts = match (before, after) {
        (Some(before), Some(after)) => format!(" ({before} {arrow} {after})"),
        _ => String::new(),
    };
    format!("{}, {family} {path}{verdicts}", kind.words())
}

fn push_treatment_change(out: &mut String, change: &TreatmentChange) {
    let _ = writeln!(out, "\n{}:", change_title(change, "->"));
    for region in &change.regions {
        let _ = writeln!(out, "  {}", region.packets);
        if !region.size.is_empty() {
            let _ = writeln!(out, "    {}", region.size);
        }
        if let Some(first) = region.decided_by.first() {
            push_decision(out, "before", &first.before);
            push_decision(out, "after", &first.after);
        }
        for line in other_region_decision_lines(region) {
            let _ = writeln!(out, "    {line}");
        }
        if let Some(example) = &region.example {
            if change.kind == TreatmentChangeKind::Effects {
                let _ = writeln!(out, "    differs in {}", effect_difference_words(example));
            }
            push_example_packet(out, example);
        }
    }
    if let Some(line) = differing_corner_case_names_line(&change.corner_cases) {
        let _ = writeln!(out, "  {line}");
    }
}

/// The rule of one side with its place, and the rules that jumped to it.
fn push_decision(out: &mut String, side: &str, decision: &RulesetDecision) {
    let _ = writeln!(out, "    {side:<7} {}", verdict_and_rule_words(decision));
    for jump in decision.reached_by.iter().rev() {
        let _ = writeln!(out, "              via {}", rule_place_and_text(jump));
    }
}

fn verdict_and_rule_words(decision: &RulesetDecision) -> String {
    match &decision.rule {
        Some(rule) => format!("{} by {}", decision.verdict, rule_place_and_text(rule)),
        None => format!("{}: no such rule", decision.verdict),
    }
}

fn rule_place_and_text(rule: &LocatedRuleOrPolicy) -> String {
    format!("{}: {}", rule_place(rule), rule.text)
}

/// `FILE:LINE`; the place in the ruleset where there is no line.
fn rule_place(rule: &LocatedRuleOrPolicy) -> String {
    match (&rule.file, rule.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => rule.place.clone(),
    }
}

fn effect_difference_words(example: &ExamplePacketReview) -> &'static str {
    match &*example.differs_in {
        "packet" => "the packet as it leaves",
        "stateful" => "which stateful matches (limit, recent, …) are evaluated, or their order",
        _ => "what rules do to it",
    }
}

/// Lines about other packets of a region, which other rules decide.
fn other_region_decision_lines(region: &RegionReview) -> Vec<String> {
    let mut out = Vec::new();
    let of = |decision: &RulesetDecision| {
        decision.rule.as_ref().map_or("no rule".to_owned(), rule_place)
    };
    let rest = region.decided_by.get(1..).unwrap_or_default();
    for DecisionsBeforeAndAfter { before, after } in
        rest.iter().take(MAX_OTHER_DECISIONS_PER_REGION)
    {
        out.push(format!("other packets  before {}, after {}", of(before), of(after)));
    }
    if rest.len() > MAX_OTHER_DECISIONS_PER_REGION {
        out.push(format!(
            "other packets  and {} more pairs of rules",
            rest.len() - MAX_OTHER_DECISIONS_PER_REGION
        ));
    }
    out
}

fn push_example_packet(out: &mut String, example: &ExamplePacketReview) {
    let note = match example.stands_for.is_empty() {
        true => String::new(),
        false => format!("  ({})", example.stands_for.join("; ")),
    };
    let _ = writeln!(out, "    packet  {}{note}", example.packet);
    for given in &example.given {
        let _ = writeln!(out, "            assuming that {given}");
    }
}

/// Corner cases in one line.
fn differing_corner_case_names_line(cases: &[CornerCaseReview]) -> Option<String> {
    let names: Vec<&str> = cases.iter().map(|c| c.packets).collect();
    (!names.is_empty()).then(|| format!("corner cases that differ as well: {}", names.join(", ")))
}

/// Both paths side by side.
fn push_paths_side_by_side(out: &mut String, paths: &PathsBeforeAndAfter, review: &Review) {
    let (before, after) = (&paths.before, &paths.after);
    push_path_line_pair(out, &review.before, &review.after);
    let rows = before.text_lines.len().max(after.text_lines.len());
    let line = |lines: &[String], i: usize| lines.get(i).cloned().unwrap_or_default();
    for i in 0..rows {
        push_path_line_pair(out, &line(&before.text_lines, i), &line(&after.text_lines, i));
    }
    let end = |verdict: &str, tried| format!("verdict: {verdict}, {tried} rules evaluated");
    push_path_line_pair(
        out,
        &end(&before.verdict, before.tried),
        &end(&after.verdict, after.tried),
    );
}

fn push_path_line_pair(out: &mut String, left: &str, right: &str) {
    let (left, right) = (truncate_to_column(left), truncate_to_column(right));
    let line = format!("    {left:<PATH_COLUMN_WIDTH$} | {right}");
    let _ = writeln!(out, "{}", line.trim_end());
}

fn truncate_to_column(text: &str) -> String {
    if text.chars().count() <= PATH_COLUMN_WIDTH {
        return text.to_owned();
    }
    let kept: String = text.chars().take(PATH_COLUMN_WIDTH - 1).collect();
    format!("{kept}…")
}

fn push_counter_differences(out: &mut String, counters: &CounterComparison) {
    let CounterComparison { packets, seed, counters_hit: counted, differ } = counters;
    let _ = writeln!(
        out,
        "counters: {} of the {counted} counters that counted a packet differ, tested with \
         {packets} packets (seed {seed}), not proven",
        differ.len()
    );
    for d in differ.iter().take(MAX_LISTED_COUNTER_DIFFERENCES) {
        let _ =
            writeln!(out, "  {}: {} packets -> {}: {}", d.rule_place, d.before, d.after, d.packet);
    }
    if differ.len() > MAX_LISTED_COUNTER_DIFFERENCES {
        let _ = writeln!(out, "  and {} more", differ.len() - MAX_LISTED_COUNTER_DIFFERENCES);
    }
}

fn push_change_regions_table(out: &mut String, change: &TreatmentChange) {
    let _ = writeln!(out, "## {}\n", capitalize(&change_title(change, "→")));
    out.push_str("| packets | addresses and ports | before | after |\n|---|---|---|---|\n");
    for region in &change.regions {
        let first = region.decided_by.first();
        let by = |decision: Option<&RulesetDecision>| {
            decision.map_or(String::new(), |d| to_markdown_code_span(&verdict_and_rule_words(d)))
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            to_markdown_code_span(&region.packets),
            region.size,
            by(first.map(|d| &d.before)),
            by(first.map(|d| &d.after))
        );
    }
    out.push('\n');
    if let Some(line) = differing_corner_case_names_line(&change.corner_cases) {
        let _ = writeln!(out, "{}.\n", capitalize(&line));
    }
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Text that Markdown does not take for its own.
fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_{}[]<>#|!~".contains(c) {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// Text as code in a table's cell: no backtick or bar in it can end it.
fn to_markdown_code_span(text: &str) -> String {
    let plain = text.replace('`', "'").replace('|', "\\|");
    format!("`{plain}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(escape_markdown("a|b<i>"), "a\\|b\\<i\\>");
        assert_eq!(to_markdown_code_span("x`|y"), "`x'\\|y`");
    }

    #[test]
    fn long_rules_are_truncated_to_their_column() {
        assert_eq!(truncate_to_column("short"), "short");
        assert_eq!(
            truncate_to_column(&"x".repeat(PATH_COLUMN_WIDTH + 1)).chars().count(),
            PATH_COLUMN_WIDTH
        );
    }
}
