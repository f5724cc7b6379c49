//! A region for readers: its fields, its size, and an example.

use weir_diagram::{ComparedPath, DeviceNameClasses, FieldValues, Region, Witness};
use weir_model::{Family, Field, Firewall, Hook, Match, match_effects};
use weir_semantics::{JourneyKind, OutcomeDifference};
use weir_syntax::iptables::print_match;
use weir_syntax::packet::print_packet;

use super::review_types::{ExamplePacketReview, RegionFieldReview};

/// What the packets of a region have in each field.
pub(super) fn region_fields(
    region: &Region,
    path: ComparedPath,
    family: Family,
) -> Vec<RegionFieldReview> {
    let mut said: Vec<&FieldValues> =
        region.field_values.iter().filter(|v| !is_implied_ttl(v, path)).collect();
    said.sort_by_key(|values| reading_position(values));
    said.into_iter()
        .map(|v| RegionFieldReview {
            name: match &v.assumed_match {
                Some((m, true)) => print_match(m, family),
                Some((m, false)) => format!("not ({})", print_match(m, family)),
                None => v.name.clone(),
            },
            values: v.values.clone(),
            more: v.omitted_count,
        })
        .collect()
}

/// Where a field comes in the words of a region: devices, addresses and the state of the connection
/// first, whatever the order of variables was, then the rest as the diagram tests it.
fn reading_position(values: &FieldValues) -> usize {
    const FIRST: [&str; 5] = ["iif", "oif", "saddr", "daddr", "ct state"];
    let is_named = |name: &&str| values.name.ends_with(*name) && values.assumed_match.is_none();
    FIRST.iter().position(is_named).unwrap_or(FIRST.len())
}

/// Forwarded packets have a time to live of at least two: the kernel drops others at routing.
fn is_implied_ttl(values: &FieldValues, path: ComparedPath) -> bool {
    path == ComparedPath::WholeJourney(JourneyKind::Forward)
        && values.name.ends_with(Field::Ttl.row().name)
        && values.values == ["2-255"]
}

/// The words of a region's fields.
pub(super) fn region_words(fields: &[RegionFieldReview]) -> String {
    if fields.is_empty() {
        return "every packet".to_owned();
    }
    let word = |f: &RegionFieldReview| {
        let more = if f.more == 0 { String::new() } else { format!(", … {} more", f.more) };
        match &f.values[..] {
            [] => f.name.clone(),
            [one] if f.more == 0 => format!("{} {one}", f.name),
            many => format!("{} {{ {}{more} }}", f.name, many.join(", ")),
        }
    };
    fields.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The devices that the rules of a comparison test.
pub(super) struct TestedDevices {
    classes: DeviceNameClasses,
    is_iif_tested: bool,
    is_oif_tested: bool,
}

impl TestedDevices {
    pub(super) fn of_firewalls(firewalls: [&Firewall; 2], family: Family) -> TestedDevices {
        let is_tested = |field| firewalls.iter().any(|f| has_rule_testing_device(f, family, field));
        TestedDevices {
            classes: DeviceNameClasses::of_firewalls(&firewalls, family),
            is_iif_tested: is_tested(Field::Iif),
            is_oif_tested: is_tested(Field::Oif),
        }
    }
}

/// A packet and what its devices represent.
pub(super) fn build_example_review(
    witness: &Witness,
    difference: OutcomeDifference,
    devices: &TestedDevices,
    (path, family): (ComparedPath, Family),
) -> ExamplePacketReview {
    let mut packet = witness.packet.clone();
    let mut stands_for = Vec::new();
    let names = [
        (Field::Iif, devices.is_iif_tested, &mut packet.iif),
        (Field::Oif, devices.is_oif_tested, &mut packet.oif),
    ];
    for (field, is_tested, name) in names {
        if !path_has_device(path, field) {
            name.clear();
        }
        if !name.is_empty() && !is_tested {
            name.clear();
            continue;
        }
        let words = devices.classes.describe_name(name);
        let said = format!("{name} stands for {words}");
        if !name.is_empty() && words != *name && !stands_for.contains(&said) {
            stands_for.push(said);
        }
    }
    ExamplePacketReview {
        packet: print_packet(&packet),
        stands_for,
        given: witness.describe_assumptions_as_phrases(&|m: &Match| print_match(m, family)),
        differs_in: difference.as_str().to_owned(),
        witness_packet: witness.packet.clone(),
    }
}

/// Whether packets of a path have a device: those of this host come from none, those to it leave by
/// none.
fn path_has_device(path: ComparedPath, field: Field) -> bool {
    let from_here = matches!(
        path,
        ComparedPath::WholeJourney(JourneyKind::Output) | ComparedPath::Hook(Hook::Output)
    );
    let to_here = matches!(
        path,
        ComparedPath::WholeJourney(JourneyKind::Input)
            | ComparedPath::Hook(Hook::Input | Hook::Prerouting)
            | ComparedPath::ReassembledInput
    );
    if field == Field::Iif { !from_here } else { !to_here }
}

/// Whether some rule tests a device.
fn has_rule_testing_device(firewall: &Firewall, family: Family, field: Field) -> bool {
    let rules = firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
    rules.into_iter().any(|(_, _, rule)| {
        let base = match field {
            Field::Iif => rule.base.iif.is_some(),
            _ => rule.base.oif.is_some(),
        };
        base || rule.matches.iter().any(|m| match_effects(m, family).reads.contains(field))
    })
}
