//! Suites: their cases, and how they are run over a fabric.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::fabric::FabricUnderTest;

/// One case of a suite.
pub struct Case {
    /// What it checks.
    pub name: &'static str,
    /// Panics if the fabric is wrong.
    pub run: fn(),
}

/// Makes `cases` of functions that are generic over a fabric.
macro_rules! cases {
    ($(#[$doc:meta])* $name:ident for $bound:ident: $($case:ident),* $(,)?) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name<F: crate::fabric::$bound>() -> Vec<crate::suite::Case> {
            vec![$(crate::suite::Case { name: stringify!($case), run: $case::<F> }),*]
        }
    };
}
pub(crate) use cases;

/// Runs a suite and returns the names of the cases that failed.
#[must_use]
pub fn failures(cases: &[Case]) -> Vec<&'static str> {
    assert!(!cases.is_empty(), "a suite without cases checks nothing");
    let failed = |case: &&Case| {
        let failed = catch_unwind(AssertUnwindSafe(case.run)).is_err();
        if failed {
            eprintln!("FAILED: {}", case.name);
        }
        failed
    };
    cases.iter().filter(failed).map(|case| case.name).collect()
}

/// Runs a suite over a fabric.
///
/// # Panics
/// If a case fails; names all that did.
pub fn check<F: FabricUnderTest>(cases: &[Case]) {
    let failed = failures(cases);
    assert!(failed.is_empty(), "{} fails: {failed:?}", F::NAME);
}

/// Checks that a suite rejects a fabric, by this case. Only that case runs: in others a
/// broken fabric may well hang.
///
/// # Panics
/// If it does not.
pub fn must_fail<F: FabricUnderTest>(cases: &[Case], case: &str) {
    let found = cases.iter().find(|c| c.name == case);
    let found = found.unwrap_or_else(|| panic!("no case `{case}`"));
    let rejected = !failures(std::slice::from_ref(found)).is_empty();
    assert!(rejected, "{}: `{case}` does not see what is wrong", F::NAME);
}
