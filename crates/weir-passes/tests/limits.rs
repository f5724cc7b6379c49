//! If a proof does not finish, the pass is checked on packets, and says so.

use weir_model::{Family, Firewall};
use weir_passes::{
    CheckedPassesOptions, PacketCheckOptions, PassEqualityEvidence, passes,
    run_passes_until_first_refusal,
};
use weir_syntax::iptables::{self, ParserSettings};

fn read(rules: &str) -> Firewall {
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let v4 = iptables::parse(rules, &options).expect("good rules");
    Firewall { v4: Some(v4), ..Firewall::default() }
}

#[test]
fn passes_not_proven_within_limits_are_checked_on_packets() {
    let firewall = read(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
         -A FORWARD -s 192.0.2.1/32 -j ACCEPT\n-A FORWARD -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n",
    );
    let pass = passes::find_pass("remove_duplicates").expect("the pass is there");
    let by = |change: fn(&mut CheckedPassesOptions)| {
        let packet_check = PacketCheckOptions { seed: 1, packets_per_family: 400 };
        let mut options = CheckedPassesOptions { packet_check, ..CheckedPassesOptions::default() };
        options.pass.allow_counter_loss = true;
        change(&mut options);
        let run = run_passes_until_first_refusal(&firewall, &[pass], &options, &mut |_, _| {})
            .expect("it is right");
        assert_eq!(run.pass_reports[0].rule_counts, (2, 1));
        run.pass_reports[0].evidence.clone()
    };
    assert!(
        matches!(by(|_| {}), PassEqualityEvidence::ProvenAndPacketsCompared(packets) if packets > 0)
    );
    let steps: fn(&mut CheckedPassesOptions) = |options| options.proof_steps_max = 10;
    let memory: fn(&mut CheckedPassesOptions) = |options| options.proof_memory_bytes = 0;
    for (limit, wanted) in
        [(steps, "not proven within"), (memory, "need more than the allowed 0 MiB")]
    {
        let PassEqualityEvidence::ComparedPackets(packets, why) = by(limit) else {
            panic!("proven, {wanted}")
        };
        assert!(packets > 0 && why.to_string().contains(wanted), "{why}");
    }
}
