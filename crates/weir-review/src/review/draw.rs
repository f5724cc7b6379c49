//! A review as text and as Markdown.

use std::fmt::Write as _;

use super::{Change, CounterReview, Example, PartReview, RegionReview, Review};

/// Columns of one way beside the other.
const COLUMN: usize = 56;
/// Counters that are listed.
const COUNTERS: usize = 10;

impl Review {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            push_part(&mut out, part, self);
        }
        if let Some(counters) = &self.counters {
            push_counters(&mut out, counters);
        }
        for sentence in &self.not_compared {
            let _ = writeln!(out, "not compared: {sentence}");
        }
        out
    }

    /// For a change review: what is newly allowed and newly denied, as tables.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {} → {}\n\n", escaped(&self.before), escaped(&self.after));
        let _ = writeln!(out, "{}\n", self.sentence());
        for part in self.parts.iter().filter(|p| p.answer != "equal") {
            let _ = writeln!(out, "## {} {}\n", part.family, part.way);
            if let Some(why) = &part.why {
                let what =
                    if part.answer == "unknown" { "Not decided" } else { "Differs for fragments" };
                let _ = writeln!(out, "{what}: {}.\n", escaped(why));
                continue;
            }
            for (title, changes) in lists(part) {
                push_table(&mut out, title, changes);
            }
            if lists(part).iter().all(|(_, changes)| changes.is_empty()) {
                push_regions_table(&mut out, "Same verdict, other effects", &part.regions);
            }
            if let Some(example) = &part.example {
                let _ = writeln!(out, "One packet: `{}`\n\n```", example.packet);
                push_example(&mut out, example, self);
                out.push_str("```\n\n");
            }
        }
        let equal: Vec<String> = self
            .parts
            .iter()
            .filter(|p| p.answer == "equal")
            .map(|p| format!("{} {}", p.family, p.way))
            .collect();
        if !equal.is_empty() && !self.equal {
            let _ = writeln!(out, "Proven equal: {}.\n", equal.join(", "));
        }
        if let Some(counters) = &self.counters {
            out.push_str("## Counters\n\n```\n");
            push_counters(&mut out, counters);
            out.push_str("```\n\n");
        }
        for sentence in &self.not_compared {
            let _ = writeln!(out, "Not compared: {}\n", escaped(sentence));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }

    /// The answer in one sentence.
    fn sentence(&self) -> String {
        let what = self.what();
        if self.differs() {
            let differ = self.parts.iter().filter(|p| p.answer == "differs").count();
            let count = |f: fn(&PartReview) -> &Vec<Change>| {
                self.parts.iter().map(f).filter(|c| !c.is_empty()).count()
            };
            let (allowed, denied) = (count(|p| &p.newly_allowed), count(|p| &p.newly_denied));
            let yes = |n: usize| if n > 0 { "yes" } else { "no" };
            return format!(
                "**Differs** on {differ} of {} ways. Newly allowed: {}. Newly denied: {}.",
                self.parts.len(),
                yes(allowed),
                yes(denied)
            );
        }
        if self.is_open() {
            return "**Not decided**: some ways could not be compared.".to_owned();
        }
        format!("**Equal**: proven for every packet ({what}).")
    }

    fn what(&self) -> &'static str {
        if self.compared == "verdict" { "verdict" } else { "verdict and effects" }
    }
}

/// The kinds of change of a part, each with its title.
fn lists(part: &PartReview) -> [(&'static str, &[Change]); 3] {
    [
        ("newly allowed", &part.newly_allowed),
        ("newly denied", &part.newly_denied),
        ("refused otherwise", &part.refused_otherwise),
    ]
}

fn push_part(out: &mut String, part: &PartReview, review: &Review) {
    let _ = write!(out, "{} {}: ", part.family, part.way);
    match part.answer {
        "equal" => {
            // What ip6tables drops at the first test of a protocol is not modelled.
            let whose =
                if part.family == "ipv6" { " whose extension headers are whole" } else { "" };
            let _ = writeln!(out, "equal, proven for every packet{whose} ({})", review.what());
            return;
        }
        "unknown" => {
            let _ = writeln!(out, "not decided: {}", part.why.as_deref().unwrap_or_default());
            return;
        }
        _ if part.example.is_none() => {
            let why = part.why.as_deref().unwrap_or_default();
            let _ = writeln!(out, "differs for fragments alone: {why}");
            return;
        }
        _ => {
            let _ = writeln!(out, "differs for {}", size(part.share, part.headers));
        }
    }
    let lists = lists(part);
    for (title, changes) in lists {
        for change in changes {
            let _ = writeln!(
                out,
                "  {title} ({} -> {}): {}",
                change.before,
                change.after,
                size(change.share, change.headers)
            );
            push_regions(out, &change.regions);
        }
    }
    if lists.iter().all(|(_, changes)| changes.is_empty()) {
        out.push_str("  the verdict is the same, what is done on the way is not:\n");
        push_regions(out, &part.regions);
    }
    if let Some(example) = &part.example {
        let _ = writeln!(out, "  one packet: {}", example.packet);
        push_example(out, example, review);
    }
}

fn push_regions(out: &mut String, regions: &[RegionReview]) {
    for region in regions {
        let _ = writeln!(out, "    {}  {}", percent(region.share), region.packets);
    }
}

/// Both ways side by side.
fn push_example(out: &mut String, example: &Example, review: &Review) {
    for given in &example.given {
        let _ = writeln!(out, "    given that {given}");
    }
    let (before, after) = (&example.before, &example.after);
    push_columns(out, &review.before, &review.after);
    let rows = before.lines.len().max(after.lines.len());
    let line = |lines: &[String], i: usize| lines.get(i).cloned().unwrap_or_default();
    for i in 0..rows {
        push_columns(out, &line(&before.lines, i), &line(&after.lines, i));
    }
    let end = |verdict: &str, tried| format!("{verdict}: {tried} tried");
    push_columns(out, &end(&before.verdict, before.tried), &end(&after.verdict, after.tried));
}

fn push_columns(out: &mut String, left: &str, right: &str) {
    let (left, right) = (cut(left), cut(right));
    let line = format!("    {left:<COLUMN$} | {right}");
    let _ = writeln!(out, "{}", line.trim_end());
}

fn cut(text: &str) -> String {
    if text.chars().count() <= COLUMN {
        return text.to_owned();
    }
    let kept: String = text.chars().take(COLUMN - 1).collect();
    format!("{kept}…")
}

fn push_counters(out: &mut String, counters: &CounterReview) {
    let CounterReview { packets, seed, counted, differ } = counters;
    let _ = writeln!(
        out,
        "counters: {} of {counted} that counted differ, on {packets} packets (seed {seed}): seen, \
         not proven",
        differ.len()
    );
    for d in differ.iter().take(COUNTERS) {
        let _ = writeln!(out, "  {}: {} packets -> {}: {}", d.rule, d.before, d.after, d.packet);
    }
    if differ.len() > COUNTERS {
        let _ = writeln!(out, "  and {} more", differ.len() - COUNTERS);
    }
}

fn push_table(out: &mut String, title: &str, changes: &[Change]) {
    for change in changes {
        let title = format!("{}: {} → {}", capital(title), change.before, change.after);
        push_regions_table(out, &title, &change.regions);
    }
}

fn push_regions_table(out: &mut String, title: &str, regions: &[RegionReview]) {
    let _ = writeln!(out, "| {title} | of all packets | headers |\n|---|---|---|");
    for region in regions {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            code(&region.packets),
            percent(region.share),
            number(region.headers)
        );
    }
    out.push('\n');
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Text that Markdown does not take for its own.
fn escaped(text: &str) -> String {
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
fn code(text: &str) -> String {
    let plain = text.replace('`', "'").replace('|', "\\|");
    format!("`{plain}`")
}

fn size(share: f64, headers: f64) -> String {
    format!("{} of all packets, {} headers", percent(share), number(headers))
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p >= 0.01 => format!("{p:.2} %"),
        p if p > 0.0 => format!("{p:.0e} %"),
        _ => "0 %".to_owned(),
    }
}

fn number(headers: f64) -> String {
    if headers < 1e6 { format!("{headers:.0}") } else { format!("{headers:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup() {
        assert_eq!(escaped("a|b<i>"), "a\\|b\\<i\\>");
        assert_eq!(code("x`|y"), "`x'\\|y`");
    }

    #[test]
    fn shares_are_written_so_that_small_ones_are_not_nothing() {
        assert_eq!(percent(0.5), "50.00 %");
        assert_eq!(percent(1e-9), "1e-7 %");
        assert_eq!(percent(0.0), "0 %");
    }

    #[test]
    fn long_rules_are_cut_to_their_column() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"x".repeat(COLUMN + 1)).chars().count(), COLUMN);
    }
}
