//! What peers of other users may use up here, counted: a budget for each user and one for
//! all of them together.
//!
//! What is charged holds its [`Charges`], and gives them back by being dropped. So everything
//! is zero again when the links are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barewire_fabric::{Allowance, OverBudget, Violation};
use barewire_shm::counters::{CounterPage, HELD, QueueCounter, UserCounters};

use crate::config::Budget;
use crate::error::{Error, Misconduct};
use crate::log::{self, Level};

/// What is counted.
pub(crate) use barewire_shm::counters::Held as Resource;

const RESOURCES: usize = HELD.len();

/// The counters that show them of all users, in their order.
const COUNTERS: [QueueCounter; RESOURCES] = [
    QueueCounter::ForeignLinks,
    QueueCounter::ForeignConnections,
    QueueCounter::ForeignPrivateBytes,
    QueueCounter::ForeignMappings,
    QueueCounter::ForeignDescriptors,
    QueueCounter::ForeignEvents,
];

/// Names for errors, in their order: of one user, of all of them.
const NAMES: [[&str; 2]; RESOURCES] = [
    ["links with this user", "links with other users"],
    ["connections with this user", "connections with other users"],
    [
        "bytes of private memory for this user",
        "bytes of private memory for other users",
    ],
    ["mappings for this user", "mappings for other users"],
    ["descriptors for this user", "descriptors for other users"],
    [
        "events of this user that wait",
        "events of other users that wait",
    ],
];

impl From<OverBudget> for Error {
    fn from(OverBudget { what, limit }: OverBudget) -> Error {
        Error::LimitReached { what, limit }
    }
}

impl From<Violation> for Misconduct {
    fn from(violation: Violation) -> Misconduct {
        match violation {
            Violation::OverBudget(exceeded) => exceeded.into(),
            violation => Misconduct::Ring(violation),
        }
    }
}

impl From<OverBudget> for Misconduct {
    fn from(OverBudget { what, limit }: OverBudget) -> Misconduct {
        Misconduct::Exceeds { what, limit }
    }
}

/// The parts of a budget, in the order of [`Resource`].
fn in_order(budget: &Budget) -> [u64; RESOURCES] {
    [
        budget.links,
        budget.connections,
        budget.private_bytes,
        budget.mappings,
        budget.descriptors,
        budget.events,
    ]
}

/// How much of a budget is used.
#[derive(Debug)]
struct Used {
    limits: [AtomicU64; RESOURCES],
    used: [AtomicU64; RESOURCES],
}

impl Used {
    fn new(budget: &Budget) -> Used {
        Used {
            limits: in_order(budget).map(AtomicU64::new),
            used: Default::default(),
        }
    }

    /// From now on nothing is given beyond these; what is held stays.
    fn limit(&self, budget: &Budget) {
        for (limit, value) in self.limits.iter().zip(in_order(budget)) {
            // Relaxed: what is charged at the same time is by the one or the other.
            limit.store(value, Ordering::Relaxed);
        }
    }

    fn limit_of(&self, resource: Resource) -> u64 {
        // Relaxed: as above.
        self.limits[resource as usize].load(Ordering::Relaxed)
    }

    fn take(&self, resource: Resource, amount: u64) -> bool {
        let at = resource as usize;
        let limit = self.limit_of(resource);
        let more = |used: u64| {
            let sum = used.checked_add(amount)?;
            (sum <= limit).then_some(sum)
        };
        // Relaxed: a count; nothing is ordered by it.
        self.used[at]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn give(&self, resource: Resource, amount: u64) {
        // Relaxed: as above.
        self.used[resource as usize].fetch_sub(amount, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Account {
    uid: u32,
    own: Used,
    all: Arc<Used>,
    counters: CounterPage,
    /// Its own in the page, if that has room.
    shown: Option<UserCounters>,
}

/// The accounts of the users whose peers hold something here.
pub(crate) struct Accounts {
    of_one: Budget,
    all: Arc<Used>,
    counters: CounterPage,
    users: Vec<Arc<Account>>,
}

impl Accounts {
    pub fn new(of_one: &Budget, of_all: &Budget, counters: CounterPage) -> Accounts {
        Accounts {
            of_one: of_one.clone(),
            all: Arc::new(Used::new(of_all)),
            counters,
            users: Vec::new(),
        }
    }

    /// Sets other budgets. Who holds more keeps it, and gets nothing more.
    pub fn change(&mut self, of_one: &Budget, of_all: &Budget) {
        self.of_one = of_one.clone();
        self.all.limit(of_all);
        for account in &self.users {
            account.own.limit(of_one);
        }
    }

    /// Charges a user with all of `wanted`, or with nothing.
    pub fn charge(&mut self, uid: u32, wanted: &[(Resource, u64)]) -> Result<Charges, OverBudget> {
        let account = self.account(uid);
        let mut charges = Charges(Vec::with_capacity(wanted.len()));
        for &(resource, amount) in wanted {
            charges.0.push(Charge::new(&account, resource, amount)?);
        }
        Ok(charges)
    }

    /// Who pays for the messages in pieces of this user.
    pub fn allowance(&mut self, uid: u32) -> Arc<dyn Allowance> {
        self.account(uid)
    }

    fn account(&mut self, uid: u32) -> Arc<Account> {
        if let Some(known) = self.users.iter().find(|a| a.uid == uid) {
            return Arc::clone(known);
        }
        // Those who hold nothing any more.
        self.users.retain(|a| Arc::strong_count(a) > 1);
        let account = Arc::new(Account {
            uid,
            own: Used::new(&self.of_one),
            all: Arc::clone(&self.all),
            counters: self.counters.clone(),
            shown: self.counters.open_user(uid),
        });
        self.users.push(Arc::clone(&account));
        account
    }
}

impl Account {
    fn take(&self, resource: Resource, amount: u64) -> Result<(), OverBudget> {
        let at = resource as usize;
        for (nth, used) in [&self.own, &*self.all].into_iter().enumerate() {
            if !used.take(resource, amount) {
                if nth == 1 {
                    self.own.give(resource, amount);
                }
                let (what, limit) = (NAMES[at][nth], used.limit_of(resource));
                self.counters.add(QueueCounter::Refusals, 1);
                let uid = self.uid;
                log::line(Level::Warn, || {
                    format!("a request of user {uid} was refused: at most {limit} {what}")
                });
                return Err(OverBudget { what, limit });
            }
        }
        self.counters.add(COUNTERS[at], amount);
        if let Some(shown) = &self.shown {
            shown.add(resource, amount);
        }
        Ok(())
    }

    fn give(&self, resource: Resource, amount: u64) {
        // The counter first: what it shows is never beyond the budget.
        self.counters.sub(COUNTERS[resource as usize], amount);
        if let Some(shown) = &self.shown {
            shown.sub(resource, amount);
        }
        self.all.give(resource, amount);
        self.own.give(resource, amount);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // All is given back: what holds something has the account.
        if let Some(shown) = &self.shown {
            shown.close();
        }
    }
}

/// For messages that come in pieces.
impl Allowance for Account {
    fn take(&self, bytes: usize) -> Result<(), OverBudget> {
        self.take(Resource::PrivateBytes, bytes as u64)
    }

    fn give(&self, bytes: usize) {
        self.give(Resource::PrivateBytes, bytes as u64);
    }
}

struct Charge {
    account: Arc<Account>,
    resource: Resource,
    amount: u64,
}

impl Charge {
    fn new(account: &Arc<Account>, resource: Resource, amount: u64) -> Result<Charge, OverBudget> {
        account.take(resource, amount)?;
        Ok(Charge {
            account: Arc::clone(account),
            resource,
            amount,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.give(self.resource, self.amount);
    }
}

/// What something is charged with. Empty for peers of the node's own user.
#[derive(Default)]
pub(crate) struct Charges(Vec<Charge>);

impl Charges {
    /// Adds what it is charged with from now on, too.
    pub fn add(&mut self, more: Charges) {
        self.0.extend(more.0);
    }
}

#[cfg(test)]
mod tests {
    use barewire_shm::Region;
    use barewire_shm::counters::{CounterView, Identity, page_bytes};
    use proptest::prelude::*;

    use super::*;

    const ALL: [Resource; RESOURCES] = [
        Resource::Links,
        Resource::Connections,
        Resource::PrivateBytes,
        Resource::Mappings,
        Resource::Descriptors,
        Resource::Events,
    ];

    fn budget(each: u64) -> Budget {
        Budget {
            links: each,
            connections: each,
            private_bytes: each,
            mappings: each,
            descriptors: each,
            events: each,
        }
    }

    #[test]
    fn other_budgets_hold_for_what_comes_next() {
        let region = Region::private(page_bytes(1));
        let identity = Identity {
            pid: 1,
            uid: 2,
            started_ns: 3,
            node_id: [4, 5],
        };
        let page = CounterPage::create(&region, 1, identity).unwrap();
        let mut accounts = Accounts::new(&budget(5), &budget(9), page);
        let held = accounts.charge(7, &[(Resource::Links, 5)]).unwrap();
        accounts.change(&budget(3), &budget(9));
        let refused = accounts.charge(7, &[(Resource::Links, 1)]).err();
        assert_eq!(refused.map(|over| over.limit), Some(3));
        drop(held);
        assert!(accounts.charge(7, &[(Resource::Links, 3)]).is_ok());
        accounts.change(&budget(30), &budget(20));
        assert!(accounts.charge(8, &[(Resource::Links, 20)]).is_ok());
        assert!(accounts.charge(8, &[(Resource::Links, 21)]).is_err());
    }

    proptest! {
        #[test]
        fn no_budget_is_exceeded_and_all_comes_back(
            steps in proptest::collection::vec((0..4_u32, 0..6_usize, 0..30_u64, any::<bool>()), 0..200)
        ) {
            let region = Region::private(page_bytes(1));
            let identity = Identity { pid: 1, uid: 2, started_ns: 3, node_id: [4, 5] };
            let page = CounterPage::create(&region, 1, identity).unwrap();
            let view = CounterView::open(&region).unwrap();
            let mut accounts = Accounts::new(&budget(50), &budget(120), page);
            let mut held: Vec<(u32, usize, u64, Charges)> = Vec::new();
            for (uid, at, amount, gives_back) in steps {
                if gives_back && !held.is_empty() {
                    held.swap_remove(at % held.len());
                }
                let of = |held: &[(u32, usize, u64, Charges)], user: Option<u32>| -> u64 {
                    let same = held.iter().filter(|h| h.1 == at && user.is_none_or(|u| u == h.0));
                    same.map(|h| h.2).sum()
                };
                let fits = of(&held, Some(uid)) + amount <= 50 && of(&held, None) + amount <= 120;
                let charged = accounts.charge(uid, &[(ALL[at], amount)]);
                prop_assert_eq!(charged.is_ok(), fits);
                if let Ok(charges) = charged {
                    held.push((uid, at, amount, charges));
                }
                prop_assert_eq!(view.queue_counter(COUNTERS[at]), of(&held, None));
                for user in view.users() {
                    prop_assert_eq!(user.held[at], of(&held, Some(user.uid)));
                }
            }
            held.clear();
            for counter in COUNTERS {
                prop_assert_eq!(view.queue_counter(counter), 0);
            }
            drop(accounts);
            prop_assert!(view.users().is_empty());
        }
    }
}
