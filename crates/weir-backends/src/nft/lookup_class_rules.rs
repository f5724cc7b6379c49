//! What a class of a run does with its packets.

use weir_model::nft::CreditedRuleOrPolicy;

use super::lowered_rule::{LoweredRule, NftRuleAction};

/// What a class does, split where its rules begin to count apart.
///
/// The leading rules that test nothing more all count every packet of the class: the element's
/// counter is theirs, and what they do can be shared by all classes that do the same.
pub(super) struct SharedAndRemainingClassRules<'a> {
    pub shared_credit: Vec<CreditedRuleOrPolicy>,
    pub shared_actions: Vec<&'a NftRuleAction>,
    pub remaining_rules: Vec<&'a LoweredRule>,
    remaining_indices: Vec<u32>,
}

/// What makes two classes' chains the same: what they do, and the rules that count apart.
pub(super) type ClassChainSharingKey<'a> =
    (Vec<String>, Vec<u32>, std::marker::PhantomData<&'a ()>);

impl<'a> SharedAndRemainingClassRules<'a> {
    pub fn new(items: &'a [LoweredRule], list: &[u32]) -> Self {
        let mut part = SharedAndRemainingClassRules {
            shared_credit: vec![],
            shared_actions: vec![],
            remaining_rules: vec![],
            remaining_indices: vec![],
        };
        let mut lead = true;
        for &i in list {
            let item = &items[i as usize];
            if !lead || !item.conditions.is_empty() {
                lead = false;
                part.remaining_rules.push(item);
                part.remaining_indices.push(i);
                continue;
            }
            part.shared_credit.extend(&item.credited_originals);
            match item.action {
                NftRuleAction::CountOnly => {}
                NftRuleAction::Jump(_) => {
                    part.shared_actions.push(&item.action);
                    lead = false;
                }
                _ => part.shared_actions.push(&item.action),
            }
        }
        part
    }

    /// The verdict that is all the class does.
    pub fn single_verdict(&self) -> Option<&'a NftRuleAction> {
        match (&self.shared_actions[..], &self.remaining_rules[..]) {
            ([], []) => Some(&NftRuleAction::CountOnly),
            ([act], []) => match act {
                NftRuleAction::RejectWithIptablesType(_)
                | NftRuleAction::Nat(_)
                | NftRuleAction::Effect(_) => None,
                _ => Some(act),
            },
            _ => None,
        }
    }

    /// True where its chain must continue to the rest of the caller instead of coming back.
    pub fn needs_exit_goto(&self) -> bool {
        self.single_verdict().is_none()
            && (self.shared_actions.iter().any(|a| a.is_return_or_goto())
                || self.remaining_rules.iter().any(|i| i.action.is_return_or_goto()))
    }

    pub fn chain_sharing_key(&self) -> ClassChainSharingKey<'a> {
        let acts = self.shared_actions.iter().map(|a| format!("{a:?}")).collect();
        (acts, self.remaining_indices.clone(), std::marker::PhantomData)
    }
}
