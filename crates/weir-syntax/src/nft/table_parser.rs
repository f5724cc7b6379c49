//! Tables, chains and maps.

use std::collections::{HashMap, HashSet};

use weir_model::nft::{
    BaseChain, Chain, ChainKind, ElementKeyPart, LoadExpression, MapKeyExpression, Ruleset,
    Statement, Table, VerdictMap, VerdictMapElement,
};
use weir_model::{Family, Hook, Policy, TableName};

use super::seen_map_keys::SeenMapKeys;
use super::statement_parser::{self, EnclosingTableAndChain};
use super::token_cursor::{NftToken, NftTokenCursor, UNSUPPORTED_NFT_HELP};
use super::{action_parser, value_parser};
use crate::Diagnostic;
use crate::diagnostic::ParseResult;

/// All tables of a text.
pub(super) fn parse_ruleset(text: &str) -> Result<Ruleset, Vec<Diagnostic>> {
    let mut reader = NftReader { cursor: NftTokenCursor::new(text), errors: Vec::new() };
    let mut ruleset = Ruleset::default();
    // After an error outside of a rule it is not known which brace belongs to what.
    if let Err(error) = reader.parse_tables(&mut ruleset) {
        reader.errors.push(*error);
    }
    if reader.errors.is_empty() { Ok(ruleset) } else { Err(reader.errors) }
}

struct NftReader<'t> {
    cursor: NftTokenCursor<'t>,
    errors: Vec<Diagnostic>,
}

impl<'t> NftReader<'t> {
    fn parse_tables(&mut self, ruleset: &mut Ruleset) -> ParseResult<()> {
        loop {
            self.cursor.skip_line_ends_and_semicolons();
            let span = self.cursor.next_span();
            match self.cursor.next() {
                NftToken::TextEnd => return Ok(()),
                // The text before weir's own definition ensures that it replaces an existing table,
                // or is new.
                NftToken::Word("delete" | "create") if self.cursor.take_keyword("table") => {
                    self.parse_table_header()?;
                }
                NftToken::Word("table") => {
                    let (family, stands_for, name) = self.parse_table_header()?;
                    if !self.cursor.take_token_if_equal(NftToken::OpenBrace) {
                        continue;
                    }
                    if ruleset.tables.iter().any(|t| t.family == family && t.name == name) {
                        let message = format!("a second table {name}");
                        return Diagnostic::new(message, span).with_help("join them").into_err();
                    }
                    let table = Table {
                        family,
                        name,
                        iptables_table: stands_for,
                        maps: Vec::new(),
                        chains: Vec::new(),
                    };
                    ruleset.tables.push(self.parse_table(table)?);
                }
                _ => return self.cursor.refuse_last_token("this is not an nft table"),
            }
        }
    }

    /// Family and name of a table.
    fn parse_table_header(&mut self) -> ParseResult<(Family, TableName, String)> {
        let family = match self.cursor.expect_word("a family")? {
            "ip" => Family::V4,
            "ip6" => Family::V6,
            other => {
                return self
                    .cursor
                    .refuse_last_token(format!("weir cannot read tables of the family {other}"));
            }
        };
        let name = self.cursor.expect_word("the name of a table")?;
        match name.strip_prefix("weir_").and_then(TableName::parse) {
            Some(table) => Ok((family, table, name.to_owned())),
            None => self.cursor.refuse_last_token(format!("weir did not write the table {name}")),
        }
    }

    fn parse_table(&mut self, mut table: Table) -> ParseResult<Table> {
        loop {
            self.cursor.skip_line_ends_and_semicolons();
            match self.cursor.next() {
                NftToken::CloseBrace => break,
                NftToken::Word("map") => {
                    let map = self.parse_map(&table)?;
                    table.maps.push(map);
                }
                NftToken::Word("chain") => {
                    let chain = self.parse_chain(&table)?;
                    table.chains.push(chain);
                }
                NftToken::Word(word) => {
                    return self
                        .cursor
                        .refuse_last_token(format!("weir cannot read {word} in a table"));
                }
                _ => return self.cursor.refuse_last_token("expected a chain or a map"),
            }
        }
        self.check_chain_and_map_names(&table);
        self.set_map_keys_from_lookups(&mut table);
        Ok(table)
    }

    /// Every name that is used is there.
    fn check_chain_and_map_names(&mut self, table: &Table) {
        let span = self.cursor.next_span();
        let chains: Vec<&str> = table.chains.iter().map(|c| c.name.as_str()).collect();
        let known: HashSet<&str> = chains.iter().copied().collect();
        let maps: HashSet<&str> = table.maps.iter().map(|m| m.name.as_str()).collect();
        let mut missing = Vec::new();
        for e in table.maps.iter().flat_map(|m| &m.elements) {
            missing.extend(e.verdict.jump_target().filter(|c| !known.contains(c)));
        }
        for statement in table.chains.iter().flat_map(|c| &c.rules).flat_map(|r| &r.statements) {
            match statement {
                Statement::Verdict(v) => {
                    missing.extend(v.jump_target().filter(|c| !known.contains(c)));
                }
                Statement::Vmap { map, .. } if !maps.contains(map.as_str()) => missing.push(map),
                _ => {}
            }
        }
        let name = &table.name;
        self.errors.extend(missing.first().map(|what| {
            Diagnostic::new(format!("{name} has no {what}, which it uses"), span)
                .with_help("give the whole table")
        }));
        // nft joins what it is given twice.
        for (what, names, count) in
            [("chains", &known, chains.len()), ("maps", &maps, table.maps.len())]
        {
            if names.len() != count {
                let message = format!("two {what} of {name} have the same name");
                self.errors.push(Diagnostic::new(message, span).with_help("join them"));
            }
        }
    }

    /// The loaded value is in the rules that use a map, not in the map.
    fn set_map_keys_from_lookups(&mut self, table: &mut Table) {
        let used: Vec<(String, Vec<MapKeyExpression>)> = table
            .map_names_with_lookup_keys()
            .map(|(name, key)| (name.clone(), key.clone()))
            .collect();
        let same_type = |a: LoadExpression, b: LoadExpression| {
            representative_load_of_same_type(a) == representative_load_of_same_type(b)
        };
        let positions: HashMap<String, usize> =
            table.maps.iter().enumerate().rev().map(|(at, map)| (map.name.clone(), at)).collect();
        for (name, key) in used {
            let Some(map) = positions.get(&name).map(|at| &mut table.maps[*at]) else { continue };
            let fits = map.key.len() == key.len()
                && map.key.iter().zip(&key).all(|(a, b)| same_type(a.expression, b.expression));
            if fits {
                map.key = key;
            } else {
                let message = format!("the map {name} is looked up by a key of another type");
                self.errors.push(
                    Diagnostic::new(message, self.cursor.next_span())
                        .with_help(UNSUPPORTED_NFT_HELP),
                );
            }
        }
    }

    fn parse_map(&mut self, table: &Table) -> ParseResult<VerdictMap> {
        let name = self.cursor.expect_word("the name of a map")?.to_owned();
        self.cursor.expect_token(NftToken::OpenBrace, "{")?;
        let mut map =
            VerdictMap { name, key: Vec::new(), has_intervals: false, elements: Vec::new() };
        let span = self.cursor.next_span();
        let mut read_properties = HashSet::new();
        loop {
            self.cursor.skip_line_ends_and_semicolons();
            if let NftToken::Word(word) = self.cursor.peek()
                && !read_properties.insert(word)
            {
                self.cursor.next();
                return self.cursor.refuse_last_token(format!("a map has {word} only once"));
            }
            match self.cursor.next() {
                NftToken::CloseBrace => break,
                NftToken::Word("type") => map.key = self.parse_key_types(table.family)?,
                NftToken::Word("flags") if self.cursor.take_keyword("interval") => {
                    map.has_intervals = true
                }
                NftToken::Word("size") => {
                    self.cursor.expect_word("a number")?;
                }
                NftToken::Word("counter") => {}
                NftToken::Word("elements") => {
                    if !self.cursor.take_keyword("=") {
                        return self.cursor.missing_token_error("=");
                    }
                    self.parse_map_elements(&mut map, table.family)?;
                }
                NftToken::Word(word) => {
                    return self
                        .cursor
                        .refuse_last_token(format!("weir cannot read {word} in a map"));
                }
                _ => return self.cursor.refuse_last_token("this is not part of a map"),
            }
        }
        if map.key.is_empty() || map.has_intervals && map.key.len() > 1 {
            let message = format!("the map {} is not one that weir writes", map.name);
            return Diagnostic::new(message, span).with_help(UNSUPPORTED_NFT_HELP).into_err();
        }
        Ok(map)
    }

    /// `ipv4_addr . inet_service : verdict`: the loaded value comes from the rule that uses it.
    fn parse_key_types(&mut self, family: Family) -> ParseResult<Vec<MapKeyExpression>> {
        let mut out = Vec::new();
        loop {
            let load = match (self.cursor.expect_word("the type of a key")?, family) {
                ("ipv4_addr", Family::V4) | ("ipv6_addr", Family::V6) => LoadExpression::Saddr,
                ("ether_addr", _) => LoadExpression::EtherSaddr,
                ("inet_service", _) => LoadExpression::Sport,
                ("mark", _) => LoadExpression::Mark,
                ("ifname", _) => LoadExpression::Iifname,
                (other, _) => {
                    return self
                        .cursor
                        .refuse_last_token(format!("weir does not use maps of {other}"));
                }
            };
            out.push(MapKeyExpression { expression: load, mask: None });
            if !self.cursor.take_keyword(".") {
                break;
            }
        }
        if self.cursor.take_keyword_sequence(&[":", "verdict"]) {
            return Ok(out);
        }
        self.cursor.missing_token_error(": verdict")
    }

    fn parse_map_elements(&mut self, map: &mut VerdictMap, family: Family) -> ParseResult<()> {
        self.cursor.expect_token(NftToken::OpenBrace, "{")?;
        let mut keys = SeenMapKeys::default();
        loop {
            self.cursor.skip_line_ends_and_semicolons();
            if self.cursor.take_token_if_equal(NftToken::CloseBrace) {
                return Ok(());
            }
            let mut key = Vec::with_capacity(map.key.len());
            for (i, part) in map.key.iter().enumerate() {
                if i > 0 && !self.cursor.take_keyword(".") {
                    return self.cursor.missing_token_error("another part of the key");
                }
                key.push(parse_element_key_part(
                    &mut self.cursor,
                    part.expression,
                    map.has_intervals,
                    family,
                )?);
            }
            self.cursor.skip_counter()?;
            if !self.cursor.take_keyword(":") {
                return self.cursor.missing_token_error(": and a verdict");
            }
            let verdict = match action_parser::parse_verdict(&mut self.cursor)? {
                Some(verdict) => verdict,
                None => return self.cursor.missing_token_error("a verdict"),
            };
            if !keys.insert(&key, &verdict) {
                return self.cursor.refuse_last_token(format!(
                    "map {} has this key, or a part of it, with another verdict",
                    map.name
                ));
            }
            map.elements.push(VerdictMapElement { key, credited_originals: Vec::new(), verdict });
            self.cursor.skip_line_ends_and_semicolons();
            if !self.cursor.take_token_if_equal(NftToken::Comma)
                && self.cursor.peek() != NftToken::CloseBrace
            {
                return self.cursor.missing_token_error("a comma or }");
            }
        }
    }

    fn parse_chain(&mut self, table: &Table) -> ParseResult<Chain> {
        let name = self.cursor.expect_word("the name of a chain")?.to_owned();
        self.cursor.expect_token(NftToken::OpenBrace, "{")?;
        let mut chain = Chain { name, base: None, iptables_name_comment: None, rules: Vec::new() };
        loop {
            self.cursor.skip_line_ends_and_semicolons();
            match (self.cursor.peek(), self.cursor.peek_second()) {
                (NftToken::CloseBrace, _) => {
                    self.cursor.next();
                    return Ok(chain);
                }
                (NftToken::TextEnd, _) => return self.cursor.missing_token_error("}"),
                (NftToken::Word("type"), _) => chain.base = Some(self.parse_base_chain(table)?),
                (NftToken::Word("comment"), NftToken::Quoted(text)) => {
                    self.cursor.next();
                    self.cursor.next();
                    chain.iptables_name_comment = Some(text.to_owned());
                }
                _ => match statement_parser::parse_rule(
                    &mut self.cursor,
                    EnclosingTableAndChain { table, chain: &chain },
                ) {
                    Ok(rule) => chain.rules.push(rule),
                    Err(error) => {
                        self.errors.push(*error);
                        self.cursor.skip_rest_of_rule();
                    }
                },
            }
        }
    }

    /// `type filter hook forward priority filter; policy drop;`
    fn parse_base_chain(&mut self, table: &Table) -> ParseResult<BaseChain> {
        let cursor = &mut self.cursor;
        cursor.next();
        let kind = match cursor.expect_word("the type of a chain")? {
            "filter" => ChainKind::Filter,
            "nat" => ChainKind::Nat,
            "route" => ChainKind::Route,
            other => return cursor.refuse_last_token(format!("nft has no chains of type {other}")),
        };
        if !cursor.take_keyword("hook") {
            return cursor.missing_token_error("hook");
        }
        let hook = match cursor.expect_word("a hook")? {
            "prerouting" => Hook::Prerouting,
            "input" => Hook::Input,
            "forward" => Hook::Forward,
            "output" => Hook::Output,
            "postrouting" => Hook::Postrouting,
            other => {
                return cursor.refuse_last_token(format!("weir does not attach chains to {other}"));
            }
        };
        let stands_for = table.iptables_table;
        let expected_kind = ChainKind::for_table_at_hook(stands_for, hook);
        if kind != expected_kind {
            // Packets are routed again in a chain of type route only.
            let (at, written) = (hook.chain_name(), kind.as_str());
            return cursor.refuse_last_token(format!(
                "a chain of type {written} is not what {stands_for} is at {at}: that is type {}",
                expected_kind.as_str()
            ));
        }
        if !cursor.take_keyword("priority") {
            return cursor.missing_token_error("priority");
        }
        let priority = match cursor.expect_word("a priority")? {
            "raw" => -300,
            "mangle" => -150,
            "dstnat" => -100,
            "filter" => 0,
            "security" => 50,
            "srcnat" => 100,
            number => match number.parse() {
                Ok(n) => n,
                Err(_) => {
                    return cursor
                        .refuse_last_token(format!("{number} is not a priority that weir uses"));
                }
            },
        };
        if !stands_for.hooks().contains(&hook) || priority != stands_for.priority(hook) {
            let at = hook.chain_name();
            return cursor
                .refuse_last_token(format!("{stands_for} has no chain at {at} of this priority"));
        }
        cursor.expect_token(NftToken::Semicolon, ";")?;
        let mut policy = Policy::Accept;
        if cursor.take_keyword("policy") {
            policy = match cursor.expect_word("a policy")? {
                "accept" => Policy::Accept,
                "drop" => Policy::Drop,
                other => return cursor.refuse_last_token(format!("{other} is not a policy")),
            };
            cursor.expect_token(NftToken::Semicolon, ";")?;
        }
        Ok(BaseChain { kind, hook, priority, policy })
    }
}

/// The load that represents all of its type.
fn representative_load_of_same_type(load: LoadExpression) -> LoadExpression {
    match load {
        LoadExpression::Daddr => LoadExpression::Saddr,
        LoadExpression::Dport => LoadExpression::Sport,
        LoadExpression::Oifname => LoadExpression::Iifname,
        other => other,
    }
}

fn parse_element_key_part(
    cursor: &mut NftTokenCursor<'_>,
    load: LoadExpression,
    interval: bool,
    family: Family,
) -> ParseResult<ElementKeyPart> {
    if load == LoadExpression::Iifname {
        return Ok(ElementKeyPart::Device(cursor.expect_quoted("a device name")?.into()));
    }
    let word = cursor.expect_word("a value")?;
    match value_parser::parse_value_interval(load, word, family) {
        Some((lo, hi)) if interval || lo == hi => Ok(ElementKeyPart::Span(lo, hi)),
        Some(_) => cursor.refuse_last_token("an interval in a map without `flags interval`"),
        None => cursor.refuse_last_token(format!("{word} is not a value of the map's key")),
    }
}
