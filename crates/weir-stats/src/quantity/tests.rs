//! Tests of the table of quantities.

use super::*;
use crate::connection_counts::{ConnectionClose, ConnectionCounts};
use crate::endpoint_counts::{ArrivedTraffic, EndpointCounts};
use crate::lookup_measurement::LookupMeasurement;
use crate::trial::TrialResults;
use crate::trial::tests::trial;

#[test]
fn compared_and_drawn_quantities_are_those_of_the_table() {
    let all = Quantity::list_traffic_first();
    assert_eq!(all.len(), Quantity::ALL.len());
    let compared: Vec<Quantity> =
        all.iter().copied().filter(|one| one.comparison_name_and_direction().is_some()).collect();
    let expected = [
        Quantity::Pps,
        Quantity::ConnectionsPerSecond,
        Quantity::ConnectionsResetPerSecond,
        Quantity::HandshakesPerSecond,
        Quantity::BytesPerConnection,
        Quantity::LookupsPerSecond,
        Quantity::LoadSeconds,
    ];
    assert_eq!(compared, expected);
    let better =
        |one: Quantity| one.comparison_name_and_direction().map(|comparison| comparison.better);
    assert_eq!(better(Quantity::Pps), Some(BetterDirection::More));
    assert_eq!(better(Quantity::BytesPerConnection), Some(BetterDirection::Less));
    // The loss ratio at a set rate is neither compared nor drawn. A rate of replies is drawn, but
    // not compared.
    assert_eq!(Quantity::LossRatio.comparison_name_and_direction(), None);
    assert_eq!(Quantity::LossRatio.overlay_axis(), None);
    assert_eq!(Quantity::SocketsPerSecond.comparison_name_and_direction(), None);
    assert!(Quantity::SocketsPerSecond.overlay_axis().is_some());
    let loads = Quantity::LoadSeconds.overlay_axis().map(|axis| axis.unit);
    assert_eq!(loads, Some(QuantityUnit::Seconds));
}

#[test]
fn a_refused_set_has_no_values_but_is_a_record() {
    let of = |measured: LookupMeasurement| {
        let results = TrialResults::Lookups(Box::new(measured));
        Trial { kind: TrialKind::Lookups, results, ..trial(0, 0, &[]) }
    };
    let measured = of(LookupMeasurement {
        first_match_pps: Some(5e6),
        bytes_per_rule: Some(40.0),
        ..LookupMeasurement::default()
    });
    assert_eq!(Quantity::LookupsPerSecond.value_in_trial(&measured), Some(5e6));
    assert_eq!(Quantity::NsPerLookup.value_in_trial(&measured), Some(200.0));
    assert_eq!(Quantity::BytesPerRule.value_in_trial(&measured), Some(40.0));
    assert_eq!(Quantity::AllMatchesPerSecond.value_in_trial(&measured), None);
    let refused = of(LookupMeasurement::of_refusal("too large"));
    assert_eq!(Quantity::LookupsPerSecond.value_in_trial(&refused), None);
    let line = serde_json::to_string(&refused).unwrap();
    let read: Trial = serde_json::from_str(&line).unwrap();
    assert_eq!(read.lookup_measurement().unwrap().refusal.as_deref(), Some("too large"));
}

#[test]
fn the_sides_of_connections_are_told_apart() {
    let of = |connections| EndpointCounts { connections, ..EndpointCounts::default() };
    let connections = ConnectionCounts {
        arrived_at_servers: ArrivedTraffic { packets: 40, frame_bytes: 3000 },
        clients: vec![of(6), of(4)],
        ..ConnectionCounts::empty(ConnectionClose::Fin)
    };
    let measured = TrialResults::Connections(Box::new(connections));
    let trial =
        Trial { kind: TrialKind::Connections, seconds: 2.0, results: measured, ..trial(1, 1, &[]) };
    let of = |quantity: Quantity| quantity.value_in_trial(&trial);
    assert_eq!(of(Quantity::PacketsFromClients), Some(20.0));
    assert_eq!(of(Quantity::BitsFromClients), Some(12_000.0));
    assert_eq!(of(Quantity::LeastClientShare), Some(0.4));
    assert_eq!(of(Quantity::LeastServerShare), None, "the record has no counts per server");
    assert_eq!(of(Quantity::RedirectsSent), Some(0.0), "none is a number, too");
}
