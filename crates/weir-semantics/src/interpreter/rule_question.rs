//! What a rule asks the caller: the question for the oracle, and the log entry of its answer.

use weir_model::{Family, Hook, Packet, Rule};

use crate::oracle::{OracleQuestion, QuestionSubject};
use crate::outcome::AnsweredQuestion;

/// A question about a rule; the packet as it is then is added where it is asked.
#[derive(Clone, Copy)]
pub(super) struct RuleQuestion<'f> {
    pub family: Family,
    pub hook: Hook,
    pub rule: &'f Rule,
    pub subject: QuestionSubject,
    pub stateful: bool,
    pub content_digest: u64,
    pub shared_object_config_digest: u64,
}

impl<'f> RuleQuestion<'f> {
    /// The question as the oracle is asked it.
    pub fn with_packet<'a>(&self, packet: &'a Packet) -> OracleQuestion<'a>
    where
        'f: 'a,
    {
        let RuleQuestion {
            family,
            hook,
            rule,
            subject,
            stateful,
            content_digest,
            shared_object_config_digest,
        } = *self;
        OracleQuestion {
            family,
            hook,
            rule,
            subject,
            stateful,
            content_digest,
            shared_object_config_digest,
            packet,
        }
    }

    /// The question with its answer, for the log.
    pub fn with_answer(&self, answer: bool) -> AnsweredQuestion<'f> {
        AnsweredQuestion {
            credited_originals: &self.rule.credited_originals,
            subject: self.subject,
            content_digest: self.content_digest,
            shared_object_config_digest: self.shared_object_config_digest,
            stateful: self.stateful,
            answer,
        }
    }
}
