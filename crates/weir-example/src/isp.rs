//! An access network modelled after the largest machine of Brouer's talk *Making large iptables
//! rulesets scale* (Netfilter Workshop 2008): 2,105 customers with 3,477 pieces of equipment; 9,827
//! chains and 36,532 rules in the filter table, 2,770 chains and 14,275 rules in mangle.
//!
//! It is the *first generation* design of the talk: a packet finds its customer in one long list of
//! `-s ADDRESS -j CUSTOMER` rules, once per table and direction. The lists are followed by the
//! three functions that the talk names: access control (open or closed), a personal firewall (one
//! chain per customer) and bandwidth control (one HTB class per customer, chosen by `CLASSIFY`).
//! The counts are the published ones; everything else is invented.
//!
//! ```text
//! eth0.101 … eth0.196   buildings, one VLAN each          eth1   uplink
//! filter FORWARD ─ abuse ─ spoof ─ vlan_101 …
//!                ├ customers_up   ─ c1042_up   ─ c1042_ctl, c1042_out
//!                └ customers_down ─ c1042_down ─ c1042_ctl, c1042_fw
//! mangle FORWARD ─ bw_default, bw_up, bw_down ─ bw_1042 ─ prio_1042
//! ```
//!
//! The IPv6 counterpart has the same design with a /64 per customer.

mod filter_table;
mod ipv6_tables;
mod mangle_table;
mod network_plan;
mod options;
mod raw_and_nat_tables;
mod router_host_filter_rules;

use self::network_plan::NetworkPlan;

pub use self::options::IspOptions;

/// A generated ruleset, as the save commands write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedRuleset {
    /// `iptables-save` text.
    pub v4: String,
    /// `ip6tables-save` text.
    pub v6: String,
    /// `ipset save` text that `v4` needs, with [`IspOptions::use_abuse_set`].
    pub ipset: Option<String>,
}

/// The access network.
///
/// ```
/// use weir_example::{IspOptions, generate_isp_ruleset};
/// let example = generate_isp_ruleset(&IspOptions::scale_published_counts(1, 0.01));
/// assert!(example.v4.starts_with("# An access network"));
/// ```
pub fn generate_isp_ruleset(options: &IspOptions) -> GeneratedRuleset {
    let plan = NetworkPlan::generate(options);
    let filter = filter_table::build_filter_table(options, &plan);
    let mangle = mangle_table::build_mangle_table(options, &plan);
    let mut v4 = format!(
        "# An access network: {} customers, {} pieces of equipment, seed {}.\n",
        options.customer_count,
        plan.customer_address_count(),
        options.seed
    );
    raw_and_nat_tables::build_raw_table().write_save_text(&mut v4);
    raw_and_nat_tables::build_nat_table(options, &plan).write_save_text(&mut v4);
    mangle.write_save_text(&mut v4);
    filter.write_save_text(&mut v4);

    let mut v6 = format!(
        "# The IPv6 twin of an access network: {} customers, seed {}.\n",
        options.customer_count, options.seed
    );
    for table in ipv6_tables::build_ipv6_tables(options, &plan) {
        table.write_save_text(&mut v6);
    }
    let ipset = options.use_abuse_set.then(|| filter_table::generate_abuse_set(options));
    GeneratedRuleset { v4, v6, ipset }
}
