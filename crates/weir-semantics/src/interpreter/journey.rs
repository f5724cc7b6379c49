//! A packet's journey: its hooks and tables in order.

use weir_model::{CtState, Family, Hook, Packet, TableName};
use weir_packet::ConntrackInfo;

use super::table_walk::TableWalk;
use super::walk_observer::{NoopObserver, WalkObserver};
use super::{Interpreter, nat_translation};
use crate::journey_kind::{JourneyKind, tables_at_hook};
use crate::oracle::{ConnectionFactOfHost, Oracle};
use crate::outcome::{Outcome, TraversalLog, Verdict};

impl<'f> Interpreter<'f> {
    /// Evaluates a packet's journey.
    pub fn evaluate_journey(
        &self,
        packet: &Packet,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
    ) -> Outcome<'f> {
        self.evaluate_journey_observed(packet, entry, answers, &mut NoopObserver)
    }

    /// Sends a packet through one hook alone, all of its tables, as if it had come there
    /// untouched. POSTROUTING is that of a forwarded packet.
    pub fn traverse_hook(
        &self,
        packet: &Packet,
        hook: Hook,
        answers: &mut dyn Oracle,
    ) -> Outcome<'f> {
        self.traverse_hook_observed(packet, hook, answers, &mut NoopObserver)
    }

    /// As [`traverse_hook`](Interpreter::traverse_hook), reporting every step to an observer.
    pub(crate) fn traverse_hook_observed<O: WalkObserver<'f>>(
        &self,
        packet: &Packet,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Outcome<'f> {
        let mut packet = packet.clone();
        match hook {
            Hook::Prerouting | Hook::Input => packet.oif.clear(),
            Hook::Output => {
                packet.iif.clear();
                packet.smac = None;
            }
            Hook::Forward | Hook::Postrouting => {}
        }
        let translated = packet.ct;
        let log = TraversalLog::default();
        let mut journey = Journey {
            interpreter: self,
            packet,
            log,
            initial_ct: translated,
            redirected_to_this_host: false,
        };
        let verdict = journey.traverse_hook(hook, answers, observer);
        let TraversalLog { hits, effects, questions: asked, rules_tried: tried } = journey.log;
        Outcome {
            verdict,
            effects,
            hits,
            questions: asked,
            rules_tried: tried,
            packet: journey.packet,
        }
    }

    /// Evaluates one table at one hook. The packet's devices and conntrack state are used
    /// unchanged; a missing table accepts.
    pub fn walk_table(
        &self,
        table: TableName,
        hook: Hook,
        packet: &mut Packet,
        answers: &mut dyn Oracle,
    ) -> (Verdict, TraversalLog<'f>) {
        let mut log = TraversalLog::default();
        let mut nobody = NoopObserver;
        let mut walk = self.start_table_walk(hook, packet, answers, &mut log, &mut nobody);
        let verdict = walk.walk_table(table).unwrap_or(Verdict::Accept);
        (verdict, log)
    }

    /// Sends a packet through one chain as if it had been jumped to from `hook`; `None` if no rule
    /// decided and it returned.
    ///
    /// # Panics
    /// Where there is no such chain.
    pub fn walk_chain(
        &self,
        table: TableName,
        chain: &str,
        hook: Hook,
        packet: &mut Packet,
        answers: &mut dyn Oracle,
    ) -> (Option<Verdict>, TraversalLog<'f>) {
        let mut log = TraversalLog::default();
        let index = self.lowered_table(packet.family, table);
        let at = index.and_then(|t| t.find_chain(chain));
        let at = at.unwrap_or_else(|| panic!("walk from {table}/{chain}: there is no such chain"));
        let mut nobody = NoopObserver;
        let mut walk = self.start_table_walk(hook, packet, answers, &mut log, &mut nobody);
        let verdict = walk.walk_chain(table, at);
        (verdict, log)
    }

    pub(super) fn start_table_walk<'w, O: WalkObserver<'f>>(
        &'w self,
        hook: Hook,
        packet: &'w mut Packet,
        answers: &'w mut dyn Oracle,
        log: &'w mut TraversalLog<'f>,
        observer: &'w mut O,
    ) -> TableWalk<'w, 'f, O> {
        TableWalk {
            interpreter: self,
            hook,
            packet,
            oracle: answers,
            log,
            observer,
            redirected: false,
        }
    }

    pub(crate) fn evaluate_journey_observed<O: WalkObserver<'f>>(
        &self,
        packet: &Packet,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Outcome<'f> {
        let mut journey = Journey {
            interpreter: self,
            packet: packet.clone(),
            log: TraversalLog::default(),
            initial_ct: packet.ct,
            redirected_to_this_host: false,
        };
        let verdict = journey.traverse_hooks(entry, answers, observer);
        let TraversalLog { hits, effects, questions: asked, rules_tried: tried } = journey.log;
        Outcome {
            verdict,
            effects,
            hits,
            questions: asked,
            rules_tried: tried,
            packet: journey.packet,
        }
    }
}

/// ip_local_deliver in ip_input.c reassembles datagrams before the INPUT hook, whether conntrack is
/// in use or not; IPv6 does so behind it.
fn is_ipv4_fragment_held_before_input(packet: &Packet) -> bool {
    packet.family == Family::V4 && packet.is_fragment()
}

/// A journey under way.
struct Journey<'w, 'f> {
    interpreter: &'w Interpreter<'f>,
    packet: Packet,
    log: TraversalLog<'f>,
    /// The packet's connection at the start: which translations it already has.
    initial_ct: ConntrackInfo,
    redirected_to_this_host: bool,
}

impl<'f> Journey<'_, 'f> {
    fn traverse_hooks<O: WalkObserver<'f>>(
        &mut self,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        let iif = std::mem::take(&mut self.packet.iif);
        let oif = std::mem::take(&mut self.packet.oif);
        if entry == JourneyKind::Output {
            self.packet.smac = None;
            self.packet.oif = oif;
            return match self.traverse_hook(Hook::Output, answers, observer) {
                Verdict::Accept => self.traverse_hook(Hook::Postrouting, answers, observer),
                other => other,
            };
        }
        self.packet.iif = iif;
        let arrived = self.traverse_hook(Hook::Prerouting, answers, observer);
        if arrived != Verdict::Accept {
            return arrived;
        }
        let wish = if self.redirected_to_this_host { JourneyKind::Input } else { entry };
        if answers.route_packet(&self.packet, wish) != JourneyKind::Forward {
            return self.traverse_hook(Hook::Input, answers, observer);
        }
        // ip_forward and ip6_forward take one off before the FORWARD hook.
        if self.packet.ttl <= 1 {
            return Verdict::Expired;
        }
        self.packet.ttl -= 1;
        self.packet.oif = oif;
        match self.traverse_hook(Hook::Forward, answers, observer) {
            Verdict::Accept => self.traverse_hook(Hook::Postrouting, answers, observer),
            other => other,
        }
    }

    fn traverse_hook<O: WalkObserver<'f>>(
        &mut self,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        if hook == Hook::Input && is_ipv4_fragment_held_before_input(&self.packet) {
            return Verdict::HeldForReassembly;
        }
        for table in tables_at_hook(hook) {
            let verdict = match table {
                TableName::Nat if !self.traverses_nat_table(hook, answers) => {
                    self.apply_existing_nat_destination(hook, answers);
                    continue;
                }
                TableName::Raw => self.walk_raw_table_before_conntrack(hook, answers, observer),
                _ => self.walk_table(*table, hook, answers, observer),
            };
            if verdict != Verdict::Accept {
                return verdict;
            }
        }
        Verdict::Accept
    }

    fn walk_table<O: WalkObserver<'f>>(
        &mut self,
        table: TableName,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        let Journey { interpreter, packet, log, .. } = self;
        let mut walk = interpreter.start_table_walk(hook, packet, answers, log, observer);
        let verdict = walk.walk_table(table).unwrap_or(Verdict::Accept);
        self.redirected_to_this_host |= walk.redirected;
        verdict
    }

    /// The raw table runs before conntrack: there is no entry yet, except over `lo`, where the
    /// packet has the one that OUTPUT created, and for packets that the host sends in reply to a
    /// packet.
    fn walk_raw_table_before_conntrack<O: WalkObserver<'f>>(
        &mut self,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        let later = self.packet.ct;
        let attached = hook == Hook::Output
            && later.has_entry()
            && self.has_table(TableName::Raw)
            && answers.is_connection_fact_of_host_true(
                ConnectionFactOfHost::HostReplyInheritsConntrackEntry,
                hook,
                &self.packet,
            );
        if self.packet.iif != "lo" && !attached {
            self.packet.ct = ConntrackInfo::from_state(CtState::Invalid);
        }
        let brought = self.packet.ct;
        let verdict = self.walk_table(TableName::Raw, hook, answers, observer);
        // Conntrack takes the place of the template that CT attached.
        if !brought.has_entry() && self.packet.ct.state != CtState::Untracked {
            self.packet.ct = later;
        }
        verdict
    }

    /// nf_nat_inet_fn in nf_nat_core.c: the rules see what starts a connection, once for its
    /// source and once for its destination.
    fn traverses_nat_table(&self, hook: Hook, answers: &mut dyn Oracle) -> bool {
        let icmp = matches!(self.packet.proto, 1 | 58);
        let starts = match self.packet.ct.state {
            CtState::New => true,
            CtState::Related => !icmp && !self.packet.ct.is_reply_direction,
            CtState::Invalid | CtState::Established | CtState::Untracked => false,
        };
        let done = match hook {
            Hook::Prerouting | Hook::Output => self.initial_ct.dnat,
            Hook::Input | Hook::Postrouting => self.initial_ct.snat,
            Hook::Forward => true,
        };
        starts
            && !done
            && self.is_conntrack_used_with_nat_table()
            && !answers.is_connection_fact_of_host_true(
                ConnectionFactOfHost::NatTableAlreadyTraversed,
                hook,
                &self.packet,
            )
    }

    /// Packets after the first of a translated connection have their destination rewritten where
    /// the nat table stands, and their source where nobody looks any more.
    fn apply_existing_nat_destination(&mut self, hook: Hook, answers: &mut dyn Oracle) {
        let is_translated = self.initial_ct.snat || self.initial_ct.dnat;
        let early = matches!(hook, Hook::Prerouting | Hook::Output);
        if !early
            || !is_translated
            || !self.packet.ct.has_entry()
            || !self.is_conntrack_used_with_nat_table()
        {
            return;
        }
        if let Some((addr, port)) = answers.existing_nat_destination(hook, &self.packet) {
            self.packet.daddr = addr;
            if let Some(port) = port {
                nat_translation::set_transport_port(&mut self.packet, false, port);
            }
        }
    }

    fn is_conntrack_used_with_nat_table(&self) -> bool {
        self.interpreter.is_conntrack_used_by_family(self.packet.family)
            && self.has_table(TableName::Nat)
    }

    fn has_table(&self, name: TableName) -> bool {
        self.interpreter.lowered_table(self.packet.family, name).is_some()
    }
}
