//! A table of the kernel as a table of the model.

use weir_model::{Chain, Counters, Policy, Rule, SharedName, Table};

use super::rule_decoder::{KernelExtension, RuleDecoder, VerdictTarget};
use crate::ApplyError;
use crate::xtables::entry_offsets::{EntryOffsets, read_u16};
use crate::xtables::kernel_table::{KernelChain, KernelTable};
use crate::xtables::set_indices::SetIndices;

/// The table that `iptables-save -c` would print, read from the entries themselves.
///
/// Rules have their counts and no place in a text.
///
/// # Errors
/// The first rule with a match or target that the decoder does not know.
pub fn decode_table(table: &KernelTable, sets: &SetIndices) -> Result<Table, ApplyError> {
    let names: Vec<SharedName> =
        table.chains().iter().map(|chain| SharedName::from(table.chain_name(chain))).collect();
    let mut decoder = RuleDecoder::new(table.family());
    let mut chains = Vec::with_capacity(names.len());
    for (chain, name) in table.chains().iter().zip(&names) {
        let mut decoded = Chain::new(name.clone(), policy_of(table, chain));
        let count = table.policy_counters_at_reading(chain);
        let counts = Counters { packets: count.packets, bytes: count.bytes };
        decoded.counters = Some(if chain.hook.is_some() { counts } else { Counters::default() });
        decoded.rules.reserve_exact(chain.rules.len());
        for rule in chain.rules.clone() {
            let result = decode_rule_of_table(&mut decoder, table, sets, &names, rule);
            decoded.rules.push(result.map_err(|extension| ApplyError::UndecodedExtension {
                table: table.name(),
                chain: name.clone(),
                number: rule - chain.rules.start + 1,
                extension,
            })?);
        }
        chains.push(decoded);
    }
    let (leading_comments, trailing_comments) = (Vec::new(), Vec::new());
    Ok(Table { name: table.name(), chains, leading_comments, trailing_comments })
}

fn policy_of(table: &KernelTable, chain: &KernelChain) -> Option<Policy> {
    chain.hook?;
    Some(if table.policy_drops(chain) { Policy::Drop } else { Policy::Accept })
}

fn decode_rule_of_table(
    decoder: &mut RuleDecoder,
    table: &KernelTable,
    sets: &SetIndices,
    chain_names: &[SharedName],
    rule: usize,
) -> Result<Rule, KernelExtension> {
    let entry = table.rule_entry(rule);
    let length = read_u16(entry, EntryOffsets::of(table.family()).next_offset_at);
    let next_at = table.rule_offset(rule) + u32::from(length);
    decoder.decode_rule(entry, sets, |offset| {
        if offset == next_at {
            return Some(VerdictTarget::NextRule);
        }
        let chain = table.chain_number_at(offset)?;
        Some(VerdictTarget::Chain(chain_names[chain].clone()))
    })
}
