//! The size of the access network.

/// Options of [`generate_isp_ruleset`](super::generate_isp_ruleset).
///
/// The counts of chains and rules are met exactly, unless the customers alone need more chains: in
/// the published proportions that happens below a scale of 0.02.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IspOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Customers: 1 to 20,000.
    pub customer_count: usize,
    /// Pieces of equipment, an address each: as many as customers at least, 20,000 at most.
    pub equipment_count: usize,
    /// Chains of the IPv4 filter table, built-in ones included.
    pub filter_chains: usize,
    /// Rules of the IPv4 filter table.
    pub filter_rules: usize,
    /// Chains of the IPv4 mangle table, built-in ones included.
    pub mangle_chains: usize,
    /// Rules of the IPv4 mangle table.
    pub mangle_rules: usize,
    /// Keep the list of abusive networks in an ipset, which other programs fill, rather than in
    /// rules.
    pub use_abuse_set: bool,
}

impl Default for IspOptions {
    /// The published counts, seed 1.
    fn default() -> IspOptions {
        IspOptions {
            seed: 1,
            customer_count: 2105,
            equipment_count: 3477,
            filter_chains: 9827,
            filter_rules: 36_532,
            mangle_chains: 2770,
            mangle_rules: 14_275,
            use_abuse_set: false,
        }
    }
}

impl IspOptions {
    /// The published counts times `scale`.
    ///
    /// # Units and ranges
    /// `scale`: above 0, at most 5.
    pub fn scale_published_counts(seed: u64, scale: f64) -> IspOptions {
        assert!(scale > 0.0 && scale <= 5.0, "scale {scale} is not above 0 and at most 5");
        let whole = IspOptions::default();
        let part = |count: usize| ((count as f64 * scale).round() as usize).max(1);
        IspOptions {
            seed,
            customer_count: part(whole.customer_count),
            equipment_count: part(whole.equipment_count),
            filter_chains: part(whole.filter_chains),
            filter_rules: part(whole.filter_rules),
            mangle_chains: part(whole.mangle_chains),
            mangle_rules: part(whole.mangle_rules),
            use_abuse_set: false,
        }
    }
}
