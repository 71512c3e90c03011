//! The task that polls a node for all who wait: it hands each event to whom it is for.
//!
//! A task that found nothing leaves its waker here and tries once more; the driver, told by
//! the node that the connection is worth a try, wakes it. No message passes through here:
//! whoever is woken takes it from the ring, so a future that is dropped loses nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::sync::Notify;
use ::tokio::task::{AbortHandle, yield_now};

use crate::error::{Error, Result};
use crate::handles::connection::Connection;
use crate::handles::event::Event;
use crate::handles::id::ConnectionId;
use crate::handles::node::Node;
use crate::handles::request::Request;

/// Events that wait for [`Events`](super::Events): then the node is not polled any more.
pub(crate) const EVENTS_MAX: usize = 1024;
/// Events taken from the node at a time, between which other tasks run.
const EVENTS_PER_TURN: usize = 64;

/// What a task waits for at a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    ToReceive,
    ToSend,
}

#[derive(Default)]
struct Wakers {
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

/// What became of a connection that was begun.
enum Opening {
    Waits(Option<Waker>),
    Done(Result<Box<Connection>>),
}

#[derive(Default)]
struct Tables {
    /// By the number of the connection.
    wakers: Vec<Wakers>,
    openings: HashMap<ConnectionId, Opening>,
    requests: VecDeque<Request>,
    /// The other events, if somebody takes them.
    others: Option<VecDeque<Event>>,
    /// Why nothing will be told any more.
    down: Option<Error>,
}

/// What the driver and those who wait share.
pub(crate) struct Hub {
    tables: Mutex<Tables>,
    request_came: Notify,
    other_came: Notify,
    other_taken: Notify,
}

impl Hub {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out what the node had. What nobody wants is dropped, and tasks are woken, when
    /// the tables are free again: both may come back here.
    fn dispatch(&self, events: &mut Vec<Event>, wakers: &mut Vec<Waker>) {
        let (mut unwanted, mut unwanted_openings) = (Vec::new(), Vec::new());
        let mut tables = self.tables();
        for event in events.drain(..) {
            match event {
                Event::Ready(id) => tables.wake(id, wakers),
                Event::Request(request) => {
                    tables.requests.push_back(request);
                    self.request_came.notify_one();
                }
                Event::Connected(connection) => {
                    let id = connection.id();
                    unwanted_openings.extend(tables.opened(id, Ok(connection), wakers));
                }
                Event::ConnectFailed { connection, error } => {
                    unwanted_openings.extend(tables.opened(connection, Err(error), wakers));
                }
                other => {
                    if let Event::Closed { connection, .. } = &other {
                        tables.wake(*connection, wakers);
                    }
                    match &mut tables.others {
                        Some(others) => {
                            others.push_back(other);
                            self.other_came.notify_one();
                        }
                        None => unwanted.push(other),
                    }
                }
            }
        }
        drop(tables);
        drop((unwanted, unwanted_openings));
        wakers.drain(..).for_each(Waker::wake);
    }

    /// Waits while too many events have not been taken.
    async fn room_for_events(&self) {
        loop {
            let taken = self.other_taken.notified();
            let waiting = self.tables().others.as_ref().map_or(0, VecDeque::len);
            if waiting < EVENTS_MAX {
                return;
            }
            taken.await;
        }
    }

    /// Nothing more will come.
    fn end(&self, why: Error) {
        let mut tables = self.tables();
        tables.down.get_or_insert(why);
        let wakers = core::mem::take(&mut tables.wakers);
        let mut opening = Vec::new();
        for waiting in tables.openings.values_mut() {
            if let Opening::Waits(waker) = waiting {
                opening.extend(waker.take());
            }
        }
        drop(tables);
        let both = |w: Wakers| [w.receiver, w.sender];
        let all = wakers.into_iter().flat_map(both).flatten().chain(opening);
        all.for_each(Waker::wake);
        self.request_came.notify_waiters();
        self.other_came.notify_waiters();
    }
}

impl Tables {
    fn wake(&mut self, id: ConnectionId, into: &mut Vec<Waker>) {
        if let Some(wakers) = self.wakers.get_mut(id.index()) {
            into.extend(wakers.receiver.take());
            into.extend(wakers.sender.take());
        }
    }

    /// A connection stands or not; given back if nobody waits for it any more.
    fn opened(
        &mut self,
        id: ConnectionId,
        result: Result<Box<Connection>>,
        into: &mut Vec<Waker>,
    ) -> Option<Result<Box<Connection>>> {
        match self.openings.get_mut(&id) {
            Some(opening) => {
                if let Opening::Waits(waker) = opening {
                    into.extend(waker.take());
                }
                *opening = Opening::Done(result);
                None
            }
            None => Some(result),
        }
    }

    fn check(&self) -> Result<()> {
        self.down.clone().map_or(Ok(()), Err)
    }
}

/// A running driver: it ends with the last that holds this.
pub(crate) struct Driver {
    pub node: Node,
    hub: Arc<Hub>,
    task: AbortHandle,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Driver {
    /// Begins to drive a node, in the runtime that we are in. `collect`: whether events
    /// other than those of connections and requests are kept.
    pub fn start(node: Node, collect: bool) -> Result<Arc<Driver>> {
        let Ok(runtime) = ::tokio::runtime::Handle::try_current() else {
            return Err(Error::NoRuntime);
        };
        let hub = Arc::new(Hub {
            tables: Mutex::new(Tables {
                others: collect.then(VecDeque::new),
                ..Tables::default()
            }),
            request_came: Notify::new(),
            other_came: Notify::new(),
            other_taken: Notify::new(),
        });
        #[allow(
            deprecated,
            reason = "its successor is unsafe: one promises that the descriptor stays what it \
                      is, and that of a node does"
        )]
        let readable = AsyncFd::with_interest(node.clone(), Interest::READABLE)
            .map_err(|_| Error::NoRuntime)?;
        let ending = Ending(Arc::clone(&hub));
        let task = runtime.spawn(async move {
            let why = drive(&ending.0, &readable).await;
            ending.0.end(why);
        });
        Ok(Arc::new(Driver {
            node,
            hub,
            task: task.abort_handle(),
        }))
    }

    /// Tries until there is something; the task is woken when it is worth another try.
    pub fn poll_with<T>(
        &self,
        context: &mut Context<'_>,
        id: ConnectionId,
        wanted: Wanted,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Poll<Result<T>> {
        // A task that always finds something lets others run now and then.
        let turn = core::task::ready!(::tokio::task::coop::poll_proceed(context));
        let mut found = attempt();
        if matches!(found, Ok(None)) {
            if let Err(error) = self.await_readiness(id, wanted, context.waker()) {
                turn.made_progress();
                return Poll::Ready(Err(error));
            }
            // What came before the waker was there woke nobody.
            found = attempt();
        }
        let found = found.transpose();
        if found.is_some() {
            turn.made_progress();
        }
        found.map_or(Poll::Pending, Poll::Ready)
    }

    fn await_readiness(&self, id: ConnectionId, wanted: Wanted, waker: &Waker) -> Result<()> {
        let mut tables = self.hub.tables();
        tables.check()?;
        let at = id.index();
        if tables.wakers.len() <= at {
            tables.wakers.resize_with(at + 1, Wakers::default);
        }
        let place = match wanted {
            Wanted::ToReceive => &mut tables.wakers[at].receiver,
            Wanted::ToSend => &mut tables.wakers[at].sender,
        };
        match place {
            Some(known) => known.clone_from(waker),
            None => *place = Some(waker.clone()),
        }
        Ok(())
    }

    /// Nobody waits at this connection any more: its number may soon be another's.
    pub fn forget(&self, id: ConnectionId) {
        let mut tables = self.hub.tables();
        let wakers = tables.wakers.get_mut(id.index()).map(core::mem::take);
        drop(tables);
        drop(wakers);
    }

    /// Begins a connection whose answer is kept until it is asked for. `begin` gives its
    /// number; no answer is handed out before we have that.
    pub fn begin_opening(
        &self,
        begin: impl FnOnce() -> Result<ConnectionId>,
    ) -> Result<ConnectionId> {
        let mut tables = self.hub.tables();
        tables.check()?;
        let id = begin()?;
        tables.openings.insert(id, Opening::Waits(None));
        Ok(id)
    }

    /// The answer to a connection that was begun, once.
    pub fn poll_opened(
        &self,
        context: &mut Context<'_>,
        id: ConnectionId,
    ) -> Poll<Result<Connection>> {
        let mut tables = self.hub.tables();
        let down = tables.check();
        match (tables.openings.remove(&id), down) {
            (Some(Opening::Done(result)), _) => Poll::Ready(result.map(|connection| *connection)),
            (_, Err(error)) => Poll::Ready(Err(error)),
            (_, Ok(())) => {
                let waits = Opening::Waits(Some(context.waker().clone()));
                tables.openings.insert(id, waits);
                Poll::Pending
            }
        }
    }

    /// Nobody waits for this answer any more.
    pub fn give_up_opening(&self, id: ConnectionId) {
        let opening = self.hub.tables().openings.remove(&id);
        if let Some(Opening::Waits(_)) = opening {
            self.node.cancel_connect(id);
        }
    }

    /// The next request to connect.
    pub async fn next_request(&self) -> Result<Request> {
        loop {
            let came = self.hub.request_came.notified();
            {
                let mut tables = self.hub.tables();
                if let Some(request) = tables.requests.pop_front() {
                    return Ok(request);
                }
                tables.check()?;
            }
            came.await;
        }
    }

    /// The next event of those that are collected.
    pub async fn next_other(&self) -> Result<Event> {
        loop {
            let came = self.hub.other_came.notified();
            {
                let mut tables = self.hub.tables();
                if let Some(event) = tables.others.as_mut().and_then(VecDeque::pop_front) {
                    self.hub.other_taken.notify_one();
                    return Ok(event);
                }
                tables.check()?;
            }
            came.await;
        }
    }

    /// Nobody takes the other events any more.
    pub fn stop_collecting(&self) {
        let others = self.hub.tables().others.take();
        self.hub.other_taken.notify_one();
        drop(others);
    }
}

/// Says that nothing more will come, also when the runtime drops the task.
struct Ending(Arc<Hub>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(Error::NoRuntime);
    }
}

/// Polls the node for ever; returns why it can not be polled any more.
async fn drive(hub: &Hub, readable: &AsyncFd<Node>) -> Error {
    let (mut events, mut wakers) = (Vec::with_capacity(EVENTS_PER_TURN), Vec::new());
    loop {
        match readable.get_ref().poll(&mut events, EVENTS_PER_TURN) {
            Err(error) => return error,
            // That poll is what makes the descriptor readable with the next event.
            Ok(0) => match readable.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return Error::NoRuntime,
            },
            Ok(_) => {
                hub.dispatch(&mut events, &mut wakers);
                hub.room_for_events().await;
                // Those who were woken run before we look again.
                yield_now().await;
            }
        }
    }
}
