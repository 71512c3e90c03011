// The network of one process: see network.hpp.

#include "network.hpp"

#include <poll.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace barewire_corba {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The longest that a thread polls before it waits: about as long as two wake-ups take.
constexpr int64_t POLLS_NS_MAX = 100'000;
// What that grows by at least, so that it comes back from nothing.
constexpr int64_t POLLS_NS_STEP = 1'000;
// The shortest time-out that has a stream ask its peer to wake it, and look once more.
constexpr int64_t ARM_NS = 1;
// Bytes of the receive ring of a link: long messages go through it in pieces, and it stays in a cache.
constexpr size_t RING_BYTES = 256 << 10;
// How often links are looked at that the ORB wants watched, but not at once. omniORB's own transports take as long.
constexpr milliseconds SCAN_PERIOD{50};
// Scans that find nothing until there are none: a second.
constexpr int IDLE_SCANS_MAX = 20;
// How long nobody may lead before a watching thread does: some calls take less, and a new connection takes as long.
constexpr std::chrono::microseconds DEPUTY_AFTER{500};
// How long a thread waits for room until it looks whether the link was shut meanwhile.
constexpr milliseconds SEND_SLICE{100};
// What is read before the ORB asks for it.
constexpr size_t AHEAD_BYTES = 8 << 10;
// Events that the leader takes at a time.
constexpr size_t EVENTS_MAX = 32;

// The longest on this machine: with one processor, polling would keep the peer from answering.
int64_t polls_ns_max() {
    static const int64_t most = sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 0 : POLLS_NS_MAX;
    return most;
}

int64_t left_ns(Deadline deadline) {
    if (!deadline) {
        return BW_FOREVER;
    }
    auto left = std::chrono::duration_cast<nanoseconds>(*deadline - Clock::now()).count();
    return std::max<int64_t>(left, BW_NO_WAIT);
}

std::string last_error() { return bw_last_error()->text; }

} // namespace

Waiter::Waiter(bool watches) {
    if (watches) {
        // Without one, it waits as the others do.
        timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    }
}

Waiter::~Waiter() {
    if (timer_ >= 0) {
        close(timer_);
    }
}

void Waiter::wait(Held &held, Deadline deadline) {
    if (timer_ < 0) {
        if (deadline) {
            woken_.wait_until(held, *deadline);
        } else {
            woken_.wait(held);
        }
        return;
    }
    held.unlock();
    int64_t left = left_ns(deadline);
    timespec longest{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    pollfd entry{timer_, POLLIN, 0};
    ppoll(&entry, 1, left < 0 ? nullptr : &longest, nullptr);
    held.lock();
    // Whoever notifies again has to see that the timer is not set any more.
    is_notified_ = false;
    uint64_t times;
    if (::read(timer_, &times, sizeof times) < 0) {
        // The deadline has passed, or a signal came.
    }
}

void Waiter::notify() {
    if (timer_ < 0) {
        woken_.notify_one();
    } else if (!is_notified_) {
        is_notified_ = true;
        set_timer(nanoseconds(1));
    }
}

void Waiter::notify_after(nanoseconds time) {
    if (timer_ < 0) {
        woken_.notify_one();
    } else if (!is_notified_) {
        set_timer(time);
    }
}

void Waiter::call_off() {
    if (timer_ >= 0 && !is_notified_) {
        set_timer(nanoseconds(0));
    }
}

void Waiter::set_timer(nanoseconds time) {
    itimerspec when{};
    when.it_value.tv_nsec = static_cast<long>(time.count());
    timerfd_settime(timer_, 0, &when, nullptr);
}

Patience::Patience() : polls_ns_(polls_ns_max()) {}

void Patience::rewarded() { polls_ns_ = std::min(polls_ns_ + polls_ns_ / 4 + POLLS_NS_STEP, polls_ns_max()); }

void Patience::wasted(nanoseconds waited) {
    if (waited.count() <= 2 * POLLS_NS_MAX) {
        polls_ns_ = std::min(2 * polls_ns_ + POLLS_NS_STEP, polls_ns_max());
    } else {
        polls_ns_ /= 2;
    }
}

Link::Link(Network &network, std::shared_ptr<Watcher> watcher, bw_stream_reader reader, bw_stream_writer writer,
           uint32_t number, int32_t peer_pid)
    : network_(network), watcher_(std::move(watcher)), reader_(reader), writer_(writer), number_(number),
      peer_pid_(peer_pid) {
    Held held(network_.lock_);
    network_.links_[number_] = this;
    watcher_->links.insert(this);
}

Link::~Link() {
    {
        Held held(network_.lock_);
        network_.links_.erase(number_);
        watcher_->links.erase(this);
        auto &queue = watcher_->to_look_at;
        queue.erase(std::remove(queue.begin(), queue.end(), this), queue.end());
    }
    bw_stream_writer_close(writer_);
    bw_stream_reader_close(reader_);
}

// Reads what is there. Returns how many bytes, 0 if there is nothing yet, -1 at the end.
int64_t Link::read(void *into, size_t bytes, int64_t timeout_ns) {
    int64_t read = bw_stream_reader_read(reader_, into, bytes, timeout_ns);
    if (read > 0) {
        return read;
    }
    return read == BW_E_TIMEOUT || read == BW_E_WOULD_BLOCK ? 0 : -1;
}

// Polls for something to read, as long as that has paid lately. Returns as `read`; if that is 0, the peer wakes us from
// now on.
int64_t Link::poll(void *into, size_t bytes, Deadline deadline) {
    int64_t longest = std::max(patience_.polls_ns(), ARM_NS);
    return read(into, bytes, deadline ? std::clamp(left_ns(deadline), ARM_NS, longest) : longest);
}

int Link::receive(void *into, size_t bytes, Deadline deadline) {
    std::lock_guard<std::mutex> reading(reading_);
    bytes = std::min<size_t>(bytes, INT32_MAX);
    if (ahead_at_ < ahead_.size()) {
        bytes = std::min(bytes, ahead_.size() - ahead_at_);
        std::copy_n(ahead_.begin() + static_cast<std::ptrdiff_t>(ahead_at_), bytes, static_cast<unsigned char *>(into));
        ahead_at_ += bytes;
        return static_cast<int>(bytes);
    }
    if (is_shut_) {
        return -1;
    }
    int64_t received = poll(into, bytes, deadline);
    if (received > 0) {
        patience_.rewarded();
        return static_cast<int>(received);
    }
    return received < 0 ? -1 : receive_later(into, bytes, deadline);
}

// Nothing came while it was polled, and the peer has been asked to wake us.
int Link::receive_later(void *into, size_t bytes, Deadline deadline) {
    auto began = Clock::now();
    while (wait_for_news(deadline, true)) {
        if (is_shut_) {
            return -1;
        }
        int64_t received = read(into, bytes, BW_NO_WAIT);
        if (received != 0) {
            patience_.wasted(Clock::now() - began + nanoseconds(patience_.polls_ns()));
            return static_cast<int>(received);
        }
    }
    return 0;
}

// Waits until the leader has told of news; false at the deadline.
bool Link::wait_for_news(Deadline deadline, bool takes_lead) {
    Held held(network_.lock_);
    bool came = network_.wait(held, waiter_, deadline, takes_lead, [&] { return has_news_ || is_shut_ || network_.is_down_; });
    has_news_ = false;
    return came;
}

// Whether something can be received, or an end will be told. The caller has `reading_`. polls: for a while, and not only
// once. Afterwards the peer wakes us.
bool Link::has_input(bool polls) {
    if (ahead_at_ < ahead_.size() || is_shut_) {
        return true;
    }
    ahead_.resize(AHEAD_BYTES);
    int64_t received = polls ? poll(ahead_.data(), ahead_.size(), std::nullopt) : read(ahead_.data(), ahead_.size(), ARM_NS);
    ahead_.resize(received > 0 ? static_cast<size_t>(received) : 0);
    ahead_at_ = 0;
    return received != 0;
}

int Link::send(const void *data, size_t bytes, Deadline deadline) {
    std::lock_guard<std::mutex> writing(writing_);
    bytes = std::min<size_t>(bytes, INT32_MAX);
    int result = -1;
    while (!is_shut_) {
        int64_t left = left_ns(deadline);
        if (left == BW_NO_WAIT) {
            result = 0;
            break;
        }
        int64_t slice = nanoseconds(SEND_SLICE).count();
        int64_t sent = bw_stream_writer_write(writer_, data, bytes, left < 0 ? slice : std::min(left, slice));
        if (sent != BW_E_TIMEOUT) {
            result = sent > 0 ? static_cast<int>(sent) : -1;
            break;
        }
    }
    if (is_shut_) {
        end_writing();
    }
    return result;
}

// Tells the peer that nothing more comes. The caller has `writing_`.
void Link::end_writing() {
    if (!is_finished_) {
        is_finished_ = true;
        bw_stream_writer_finish(writer_);
    }
}

void Link::shut() {
    {
        Held held(network_.lock_);
        is_shut_ = true;
        network_.wake(waiter_);
        if (is_watched_) {
            network_.look_at_later(*this);
        }
    }
    // Who is sending sees that the link is shut, and does it.
    if (writing_.try_lock()) {
        end_writing();
        writing_.unlock();
    }
}

void Link::watch(bool at_once, bool has_input_already) {
    {
        Held held(network_.lock_);
        is_watched_ = true;
        if (has_input_already) {
            orb_has_input_ = true;
            network_.look_at_later(*this);
            return;
        }
        if (is_peeked_) {
            return;
        }
        if (!at_once) {
            waits_for_scan_ = true;
            network_.ensure_scan(*watcher_);
            return;
        }
    }
    // From now on the peer wakes the leader; what came before is seen here. If somebody is reading, he sees it.
    std::unique_lock<std::mutex> reading(reading_, std::try_to_lock);
    if (!reading.owns_lock() || has_input(false)) {
        Held held(network_.lock_);
        network_.look_at_later(*this);
    }
}

bool Link::is_watched() {
    Held held(network_.lock_);
    return is_watched_;
}

void Link::ignore() {
    {
        Held held(network_.lock_);
        is_watched_ = waits_for_scan_ = orb_has_input_ = false;
    }
    std::lock_guard<std::mutex> telling(watcher_->telling);
}

bool Link::peek(nanoseconds longest) {
    std::lock_guard<std::mutex> reading(reading_);
    {
        Held held(network_.lock_);
        if (!is_watched_ || is_peeked_) {
            return false;
        }
        if (orb_has_input_) {
            is_watched_ = orb_has_input_ = false;
            return true;
        }
        is_peeked_ = true;
    }
    Deadline deadline = Clock::now() + longest;
    bool found = has_input(true);
    if (found) {
        patience_.rewarded();
    }
    while (!found && wait_for_news(deadline, false)) {
        found = has_input(false);
    }
    Held held(network_.lock_);
    is_peeked_ = false;
    if (orb_has_input_) {
        found = true;
    }
    if (!found || !is_watched_) {
        return false;
    }
    is_watched_ = waits_for_scan_ = orb_has_input_ = false;
    return true;
}

Network *Network::get(std::string &why) {
    static std::mutex making;
    static Network *made = nullptr;
    static pid_t made_by = 0;
    std::lock_guard<std::mutex> lock(making);
    // A child of fork() makes its own; that of its parent is of no use to it.
    if (made != nullptr && made_by == getpid()) {
        return made;
    }
    // Never freed: threads of the ORB may use it until the process ends.
    auto *network = new Network;
    if (!network->start(why)) {
        return nullptr;
    }
    made_by = getpid();
    return made = network;
}

bool Network::start(std::string &why) {
    bw_node_config config{};
    config.struct_bytes = sizeof config;
    config.ring_bytes = RING_BYTES;
    // Only a wait that polls tells its peer that it need not wake us. The node, too, polls less where that does not pay:
    // else the leader would keep a processor from the thread that it has just woken.
    config.spin = polls_ns_max() > 0 ? BW_SPIN_ADAPTIVE : BW_SPIN_NEVER;
    config.spin_ns = static_cast<uint64_t>(polls_ns_max());
    if (bw_node_new(&config, &node_) < 0) {
        why = last_error();
        return false;
    }
    if (bw_node_clone(node_, &waiting_node_) < 0 || !make_kick(why)) {
        why = why.empty() ? last_error() : why;
        bw_node_close(node_);
        return false;
    }
    return true;
}

// Connects the node to itself.
bool Network::make_kick(std::string &why) {
    char name[BW_NAME_BYTES_MAX];
    std::snprintf(name, sizeof name, "omniorb-%d-%llx", static_cast<int>(getpid()),
                  static_cast<unsigned long long>(Clock::now().time_since_epoch().count()));
    bw_listener listener;
    if (bw_node_listen(node_, name, nullptr, &listener) < 0) {
        why = last_error();
        return false;
    }
    int64_t result = bw_node_start_connect(node_, name, nullptr);
    while (result >= 0 && (kick_.id == 0 || kicked_.id == 0)) {
        bw_event event;
        result = bw_node_wait(node_, &event, 1, nanoseconds(std::chrono::seconds(10)).count());
        if (result == 0) {
            why = "the node did not answer itself within 10 s";
            break;
        }
        if (result > 0 && event.kind == BW_EVENT_KIND_REQUEST) {
            result = bw_request_accept(event.request, 0, &kicked_);
        } else if (result > 0 && event.kind == BW_EVENT_KIND_CONNECTED) {
            kick_ = event.connection;
        } else if (result > 0 && event.kind == BW_EVENT_KIND_CONNECT_FAILED) {
            why = event.text;
            break;
        }
    }
    if (result < 0) {
        why = last_error();
    }
    bw_listener_close(listener);
    kicked_number_ = static_cast<uint32_t>(bw_connection_number(kicked_));
    return why.empty();
}

bool Network::listen(const std::string &name, const std::shared_ptr<Watcher> &watcher, std::string &why) {
    Held held(lock_);
    bw_listener listener;
    if (bw_node_listen(node_, name.c_str(), nullptr, &listener) < 0) {
        why = last_error();
        return false;
    }
    doors_[name] = Door{listener, watcher};
    return true;
}

void Network::stop_listening(const std::string &name) {
    Held held(lock_);
    auto door = doors_.find(name);
    if (door == doors_.end()) {
        return;
    }
    bw_listener_close(door->second.listener);
    if (auto watcher = door->second.watcher.lock()) {
        for (bw_request request : watcher->requests) {
            bw_request_close(request);
        }
        watcher->requests.clear();
    }
    doors_.erase(door);
}

std::unique_ptr<Link> Network::connect(const std::string &name, Deadline deadline, bool &timed_out,
                                       const std::shared_ptr<Watcher> &watcher, std::string &why) {
    bw_connect_options options{};
    options.struct_bytes = sizeof options;
    options.no_wait_for_name = 1;
    if (deadline) {
        options.timeout_ns = std::max(left_ns(deadline), ARM_NS);
    }
    bw_node node;
    {
        Held held(lock_);
        if (bw_node_clone(node_, &node) < 0) {
            why = last_error();
            return nullptr;
        }
    }
    bw_connection connection;
    int32_t result = bw_node_connect(node, name.c_str(), &options, &connection);
    if (result < 0) {
        why = last_error();
    }
    timed_out = result == BW_E_TIMEOUT;
    bw_node_close(node);
    return result < 0 ? nullptr : made(connection, watcher, why);
}

std::unique_ptr<Link> Network::made(bw_connection connection, const std::shared_ptr<Watcher> &watcher,
                                    std::string &why) {
    bw_credentials peer{};
    int64_t number = bw_connection_number(connection);
    bw_stream stream;
    bw_stream_reader reader;
    bw_stream_writer writer;
    if (number < 0 || bw_connection_peer(connection, &peer) < 0 || bw_connection_into_stream(connection, &stream) < 0 ||
        bw_stream_split(stream, &reader, &writer) < 0) {
        why = last_error();
        return nullptr;
    }
    return std::make_unique<Link>(*this, watcher, reader, writer, static_cast<uint32_t>(number), peer.pid);
}

// Accepts the next request, if there is one whose sender is still there.
std::unique_ptr<Link> Network::accepted(Held &held, const std::shared_ptr<Watcher> &watcher) {
    while (!watcher->requests.empty()) {
        bw_request request = watcher->requests.front();
        watcher->requests.pop_front();
        bw_connection connection;
        if (bw_request_accept(request, 0, &connection) < 0) {
            continue;
        }
        held.unlock();
        std::string why;
        auto link = made(connection, watcher, why);
        if (link) {
            return link;
        }
        held.lock();
    }
    return nullptr;
}

void Network::poke(Watcher &watcher) {
    Held held(lock_);
    watcher.is_poked = true;
    wake(watcher.waiter);
}

// Waits for events of the node and hands them out. The caller is the leader until this returns.
void Network::lead(Held &held, Waiter &waiter, Deadline deadline) {
    leader_ = &waiter;
    heir_ = nullptr;
    if (deputy_ != nullptr) {
        deputy_->call_off();
        deputy_ = nullptr;
    }
    held.unlock();
    bw_event events[EVENTS_MAX];
    int64_t count = bw_node_wait(waiting_node_, events, EVENTS_MAX, left_ns(deadline));
    held.lock();
    leader_ = nullptr;
    is_kicked_ = false;
    if (count < 0) {
        // Nothing can be waited for any more. Whoever waits learns that its link has ended.
        is_down_ = true;
        for (Waiter *follower : followers_) {
            follower->notify();
        }
        return;
    }
    for (int64_t at = 0; at < count; ++at) {
        handle(events[at]);
    }
}

// Waits until the leader has something, or the lead is free. The caller looks again.
void Network::follow(Held &held, Waiter &waiter, Deadline deadline, bool takes_lead) {
    if (leader_ == nullptr) {
        heir_->notify();
    } else if (takes_lead && heir_ == nullptr && leader_->watches()) {
        heir_ = &waiter;
        wake(*leader_);
    }
    auto place = followers_.insert(followers_.end(), &waiter);
    waiter.wait(held, deadline);
    followers_.erase(place);
    if (deputy_ == &waiter) {
        deputy_ = nullptr;
    }
}

// The thread waits no more. If nobody leads now, another one has to.
void Network::leave(const Waiter &waiter) {
    if (heir_ == &waiter) {
        heir_ = nullptr;
    }
    if (leader_ != nullptr || followers_.empty() || deputy_ != nullptr) {
        return;
    }
    if (heir_ != nullptr) {
        heir_->notify();
        return;
    }
    auto receives = std::find_if(followers_.begin(), followers_.end(), [](Waiter *other) { return !other->watches(); });
    if (receives != followers_.end()) {
        (*receives)->notify();
    } else if (waiter.watches()) {
        followers_.front()->notify();
    } else {
        deputy_ = followers_.front();
        deputy_->notify_after(DEPUTY_AFTER);
    }
}

void Network::handle(const bw_event &event) {
    switch (event.kind) {
    case BW_EVENT_KIND_REQUEST:
        handle_request(event);
        break;
    case BW_EVENT_KIND_READY:
    case BW_EVENT_KIND_CLOSED:
        if (event.connection_number == kicked_number_) {
            char nothing[8];
            while (bw_connection_recv(kicked_, nothing, sizeof nothing, BW_NO_WAIT) >= 0) {
            }
        } else if (auto link = links_.find(event.connection_number); link != links_.end()) {
            ready(*link->second);
        }
        break;
    default:
        bw_event_discard(&event);
    }
}

void Network::handle_request(const bw_event &event) {
    char name[BW_NAME_BYTES_MAX + 1];
    if (bw_request_name(event.request, name, sizeof name) >= 0) {
        auto door = doors_.find(name);
        if (door != doors_.end()) {
            if (auto watcher = door->second.watcher.lock()) {
                watcher->requests.push_back(event.request);
                watcher->waiter.notify();
                return;
            }
        }
    }
    bw_event_discard(&event);
}

// There may be something to receive from this link, or it has ended.
void Network::ready(Link &link) {
    link.has_news_ = true;
    link.waiter_.notify();
    if (link.is_watched_ && !link.is_peeked_) {
        look_at_later(link);
    }
}

// Wakes a thread that waits here, whether it leads or follows.
void Network::wake(Waiter &waiter) {
    if (leader_ != &waiter) {
        waiter.notify();
    } else if (!is_kicked_) {
        is_kicked_ = true;
        bw_connection_send(kick_, "", 0, BW_NO_WAIT);
    }
}

void Network::look_at_later(Link &link) {
    if (!link.is_queued_) {
        link.is_queued_ = true;
        link.watcher_->to_look_at.push_back(&link);
    }
    wake(link.watcher_->waiter);
}

// Has the watcher look at its links after a while.
void Network::ensure_scan(Watcher &watcher) {
    watcher.idle_scans = 0;
    if (!watcher.next_scan) {
        watcher.next_scan = Clock::now() + SCAN_PERIOD;
        wake(watcher.waiter);
    }
}

// Looks at the links that are to be watched and are not yet.
void Network::scan(Watcher &watcher) {
    std::lock_guard<std::mutex> telling(watcher.telling);
    std::vector<Link *> links;
    {
        Held held(lock_);
        for (Link *link : watcher.links) {
            if (link->is_watched_ && link->waits_for_scan_ && !link->is_peeked_) {
                links.push_back(link);
                link->waits_for_scan_ = false;
            }
        }
        watcher.idle_scans = links.empty() ? watcher.idle_scans + 1 : 0;
        watcher.next_scan = Clock::now() + SCAN_PERIOD;
        if (watcher.idle_scans >= IDLE_SCANS_MAX) {
            watcher.next_scan.reset();
        }
    }
    // None of them goes away meanwhile: for that, Link::ignore is called first.
    for (Link *link : links) {
        std::unique_lock<std::mutex> reading(link->reading_, std::try_to_lock);
        if (!reading.owns_lock() || link->has_input(false)) {
            Held held(lock_);
            look_at_later(*link);
        }
    }
}

// The next link that is watched and has input; it is watched no more. The caller has `telling`.
Link *Network::next_to_tell(Watcher &watcher) {
    for (;;) {
        Link *link = nullptr;
        {
            Held held(lock_);
            if (watcher.to_look_at.empty()) {
                return nullptr;
            }
            link = watcher.to_look_at.front();
            watcher.to_look_at.pop_front();
            link->is_queued_ = false;
            if (!link->is_watched_ || link->is_peeked_) {
                continue;
            }
            if (link->orb_has_input_) {
                link->is_watched_ = link->orb_has_input_ = link->waits_for_scan_ = false;
                return link;
            }
        }
        std::unique_lock<std::mutex> reading(link->reading_, std::try_to_lock);
        // Who is reading takes what is there. If more comes after that, the next scan finds it.
        bool has_input = reading.owns_lock() && link->has_input(false);
        Held held(lock_);
        if (!has_input) {
            if (!reading.owns_lock()) {
                link->waits_for_scan_ = true;
                ensure_scan(watcher);
            }
            continue;
        }
        if (link->is_watched_ && !link->is_peeked_) {
            link->is_watched_ = link->waits_for_scan_ = false;
            return link;
        }
    }
}

} // namespace barewire_corba
