// The transport giop:barewire as omniORB sees it: addresses, endpoints, connections, and how the library registers
// itself when it is loaded.

#include "transport.hpp"

#include "network.hpp"

#include <omniORB4/internal/initialiser.h>
#include <omniORB4/internal/objectAdapter.h>
#include <omniORB4/internal/transportRules.h>

#include <unistd.h>

#include <cstring>

namespace barewire_corba {

namespace {

using std::chrono::nanoseconds;

// How long a thread of the pool stays with a connection that it has served. omniORB's own transports take as long.
constexpr std::chrono::milliseconds PEEK_LONGEST{50};

void log(int level, const std::string &line) {
    if (omniORB::trace(static_cast<CORBA::ULong>(level))) {
        omniORB::logger logger;
        logger << "Barewire: " << line.c_str() << "\n";
    }
}

// omniORB's point in time, of which zero means none, on our clock.
Deadline deadline_of(const omni_time_t &deadline) {
    if (!deadline) {
        return std::nullopt;
    }
    omni_time_t now;
    omni_thread::get_time(now);
    auto of = [](const omni_time_t &time) {
        return std::chrono::seconds(time.s) + nanoseconds(time.ns);
    };
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(of(deadline) - of(now));
}

// The network of this process, or null and a line in the log.
Network *network() {
    std::string why;
    Network *found = Network::get(why);
    if (found == nullptr) {
        log(1, "this process has no network: " + why);
    }
    return found;
}

class Connection : public omni::giopConnection {
  public:
    Connection(std::unique_ptr<Link> link, std::string mine, std::string peers)
        : link_(std::move(link)), my_address_(std::move(mine)), peer_address_(std::move(peers)) {
        link_->owner = this;
    }

    int Send(void *buffer, size_t bytes, const omni_time_t &deadline) override {
        return link_->send(buffer, bytes, deadline_of(deadline));
    }
    int Recv(void *buffer, size_t bytes, const omni_time_t &deadline) override {
        return link_->receive(buffer, bytes, deadline_of(deadline));
    }
    void Shutdown() override { link_->shut(); }
    const char *myaddress() override { return my_address_.c_str(); }
    const char *peeraddress() override { return peer_address_.c_str(); }

    void setSelectable(int now, CORBA::Boolean data_in_buffer) override {
        // 2: at once, if it is watched at all.
        if (now != 2 || link_->is_watched()) {
            link_->watch(now != 0, data_in_buffer);
        }
    }
    void clearSelectable() override { link_->ignore(); }
    CORBA::Boolean isSelectable() override { return 1; }
    CORBA::Boolean Peek() override { return link_->peek(PEEK_LONGEST); }

  private:
    const std::unique_ptr<Link> link_;
    const std::string my_address_;
    const std::string peer_address_;
};

// An address that tells apart connections from the same process to the same name.
std::string numbered(const std::string &name, int32_t pid) {
    static std::atomic<unsigned> last{0};
    return PREFIX + name + "#" + std::to_string(pid) + "." + std::to_string(++last);
}

auto telling(omni::giopConnection::notifyReadable_t tell, void *cookie) {
    return [tell, cookie](Link &link) { tell(cookie, static_cast<Connection *>(link.owner)); };
}

// All connections that this process has opened. Of these, the ORB watches those that calls come back on.
class Opened : public omni::giopActiveCollection {
  public:
    explicit Opened(Network &network) : watcher(std::make_shared<Watcher>(network)) {}

    const char *type() const override { return TYPE; }
    void Monitor(omni::giopConnection::notifyReadable_t tell, void *cookie) override {
        watcher->network.watch_links(watcher, telling(tell, cookie), [this] { return isEmpty(); });
    }
    CORBA::Boolean isEmpty() const override { return count_ == 0 || is_inactive_; }
    void deactivate() override {
        is_inactive_ = true;
        watcher->network.poke(*watcher);
    }
    void add() {
        ++count_;
        is_inactive_ = false;
    }
    void remove() {
        --count_;
        watcher->network.poke(*watcher);
    }

    const std::shared_ptr<Watcher> watcher;

  private:
    std::atomic<int> count_{0};
    std::atomic<bool> is_inactive_{false};
};

// Those of this process; never freed, as its network: threads of the ORB may use it until the process ends.
Opened &opened(Network &network) {
    static std::mutex making;
    static auto &made = *new std::map<Network *, Opened *>;
    std::lock_guard<std::mutex> lock(making);
    Opened *&found = made[&network];
    if (found == nullptr) {
        found = new Opened(network);
    }
    return *found;
}

class ActiveConnection : public omni::giopActiveConnection, public Connection {
  public:
    ActiveConnection(std::unique_ptr<Link> link, const std::string &name, Opened &opened)
        : Connection(std::move(link), numbered(name, getpid()), PREFIX + name), opened_(opened) {}
    ~ActiveConnection() override {
        if (is_monitored_) {
            opened_.remove();
        }
    }
    omni::giopActiveCollection *registerMonitor() override {
        if (!is_monitored_) {
            is_monitored_ = true;
            opened_.add();
        }
        return &opened_;
    }
    omni::giopConnection &getConnection() override { return *this; }

  private:
    Opened &opened_;
    bool is_monitored_ = false;
};

class Address : public omni::giopAddress {
  public:
    explicit Address(const std::string &name) : name_(name), address_(PREFIX + name) {}

    const char *type() const override { return TYPE; }
    const char *address() const override { return address_.c_str(); }
    omni::giopAddress *duplicate() const override { return new Address(name_); }
    omni::giopActiveConnection *Connect(const omni_time_t &deadline, CORBA::ULong,
                                        CORBA::Boolean &timed_out) const override {
        Network *found = network();
        if (found == nullptr) {
            return nullptr;
        }
        Opened &connections = opened(*found);
        std::string why;
        bool is_late = false;
        auto link = found->connect(name_, deadline_of(deadline), is_late, connections.watcher, why);
        timed_out = is_late;
        if (!link) {
            log(20, "no connection to " + address_ + ": " + why);
            return nullptr;
        }
        return new ActiveConnection(std::move(link), name_, connections);
    }

  private:
    const std::string name_;
    const std::string address_;
};

class Endpoint : public omni::giopEndpoint {
  public:
    explicit Endpoint(const std::string &name) : name_(name), address_(PREFIX + name) {
        addresses_.length(1);
        addresses_[0] = address_.c_str();
    }

    const char *type() const override { return TYPE; }
    const char *address() const override { return address_.c_str(); }
    const omni::orbServer::EndpointList *addresses() const override { return &addresses_; }

    CORBA::Boolean publish(const omni::orbServer::PublishSpecs &specs, CORBA::Boolean all_specs, CORBA::Boolean,
                           omni::orbServer::EndpointList &published) override {
        CORBA::Boolean is_published = 0;
        for (CORBA::ULong at = 0; at < specs.length(); ++at) {
            is_published |= publish_as(specs[at], published);
            if (is_published && !all_specs) {
                break;
            }
        }
        return is_published;
    }

    CORBA::Boolean Bind() override {
        network_ = network();
        if (network_ == nullptr) {
            return 0;
        }
        watcher_ = std::make_shared<Watcher>(*network_);
        std::string why;
        if (!network_->listen(name_, watcher_, why)) {
            log(1, "cannot listen on " + address_ + ": " + why);
            return 0;
        }
        return 1;
    }

    omni::giopConnection *AcceptAndMonitor(omni::giopConnection::notifyReadable_t tell, void *cookie) override {
        auto link = network_->accept_and_watch(watcher_, telling(tell, cookie));
        if (!link) {
            return nullptr;
        }
        std::string peer = numbered(name_, link->peer_pid());
        return new Connection(std::move(link), address_, peer);
    }

    void Poke() override { network_->poke(*watcher_); }

    // omniORB lets go of an endpoint with this call.
    void Shutdown() override {
        network_->stop_listening(name_);
        log(20, address_ + " is shut.");
        delete this;
    }

  private:
    CORBA::Boolean publish_as(const char *spec, omni::orbServer::EndpointList &published) {
        bool is_asked_for = std::strncmp(spec, PREFIX, std::strlen(PREFIX)) == 0;
        if (!is_asked_for && (no_publish() || std::strcmp(spec, "addr") != 0)) {
            return 0;
        }
        if (omni::omniObjAdapter::endpointInList(address_.c_str(), published)) {
            return 1;
        }
        if (published.length() == 0) {
            // A reference needs a host. Without an endpoint for TCP it is this one, with no port; an endpoint for TCP
            // that comes later takes its place.
            char host[256] = "localhost";
            gethostname(host, sizeof host - 1);
            IIOP::Address nowhere;
            nowhere.host = static_cast<const char *>(host);
            nowhere.port = 0;
            omniIOR::add_IIOP_ADDRESS(nowhere, nullptr);
        }
        publish_name(name_, nullptr);
        published.length(published.length() + 1);
        published[published.length() - 1] = address_.c_str();
        return 1;
    }

    const std::string name_;
    const std::string address_;
    omni::orbServer::EndpointList addresses_;
    Network *network_ = nullptr;
    std::shared_ptr<Watcher> watcher_;
};

// A rule for all addresses.
class EveryAddress : public omni::transportRules::Rule {
  public:
    EveryAddress() : Rule("*") {}
    CORBA::Boolean match(const char *) override { return 1; }
};

// omniORB's default allows its own transports only. Rules of the user's stay as they are.
void allow_by_default(omni::transportRules &rules) {
    CORBA::String_var first = rules.dumpRule(0);
    if (first.in() != nullptr && *first.in() != 0) {
        return;
    }
    CORBA::StringSeq transports;
    transports.length(4);
    transports[0] = "barewire";
    transports[1] = "unix";
    transports[2] = "ssl";
    transports[3] = "tcp";
    rules.addRule(new EveryAddress, transports);
}

class Transport : public omni::giopTransportImpl {
  public:
    Transport() : giopTransportImpl(TYPE) {}

    omni::giopEndpoint *toEndpoint(const char *name) override {
        if (name != nullptr && *name == 0) {
            // None was given: one of this process.
            std::string own = "omniorb-" + std::to_string(getpid());
            return new Endpoint(own);
        }
        return is_name(name) ? new Endpoint(name) : nullptr;
    }
    // Also of peers that connected to us, which have a number behind the name.
    omni::giopAddress *toAddress(const char *name) override {
        return name != nullptr && *name != 0 ? new Address(name) : nullptr;
    }
    CORBA::Boolean isValid(const char *name) override { return is_name(name); }
    CORBA::Boolean addToIOR(const char *name, omni::IORPublish *policy) override {
        if (!is_name(name)) {
            return 0;
        }
        publish_name(name, policy);
        return 1;
    }
    const omnivector<const char *> *getInterfaceAddress() override {
        static omnivector<const char *> none;
        return &none;
    }
    // Called before omniORB puts its own rules where there are none.
    void initialise() override {
        allow_by_default(omni::transportRules::clientRules());
        allow_by_default(omni::transportRules::serverRules());
    }
};

class Initialiser : public omni::omniInitialiser {
  public:
    Initialiser() { install(this); }
    void attach() override { add_interceptors(); }
    void detach() override {
        remove_interceptors();
        forget_names();
    }
};

Transport transport;
Initialiser initialiser;

} // namespace

bool is_name(const char *name) {
    if (name == nullptr || *name == 0 || std::strlen(name) > BW_NAME_BYTES_MAX) {
        return false;
    }
    // ':' and '/' are of names on other hosts, '#' of connections.
    return std::strpbrk(name, ":/#") == nullptr;
}

} // namespace barewire_corba
