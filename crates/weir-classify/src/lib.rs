//! Packet classifiers: which rules match a packet, at a cost that hardly grows with their number.
//!
//! A packet filter asks two questions about a packet: which is the first rule that decides it, and
//! which rules before that one match and count it. Evaluating the rules in order answers both, in
//! time proportional to their number. The engines of this crate answer them from a structure that
//! is built once.
//!
//! **Key.** The packet becomes a [key](KeySchema): a row of 32-bit words, each an address, a port,
//! a protocol, or a word of bits (device classes, connection state, set membership). Addresses of
//! IPv6 are four words.
//!
//! **Filter set.** A rule is one or more [filters](FilterSet), each a conjunction of one
//! [`WordTest`] per word. A rule has a number; smaller numbers come first. It decides, or it only
//! counts.
//!
//! **Ruleset.** [`ruleset`] turns a chain of iptables into filter sets, and what they find into the
//! verdict and the rules that count.
//!
//! **Engine.** An [`Engine`] builds a [`Classifier`] from a filter set, or refuses it with the
//! reason. All engines answer alike: [`Engine::Linear`] is their reference.
//!
//! Modules:
//!
//! - `key`, `filter_set`: what is classified, and by what;
//! - `classifier`, `engine`, `engines`: the interface of all engines, their names, and one file or
//!   folder each;
//! - `interval_dag`: our engine, and the block that a packet is looked up in;
//! - `ruleset`: a chain as look-ups;
//! - `build_limits`: what building a structure may cost;
//! - `classbench`: filter sets and traces in the format of ClassBench.
//!
//! ```
//! use weir_classify::{BuildLimits, Engine, FilterSet, KeySchema, KeyTable, KeyWord, WordTest};
//!
//! let schema = KeySchema::new(vec![KeyWord::interval("saddr", 32), KeyWord::interval("dport", 16)]);
//! let mut filters = FilterSet::new(schema.clone());
//! let net = WordTest::Within { lo: 0x0a00_0000, hi: 0x0aff_ffff };
//! filters.push_rule(0, false, &[net, WordTest::ANY]); // counts 10.0.0.0/8
//! filters.push_rule(1, true, &[WordTest::ANY, WordTest::exactly(443)]);
//!
//! let classifier = Engine::Linear.build(&filters, &BuildLimits::default()).unwrap();
//! let mut keys = KeyTable::new(&schema);
//! keys.push(&[0x0a01_0203, 443]);
//! let credit = classifier.collect_rules_up_to_deciding(&keys);
//! assert_eq!(credit.row(0), [0, 1], "counted by the first, decided by the second");
//! ```

mod build_limits;
pub mod classbench;
mod classifier;
mod engine;
pub mod engines;
mod filter_set;
pub mod interval_dag;
mod key;
pub mod ruleset;

pub use self::build_limits::{BuildLimits, ClassifierBuildError};
pub use self::classifier::{
    Classifier, RuleListsByKey, SingleFilterRule, UpdatableClassifier, UpdateError,
};
pub use self::engine::Engine;
pub use self::filter_set::{Filter, FilterSet, NO_RULE, WordTest};
pub use self::key::{KeySchema, KeyTable, KeyWord, KeyWordTestMethod};
