//! Chains of rules, written as nft chains.
//!
//! A [`Body`] is the chain that is being written. Whatever does not fit into one nft rule gets its
//! own chain. It is called with `jump`, which returns after it, unless the rule leaves its chain
//! (RETURN, goto); in that case it is entered with `goto`, and the rest of the body becomes another
//! chain that it continues with. So RETURN always returns to the same caller as in the original.

use std::collections::HashMap;

use weir_model::nft::{
    self, Chain, Credit, Element, Key, Load, Map, Rule, Statement, Verdict, With,
};
use weir_model::{Effect, Family, NatTarget};

use super::class::{Classes, KeyAxis, KeyedItem, RUN_MIN, classes};
use super::cond::Cond;
use super::item::{Act, Item};
use super::names::NftNames;

/// Most often that runs split a chain: what follows is written rule by rule where it would split
/// it again.
const SPLITS_MAX: usize = 3;

/// Writes the chains of one table.
pub(super) struct Emitter {
    pub family: Family,
    pub names: NftNames,
    pub chains: Vec<Chain>,
    pub maps: Vec<Map>,
    /// Fragments are possible: a test of a transport header must be preceded by a test of the
    /// offset.
    pub guard: bool,
    /// Compile runs.
    pub runs: bool,
    /// The outcome of runs: number of rules, and a sentence.
    pub compiled: Vec<Compiled>,
}

/// A run that was compiled.
pub(super) struct Compiled {
    /// The first rule's original.
    pub first: Option<Credit>,
    pub rules: usize,
    pub into: String,
}

/// A chain that is being written.
pub(super) struct Body {
    name: String,
    rules: Vec<Rule>,
    /// Where to go at its end; `None` is back to the caller.
    exit: Option<String>,
    comment: Option<String>,
    /// How often it was split: each time its end is one call deeper.
    splits: usize,
}

impl Body {
    pub fn new(name: String, comment: Option<String>) -> Self {
        Body { name, rules: Vec::new(), exit: None, comment, splits: 0 }
    }

    pub fn push(&mut self, statements: Vec<Statement>) {
        self.rules.push(Rule { statements, comment: None });
    }

    pub fn into_rules(self) -> Vec<Rule> {
        assert!(self.exit.is_none(), "a base chain has no exit");
        self.rules
    }
}

impl Emitter {
    /// Writes items into a body, runs among them as lookups.
    pub fn items(&mut self, body: &mut Body, items: &[Item]) {
        let axes = if self.runs { KeyAxis::all() } else { Vec::new() };
        let mut extents = vec![Extent::default(); axes.len()];
        let mut at = 0;
        while at < items.len() {
            match self.best_run(&axes, &mut extents, items, at) {
                Some(run) => {
                    let of = &items[at..at + run.len];
                    at += run.len;
                    if body.splits < SPLITS_MAX || !run.splits(of) {
                        self.run(body, of, run);
                    } else {
                        of.iter().for_each(|item| self.item(body, item));
                    }
                }
                None => {
                    self.item(body, &items[at]);
                    at += 1;
                }
            }
        }
    }

    /// Ends a body.
    pub fn finish(&mut self, mut body: Body) {
        if let Some(exit) = body.exit.take() {
            body.push(vec![Statement::Verdict(Verdict::Goto(exit))]);
        }
        let Body { name, rules, comment, .. } = body;
        self.chains.push(Chain { name, base: None, comment, rules });
    }

    /// The following rules go into a new chain, which the body's chain continues with. Returns its
    /// name.
    fn split(&mut self, body: &mut Body) -> String {
        let rest = self.names.fresh(&body.name);
        let exit = body.exit.replace(rest.clone());
        let next = Body { exit, splits: body.splits + 1, ..Body::new(rest.clone(), None) };
        let done = std::mem::replace(body, next);
        self.finish(done);
        rest
    }

    fn act(&self, act: &Act) -> Option<Statement> {
        Some(Statement::Verdict(match act {
            Act::Count => return None,
            Act::Accept => Verdict::Accept,
            Act::Drop => Verdict::Drop,
            Act::Return => Verdict::Return,
            Act::Jump(c) => Verdict::Jump(self.names.chain(c).into()),
            Act::Goto(c) => Verdict::Goto(self.names.chain(c).into()),
            Act::Reject(word) => return Some(Statement::Reject(word)),
            Act::Nat(target) => return Some(Statement::Nat(NatTarget::clone(target))),
            Act::Effect(e) => return Some(Statement::Effect(Effect::clone(e))),
        }))
    }

    /// Writes one item.
    fn item(&mut self, body: &mut Body, item: &Item) {
        let conds = self.guarded(&item.conds);
        self.conds(body, &conds, item);
    }

    fn conds(&mut self, body: &mut Body, conds: &[Cond], item: &Item) {
        let mut statements = Vec::with_capacity(conds.len() + 2);
        for (i, cond) in conds.iter().enumerate() {
            match cond {
                Cond::Test(t) => statements.push(Statement::Test(t.clone())),
                Cond::Opaque(o) => statements.push(Statement::Opaque(o.clone())),
                Cond::Unless(_) | Cond::Any(_) => {
                    return self.aside(body, statements, cond, &conds[i + 1..], item);
                }
            }
        }
        statements.push(Statement::Counter(item.credit.clone()));
        statements.extend(self.act(&item.act));
        body.rules.push(Rule { statements, comment: item.comment.clone() });
    }

    /// A test that is no single nft test: the rest of the rule in its own chain.
    fn aside(
        &mut self,
        body: &mut Body,
        mut before: Vec<Statement>,
        cond: &Cond,
        after: &[Cond],
        item: &Item,
    ) {
        let mut own = Body::new(self.names.fresh(&body.name), None);
        let enter = if item.act.leaves() {
            before.push(Statement::Verdict(Verdict::Goto(own.name.clone())));
            body.push(before);
            own.exit = Some(self.split(body));
            true
        } else {
            before.push(Statement::Verdict(Verdict::Jump(own.name.clone())));
            body.push(before);
            false
        };
        match cond {
            Cond::Unless(statement) => {
                let back = match &own.exit {
                    Some(rest) if enter => Verdict::Goto(rest.clone()),
                    _ => Verdict::Return,
                };
                own.push(vec![(**statement).clone(), Statement::Verdict(back)]);
                self.conds(&mut own, after, item);
            }
            Cond::Any(tests) => {
                let mut inner = Body::new(self.names.fresh(&body.name), None);
                inner.exit = own.exit.clone();
                for test in tests {
                    let goto = Statement::Verdict(Verdict::Goto(inner.name.clone()));
                    own.push(vec![Statement::Test(test.clone()), goto]);
                }
                self.conds(&mut inner, after, item);
                self.finish(inner);
            }
            Cond::Test(_) | Cond::Opaque(_) => unreachable!("one nft test"),
        }
        self.finish(own);
    }

    /// Puts the test of the fragment offset before the first test of a transport header.
    fn guarded(&self, conds: &[Cond]) -> Vec<Cond> {
        let looks = |c: &Cond| match c {
            Cond::Test(t) => t.load.is_transport(),
            Cond::Any(tests) => tests.iter().any(|t| t.load.is_transport()),
            Cond::Opaque(_) | Cond::Unless(_) => false,
        };
        let mut out = conds.to_vec();
        if let Some(first) = conds.iter().position(looks).filter(|_| self.guard) {
            out.insert(first, Cond::Test(self.fragment_guard()));
        }
        out
    }

    /// Holds for all but later fragments.
    fn fragment_guard(&self) -> nft::Test {
        let (load, last) = match self.family {
            Family::V4 => (Load::FragmentOffset, 0),
            // An IPv6 packet has an offset only where it is a piece, and a test of what is not
            // there does not hold.
            Family::V6 => (Load::HeaderStart, 0xff_ffff),
        };
        nft::Test { load, with: With::Spans(vec![(0, last)]), negated: false }
    }
}

/// A run that was chosen.
struct ChosenRun {
    axis: KeyAxis,
    len: usize,
    classes: Classes,
    proto: Option<u128>,
}

impl ChosenRun {
    /// True where writing it splits its chain.
    fn splits(&self, items: &[Item]) -> bool {
        let stripped: Vec<Item> = items.iter().map(|i| self.axis.strip(i)).collect();
        self.classes.lists.iter().any(|list| ClassPart::new(&stripped, list).needs_exit())
    }
}

/// How far the items from here lie on an axis.
#[derive(Clone, Default)]
struct Extent {
    end: usize,
    places: Vec<KeyedItem>,
    first: usize,
    /// No run on this axis needs to be tried before this position.
    skip: usize,
}

impl Extent {
    fn places(&mut self, axis: &KeyAxis, items: &[Item], at: usize) -> &[KeyedItem] {
        if at >= self.end {
            self.places.clear();
            self.first = at;
            self.end = at;
            for item in &items[at..] {
                let Some(place) = axis.place(item) else { break };
                if self.places.first().is_some_and(|p| p.proto != place.proto) {
                    break;
                }
                self.places.push(place);
                self.end += 1;
            }
            if self.end == at {
                self.end = at + 1;
            }
        }
        &self.places[(at - self.first).min(self.places.len())..]
    }
}

impl Emitter {
    /// The run that saves most from `at` on, if any is worth a lookup.
    fn best_run(
        &self,
        axes: &[KeyAxis],
        extents: &mut [Extent],
        items: &[Item],
        at: usize,
    ) -> Option<ChosenRun> {
        let mut best: Option<(f64, ChosenRun)> = None;
        for (axis, extent) in axes.iter().zip(extents) {
            if at < extent.skip {
                continue;
            }
            let places = extent.places(axis, items, at);
            let whole = places.len();
            let mut len = whole;
            while len >= RUN_MIN && best.as_ref().is_none_or(|(gain, _)| *gain < len as f64) {
                if let Some((gain, run)) = self.cut(axis, &items[at..at + len], &places[..len]) {
                    if best.as_ref().is_none_or(|(other, _)| gain > *other) {
                        best = Some((gain, run));
                    }
                    break;
                }
                len = if len < 2 * RUN_MIN { RUN_MIN - 1 } else { len / 2 };
            }
            // Looking again one rule later would cost the square of a stretch without gain.
            if len < RUN_MIN {
                extent.skip = at + whole.div_ceil(4);
            }
        }
        best.map(|(_, run)| run)
    }

    /// The run, and how many rules it saves on average; `None` if its classes grow too long.
    fn cut(
        &self,
        axis: &KeyAxis,
        items: &[Item],
        places: &[KeyedItem],
    ) -> Option<(f64, ChosenRun)> {
        let decides: Vec<bool> =
            items.iter().map(|i| i.act.ends() && axis.says_all_of(i)).collect();
        let refs: Vec<&KeyedItem> = places.iter().collect();
        let classes = classes(&refs, &decides, self.family)?;
        let lookup = if classes.interval { 4.0 } else { 3.0 };
        let gain = items.len() as f64 - classes.mean() - lookup;
        let proto = places[0].proto;
        let run = ChosenRun { axis: axis.clone(), len: items.len(), classes, proto };
        (gain > 0.0).then_some((gain, run))
    }

    /// Writes a run: one lookup, and a chain for each class that is no plain verdict.
    fn run(&mut self, body: &mut Body, items: &[Item], run: ChosenRun) {
        let ChosenRun { axis, len, classes, proto } = run;
        let stripped: Vec<Item> = items.iter().map(|i| axis.strip(i)).collect();
        let parts: Vec<ClassPart<'_>> =
            classes.lists.iter().map(|list| ClassPart::new(&stripped, list)).collect();
        let map = self.map_name(&body.name, &axis);
        let key = classes.key(&axis);
        self.lookup_rule(body, proto, key.clone(), &map);
        let head = body.name.clone();
        let leaves = parts.iter().any(|p| p.needs_exit());
        let rest = if leaves { Some(self.split(body)) } else { None };
        let mut shared: HashMap<Content<'_>, Verdict> = HashMap::new();
        let mut elements = Vec::with_capacity(classes.elements.len());
        let mut written = 0;
        for (key, class) in classes.elements {
            let part = &parts[class];
            let verdict = match part.plain() {
                Some(act) => match self.act(act) {
                    Some(Statement::Verdict(v)) => v,
                    _ => Verdict::Continue,
                },
                None => shared
                    .entry(part.content())
                    .or_insert_with(|| {
                        written += 1;
                        self.class_chain(&head, part, rest.as_ref())
                    })
                    .clone(),
            };
            elements.push(Element { key, credit: part.credit.clone(), verdict });
        }
        self.compiled.push(Compiled {
            first: items[0].credit.first().copied(),
            rules: len,
            into: format!("map {map} of {} elements, {written} chains", elements.len()),
        });
        self.maps.push(Map { name: map, key, interval: classes.interval, elements });
    }

    fn map_name(&self, chain: &str, axis: &KeyAxis) -> String {
        format!("{chain}-{}{}", axis.name(), self.maps.len() + 1)
    }

    fn lookup_rule(&self, body: &mut Body, proto: Option<u128>, key: Vec<Key>, map: &str) {
        let mut statements = Vec::new();
        if let Some(proto) = proto {
            let with = With::Spans(vec![(proto, proto)]);
            let test = nft::Test { load: Load::L4proto, with, negated: false };
            statements.push(Statement::Test(test));
        }
        if self.guard && key.iter().any(|k| k.load.is_transport()) {
            statements.push(Statement::Test(self.fragment_guard()));
        }
        statements.push(Statement::Vmap { key, map: map.to_string() });
        body.push(statements);
    }

    /// A class's chain, and how it is entered.
    fn class_chain(&mut self, head: &str, part: &ClassPart<'_>, rest: Option<&String>) -> Verdict {
        let name = self.names.fresh(head);
        let mut body = Body::new(name.clone(), None);
        let leaves = part.needs_exit();
        if leaves {
            body.exit = rest.cloned();
        }
        for act in &part.acts {
            let statement = self.act(act);
            body.rules.extend(statement.map(|s| Rule { statements: vec![s], comment: None }));
        }
        let remaining: Vec<Item> = part.remaining.iter().map(|i| (*i).clone()).collect();
        self.items(&mut body, &remaining);
        self.finish(body);
        if leaves { Verdict::Goto(name) } else { Verdict::Jump(name) }
    }
}

/// What a class does, split where its rules begin to count apart.
///
/// The leading rules that test nothing more all count every packet of the class: the element's
/// counter is theirs, and what they do can be shared by all classes that do the same.
struct ClassPart<'a> {
    credit: Vec<Credit>,
    acts: Vec<&'a Act>,
    remaining: Vec<&'a Item>,
    list: Vec<u32>,
}

/// What makes two classes' chains the same: what they do, and the rules that count apart.
type Content<'a> = (Vec<String>, Vec<u32>, std::marker::PhantomData<&'a ()>);

impl<'a> ClassPart<'a> {
    fn new(items: &'a [Item], list: &[u32]) -> Self {
        let mut part = ClassPart { credit: vec![], acts: vec![], remaining: vec![], list: vec![] };
        let mut lead = true;
        for &i in list {
            let item = &items[i as usize];
            if !lead || !item.conds.is_empty() {
                lead = false;
                part.remaining.push(item);
                part.list.push(i);
                continue;
            }
            part.credit.extend(&item.credit);
            match item.act {
                Act::Count => {}
                Act::Jump(_) => {
                    part.acts.push(&item.act);
                    lead = false;
                }
                _ => part.acts.push(&item.act),
            }
        }
        part
    }

    /// The verdict that is all the class does.
    fn plain(&self) -> Option<&'a Act> {
        match (&self.acts[..], &self.remaining[..]) {
            ([], []) => Some(&Act::Count),
            ([act], []) => match act {
                Act::Reject(_) | Act::Nat(_) | Act::Effect(_) => None,
                _ => Some(act),
            },
            _ => None,
        }
    }

    /// True where its chain must continue to the rest of the caller instead of coming back.
    fn needs_exit(&self) -> bool {
        self.plain().is_none()
            && (self.acts.iter().any(|a| a.leaves())
                || self.remaining.iter().any(|i| i.act.leaves()))
    }

    fn content(&self) -> Content<'a> {
        let acts = self.acts.iter().map(|a| format!("{a:?}")).collect();
        (acts, self.list.clone(), std::marker::PhantomData)
    }
}
