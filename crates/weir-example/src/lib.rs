//! Generated rulesets: an access network ([`generate_isp_ruleset()`]), the firewall of a university
//! ([`generate_university_ruleset()`]), a Kubernetes node ([`generate_services_ruleset()`]), the
//! rules of the studies ([`generate_rule_list()`]) and filter sets for classifiers
//! ([`generate_filter_set()`]).
//!
//! Everything here is text, generated from a seed: the same options give the same bytes on every
//! machine. Addresses are private (RFC 1918) or reserved for documentation (RFC 5737, RFC 3849), so
//! that a generated ruleset names no real network; filter sets in the manner of ClassBench have
//! random ones.

#![forbid(unsafe_code)]

mod filter_set;
mod isp;
mod kubernetes_services;
mod rule_list;
mod table_text;
mod university;

pub use filter_set::{FILTER_SET_RULES_MAX, FilterSetOptions, FilterSetShape, generate_filter_set};
pub use isp::{GeneratedRuleset, IspOptions, generate_isp_ruleset};
pub use kubernetes_services::{ServicesOptions, generate_services_ruleset};
pub use rule_list::{
    RuleListKind, RuleListOptions, generate_rule_list, generate_rule_list_nft,
    generate_source_addresses,
};
pub use university::{UniversityOptions, generate_university_ruleset};
