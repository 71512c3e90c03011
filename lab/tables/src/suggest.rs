//! What somebody may have meant who wrote a name that is not there.

/// The known names that are nearest to `name`, the nearest first: those with the same last
/// part, and those that a slip or two make out of it.
fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let last = |text: &str| text.rsplit('.').next().map(str::to_lowercase);
    let slips_max = (name.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .filter_map(|known| {
            let plain = known.trim_matches(['[', ']']);
            let slips = strsim::damerau_levenshtein(&name.to_lowercase(), &plain.to_lowercase());
            match last(name) == last(plain) {
                true => Some((0, known)),
                false => (slips <= slips_max).then_some((slips, known)),
            }
        })
        .collect();
    found.sort_by_key(|(slips, _)| *slips);
    found.into_iter().map(|(_, known)| known).take(3).collect()
}

/// `did you mean ...?` if anything is near, or else all that is known.
pub(crate) fn expected<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let near = near(name, known.clone().into_iter());
    if !near.is_empty() {
        let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        return format!("did you mean {}?", quoted.join(" or "));
    }
    let known: Vec<&str> = known.into_iter().collect();
    match known.is_empty() {
        true => "there are none".to_owned(),
        false => format!("expected one of: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 4] = [
        "ring.line_rate",
        "driver.wake",
        "driver.interrupt",
        "loaders",
    ];

    #[test]
    fn slips_and_left_out_tables_are_seen_through() {
        for (name, meant) in [
            ("driver.wkae", "did you mean `driver.wake`?"),
            ("wake", "did you mean `driver.wake`?"),
            ("host.wake", "did you mean `driver.wake`?"),
            ("Loaders", "did you mean `loaders`?"),
            ("loader", "did you mean `loaders`?"),
        ] {
            assert_eq!(expected(name, KEYS), meant, "{name}");
        }
    }

    #[test]
    fn what_is_like_nothing_gets_the_whole_list() {
        assert_eq!(
            expected("colour", KEYS),
            "expected one of: ring.line_rate, driver.wake, driver.interrupt, loaders"
        );
        assert_eq!(expected("x", []), "there are none");
    }
}
