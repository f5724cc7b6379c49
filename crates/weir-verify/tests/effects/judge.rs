//! Whether a table of effects agrees exactly with the observations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_model::effect::{
    ConntrackDemand, FieldSet, Hotdrop, IpsetWrites, MatchDependency, MatchRow, TargetRow,
    TargetTermination, match_effects_from_rows, target_effects_from_rows,
};
use weir_model::field::FIELDS;
use weir_model::{Family, Field, Match, Target};

/// One packet at one match.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Bytes after the network header.
    pub bytes: usize,
    /// Where in its datagram, in units of eight bytes.
    pub offset: u16,
    pub dropped: bool,
}

/// What was seen of a rule with one match.
#[derive(Clone, Debug)]
pub struct MatchFact {
    pub rule: String,
    pub family: Family,
    pub of: Match,
    /// Packets of the rule's protocol that the model can hold.
    pub cases: Vec<Case>,
    /// It dropped a packet that the model cannot hold.
    pub drops_odd: bool,
    /// It counted a packet and dropped it.
    pub drops_matched: bool,
    /// Fields on which its answer was seen to depend.
    pub reads: BTreeSet<Field>,
    /// The same packet was answered in two ways.
    pub varies: bool,
    /// The interpreter answers it by the packet's fields.
    pub decided: bool,
    /// It has fragments reassembled, where that was tried.
    pub defragments: Option<bool>,
}

/// What was seen of a rule with a target.
#[derive(Clone, Debug)]
pub struct TargetFact {
    pub rule: String,
    pub target: Target,
    pub writes: BTreeSet<Field>,
    /// Of those, the ones whose value the interpreter does not know.
    pub unknown: BTreeSet<Field>,
    pub changes_sets: bool,
    /// It ended the walk of a packet that did not come through.
    pub drops: bool,
    /// Some packet continued after it.
    pub goes_on: bool,
    /// It has fragments reassembled, where that was tried.
    pub defragments: Option<bool>,
}

/// Rows that keep a memory which no packet of the tests meets: taken as stateful.
pub const MEMORIES: &[&str] = &["connlimit", "connbytes", "hashlimit", "bpf"];
/// Fields that are written where no later rule can look: the table says that they are.
pub const UNSEEN: &[(&str, Field)] = &[("SNAT", Field::CtState), ("MASQUERADE", Field::CtState)];
/// Fields whose new value is known, and that the table takes for unknown all the same: the template
/// of CT has no mark.
const CAUTIOUS: &[(&str, Field)] = &[("CT", Field::CtMark)];
/// Rows of targets that hand the packet to somebody, who may give it back: barriers, with what they
/// may write and how they end.
pub const HANDED: &[(&str, FieldSet, TargetTermination)] = &[
    ("NFQUEUE", FieldSet::ALL, TargetTermination::Always),
    ("QUEUE", FieldSet::ALL, TargetTermination::Always),
    ("TPROXY", FieldSet::from_fields(&[Field::Mark]), TargetTermination::Always),
    ("SYNPROXY", FieldSet::NONE, TargetTermination::Perhaps),
];
/// Rows that no rule reaches: HL is read as TTL, and QUEUE is not a target that iptables writes.
pub const UNREACHED: &[&str] = &["HL", "QUEUE"];
/// Targets whose messages, clones, answers and connections are not observed: they are taken as
/// noticed by others.
pub const NOTICED: &[&str] = &[
    "REJECT",
    "LOG",
    "NFLOG",
    "AUDIT",
    "TRACE",
    "TEE",
    "CONNMARK",
    "CT",
    "SET",
    "SNAT",
    "MASQUERADE",
    "DNAT",
    "REDIRECT",
    "NETMAP",
    "NFQUEUE",
    "QUEUE",
    "TPROXY",
    "SYNPROXY",
    "",
];
/// Targets that send a copy, which is not observed.
const COPYING: &[&str] = &["TEE"];
/// Drops what a full table has no room for: seen of a rule with a table of one entry, not of
/// others, whose tables take more packets than are sent.
const FILLS_UP: &str = "hashlimit";
/// Targets that change what no rule of the tests can see: priorities, queues, checksums, bytes.
pub const UNMODELLED: &[&str] = &["CHECKSUM", "CLASSIFY", "CT", "ECN", "TCPMSS", "SET"];
/// Targets whose effect depends on more than the packet.
const REMEMBERING: &[&str] = &["SET"];
/// Targets that end packets because that is what they say.
const END: &[&str] = &["DROP", "REJECT"];

/// What the rows say otherwise than was seen, in words.
pub fn wrong_matches(rows: &[MatchRow], facts: &[MatchFact]) -> Vec<String> {
    let mut wrong = Vec::new();
    for fact in facts {
        let row = match_effects_from_rows(rows, &fact.of, fact.family);
        let mut say = |what: &str| wrong.push(format!("{}: {what} ({:?})", fact.rule, row.name));
        if row.name.is_empty() {
            say("it has no row");
        }
        hotdrop(&row, fact, &mut say);
        if (row.dependency == MatchDependency::Fields) != fact.decided {
            say("whether its fields decide it");
        }
        let by_set = match &fact.of {
            Match::Set(m) if m.options.iter().any(|o| is_counter(o)) => {
                MatchDependency::PacketHistory
            }
            Match::Set(_) => MatchDependency::IpsetContent,
            _ => row.dependency,
        };
        if by_set != row.dependency
            || row.dependency == MatchDependency::IpsetContent && !is_set(&fact.of)
        {
            say("whether a set decides it");
        }
        if fact.defragments.is_some_and(|d| d != (row.conntrack_demand != ConntrackDemand::Nothing))
        {
            say("whether it has fragments put together");
        }
        // Processors change between packets.
        if fact.varies && row.dependency != MatchDependency::PacketHistory && row.name != "cpu" {
            say("it answered the same packet in two ways");
        }
        if row.dependency == MatchDependency::Fields {
            for field in fact.reads.iter().filter(|f| !row.reads.contains(**f)) {
                say(&format!("it reads {field:?}"));
            }
        }
    }
    for row in rows {
        let own = |f: &&MatchFact| match_effects_from_rows(rows, &f.of, f.family).name == row.name;
        let own: Vec<&MatchFact> = facts.iter().filter(own).collect();
        if own.is_empty() {
            wrong.push(format!("{}: nothing was measured", row.name));
        }
        let reads =
            if row.dependency == MatchDependency::Fields { row.reads } else { FieldSet::NONE };
        for field in reads.iter().filter(|f| !own.iter().any(|fact| fact.reads.contains(f))) {
            wrong.push(format!("{}: it was never seen to read {field:?}", row.name));
        }
        let varies = own.iter().any(|f| f.varies) && row.name != "cpu";
        let remembers = varies || MEMORIES.contains(&row.name);
        // `--restore-skmark` takes the mark of a socket, of which there is none here.
        let writes = if row.name == "socket" { &[Field::Mark][..] } else { &[] };
        if row.writes != FieldSet::from_fields(writes) {
            wrong.push(format!("{}: what it writes", row.name));
        }
        if MEMORIES.contains(&row.name) && row.dependency != MatchDependency::PacketHistory {
            wrong.push(format!("{}: it is taken as remembering", row.name));
        }
        if row.dependency == MatchDependency::PacketHistory && !remembers {
            wrong.push(format!("{}: it was never seen to remember", row.name));
        }
    }
    wrong
}

fn is_set(of: &Match) -> bool {
    matches!(of, Match::Set(_))
}

/// Whether an option of `-m set` tests counters, which the match itself raises.
fn is_counter(option: &str) -> bool {
    ["packets-", "bytes-"].iter().any(|name| option.contains(name))
}

fn hotdrop(row: &MatchRow, fact: &MatchFact, say: &mut dyn FnMut(&str)) {
    // xt_tcpudp.c: an IPv4 fragment at offset 1 could overwrite the flags.
    let cut = |case: &&Case| {
        let overlaps = row.name == "tcp" && fact.family == Family::V4 && case.offset == 1;
        case.offset == 0 && case.bytes < row.header_bytes.into() || overlaps
    };
    let surprises = fact.cases.iter().filter(|c| c.dropped != cut(c)).count();
    let drops = fact.cases.iter().any(|c| c.dropped);
    match row.hotdrop {
        Hotdrop::Never if drops || fact.drops_odd => say("it drops packets"),
        Hotdrop::OnTruncatedHeader if surprises > 0 => {
            say(&format!("{surprises} packets were dropped otherwise than by a cut header"));
        }
        Hotdrop::Unpredictable if fact.drops_matched => say("it drops packets that it counts"),
        Hotdrop::Unpredictable if surprises == 0 && !fact.drops_odd && row.name != FILLS_UP => {
            say("only cut headers are dropped")
        }
        Hotdrop::MatchMayAlsoDrop if !fact.drops_matched => say("it drops nothing that it counts"),
        Hotdrop::OnTruncatedHeader if !fact.cases.iter().any(|c| c.dropped) => {
            say("nothing was dropped")
        }
        _ => {}
    }
}

/// The same of targets.
pub fn wrong_targets(rows: &[TargetRow], facts: &[TargetFact]) -> Vec<String> {
    let mut wrong = Vec::new();
    for fact in facts {
        target_fact(&target_effects_from_rows(rows, &fact.target), fact, &mut wrong);
    }
    for row in rows {
        target_row(row, facts, &mut wrong);
    }
    wrong
}

/// What a row, narrowed by the options of a rule, says otherwise than was seen of the rule.
fn target_fact(row: &TargetRow, fact: &TargetFact, wrong: &mut Vec<String>) {
    let mut say = |what: String| wrong.push(format!("{}: {what}", fact.rule));
    if fact.defragments.is_some_and(|d| d != (row.conntrack_demand != ConntrackDemand::Nothing)) {
        say("whether it has fragments put together".into());
    }
    if HANDED.iter().any(|(name, ..)| *name == row.name) {
        return;
    }
    for field in fact.writes.iter().filter(|f| !row.writes.contains(**f)) {
        say(format!("it writes {field:?}"));
    }
    for field in fact.unknown.iter().filter(|f| !row.unknown_value_writes.contains(**f)) {
        say(format!("the interpreter does not know what it writes to {field:?}"));
    }
    for field in row.unknown_value_writes.iter().filter(|f| !fact.unknown.contains(f)) {
        if !CAUTIOUS.contains(&(row.name, field)) {
            say(format!("what it writes to {field:?} is known"));
        }
    }
    if fact.changes_sets != (row.ipset_writes == IpsetWrites::Named) {
        say("whether it changes sets".into());
    }
    if row.termination
        != if fact.goes_on { TargetTermination::Never } else { TargetTermination::Always }
    {
        say("whether the walk goes on".into());
    }
    if fact.drops != row.may_drop && !END.contains(&row.name) {
        say("whether it drops by itself".into());
    }
    if END.contains(&row.name) && row.may_drop {
        say("it drops by what it says".into());
    }
    if row.stateful && !fact.rule.contains("--map-") {
        say("nothing is remembered".into());
    }
}

/// What a row says otherwise than was seen of all of its rules.
fn target_row(row: &TargetRow, facts: &[TargetFact], wrong: &mut Vec<String>) {
    if let Some((_, writes, ends)) = HANDED.iter().find(|(name, ..)| *name == row.name) {
        let barrier = row.stateful
            && row.changes_unmodelled_state
            && row.is_observable
            && !row.may_drop
            && !row.sends_copy;
        let fields = row.writes == *writes && row.unknown_value_writes == *writes;
        if !barrier || !fields || row.termination != *ends || row.ipset_writes != IpsetWrites::None
        {
            wrong.push(format!("{}: it is not the barrier of list HANDED", row.name));
        }
        return;
    }
    let own = |f: &&TargetFact| {
        weir_model::effect::verdict_or_extension_name(&f.target) == Some(row.name)
    };
    let own: Vec<&TargetFact> = facts.iter().filter(own).collect();
    if UNREACHED.contains(&row.name) {
        return;
    }
    if own.is_empty() {
        wrong.push(format!("{}: nothing was measured", row.name));
    }
    for field in row.writes.iter() {
        let seen = own.iter().any(|f| f.writes.contains(&field));
        if !seen && !UNSEEN.contains(&(row.name, field)) {
            wrong.push(format!("{}: it was never seen to write {field:?}", row.name));
        }
    }
    for (_, field) in UNSEEN.iter().filter(|(name, _)| *name == row.name) {
        if !row.writes.contains(*field) {
            wrong.push(format!("{}: {field:?} is taken as written", row.name));
        }
    }
    let sets =
        if own.iter().any(|f| f.changes_sets) { IpsetWrites::Named } else { IpsetWrites::None };
    if row.ipset_writes != sets {
        wrong.push(format!("{}: whether it changes sets", row.name));
    }
    if !row.unknown_value_writes.without(row.writes).is_empty() {
        wrong.push(format!("{}: what is unknown is written", row.name));
    }
    if row.is_observable != NOTICED.contains(&row.name) {
        wrong.push(format!("{}: whether others notice it (list NOTICED)", row.name));
    }
    if row.changes_unmodelled_state != UNMODELLED.contains(&row.name) {
        wrong
            .push(format!("{}: whether it changes what no field says (list UNMODELLED)", row.name));
    }
    if row.stateful != REMEMBERING.contains(&row.name) {
        wrong.push(format!("{}: whether it remembers (list REMEMBERING)", row.name));
    }
    if row.sends_copy != COPYING.contains(&row.name) {
        wrong.push(format!("{}: whether it sends a copy (list COPYING)", row.name));
    }
}

fn toggled(set: FieldSet, field: Field) -> FieldSet {
    let one = FieldSet::from_fields(&[field]);
    if set.contains(field) { set.without(one) } else { set.union(one) }
}

/// Every match row changed by one entry, with what was changed.
pub fn match_mutants(rows: &[MatchRow]) -> Vec<(String, Vec<MatchRow>)> {
    let mut out = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let mut push = |what: String, mutant: Option<MatchRow>| {
            let mut rows = rows.to_vec();
            match mutant {
                Some(mutant) => rows[i] = mutant,
                None => drop(rows.remove(i)),
            }
            out.push((format!("-m {} {what}", row.name), rows));
        };
        push("has no row".into(), None);
        let fields = FIELDS.iter().map(|f| f.field);
        // For the others a list of fields is not a claim: what they depend on may be any.
        for field in fields.filter(|_| row.dependency == MatchDependency::Fields) {
            let reads = toggled(row.reads, field);
            push(format!("reads {field:?} or not"), Some(MatchRow { reads, ..*row }));
        }
        for hotdrop in [
            Hotdrop::Never,
            Hotdrop::OnTruncatedHeader,
            Hotdrop::Unpredictable,
            Hotdrop::MatchMayAlsoDrop,
        ] {
            if hotdrop != row.hotdrop {
                push(format!("drops {hotdrop:?}"), Some(MatchRow { hotdrop, ..*row }));
            }
        }
        for field in FIELDS.iter().map(|f| f.field) {
            let writes = toggled(row.writes, field);
            push(format!("writes {field:?} or not"), Some(MatchRow { writes, ..*row }));
        }
        if row.hotdrop == Hotdrop::OnTruncatedHeader {
            for header_bytes in [row.header_bytes - 1, row.header_bytes + 1] {
                let what = format!("wants {header_bytes} bytes");
                push(what, Some(MatchRow { header_bytes, ..*row }));
            }
        }
        let conntrack = other_fragments(row.conntrack_demand);
        let what = format!("switches on {conntrack:?}");
        push(what, Some(MatchRow { conntrack_demand: conntrack, ..*row }));
        use MatchDependency::{Fields, HostState, IpsetContent, PacketBytes, PacketHistory};
        for depends in [Fields, PacketBytes, HostState, PacketHistory, IpsetContent] {
            // Bytes and the host are both a question without a memory.
            let alike = |d| matches!(d, PacketBytes | HostState);
            if depends != row.dependency && !(alike(depends) && alike(row.dependency)) {
                push(
                    format!("depends on {depends:?}"),
                    Some(MatchRow { dependency: depends, ..*row }),
                );
            }
        }
    }
    out
}

/// The opposite in whether fragments are reassembled. What tracks and what only defragments are
/// distinguished by `socket_and_tproxy_do_not_enable_the_nat_table` of `facts`.
fn other_fragments(conntrack: ConntrackDemand) -> ConntrackDemand {
    match conntrack {
        ConntrackDemand::Nothing => ConntrackDemand::Defragmentation,
        ConntrackDemand::Defragmentation | ConntrackDemand::Tracking => ConntrackDemand::Nothing,
    }
}

/// Every target row changed by one entry, with what was changed.
pub fn target_mutants(rows: &[TargetRow]) -> Vec<(String, Vec<TargetRow>)> {
    let mut out = Vec::new();
    for (i, row) in rows.iter().enumerate().filter(|(_, r)| !UNREACHED.contains(&r.name)) {
        let mut push = |what: String, mutant: Option<TargetRow>| {
            let mut rows = rows.to_vec();
            match mutant {
                Some(mutant) => rows[i] = mutant,
                None => drop(rows.remove(i)),
            }
            out.push((format!("-j {} {what}", row.name), rows));
        };
        push("has no row".into(), None);
        for field in FIELDS.iter().map(|f| f.field) {
            let writes = toggled(row.writes, field);
            push(format!("writes {field:?} or not"), Some(TargetRow { writes, ..*row }));
            let unknown = toggled(row.unknown_value_writes, field);
            if !CAUTIOUS.contains(&(row.name, field)) {
                push(
                    format!("knows {field:?} or not"),
                    Some(TargetRow { unknown_value_writes: unknown, ..*row }),
                );
            }
        }
        for ends in
            [TargetTermination::Never, TargetTermination::Always, TargetTermination::Perhaps]
        {
            if ends != row.termination {
                push(format!("ends {ends:?}"), Some(TargetRow { termination: ends, ..*row }));
            }
        }
        for sets in [IpsetWrites::None, IpsetWrites::Named, IpsetWrites::Any] {
            if sets != row.ipset_writes {
                push(
                    format!("changes sets {sets:?}"),
                    Some(TargetRow { ipset_writes: sets, ..*row }),
                );
            }
        }
        push("drops or not".into(), Some(TargetRow { may_drop: !row.may_drop, ..*row }));
        let conntrack = other_fragments(row.conntrack_demand);
        let what = format!("switches on {conntrack:?}");
        push(what, Some(TargetRow { conntrack_demand: conntrack, ..*row }));
        let unmodelled = !row.changes_unmodelled_state;
        push(
            "changes what no field says".into(),
            Some(TargetRow { changes_unmodelled_state: unmodelled, ..*row }),
        );
        push("emits or not".into(), Some(TargetRow { is_observable: !row.is_observable, ..*row }));
        push("remembers or not".into(), Some(TargetRow { stateful: !row.stateful, ..*row }));
        push("sends a copy or not".into(), Some(TargetRow { sends_copy: !row.sends_copy, ..*row }));
    }
    out
}

/// What was caught, and what was not.
pub fn caught(mutants: impl Iterator<Item = (String, Vec<String>)>) -> (usize, String) {
    let (mut count, mut missed) = (0, String::new());
    for (what, wrong) in mutants {
        match wrong.first() {
            Some(first) => {
                count += 1;
                println!("  caught: {what}: {first}");
            }
            None => {
                let _ = writeln!(missed, "  not caught: {what}");
            }
        }
    }
    (count, missed)
}
