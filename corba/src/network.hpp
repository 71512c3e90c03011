// The network of one process: its one Barewire node, who waits for its events, and the links to other processes.
// Nothing in here knows of omniORB.
//
// Who waits. Threads of the ORB wait for their link, or for any of many. One of them, the leader, waits for the events
// of the node; the others wait until the leader has something for them. When the leader leaves, it wakes the next one.
// So a single waiting thread is woken by the kernel without a detour. A thread polls for a while before it waits at all.
//
// Who leads. A thread that waits for what its link receives takes the lead from one that only watches, so that the kernel
// wakes it, and not first the other one. It mostly comes back soon, when it has answered a call. So it does not wake a
// watching thread at once when it leaves: that one follows it by itself, a short time later, unless it has come back.
//
// Locks, in the order in which they are taken: Watcher::telling, a lock of omniORB, Link::reading or Link::writing,
// Network::lock. No call of omniORB is made under the last one.

#ifndef BAREWIRE_CORBA_NETWORK_HPP
#define BAREWIRE_CORBA_NETWORK_HPP

#include <barewire.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace barewire_corba {

using Clock = std::chrono::steady_clock;
// A point in time to wait until; none: as long as it takes.
using Deadline = std::optional<Clock::time_point>;
using Held = std::unique_lock<std::mutex>;

// A thread that waits at the network. All of it is under Network::lock.
class Waiter {
  public:
    // watches: it waits for what others will do, and can be woken at a later time.
    explicit Waiter(bool watches);
    ~Waiter();
    Waiter(const Waiter &) = delete;
    Waiter &operator=(const Waiter &) = delete;

    // Waits until it is notified, or the deadline. It may return without either.
    void wait(Held &held, Deadline deadline);
    void notify();
    // As `notify`, after this time, unless that is called off before. At once if there is no timer.
    void notify_after(std::chrono::nanoseconds time);
    void call_off();

    bool watches() const { return timer_ >= 0; }

  private:
    void set_timer(std::chrono::nanoseconds time);

    std::condition_variable woken_;
    // What a watching thread sleeps on; -1: there is none.
    int timer_ = -1;
    bool is_notified_ = false;
};

class Link;
class Network;

// What links are watched by together: those of one endpoint, or all that this process has opened.
class Watcher {
  public:
    explicit Watcher(Network &network) : network(network) {}

    Network &network;
    // Held while the ORB is told of a link, and while links are looked at for that.
    std::mutex telling;

    // All that follows is under Network::lock.
    Waiter waiter{true};
    // All links that belong here.
    std::set<Link *> links;
    // Those that are to be looked at.
    std::deque<Link *> to_look_at;
    // Requests to connect that nobody has taken yet.
    std::deque<bw_request> requests;
    // The thread that watches is to come back.
    bool is_poked = false;
    // When links are looked at that are to be watched, but not at once. Not set: there was none for long.
    std::optional<Clock::time_point> next_scan;
    // Scans in a row that found no such link.
    int idle_scans = 0;
};

// How long to poll before waiting, learnt from how it went.
class Patience {
  public:
    Patience();
    int64_t polls_ns() const { return polls_ns_; }
    // What was waited for came while it was polled.
    void rewarded();
    // It came later, or not at all.
    void wasted(std::chrono::nanoseconds waited);

  private:
    int64_t polls_ns_;
};

// A byte stream to another process.
class Link {
  public:
    Link(Network &network, std::shared_ptr<Watcher> watcher, bw_stream_reader reader, bw_stream_writer writer,
         uint32_t number, int32_t peer_pid);
    ~Link();
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    // Receives at least one byte. Returns how many, 0 at the deadline, -1 when nothing will come any more.
    int receive(void *into, size_t bytes, Deadline deadline);
    // Sends at least one byte. Returns how many, 0 at the deadline, -1 when nothing can be sent any more.
    int send(const void *data, size_t bytes, Deadline deadline);
    // Ends both directions, and wakes whoever waits for them. What was sent stays readable for the peer.
    void shut();

    // Has the watcher watch for input: at once, or from its next scan on. has_input: there is some already, which
    // only the ORB knows of.
    void watch(bool at_once, bool has_input);
    bool is_watched();
    // Ends that. When it returns, the watcher is not telling of this link, and will not.
    void ignore();
    // Polls and waits for input for a short time, if the link is watched. If there is some, it is watched no more.
    bool peek(std::chrono::nanoseconds longest);

    int32_t peer_pid() const { return peer_pid_; }

    // What the ORB is told when there is input.
    void *owner = nullptr;

  private:
    friend class Network;
    friend class Watcher;

    bool has_input(bool polls);
    int64_t read(void *into, size_t bytes, int64_t timeout_ns);
    bool wait_for_news(Deadline deadline, bool takes_lead);
    int receive_later(void *into, size_t bytes, Deadline deadline);
    int64_t poll(void *into, size_t bytes, Deadline deadline);
    void end_writing();

    Network &network_;
    const std::shared_ptr<Watcher> watcher_;
    const bw_stream_reader reader_;
    const bw_stream_writer writer_;
    const uint32_t number_;
    const int32_t peer_pid_;
    // Set once, under Network::lock; read without it.
    std::atomic<bool> is_shut_{false};

    std::mutex reading_;
    // Under `reading_`: what was read before the ORB asked for it, and how much of that it has got.
    std::vector<unsigned char> ahead_;
    size_t ahead_at_ = 0;
    Patience patience_;

    std::mutex writing_;
    bool is_finished_ = false;

    // Under Network::lock.
    Waiter waiter_{false};
    bool has_news_ = false;
    bool is_watched_ = false;
    bool is_peeked_ = false;
    bool orb_has_input_ = false;
    bool waits_for_scan_ = false;
    bool is_queued_ = false;
};

class Network {
  public:
    // The network of this process. It is made with the first call. Null if that fails; `why` then says what to do.
    static Network *get(std::string &why);

    // Listens under a name; requests go to the watcher.
    bool listen(const std::string &name, const std::shared_ptr<Watcher> &watcher, std::string &why);
    void stop_listening(const std::string &name);
    // Connects to a name of this user. Null if nobody listens, or the deadline has passed (`timed_out`).
    std::unique_ptr<Link> connect(const std::string &name, Deadline deadline, bool &timed_out,
                                  const std::shared_ptr<Watcher> &watcher, std::string &why);

    // Accepts the next peer and watches links until then. `tell` is called for each watched link that has input.
    // Returns nothing when the watcher was poked, or the network has ended.
    template <class Tell>
    std::unique_ptr<Link> accept_and_watch(const std::shared_ptr<Watcher> &watcher, Tell tell);
    // Makes the thread that watches come back.
    void poke(Watcher &watcher);

    // As `accept_and_watch`, for a watcher that nobody connects to: until is_over() or it is poked.
    template <class Tell, class Over>
    void watch_links(const std::shared_ptr<Watcher> &watcher, Tell tell, Over is_over);

  private:
    friend class Link;

    Network() = default;
    bool start(std::string &why);
    bool make_kick(std::string &why);

    // Waits until done() or the deadline; whether it is done. done() is called under the lock. takes_lead: from a thread
    // that only watches.
    template <class Done> bool wait(Held &held, Waiter &waiter, Deadline deadline, bool takes_lead, Done done);
    void lead(Held &held, Waiter &waiter, Deadline deadline);
    void follow(Held &held, Waiter &waiter, Deadline deadline, bool takes_lead);
    void leave(const Waiter &waiter);
    void handle(const bw_event &event);
    void handle_request(const bw_event &event);
    void ready(Link &link);
    void wake(Waiter &waiter);
    void look_at_later(Link &link);
    void ensure_scan(Watcher &watcher);
    void scan(Watcher &watcher);
    Link *next_to_tell(Watcher &watcher);
    std::unique_ptr<Link> made(bw_connection connection, const std::shared_ptr<Watcher> &watcher, std::string &why);
    std::unique_ptr<Link> accepted(Held &held, const std::shared_ptr<Watcher> &watcher);

    std::mutex lock_;
    // For the leader only.
    bw_node waiting_node_{};
    // For everything else, under the lock.
    bw_node node_{};
    // A connection of the node to itself: what is sent on one end wakes the leader.
    bw_connection kick_{}, kicked_{};
    uint32_t kicked_number_ = 0;
    // Who leads; null: nobody.
    Waiter *leader_ = nullptr;
    // Who has asked the leader for the lead, and waits for it.
    Waiter *heir_ = nullptr;
    // Who leads after a while, unless somebody else does before.
    Waiter *deputy_ = nullptr;
    // The leader has been woken already.
    bool is_kicked_ = false;
    // Threads that wait for the leader.
    std::list<Waiter *> followers_;
    std::unordered_map<uint32_t, Link *> links_;
    struct Door {
        bw_listener listener;
        std::weak_ptr<Watcher> watcher;
    };
    std::map<std::string, Door> doors_;
    std::atomic<bool> is_down_{false};
};

template <class Done>
bool Network::wait(Held &held, Waiter &waiter, Deadline deadline, bool takes_lead, Done done) {
    bool is_done = done();
    while (!is_done && !(deadline && Clock::now() >= *deadline)) {
        if (leader_ == nullptr && (heir_ == nullptr || heir_ == &waiter)) {
            lead(held, waiter, deadline);
        } else {
            follow(held, waiter, deadline, takes_lead);
        }
        is_done = done();
    }
    leave(waiter);
    return is_done;
}

template <class Tell>
std::unique_ptr<Link> Network::accept_and_watch(const std::shared_ptr<Watcher> &watcher, Tell tell) {
    for (;;) {
        {
            std::lock_guard<std::mutex> telling(watcher->telling);
            while (Link *link = next_to_tell(*watcher)) {
                tell(*link);
            }
        }
        Held held(lock_);
        auto has_work = [&] { return is_down_ || watcher->is_poked || !watcher->requests.empty() || !watcher->to_look_at.empty(); };
        if (!wait(held, watcher->waiter, watcher->next_scan, false, has_work)) {
            held.unlock();
            scan(*watcher);
            continue;
        }
        if (is_down_ || watcher->is_poked) {
            watcher->is_poked = false;
            return nullptr;
        }
        if (auto link = accepted(held, watcher)) {
            return link;
        }
    }
}

template <class Tell, class Over>
void Network::watch_links(const std::shared_ptr<Watcher> &watcher, Tell tell, Over is_over) {
    while (!is_over()) {
        {
            std::lock_guard<std::mutex> telling(watcher->telling);
            while (Link *link = next_to_tell(*watcher)) {
                tell(*link);
            }
        }
        Held held(lock_);
        auto has_work = [&] { return is_down_ || watcher->is_poked || !watcher->to_look_at.empty(); };
        bool has_come = wait(held, watcher->waiter, watcher->next_scan, false, has_work);
        watcher->is_poked = false;
        if (is_down_) {
            return;
        }
        if (!has_come) {
            held.unlock();
            scan(*watcher);
        }
    }
}

} // namespace barewire_corba

#endif
