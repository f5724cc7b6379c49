//! A packet's journey: its hooks and tables in order.

use weir_model::{CtState, Family, Hook, Packet, TableName};
use weir_packet::Ct;

use super::observer::{Observer, Unobserved};
use super::walk::Walk;
use super::{Interpreter, nat};
use crate::entry::{Entry, tables_at};
use crate::oracle::{Fact, Oracle};
use crate::outcome::{Log, Outcome, Verdict};

impl<'f> Interpreter<'f> {
    /// Evaluates a packet's journey.
    pub fn journey(&self, packet: &Packet, entry: Entry, answers: &mut dyn Oracle) -> Outcome<'f> {
        self.journey_observed(packet, entry, answers, &mut Unobserved)
    }

    /// Sends a packet through one hook alone, all of its tables, as if it had come there
    /// untouched. POSTROUTING is that of a forwarded packet.
    pub fn at_hook(&self, packet: &Packet, hook: Hook, answers: &mut dyn Oracle) -> Outcome<'f> {
        self.at_hook_observed(packet, hook, answers, &mut Unobserved)
    }

    /// As [`at_hook`](Interpreter::at_hook), reporting every step to an observer.
    pub(crate) fn at_hook_observed<O: Observer<'f>>(
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
        let log = Log::default();
        let mut journey = Journey { interpreter: self, packet, log, translated, redirected: false };
        let verdict = journey.hook(hook, answers, observer);
        let Log { hits, effects, asked, tried } = journey.log;
        Outcome { verdict, effects, hits, asked, tried, packet: journey.packet }
    }

    /// Evaluates one table at one hook. The packet's devices and conntrack state are used
    /// unchanged; a missing table accepts.
    pub fn walk(
        &self,
        table: TableName,
        hook: Hook,
        packet: &mut Packet,
        answers: &mut dyn Oracle,
    ) -> (Verdict, Log<'f>) {
        let mut log = Log::default();
        let mut nobody = Unobserved;
        let mut walk = self.walker(hook, packet, answers, &mut log, &mut nobody);
        let verdict = walk.table(table).unwrap_or(Verdict::Accept);
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
    ) -> (Option<Verdict>, Log<'f>) {
        let mut log = Log::default();
        let index = self.table(packet.family, table);
        let at = index.and_then(|t| t.chain_at(chain));
        let at = at.unwrap_or_else(|| panic!("walk from {table}/{chain}: there is no such chain"));
        let mut nobody = Unobserved;
        let mut walk = self.walker(hook, packet, answers, &mut log, &mut nobody);
        let verdict = walk.chain(table, at);
        (verdict, log)
    }

    fn walker<'w, O: Observer<'f>>(
        &'w self,
        hook: Hook,
        packet: &'w mut Packet,
        answers: &'w mut dyn Oracle,
        log: &'w mut Log<'f>,
        observer: &'w mut O,
    ) -> Walk<'w, 'f, O> {
        Walk { interpreter: self, hook, packet, answers, log, observer, redirected: false }
    }

    pub(crate) fn journey_observed<O: Observer<'f>>(
        &self,
        packet: &Packet,
        entry: Entry,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Outcome<'f> {
        let mut journey = Journey {
            interpreter: self,
            packet: packet.clone(),
            log: Log::default(),
            translated: packet.ct,
            redirected: false,
        };
        let verdict = journey.go(entry, answers, observer);
        let Log { hits, effects, asked, tried } = journey.log;
        Outcome { verdict, effects, hits, asked, tried, packet: journey.packet }
    }
}

/// ip_local_deliver in ip_input.c reassembles datagrams before the INPUT hook, whether conntrack is
/// in use or not; IPv6 does so behind it.
fn waits(packet: &Packet) -> bool {
    packet.family == Family::V4 && packet.is_fragment()
}

/// A journey under way.
struct Journey<'w, 'f> {
    interpreter: &'w Interpreter<'f>,
    packet: Packet,
    log: Log<'f>,
    /// The packet's connection at the start: which translations it already has.
    translated: Ct,
    redirected: bool,
}

impl<'f> Journey<'_, 'f> {
    fn go<O: Observer<'f>>(
        &mut self,
        entry: Entry,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        let iif = std::mem::take(&mut self.packet.iif);
        let oif = std::mem::take(&mut self.packet.oif);
        if entry == Entry::Output {
            self.packet.smac = None;
            self.packet.oif = oif;
            return match self.hook(Hook::Output, answers, observer) {
                Verdict::Accept => self.hook(Hook::Postrouting, answers, observer),
                other => other,
            };
        }
        self.packet.iif = iif;
        let arrived = self.hook(Hook::Prerouting, answers, observer);
        if arrived != Verdict::Accept {
            return arrived;
        }
        let wish = if self.redirected { Entry::Input } else { entry };
        if answers.route(&self.packet, wish) != Entry::Forward {
            return self.hook(Hook::Input, answers, observer);
        }
        // ip_forward and ip6_forward take one off before the FORWARD hook.
        if self.packet.ttl <= 1 {
            return Verdict::Expired;
        }
        self.packet.ttl -= 1;
        self.packet.oif = oif;
        match self.hook(Hook::Forward, answers, observer) {
            Verdict::Accept => self.hook(Hook::Postrouting, answers, observer),
            other => other,
        }
    }

    fn hook<O: Observer<'f>>(
        &mut self,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        if hook == Hook::Input && waits(&self.packet) {
            return Verdict::Waits;
        }
        for table in tables_at(hook) {
            let verdict = match table {
                TableName::Nat if !self.consults_nat(hook, answers) => {
                    self.translate_again(hook, answers);
                    continue;
                }
                TableName::Raw => self.before_conntrack(hook, answers, observer),
                _ => self.table(*table, hook, answers, observer),
            };
            if verdict != Verdict::Accept {
                return verdict;
            }
        }
        Verdict::Accept
    }

    fn table<O: Observer<'f>>(
        &mut self,
        table: TableName,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        let Journey { interpreter, packet, log, .. } = self;
        let mut walk = interpreter.walker(hook, packet, answers, log, observer);
        let verdict = walk.table(table).unwrap_or(Verdict::Accept);
        self.redirected |= walk.redirected;
        verdict
    }

    /// The raw table runs before conntrack: there is no entry yet, except over `lo`, where the
    /// packet has the one that OUTPUT created, and for packets that the host sends in reply to a
    /// packet.
    fn before_conntrack<O: Observer<'f>>(
        &mut self,
        hook: Hook,
        answers: &mut dyn Oracle,
        observer: &mut O,
    ) -> Verdict {
        let later = self.packet.ct;
        let attached = hook == Hook::Output
            && later.has_entry()
            && self.has_table(TableName::Raw)
            && answers.knows(Fact::Attached, hook, &self.packet);
        if self.packet.iif != "lo" && !attached {
            self.packet.ct = Ct::of(CtState::Invalid);
        }
        let brought = self.packet.ct;
        let verdict = self.table(TableName::Raw, hook, answers, observer);
        // Conntrack takes the place of the template that CT attached.
        if !brought.has_entry() && self.packet.ct.state != CtState::Untracked {
            self.packet.ct = later;
        }
        verdict
    }

    /// nf_nat_inet_fn in nf_nat_core.c: the rules see what starts a connection, once for its
    /// source and once for its destination.
    fn consults_nat(&self, hook: Hook, answers: &mut dyn Oracle) -> bool {
        let icmp = matches!(self.packet.proto, 1 | 58);
        let starts = match self.packet.ct.state {
            CtState::New => true,
            CtState::Related => !icmp && !self.packet.ct.reply,
            CtState::Invalid | CtState::Established | CtState::Untracked => false,
        };
        let done = match hook {
            Hook::Prerouting | Hook::Output => self.translated.dnat,
            Hook::Input | Hook::Postrouting => self.translated.snat,
            Hook::Forward => true,
        };
        starts && !done && self.uses_nat() && !answers.knows(Fact::Bound, hook, &self.packet)
    }

    /// Packets after the first of a translated connection have their destination rewritten where
    /// the nat table stands, and their source where nobody looks any more.
    fn translate_again(&mut self, hook: Hook, answers: &mut dyn Oracle) {
        let is_translated = self.translated.snat || self.translated.dnat;
        let early = matches!(hook, Hook::Prerouting | Hook::Output);
        if !early || !is_translated || !self.packet.ct.has_entry() || !self.uses_nat() {
            return;
        }
        if let Some((addr, port)) = answers.translated(hook, &self.packet) {
            self.packet.daddr = addr;
            if let Some(port) = port {
                nat::set_port(&mut self.packet, false, port);
            }
        }
    }

    fn uses_nat(&self) -> bool {
        self.interpreter.conntrack_in_use(self.packet.family) && self.has_table(TableName::Nat)
    }

    fn has_table(&self, name: TableName) -> bool {
        self.interpreter.table(self.packet.family, name).is_some()
    }
}
