//! Which file of a crate imports which: the modules of a library or program as
//! its `mod` declarations name them, and the paths that each file writes, each
//! followed through re-exports to the file that defines what is named.
//!
//! A parent that only declares its child, or passes on its names, does not import it.
//! What a macro makes, and what methods of another file's `impl` block do, is not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::lex::{Lexed, after_attributes};
use super::tokens::{Token, tokens};
use super::tree::{Source, Tree};

/// How many re-exports of re-exports are followed.
const HOPS_MAX: usize = 16;

/// One file names something of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The line of `from`, counted from 1.
    pub(crate) line: usize,
}

/// The files of one library or program.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The file of its root.
    pub(crate) root: String,
    /// Its files, the root among them.
    pub(crate) files: Vec<String>,
    /// The first import of each pair of files, in order.
    pub(crate) imports: Vec<Import>,
}

/// A module: a file, or a block inside one.
#[derive(Debug, Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// What `use` brings in, by the name that it has here.
    names: BTreeMap<String, Vec<String>>,
    /// The modules of which `use` brings in everything.
    globs: Vec<Vec<String>>,
    /// The items that are defined here.
    items: BTreeSet<String>,
}

/// A path that a file writes.
#[derive(Debug)]
struct Mention {
    module: usize,
    path: Vec<String>,
    line: usize,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// `use path as name;`, for others too if it is public.
    Use { name: String, is_public: bool },
    /// `path!(..)`.
    Macro,
    /// A path in the code.
    Path,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Module(usize),
    /// Something in this module's file.
    Item(usize),
}

#[derive(Default)]
struct Builder {
    files: Vec<String>,
    modules: Vec<Module>,
    mentions: Vec<Mention>,
    /// For each file the identifiers in its code, less `use`, fields and methods.
    words: Vec<BTreeSet<String>>,
    /// The files that define a macro of a name.
    macros: BTreeMap<String, BTreeSet<usize>>,
}

impl Graph {
    /// Reads the files that the root at `root` declares, and theirs.
    pub(crate) fn of(tree: &Tree, root: &str) -> Self {
        let mut builder = Builder::default();
        builder.add_file(tree, root, None);
        Self {
            root: root.to_owned(),
            imports: builder.imports(),
            files: builder.files,
        }
    }
}

impl Builder {
    /// Adds a file and what it declares; gives its module.
    fn add_file(&mut self, tree: &Tree, path: &str, parent: Option<usize>) -> usize {
        let file = self.files.len();
        self.files.push(path.to_owned());
        self.words.push(BTreeSet::new());
        let module = self.add_module(file, parent);
        let Some(Source { lexed, .. }) = tree.source(path) else {
            return module;
        };
        let text = tree.text(path).unwrap_or_default();
        let declared = Reader {
            builder: self,
            tokens: &tokens(lexed),
            at: 0,
            depth: 0,
            open: vec![(module, 0)],
            declared: Vec::new(),
        }
        .read();
        for Declared { module, name, line } in declared {
            let folders = self.folders_of(module, parent.is_none());
            let found = match path_attribute(text, lexed, line) {
                Some(named) => vec![join(folder_of(path), named)],
                None => vec![
                    join(&folders, &format!("{name}.rs")),
                    join(&folders, &format!("{name}/mod.rs")),
                ],
            };
            if let Some(found) = found.iter().find(|path| tree.text(path).is_some()) {
                let child = self.add_file(tree, found, Some(module));
                self.modules[module].children.entry(name).or_insert(child);
            }
        }
        module
    }

    fn add_module(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    /// The folder in which the files of the children of `module` lie.
    fn folders_of(&self, module: usize, is_root: bool) -> String {
        let Module { file, parent, .. } = self.modules[module];
        if let Some(parent) = parent.filter(|&parent| self.modules[parent].file == file) {
            let name = self.modules[parent]
                .children
                .iter()
                .find(|&(_, &child)| child == module)
                .map_or("", |(name, _)| name);
            return join(&self.folders_of(parent, is_root), name);
        }
        let path = &self.files[file];
        match path.rsplit_once('/') {
            Some((folder, name)) if is_root || name == "mod.rs" => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        }
    }

    /// What `name` is in `module`.
    fn look_up(&self, module: usize, name: &str, hops: usize) -> Option<Place> {
        let here = &self.modules[module];
        if let Some(&child) = here.children.get(name) {
            return Some(Place::Module(child));
        }
        self.look_up_item(module, name, hops)
    }

    /// As [`Self::look_up`], but the name is no module's: it is called, or a type.
    fn look_up_item(&self, module: usize, name: &str, hops: usize) -> Option<Place> {
        let here = &self.modules[module];
        if here.items.contains(name) {
            return Some(Place::Item(module));
        }
        let hops = hops.checked_sub(1)?;
        if let Some(path) = here.names.get(name) {
            return self.resolve(module, path, hops);
        }
        here.globs.iter().find_map(|path| {
            let Some(Place::Module(of)) = self.resolve(module, path, hops) else {
                return None;
            };
            (of != module)
                .then(|| self.look_up(of, name, hops))
                .flatten()
        })
    }

    /// Where `path`, written in `module`, leads; nothing if out of this crate.
    fn resolve(&self, module: usize, path: &[String], hops: usize) -> Option<Place> {
        let mut at = module;
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                while let Some(parent) = self.modules[at].parent {
                    at = parent;
                }
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at = self.modules[at].parent?;
                    rest = &rest[1..];
                }
            }
            first => match self.look_up(at, first, hops)? {
                Place::Module(found) => {
                    at = found;
                    rest = &rest[1..];
                }
                item @ Place::Item(_) => return Some(item),
            },
        }
        for name in rest {
            match self.look_up(at, name, hops) {
                Some(Place::Module(found)) => at = found,
                Some(item) => return Some(item),
                // Something that is not seen here, or another crate's that is passed on.
                None => return Some(Place::Item(at)),
            }
        }
        Some(Place::Module(at))
    }

    fn target_of(&self, mention: &Mention) -> Option<usize> {
        let (last, before) = mention.path.split_last()?;
        if mention.kind == Kind::Macro {
            let defined = self.macros.get(last)?;
            let own = self.modules[mention.module].file;
            return defined.get(&own).or(defined.first()).copied();
        }
        // The last name of a path in the code is a type, a value or a function.
        if let (Kind::Path, Some(Place::Module(module))) = (
            &mention.kind,
            self.resolve(mention.module, before, HOPS_MAX),
        ) {
            if let Some(Place::Item(found) | Place::Module(found)) =
                self.look_up_item(module, last, HOPS_MAX)
            {
                return Some(self.modules[found].file);
            }
        }
        let (Place::Module(found) | Place::Item(found)) =
            self.resolve(mention.module, &mention.path, HOPS_MAX)?;
        Some(self.modules[found].file)
    }

    /// Whether the file `child` is a module of the file `parent`, or of one of its modules.
    fn is_below(&self, child: usize, parent: usize) -> bool {
        let mut at = self.modules.iter().position(|m| m.file == child);
        while let Some(module) = at {
            if self.modules[module].file == parent {
                return true;
            }
            at = self.modules[module].parent;
        }
        false
    }

    fn imports(&self) -> Vec<Import> {
        let mut first: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for mention in &self.mentions {
            let from = self.modules[mention.module].file;
            let Some(to) = self.target_of(mention).filter(|&to| to != from) else {
                continue;
            };
            if let Kind::Use { name, is_public } = &mention.kind {
                let is_used = self.words[from].contains(name);
                if *is_public && !is_used && self.is_below(to, from) {
                    continue;
                }
            }
            let line = first.entry((from, to)).or_insert(mention.line);
            *line = mention.line.min(*line);
        }
        let mut imports: Vec<_> = first
            .into_iter()
            .map(|((from, to), line)| Import {
                from: self.files[from].clone(),
                to: self.files[to].clone(),
                line: line + 1,
            })
            .collect();
        imports.sort();
        imports
    }
}

/// `mod name;`
struct Declared {
    module: usize,
    name: String,
    line: usize,
}

/// Reads the tokens of one file into a [`Builder`].
struct Reader<'a> {
    builder: &'a mut Builder,
    tokens: &'a [Token],
    at: usize,
    /// How many braces are open.
    depth: usize,
    /// The modules that are open, each with the braces that were open before it.
    open: Vec<(usize, usize)>,
    declared: Vec<Declared>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens
            .get(self.at + ahead)
            .map_or("", |token| &token.text)
    }

    /// The token before the present one.
    fn before(&self) -> &str {
        match self.at.checked_sub(1) {
            Some(before) => &self.tokens[before].text,
            None => "",
        }
    }

    /// The module that is open here, and whether no item of it is.
    fn module(&self) -> (usize, bool) {
        let &(module, depth) = self.open.last().expect("the file's own module");
        let is_inline = self.open.len() > 1;
        (module, self.depth == depth + usize::from(is_inline))
    }

    fn read(mut self) -> Vec<Declared> {
        while let Some(token) = self.tokens.get(self.at) {
            match token.text.as_str() {
                "{" => self.depth += 1,
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.open.len() > 1
                        && self
                            .open
                            .last()
                            .is_some_and(|&(_, depth)| depth == self.depth)
                    {
                        self.open.pop();
                    }
                }
                "mod" => self.read_module(),
                "pub" => {
                    self.skip_visibility();
                    continue;
                }
                "use" if self.peek(1) != "<" => {
                    self.read_use();
                    continue;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "const" | "static" | "type" => {
                    self.read_item();
                }
                "macro_rules" => self.read_macro(),
                _ if token.is_identifier() || token.is("::") => {
                    self.read_path();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.declared
    }

    /// `mod name;` or `mod name {`, at `mod`; ends before the `;` or `{`.
    fn read_module(&mut self) {
        let name = self.peek(1).to_owned();
        let (module, _) = self.module();
        let line = self.tokens[self.at].line;
        match self.peek(2) {
            ";" => self.declared.push(Declared { module, name, line }),
            "{" => {
                let file = self.builder.modules[module].file;
                let child = self.builder.add_module(file, Some(module));
                self.builder.modules[module].children.insert(name, child);
                self.open.push((child, self.depth));
            }
            _ => return,
        }
        self.at += 1;
    }

    /// `pub`, `pub(crate)`, `pub(in path)`.
    fn skip_visibility(&mut self) {
        let is_restricted = self.peek(1) == "("
            && (self.peek(2) == "in"
                || matches!(self.peek(2), "crate" | "super" | "self") && self.peek(3) == ")");
        self.at += 1;
        if is_restricted {
            while !matches!(self.peek(0), ")" | "") {
                self.at += 1;
            }
            self.at += 1;
        }
    }

    /// An item at its keyword: notes its name.
    fn read_item(&mut self) {
        let (module, is_outermost) = self.module();
        // `*const T` and `<const N: usize>` are no items.
        if !is_outermost || matches!(self.before(), "*" | "<" | ",") {
            return;
        }
        let mut ahead = 1;
        while matches!(self.peek(ahead), "mut" | "unsafe" | "async" | "extern") {
            ahead += 1;
        }
        let is_name = self
            .tokens
            .get(self.at + ahead)
            .is_some_and(Token::is_identifier);
        if is_name && self.peek(ahead) != "fn" {
            let name = self.peek(ahead).to_owned();
            self.builder.modules[module].items.insert(name);
        }
    }

    fn read_macro(&mut self) {
        let (module, _) = self.module();
        if self.peek(1) == "!" {
            let file = self.builder.modules[module].file;
            let name = self.peek(2).to_owned();
            self.builder.macros.entry(name).or_default().insert(file);
        }
    }

    fn read_use(&mut self) {
        let (module, is_outermost) = self.module();
        let is_public = is_outermost && matches!(self.before(), "pub" | ")");
        let line = self.tokens[self.at].line;
        self.at += 1;
        let mut leaves = Vec::new();
        self.read_use_tree(&[], &mut leaves);
        for (path, name) in leaves {
            if path.is_empty() {
                continue;
            }
            let here = &mut self.builder.modules[module];
            if name == "*" {
                here.globs.push(path.clone());
            } else if name != "_" && path != [name.as_str()] {
                here.names.entry(name.clone()).or_insert(path.clone());
            }
            self.builder.mentions.push(Mention {
                module,
                path,
                line,
                kind: Kind::Use { name, is_public },
            });
        }
    }

    /// A tree of `use` behind `prefix`; ends behind it.
    fn read_use_tree(&mut self, prefix: &[String], leaves: &mut Vec<(Vec<String>, String)>) {
        let mut path = prefix.to_vec();
        // `::name` is another crate's: it stays, and leads nowhere.
        if self.peek(0) == "::" && prefix.is_empty() {
            path.push("::".to_owned());
            self.at += 1;
        }
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.read_use_tree(&path, leaves);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    leaves.push((path, "*".to_owned()));
                    return;
                }
                // Of a macro: `$crate`, or a name that is filled in.
                "$" => self.at += 1,
                "self" if !prefix.is_empty() && path.len() == prefix.len() => {
                    self.at += 1;
                }
                name if self.tokens.get(self.at).is_some_and(Token::is_identifier) => {
                    path.push(name.to_owned());
                    self.at += 1;
                }
                _ => {
                    // Nothing that this knows: not to stand still.
                    self.at += 1;
                    return;
                }
            }
            match self.peek(0) {
                "::" => self.at += 1,
                "as" => {
                    let name = self.peek(1).to_owned();
                    self.at += 2;
                    leaves.push((path, name));
                    return;
                }
                "," | "}" | ";" | "" => {
                    let name = path.last().cloned().unwrap_or_default();
                    leaves.push((path, name));
                    return;
                }
                _ => {}
            }
        }
    }

    /// A path in the code; ends behind it.
    fn read_path(&mut self) {
        let (module, _) = self.module();
        let line = self.tokens[self.at].line;
        let before = self.before().to_owned();
        let mut path = Vec::new();
        if self.peek(0) == "::" {
            // Behind `>` a name of a type's; else another crate's.
            path.push("::".to_owned());
            self.at += 1;
        }
        while self.tokens.get(self.at).is_some_and(Token::is_identifier) {
            path.push(self.peek(0).to_owned());
            self.at += 1;
            if self.peek(0) != "::" {
                break;
            }
            let goes_on = self
                .tokens
                .get(self.at + 1)
                .is_some_and(Token::is_identifier);
            if !goes_on {
                break;
            }
            self.at += 1;
        }
        let Some(first) = path.first().cloned() else {
            return;
        };
        if first == "::" {
            return;
        }
        if before != "." {
            let (module, _) = self.module();
            let file = self.builder.modules[module].file;
            self.builder.words[file].insert(first);
        }
        let is_macro = self.peek(0) == "!" && matches!(self.peek(1), "(" | "[" | "{");
        if before == "." || path.len() < 2 && !is_macro {
            return;
        }
        let kind = if is_macro { Kind::Macro } else { Kind::Path };
        self.builder.mentions.push(Mention {
            module,
            path,
            line,
            kind,
        });
    }
}

fn join(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// What `#[path = "…"]` above the declaration at `line` says.
fn path_attribute<'a>(text: &'a str, lexed: &Lexed, line: usize) -> Option<&'a str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut at = line;
    loop {
        let code = lexed.lines[at].code.trim();
        let is_attribute = lexed.lines[at].is_attribute();
        if is_attribute && code.contains("[path") {
            return lines.get(at)?.split('"').nth(1);
        }
        // The declaration itself, and attributes and comments above it.
        let goes_on = at == line
            || is_attribute && after_attributes(code).is_empty()
            || lexed.lines[at].is_only_comment();
        at = at.checked_sub(1)?;
        if !goes_on {
            return None;
        }
    }
}
