//! The nearest of the known names, for «did you mean».

/// The one of `known` that `wrong` was probably meant to be.
pub(crate) fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Long texts are never misspelt names, and measuring them against thousands of names would take long.
    if wrong.len() > 128 {
        return None;
    }
    let lower = wrong.to_lowercase().replace('_', "-");
    let distance = |name: &str| strsim::damerau_levenshtein(&lower, &name.to_lowercase().replace('_', "-"));
    let (name, distance) = known.into_iter().map(|name| (name, distance(name))).min_by_key(|(_, d)| *d)?;
    (distance <= (wrong.len() / 3).max(1)).then_some(name)
}

/// «; did you mean 'x'?» or nothing.
pub(crate) fn did_you_mean<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(wrong, known).map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_and_strange_names() {
        let known = ["name", "mtu", "gateway", "gateway-addresses"];
        assert_eq!(nearest("mut", known), Some("mtu"));
        assert_eq!(nearest("gateway_addresses", known), Some("gateway-addresses"));
        assert_eq!(nearest("Name", known), Some("name"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(did_you_mean("gatewy", known), "; did you mean 'gateway'?");
    }
}
