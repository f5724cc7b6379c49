//! Tables, chains and maps.

use weir_model::nft::{
    BaseChain, Chain, ChainKind, Element, ElementKey, Key, Load, Map, Ruleset, Statement, Table,
};
use weir_model::{Family, Hook, Policy, TableName};

use super::cursor::{Cursor, HELP, Token};
use super::normal::lookups;
use super::statement::{self, ChainContext};
use super::{action, value};
use crate::Diagnostic;
use crate::diagnostic::Fallible;

/// All tables of a text.
pub(super) fn ruleset(text: &str) -> Result<Ruleset, Vec<Diagnostic>> {
    let mut reader = NftReader { cursor: Cursor::new(text), errors: Vec::new() };
    let mut ruleset = Ruleset::default();
    // After an error outside of a rule it is not known which brace belongs to what.
    if let Err(error) = reader.tables(&mut ruleset) {
        reader.errors.push(*error);
    }
    if reader.errors.is_empty() { Ok(ruleset) } else { Err(reader.errors) }
}

struct NftReader<'t> {
    cursor: Cursor<'t>,
    errors: Vec<Diagnostic>,
}

impl<'t> NftReader<'t> {
    fn tables(&mut self, ruleset: &mut Ruleset) -> Fallible<()> {
        loop {
            self.cursor.lines();
            let span = self.cursor.span();
            match self.cursor.next() {
                Token::End => return Ok(()),
                // The text before weir's own definition ensures that it replaces an existing table,
                // or is new.
                Token::Word("delete" | "create") if self.cursor.take_word("table") => {
                    self.header()?;
                }
                Token::Word("table") => {
                    let (family, stands_for, name) = self.header()?;
                    if !self.cursor.take(Token::Open) {
                        continue;
                    }
                    if ruleset.tables.iter().any(|t| t.family == family && t.name == name) {
                        let message = format!("a second table {name}");
                        return Diagnostic::new(message, span).help("join them").fail();
                    }
                    let table =
                        Table { family, name, stands_for, maps: Vec::new(), chains: Vec::new() };
                    ruleset.tables.push(self.table(table)?);
                }
                _ => return self.cursor.refuse("this is not an nft table"),
            }
        }
    }

    /// Family and name of a table.
    fn header(&mut self) -> Fallible<(Family, TableName, String)> {
        let family = match self.cursor.word("a family")? {
            "ip" => Family::V4,
            "ip6" => Family::V6,
            other => {
                return self
                    .cursor
                    .refuse(format!("weir does not write tables of the family {other}"));
            }
        };
        let name = self.cursor.word("the name of a table")?;
        match name.strip_prefix("weir_").and_then(TableName::parse) {
            Some(table) => Ok((family, table, name.to_owned())),
            None => self.cursor.refuse(format!("weir did not write the table {name}")),
        }
    }

    fn table(&mut self, mut table: Table) -> Fallible<Table> {
        loop {
            self.cursor.lines();
            match self.cursor.next() {
                Token::Close => break,
                Token::Word("map") => {
                    let map = self.map(&table)?;
                    table.maps.push(map);
                }
                Token::Word("chain") => {
                    let chain = self.chain(&table)?;
                    table.chains.push(chain);
                }
                Token::Word(word) => {
                    return self.cursor.refuse(format!("weir does not write {word} in a table"));
                }
                _ => return self.cursor.refuse("expected a chain or a map"),
            }
        }
        self.check_names(&table);
        self.settle_keys(&mut table);
        Ok(table)
    }

    /// Every name that is used is there.
    fn check_names(&mut self, table: &Table) {
        let span = self.cursor.span();
        let chains: Vec<&str> = table.chains.iter().map(|c| c.name.as_str()).collect();
        let known: std::collections::HashSet<&str> = chains.iter().copied().collect();
        let mut missing = Vec::new();
        for e in table.maps.iter().flat_map(|m| &m.elements) {
            missing.extend(e.verdict.chain().filter(|c| !known.contains(c)));
        }
        for statement in table.chains.iter().flat_map(|c| &c.rules).flat_map(|r| &r.statements) {
            match statement {
                Statement::Verdict(v) => {
                    missing.extend(v.chain().filter(|c| !known.contains(c)));
                }
                Statement::Vmap { map, .. } if !table.maps.iter().any(|m| m.name == *map) => {
                    missing.push(map);
                }
                _ => {}
            }
        }
        let name = &table.name;
        self.errors.extend(missing.first().map(|what| {
            Diagnostic::new(format!("{name} has no {what}, which it uses"), span)
                .help("give the whole table")
        }));
        if known.len() != chains.len() {
            let twice = Diagnostic::new(format!("two chains of {name} have the same name"), span);
            self.errors.push(twice.help("join them"));
        }
    }

    /// The loaded value is in the rules that use a map, not in the map.
    fn settle_keys(&mut self, table: &mut Table) {
        let used: Vec<(String, Vec<Key>)> =
            lookups(table).map(|(name, key)| (name.clone(), key.clone())).collect();
        let same_type = |a: Load, b: Load| type_of(a) == type_of(b);
        for (name, key) in used {
            let Some(map) = table.maps.iter_mut().find(|m| m.name == name) else { continue };
            let fits = map.key.len() == key.len()
                && map.key.iter().zip(&key).all(|(a, b)| same_type(a.load, b.load));
            if fits {
                map.key = key;
            } else {
                let message = format!("the map {name} is looked up by a key of another type");
                self.errors.push(Diagnostic::new(message, self.cursor.span()).help(HELP));
            }
        }
    }

    fn map(&mut self, table: &Table) -> Fallible<Map> {
        let name = self.cursor.word("the name of a map")?.to_owned();
        self.cursor.expect(Token::Open, "{")?;
        let mut map = Map { name, key: Vec::new(), interval: false, elements: Vec::new() };
        let span = self.cursor.span();
        loop {
            self.cursor.lines();
            match self.cursor.next() {
                Token::Close => break,
                Token::Word("type") => map.key = self.key_types(table.family)?,
                Token::Word("flags") if self.cursor.take_word("interval") => map.interval = true,
                Token::Word("size") => {
                    self.cursor.word("a number")?;
                }
                Token::Word("counter") => {}
                Token::Word("elements") => {
                    if !self.cursor.take_word("=") {
                        return self.cursor.missing("=");
                    }
                    self.elements(&mut map, table.family)?;
                }
                Token::Word(word) => {
                    return self.cursor.refuse(format!("weir does not write {word} in a map"));
                }
                _ => return self.cursor.refuse("this is not part of a map"),
            }
        }
        if map.key.is_empty() || map.interval && map.key.len() > 1 {
            let message = format!("the map {} is not one that weir writes", map.name);
            return Diagnostic::new(message, span).help(HELP).fail();
        }
        Ok(map)
    }

    /// `ipv4_addr . inet_service : verdict`: the loaded value comes from the rule that uses it.
    fn key_types(&mut self, family: Family) -> Fallible<Vec<Key>> {
        let mut out = Vec::new();
        loop {
            let load = match (self.cursor.word("the type of a key")?, family) {
                ("ipv4_addr", Family::V4) | ("ipv6_addr", Family::V6) => Load::Saddr,
                ("ether_addr", _) => Load::EtherSaddr,
                ("inet_service", _) => Load::Sport,
                ("mark", _) => Load::Mark,
                ("ifname", _) => Load::Iifname,
                (other, _) => {
                    return self.cursor.refuse(format!("weir does not use maps of {other}"));
                }
            };
            out.push(Key { load, mask: None });
            if !self.cursor.take_word(".") {
                break;
            }
        }
        if self.cursor.take_words(&[":", "verdict"]) {
            return Ok(out);
        }
        self.cursor.missing(": verdict")
    }

    fn elements(&mut self, map: &mut Map, family: Family) -> Fallible<()> {
        self.cursor.expect(Token::Open, "{")?;
        loop {
            self.cursor.lines();
            if self.cursor.take(Token::Close) {
                return Ok(());
            }
            let mut key = Vec::with_capacity(map.key.len());
            for (i, part) in map.key.iter().enumerate() {
                if i > 0 && !self.cursor.take_word(".") {
                    return self.cursor.missing("another part of the key");
                }
                key.push(element_key(&mut self.cursor, part.load, map.interval, family)?);
            }
            self.cursor.take_counters()?;
            if !self.cursor.take_word(":") {
                return self.cursor.missing(": and a verdict");
            }
            let verdict = match action::verdict(&mut self.cursor)? {
                Some(verdict) => verdict,
                None => return self.cursor.missing("a verdict"),
            };
            map.elements.push(Element { key, credit: Vec::new(), verdict });
            self.cursor.lines();
            if !self.cursor.take(Token::Comma) && self.cursor.peek() != Token::Close {
                return self.cursor.missing("a comma or }");
            }
        }
    }

    fn chain(&mut self, table: &Table) -> Fallible<Chain> {
        let name = self.cursor.word("the name of a chain")?.to_owned();
        self.cursor.expect(Token::Open, "{")?;
        let mut chain = Chain { name, base: None, comment: None, rules: Vec::new() };
        loop {
            self.cursor.lines();
            match (self.cursor.peek(), self.cursor.second()) {
                (Token::Close, _) => {
                    self.cursor.next();
                    return Ok(chain);
                }
                (Token::End, _) => return self.cursor.missing("}"),
                (Token::Word("type"), _) => chain.base = Some(self.base(table)?),
                (Token::Word("comment"), Token::Quoted(text)) => {
                    self.cursor.next();
                    self.cursor.next();
                    chain.comment = Some(text.to_owned());
                }
                _ => match statement::rule(&mut self.cursor, ChainContext { table, chain: &chain })
                {
                    Ok(rule) => chain.rules.push(rule),
                    Err(error) => {
                        self.errors.push(*error);
                        self.cursor.skip_line();
                    }
                },
            }
        }
    }

    /// `type filter hook forward priority filter; policy drop;`
    fn base(&mut self, table: &Table) -> Fallible<BaseChain> {
        let cursor = &mut self.cursor;
        cursor.next();
        let kind = match cursor.word("the type of a chain")? {
            "filter" => ChainKind::Filter,
            "nat" => ChainKind::Nat,
            "route" => ChainKind::Route,
            other => return cursor.refuse(format!("nft has no chains of type {other}")),
        };
        if !cursor.take_word("hook") {
            return cursor.missing("hook");
        }
        let hook = match cursor.word("a hook")? {
            "prerouting" => Hook::Prerouting,
            "input" => Hook::Input,
            "forward" => Hook::Forward,
            "output" => Hook::Output,
            "postrouting" => Hook::Postrouting,
            other => return cursor.refuse(format!("weir does not attach chains to {other}")),
        };
        if !cursor.take_word("priority") {
            return cursor.missing("priority");
        }
        let priority = match cursor.word("a priority")? {
            "raw" => -300,
            "mangle" => -150,
            "dstnat" => -100,
            "filter" => 0,
            "security" => 50,
            "srcnat" => 100,
            number => match number.parse() {
                Ok(n) => n,
                Err(_) => {
                    return cursor.refuse(format!("{number} is not a priority that weir uses"));
                }
            },
        };
        let stands_for = table.stands_for;
        if !stands_for.hooks().contains(&hook) || priority != stands_for.priority(hook) {
            let at = hook.chain();
            return cursor.refuse(format!("{stands_for} has no chain at {at} of this priority"));
        }
        cursor.expect(Token::Semicolon, ";")?;
        let mut policy = Policy::Accept;
        if cursor.take_word("policy") {
            policy = match cursor.word("a policy")? {
                "accept" => Policy::Accept,
                "drop" => Policy::Drop,
                other => return cursor.refuse(format!("{other} is not a policy")),
            };
            cursor.expect(Token::Semicolon, ";")?;
        }
        Ok(BaseChain { kind, hook, priority, policy })
    }
}

/// The load that represents all of its type.
fn type_of(load: Load) -> Load {
    match load {
        Load::Daddr => Load::Saddr,
        Load::Dport => Load::Sport,
        Load::Oifname => Load::Iifname,
        other => other,
    }
}

fn element_key(
    cursor: &mut Cursor<'_>,
    load: Load,
    interval: bool,
    family: Family,
) -> Fallible<ElementKey> {
    if load == Load::Iifname {
        return Ok(ElementKey::Device(cursor.quoted("a device name")?.into()));
    }
    let word = cursor.word("a value")?;
    match value::span(load, word, family) {
        Some((lo, hi)) if interval || lo == hi => Ok(ElementKey::Span(lo, hi)),
        Some(_) => cursor.refuse("an interval in a map without `flags interval`"),
        None => cursor.refuse(format!("{word} is not a value of the map's key")),
    }
}
