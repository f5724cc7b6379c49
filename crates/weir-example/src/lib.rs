//! Generated rulesets: an access network ([`isp()`]), the firewall of a university
//! ([`university()`]), a Kubernetes node ([`services()`]) and the rules of the studies
//! ([`rules()`]).
//!
//! Everything here is text, generated from a seed: the same options give the same bytes on every
//! machine. Addresses are private (RFC 1918) or reserved for documentation (RFC 5737, RFC 3849), so
//! that a generated ruleset names no real network.

#![forbid(unsafe_code)]

mod isp;
mod rules;
mod services;
mod text;
mod university;

pub use isp::{Example, IspOptions, isp};
pub use rules::{RulesKind, RulesOptions, addresses, rules, rules_nft};
pub use services::{ServicesOptions, services};
pub use university::{UniversityOptions, university};
