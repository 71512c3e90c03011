// Barewire for C++17 and later: barewire.h with handles that close themselves, views of bytes, and results that hold
// a value or an error. The book's page "C and C++" (docs/c.md) says how to build and use it.
//
//     barewire::node node = barewire::node::make().value();
//     barewire::connection connection = node.connect("prices").value();
//     connection.send("hello").value();
//
// value() throws barewire::exception if there is an error; without exceptions, test the result and look at error().
// Objects can be moved, not copied; clone() gives another handle of the same thing for another thread. An object that
// was moved from is empty: every call with it is an error.
#ifndef BAREWIRE_HPP
#define BAREWIRE_HPP

#include "barewire.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace barewire {

using nanoseconds = std::chrono::nanoseconds;

// Wait as long as it takes; and do not wait.
inline constexpr nanoseconds forever{BW_FOREVER};
inline constexpr nanoseconds no_wait{BW_NO_WAIT};

namespace detail {

template <typename C>
using element = std::remove_pointer_t<decltype(std::declval<C &>().data())>;

template <typename C, typename = void>
struct is_container : std::false_type {};

template <typename C>
struct is_container<C, std::void_t<decltype(std::declval<C &>().data()), decltype(std::declval<C &>().size())>>
    : std::is_trivially_copyable<element<C>> {};

}  // namespace detail

// Bytes to be sent: anything that has data() and size(), such as a string, a vector, an array or a span.
class bytes_view {
public:
    constexpr bytes_view() = default;
    constexpr bytes_view(const void *data, std::size_t size) : data_(data), size_(size) {}
    bytes_view(const char *text) : data_(text), size_(std::strlen(text)) {}
    template <typename C, typename = std::enable_if_t<detail::is_container<const C>::value>>
    constexpr bytes_view(const C &c) : data_(c.data()), size_(c.size() * sizeof(*c.data())) {}

    constexpr const void *data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    std::string_view text() const { return {static_cast<const char *>(data_), size_}; }

private:
    const void *data_ = nullptr;
    std::size_t size_ = 0;
};

// Room to receive into: a vector, a string, an array or a span, of the size that it has.
class buffer_view {
public:
    constexpr buffer_view(void *data, std::size_t size) : data_(data), size_(size) {}
    template <typename T, std::size_t N>
    constexpr buffer_view(T (&array)[N]) : data_(array), size_(sizeof array) {}
    template <typename C, typename = std::enable_if_t<detail::is_container<C>::value &&
                                                      !std::is_const_v<detail::element<C>>>>
    constexpr buffer_view(C &c) : data_(c.data()), size_(c.size() * sizeof(*c.data())) {}

    constexpr void *data() const { return data_; }
    constexpr std::size_t size() const { return size_; }

private:
    void *data_;
    std::size_t size_;
};

// What went wrong, and whose fault it is.
class error {
public:
    error(int code, int fault, std::string text) : code_(code), fault_(fault), text_(std::move(text)) {}

    // The last error of this thread.
    static error last() {
        const bw_error *last = bw_last_error();
        error e(last->code, last->fault, last->text);
        e.needed_bytes_ = static_cast<std::size_t>(last->needed_bytes);
        e.pid_ = last->pid;
        return e;
    }

    bw_e code() const { return static_cast<bw_e>(code_); }
    bw_fault fault() const { return static_cast<bw_fault>(fault_); }
    const std::string &text() const { return text_; }
    // With BW_E_BUFFER_TOO_SMALL: how large the buffer must be.
    std::size_t needed_bytes() const { return needed_bytes_; }
    // With BW_E_PEER_DIED: the process, if it is known.
    int pid() const { return pid_; }

private:
    int code_;
    int fault_;
    std::string text_;
    std::size_t needed_bytes_ = 0;
    int pid_ = 0;
};

// What value() throws.
class exception : public std::runtime_error {
public:
    explicit exception(barewire::error e) : std::runtime_error(e.text()), error_(std::move(e)) {}
    const barewire::error &error() const { return error_; }

private:
    barewire::error error_;
};

// A value or an error.
template <typename T>
class [[nodiscard]] result {
public:
    result(T value) : value_(std::move(value)) {}
    result(barewire::error e) : error_(std::move(e)) {}

    explicit operator bool() const { return value_.has_value(); }
    bool has_value() const { return value_.has_value(); }
    // The value; throws if there is an error.
    T value() && {
        require();
        return std::move(*value_);
    }
    T &value() & {
        require();
        return *value_;
    }
    T &operator*() & { return value(); }
    T *operator->() { return &value(); }
    // The error. There must be one.
    const barewire::error &error() const { return error_.value(); }
    // Whether there is an error with this code.
    bool failed_with(bw_e code) const { return error_ && error_->code() == code; }

private:
    void require() const {
        if (error_) throw exception(*error_);
    }
    std::optional<T> value_;
    std::optional<barewire::error> error_;
};

template <>
class [[nodiscard]] result<void> {
public:
    result() = default;
    result(barewire::error e) : error_(std::move(e)) {}

    explicit operator bool() const { return !error_; }
    bool has_value() const { return !error_; }
    void value() const {
        if (error_) throw exception(*error_);
    }
    const barewire::error &error() const { return error_.value(); }
    bool failed_with(bw_e code) const { return error_ && error_->code() == code; }

private:
    std::optional<barewire::error> error_;
};

namespace detail {

inline result<void> done(std::int64_t code) {
    if (code < 0) return error::last();
    return {};
}

template <typename T = std::size_t>
result<T> count(std::int64_t code) {
    if (code < 0) return error::last();
    return static_cast<T>(code);
}

// A text that a function copies out, of any length.
template <typename F>
result<std::string> text(F copy) {
    std::string text(255, '\0');
    for (;;) {
        std::int64_t len = copy(text.data(), text.size() + 1);
        if (len >= 0) {
            text.resize(static_cast<std::size_t>(len));
            return text;
        }
        error e = error::last();
        if (e.code() != BW_E_BUFFER_TOO_SMALL) return e;
        text.resize(e.needed_bytes());
    }
}

// Owns a handle.
template <typename H, int32_t (*Close)(H)>
class owned {
public:
    owned() = default;
    explicit owned(H handle) : handle_(handle) {}
    owned(owned &&other) noexcept : handle_(other.release()) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) {
            reset();
            handle_ = other.release();
        }
        return *this;
    }
    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;
    ~owned() { reset(); }

    // Whether there is something.
    explicit operator bool() const { return handle_.id != 0; }
    // The handle, for functions of barewire.h. It stays ours.
    H get() const { return handle_; }
    // The handle, which is the caller's to close from now on.
    H release() { return std::exchange(handle_, H{0}); }
    // Closes it, and says whether that went well.
    result<void> close() { return done(Close(release())); }

private:
    void reset() {
        if (handle_.id != 0) Close(release());
    }
    H handle_{0};
};

// An object that a function makes.
template <typename T, typename H, typename F>
result<T> made(F make) {
    H handle{0};
    if (make(&handle) < 0) return error::last();
    return T(handle);
}

}  // namespace detail

// A process, as the kernel says.
using credentials = bw_credentials;

// Settings: set what you want, the rest is the default.
struct node_config : bw_node_config {
    node_config() : bw_node_config() { struct_bytes = sizeof(bw_node_config); }
};
struct listen_options : bw_listen_options {
    listen_options() : bw_listen_options() { struct_bytes = sizeof(bw_listen_options); }
};
struct connect_options : bw_connect_options {
    connect_options() : bw_connect_options() { struct_bytes = sizeof(bw_connect_options); }
};

// A tripwire that has been set; destroying it takes it away.
class tripwire : public detail::owned<bw_tripwire, bw_tripwire_close> {
public:
    using owned::owned;
    result<bool> is_armed() const { return detail::count<bool>(bw_tripwire_is_armed(get())); }
    result<std::uint64_t> count() const { return detail::count<std::uint64_t>(bw_tripwire_count(get())); }
    result<std::uint64_t> aperture() const { return detail::count<std::uint64_t>(bw_tripwire_aperture(get())); }
    result<void> disarm() { return detail::done(bw_tripwire_disarm(get())); }
};

// Memory of this process that peers may be granted; revoked with its last handle.
class aperture : public detail::owned<bw_aperture, bw_aperture_close> {
public:
    using owned::owned;
    result<aperture> clone() const {
        return detail::made<aperture, bw_aperture>([&](auto *out) { return bw_aperture_clone(get(), out); });
    }
    result<std::size_t> size() const { return detail::count(bw_aperture_len_bytes(get())); }
    result<std::uint64_t> number() const { return detail::count<std::uint64_t>(bw_aperture_number(get())); }
    result<void> put(std::size_t offset, bytes_view data) {
        return detail::done(bw_aperture_put(get(), offset, data.data(), data.size()));
    }
    result<void> get_bytes(std::size_t offset, buffer_view into) const {
        return detail::done(bw_aperture_get(get(), offset, into.data(), into.size()));
    }
    result<std::uint64_t> load(std::size_t offset) const {
        std::uint64_t value = 0;
        if (bw_aperture_load(get(), offset, &value) < 0) return error::last();
        return value;
    }
    result<void> store(std::size_t offset, std::uint64_t value) {
        return detail::done(bw_aperture_store(get(), offset, value));
    }
    // Returns what it was before.
    result<std::uint64_t> add(std::size_t offset, std::uint64_t value) {
        std::uint64_t was = 0;
        if (bw_aperture_add(get(), offset, value, &was) < 0) return error::last();
        return was;
    }
    // Whether it was replaced; if not, expected becomes what it is.
    result<bool> compare_exchange(std::size_t offset, std::uint64_t &expected, std::uint64_t value) {
        return detail::count<bool>(bw_aperture_compare_exchange(get(), offset, &expected, value));
    }
    result<barewire::tripwire> tripwire(std::size_t offset, std::size_t size, bw_mode mode, bw_action action,
                                        std::uint64_t cookie = 0) {
        return detail::made<barewire::tripwire, bw_tripwire>([&](auto *out) {
            return bw_aperture_tripwire(get(), offset, size, mode, action, cookie, out);
        });
    }
    result<void> revoke() { return detail::done(bw_aperture_revoke(get())); }
};

// A peer's memory, as far as it has granted it; given back with its last handle.
class remote_aperture : public detail::owned<bw_remote_aperture, bw_remote_aperture_close> {
public:
    using owned::owned;
    result<remote_aperture> clone() const {
        return detail::made<remote_aperture, bw_remote_aperture>(
            [&](auto *out) { return bw_remote_aperture_clone(get(), out); });
    }
    result<std::size_t> size() const { return detail::count(bw_remote_aperture_len_bytes(get())); }
    result<std::uint64_t> number() const { return detail::count<std::uint64_t>(bw_remote_aperture_number(get())); }
    result<bw_rights> rights() const { return detail::count<bw_rights>(bw_remote_aperture_rights(get())); }
    result<void> put(std::size_t offset, bytes_view data) {
        return detail::done(bw_remote_aperture_put(get(), offset, data.data(), data.size()));
    }
    result<void> get_bytes(std::size_t offset, buffer_view into) const {
        return detail::done(bw_remote_aperture_get(get(), offset, into.data(), into.size()));
    }
    result<std::uint64_t> load(std::size_t offset) const {
        std::uint64_t value = 0;
        if (bw_remote_aperture_load(get(), offset, &value) < 0) return error::last();
        return value;
    }
    result<void> store(std::size_t offset, std::uint64_t value) {
        return detail::done(bw_remote_aperture_store(get(), offset, value));
    }
    result<std::uint64_t> add(std::size_t offset, std::uint64_t value) {
        std::uint64_t was = 0;
        if (bw_remote_aperture_add(get(), offset, value, &was) < 0) return error::last();
        return was;
    }
    result<bool> compare_exchange(std::size_t offset, std::uint64_t &expected, std::uint64_t value) {
        return detail::count<bool>(bw_remote_aperture_compare_exchange(get(), offset, &expected, value));
    }
    // On what this process stores itself.
    result<barewire::tripwire> tripwire(std::size_t offset, std::size_t size, bw_mode mode, bw_action action,
                                        std::uint64_t cookie = 0) {
        return detail::made<barewire::tripwire, bw_tripwire>([&](auto *out) {
            return bw_remote_aperture_tripwire(get(), offset, size, mode, action, cookie, out);
        });
    }
    // On what the owner stores.
    result<barewire::tripwire> tripwire_on_owner(std::size_t offset, std::size_t size, bw_mode mode,
                                                 bw_action action, std::uint64_t cookie = 0) {
        return detail::made<barewire::tripwire, bw_tripwire>([&](auto *out) {
            return bw_remote_aperture_tripwire_on_owner(get(), offset, size, mode, action, cookie, out);
        });
    }
    result<void> bulk_put(std::size_t offset, bytes_view data, std::uint64_t cookie) {
        return detail::done(bw_remote_aperture_bulk_put(get(), offset, data.data(), data.size(), cookie));
    }
    result<void> bulk_get(std::size_t offset, std::size_t size, std::uint64_t cookie) {
        return detail::done(bw_remote_aperture_bulk_get(get(), offset, size, cookie));
    }
};

// A sender for many threads, each with a clone.
class shared_sender : public detail::owned<bw_shared_sender, bw_shared_sender_close> {
public:
    using owned::owned;
    result<shared_sender> clone() const {
        return detail::made<shared_sender, bw_shared_sender>(
            [&](auto *out) { return bw_shared_sender_clone(get(), out); });
    }
    // forever or no_wait.
    result<void> send(bytes_view message, nanoseconds timeout = forever) {
        return detail::done(bw_shared_sender_send(get(), message.data(), message.size(), timeout.count()));
    }
    result<std::size_t> send_batch(const bw_bytes *messages, std::size_t count) {
        return detail::count(bw_shared_sender_send_batch(get(), messages, count));
    }
};

namespace detail {

// What sends: a connection or its sending half.
template <typename H, int32_t (*Close)(H), int32_t (*Send)(H, const void *, size_t, int64_t),
          int64_t (*SendBatch)(H, const bw_bytes *, size_t), int32_t (*Reserve)(H, size_t, int64_t),
          int32_t (*Write)(H, size_t, const void *, size_t), int32_t (*Commit)(H, size_t),
          int32_t (*Abandon)(H), int64_t (*MessageMax)(H), int64_t (*TryMax)(H), int64_t (*ReserveMax)(H),
          int32_t (*Finish)(H)>
class sends : public owned<H, Close> {
public:
    using owned<H, Close>::owned;
    // Sends a message, whole.
    result<void> send(bytes_view message, nanoseconds timeout = forever) {
        return done(Send(this->get(), message.data(), message.size(), timeout.count()));
    }
    // Sends a message if there is room for it now; whether there was.
    result<bool> try_send(bytes_view message) {
        int32_t sent = Send(this->get(), message.data(), message.size(), BW_NO_WAIT);
        if (sent == BW_E_WOULD_BLOCK) return false;
        if (sent < 0) return error::last();
        return true;
    }
    // Sends as many as there is room for; how many.
    result<std::size_t> send_batch(const bw_bytes *messages, std::size_t n) {
        return detail::count(SendBatch(this->get(), messages, n));
    }
    // Reserves room in the receiver's memory, to be written and committed (or abandoned) before any other call.
    result<void> reserve(std::size_t size, nanoseconds timeout = forever) {
        return done(Reserve(this->get(), size, timeout.count()));
    }
    result<void> reserved_write(std::size_t at, bytes_view data) {
        return done(Write(this->get(), at, data.data(), data.size()));
    }
    result<void> commit(std::size_t size) { return done(Commit(this->get(), size)); }
    result<void> abandon() { return done(Abandon(this->get())); }
    result<std::size_t> message_bytes_max() const { return detail::count(MessageMax(this->get())); }
    result<std::size_t> try_send_bytes_max() const { return detail::count(TryMax(this->get())); }
    result<std::size_t> reserve_bytes_max() const { return detail::count(ReserveMax(this->get())); }
    // Nothing more will be sent.
    result<void> finish() { return done(Finish(this->get())); }
};

// What receives, mixed into the class D that owns a handle.
template <typename D, typename H, int64_t (*Recv)(H, void *, size_t, int64_t),
          int64_t (*RecvBatch)(H, void *, size_t, size_t *, size_t), int64_t (*Peek)(H, int64_t),
          int32_t (*PeekedRead)(H, size_t, void *, size_t), int32_t (*Release)(H)>
class receives {
public:
    // Receives a message into a buffer; its length.
    result<std::size_t> recv(buffer_view into, nanoseconds timeout = forever) {
        return detail::count(Recv(handle(), into.data(), into.size(), timeout.count()));
    }
    // Receives a message if one is there; its length, or nothing.
    result<std::optional<std::size_t>> try_recv(buffer_view into) {
        int64_t len = Recv(handle(), into.data(), into.size(), BW_NO_WAIT);
        if (len == BW_E_WOULD_BLOCK) return std::optional<std::size_t>();
        if (len < 0) return error::last();
        return std::optional<std::size_t>(static_cast<std::size_t>(len));
    }
    // Receives a message of any length into a vector or a string of bytes, which becomes as long.
    template <typename C>
    result<std::size_t> recv_into(C &into, nanoseconds timeout = forever) {
        static_assert(sizeof(*into.data()) == 1, "a container of bytes");
        for (;;) {
            int64_t len = Recv(handle(), into.data(), into.size(), timeout.count());
            if (len >= 0) {
                into.resize(static_cast<std::size_t>(len));
                return static_cast<std::size_t>(len);
            }
            error e = error::last();
            if (e.code() != BW_E_BUFFER_TOO_SMALL) return e;
            into.resize(e.needed_bytes());
        }
    }
    // Receives what is there, message behind message; how many. The lengths go where `lengths` leads to.
    result<std::size_t> recv_batch(buffer_view into, std::size_t *lengths, std::size_t count_max) {
        return detail::count(RecvBatch(handle(), into.data(), into.size(), lengths, count_max));
    }
    // Waits for a message and leaves it where it is; its length.
    result<std::size_t> peek(nanoseconds timeout = forever) {
        return detail::count(Peek(handle(), timeout.count()));
    }
    result<void> peeked_read(std::size_t at, buffer_view into) {
        return done(PeekedRead(handle(), at, into.data(), into.size()));
    }
    // Takes the message away that peek has found.
    result<void> release_message() { return done(Release(handle())); }

private:
    H handle() const { return static_cast<const D *>(this)->get(); }
};

}  // namespace detail

// The sending half of a connection.
class sender
    : public detail::sends<bw_sender, bw_sender_close, bw_sender_send, bw_sender_send_batch, bw_sender_reserve,
                           bw_sender_reserved_write, bw_sender_commit, bw_sender_abandon,
                           bw_sender_message_bytes_max, bw_sender_try_send_bytes_max,
                           bw_sender_reserve_bytes_max, bw_sender_finish> {
public:
    using sends::sends;
    // Becomes a sender for many threads; this one is empty afterwards.
    result<shared_sender> share() {
        return detail::made<shared_sender, bw_shared_sender>(
            [&](auto *out) { return bw_sender_share(release(), out); });
    }
};

// The receiving half of a connection.
class receiver : public detail::owned<bw_receiver, bw_receiver_close>,
                 public detail::receives<receiver, bw_receiver, bw_receiver_recv, bw_receiver_recv_batch,
                                         bw_receiver_peek, bw_receiver_peeked_read, bw_receiver_release> {
public:
    using owned::owned;
};

// The reading direction of a stream.
class stream_reader : public detail::owned<bw_stream_reader, bw_stream_reader_close> {
public:
    using owned::owned;
    // How many bytes; 0 at the end.
    result<std::size_t> read(buffer_view into, nanoseconds timeout = forever) {
        return detail::count(bw_stream_reader_read(get(), into.data(), into.size(), timeout.count()));
    }
};

// The writing direction of a stream.
class stream_writer : public detail::owned<bw_stream_writer, bw_stream_writer_close> {
public:
    using owned::owned;
    // How many bytes; at least one.
    result<std::size_t> write(bytes_view data, nanoseconds timeout = forever) {
        return detail::count(bw_stream_writer_write(get(), data.data(), data.size(), timeout.count()));
    }
    result<void> write_all(bytes_view data) {
        return detail::done(bw_stream_writer_write_all(get(), data.data(), data.size()));
    }
    result<void> finish() { return detail::done(bw_stream_writer_finish(get())); }
};

// A byte stream both ways.
class stream : public detail::owned<bw_stream, bw_stream_close> {
public:
    using owned::owned;
    // How many bytes; 0 at the end.
    result<std::size_t> read(buffer_view into, nanoseconds timeout = forever) {
        return detail::count(bw_stream_read(get(), into.data(), into.size(), timeout.count()));
    }
    // How many bytes; at least one.
    result<std::size_t> write(bytes_view data, nanoseconds timeout = forever) {
        return detail::count(bw_stream_write(get(), data.data(), data.size(), timeout.count()));
    }
    result<void> write_all(bytes_view data) {
        return detail::done(bw_stream_write_all(get(), data.data(), data.size()));
    }
    // Nothing more will be written.
    result<void> finish() { return detail::done(bw_stream_finish(get())); }
    result<std::uint32_t> number() const { return detail::count<std::uint32_t>(bw_stream_number(get())); }
    result<credentials> peer() const {
        credentials who{};
        if (bw_stream_peer(get(), &who) < 0) return error::last();
        return who;
    }
    // The two directions, for two threads; this one is empty afterwards.
    result<std::pair<stream_reader, stream_writer>> split() {
        bw_stream_reader reader{0};
        bw_stream_writer writer{0};
        if (bw_stream_split(release(), &reader, &writer) < 0) return error::last();
        return std::pair<stream_reader, stream_writer>(stream_reader(reader), stream_writer(writer));
    }
};

// A connection: messages both ways. Destroying it closes it; what was sent stays receivable.
class connection
    : public detail::sends<bw_connection, bw_connection_close, bw_connection_send, bw_connection_send_batch,
                           bw_connection_reserve, bw_connection_reserved_write, bw_connection_commit,
                           bw_connection_abandon, bw_connection_message_bytes_max,
                           bw_connection_try_send_bytes_max, bw_connection_reserve_bytes_max,
                           bw_connection_finish>,
      public detail::receives<connection, bw_connection, bw_connection_recv, bw_connection_recv_batch,
                              bw_connection_peek, bw_connection_peeked_read, bw_connection_release> {
public:
    using sends::sends;
    // false if the peer has too many unread.
    result<bool> send_out_of_band(bytes_view data) {
        int32_t sent = bw_connection_send_out_of_band(get(), data.data(), data.size());
        if (sent == BW_E_WOULD_BLOCK) return false;
        if (sent < 0) return error::last();
        return true;
    }
    result<void> grant(const aperture &memory, std::uint64_t cookie) {
        return detail::done(bw_connection_grant(get(), memory.get(), cookie));
    }
    // Waits for an aperture that the peer grants; with its cookie.
    result<std::pair<std::uint64_t, remote_aperture>> import(nanoseconds timeout = forever) {
        std::uint64_t cookie = 0;
        bw_remote_aperture memory{0};
        if (bw_connection_import(get(), timeout.count(), &cookie, &memory) < 0) return error::last();
        return std::pair<std::uint64_t, remote_aperture>(cookie, remote_aperture(memory));
    }
    // The number by which events name it.
    result<std::uint32_t> number() const { return detail::count<std::uint32_t>(bw_connection_number(get())); }
    result<std::string> name() const {
        return detail::text([&](char *into, std::size_t size) { return bw_connection_name(get(), into, size); });
    }
    result<credentials> peer() const {
        credentials who{};
        if (bw_connection_peer(get(), &who) < 0) return error::last();
        return who;
    }
    // The node at the other end, if it is on another host.
    result<std::optional<bw_remote_peer>> remote() const {
        bw_remote_peer who{};
        int32_t is_remote = bw_connection_remote(get(), &who);
        if (is_remote < 0) return error::last();
        return is_remote > 0 ? std::optional<bw_remote_peer>(who) : std::nullopt;
    }
    // The two halves, for two threads; this one is empty afterwards.
    result<std::pair<sender, receiver>> split() {
        bw_sender sending{0};
        bw_receiver receiving{0};
        if (bw_connection_split(release(), &sending, &receiving) < 0) return error::last();
        return std::pair<sender, receiver>(sender(sending), receiver(receiving));
    }
    // Becomes a byte stream; this one is empty afterwards.
    result<stream> into_stream() {
        return detail::made<stream, bw_stream>(
            [&](auto *out) { return bw_connection_into_stream(release(), out); });
    }
};

// A request to connect; destroying it refuses it.
class request : public detail::owned<bw_request, bw_request_close> {
public:
    using owned::owned;
    result<credentials> peer() const {
        credentials who{};
        if (bw_request_peer(get(), &who) < 0) return error::last();
        return who;
    }
    result<std::string> name() const {
        return detail::text([&](char *into, std::size_t size) { return bw_request_name(get(), into, size); });
    }
    // What the peer sent along.
    result<std::vector<unsigned char>> data() const {
        std::vector<unsigned char> data(BW_REQUEST_DATA_BYTES_MAX);
        std::int64_t len = bw_request_data(get(), data.data(), data.size());
        if (len < 0) return error::last();
        data.resize(static_cast<std::size_t>(len));
        return data;
    }
    // This one is empty afterwards, also if it fails.
    result<connection> accept(std::size_t ring_bytes = 0) {
        return detail::made<connection, bw_connection>(
            [&](auto *out) { return bw_request_accept(release(), ring_bytes, out); });
    }
    result<void> reject(const char *reason) { return detail::done(bw_request_reject(release(), reason)); }
};

// A name that is listened to; destroying it gives the name up.
class listener : public detail::owned<bw_listener, bw_listener_close> {
public:
    using owned::owned;
};

// An address at which nodes of other hosts reach a node.
class port : public detail::owned<bw_port, bw_port_close> {
public:
    using owned::owned;
    result<std::string> address() const {
        return detail::text([&](char *into, std::size_t size) { return bw_port_address(get(), into, size); });
    }
};

// Something that happened on a node. Handles that are not taken out of it are closed with it.
class event {
public:
    explicit event(const bw_event &e) : event_(e) {}
    event(event &&other) noexcept : event_(other.event_) { other.forget(); }
    event &operator=(event &&other) noexcept {
        if (this != &other) {
            bw_event_discard(&event_);
            event_ = other.event_;
            other.forget();
        }
        return *this;
    }
    event(const event &) = delete;
    event &operator=(const event &) = delete;
    ~event() { bw_event_discard(&event_); }

    bw_event_kind kind() const { return static_cast<bw_event_kind>(event_.kind); }
    std::uint32_t connection_number() const { return event_.connection_number; }
    std::uint64_t cookie() const { return event_.cookie; }
    std::uint64_t aperture_number() const { return event_.aperture_number; }
    // Until the next wait or poll with the same handle of the node.
    bytes_view data() const { return {event_.data, event_.data_bytes}; }
    // What failed, if something did.
    std::optional<barewire::error> error() const {
        if (event_.error_code == 0) return std::nullopt;
        return barewire::error(event_.error_code, event_.error_fault, event_.text);
    }
    request take_request() { return request(std::exchange(event_.request, bw_request{0})); }
    connection take_connection() { return connection(std::exchange(event_.connection, bw_connection{0})); }
    remote_aperture take_aperture() {
        return remote_aperture(std::exchange(event_.aperture, bw_remote_aperture{0}));
    }

private:
    void forget() {
        event_.request = {0};
        event_.connection = {0};
        event_.aperture = {0};
    }
    bw_event event_;
};

// A node: a place on the network, with an event queue.
class node : public detail::owned<bw_node, bw_node_close> {
public:
    using owned::owned;
    static result<node> make() {
        return detail::made<node, bw_node>([&](auto *out) { return bw_node_new(nullptr, out); });
    }
    static result<node> make(const node_config &config) {
        return detail::made<node, bw_node>([&](auto *out) { return bw_node_new(&config, out); });
    }
    // Another handle of the same node, for another thread.
    result<node> clone() const {
        return detail::made<node, bw_node>([&](auto *out) { return bw_node_clone(get(), out); });
    }
    // For select, poll and epoll. Poll until 0, and only then wait for it.
    result<int> descriptor() const { return detail::count<int>(bw_node_descriptor(get())); }
    result<barewire::credentials> credentials() const {
        barewire::credentials who{};
        if (bw_node_credentials(get(), &who) < 0) return error::last();
        return who;
    }
    result<listener> listen(const std::string &name) {
        return detail::made<listener, bw_listener>(
            [&](auto *out) { return bw_node_listen(get(), name.c_str(), nullptr, out); });
    }
    result<listener> listen(const std::string &name, const listen_options &options) {
        return detail::made<listener, bw_listener>(
            [&](auto *out) { return bw_node_listen(get(), name.c_str(), &options, out); });
    }
    result<port> listen_on(const std::string &address) {
        return detail::made<port, bw_port>(
            [&](auto *out) { return bw_node_listen_on(get(), address.c_str(), out); });
    }
    result<connection> connect(const std::string &name) {
        return detail::made<connection, bw_connection>(
            [&](auto *out) { return bw_node_connect(get(), name.c_str(), nullptr, out); });
    }
    result<connection> connect(const std::string &name, const connect_options &options) {
        return detail::made<connection, bw_connection>(
            [&](auto *out) { return bw_node_connect(get(), name.c_str(), &options, out); });
    }
    // Begins to connect; the number of the connection, with which an event tells how it went.
    result<std::uint32_t> start_connect(const std::string &name, const connect_options &options = {}) {
        return detail::count<std::uint32_t>(bw_node_start_connect(get(), name.c_str(), &options));
    }
    result<void> cancel_connect(std::uint32_t number) {
        return detail::done(bw_node_cancel_connect(get(), number));
    }
    result<request> next_request(nanoseconds timeout = forever) {
        return detail::made<request, bw_request>(
            [&](auto *out) { return bw_node_next_request(get(), timeout.count(), out); });
    }
    // Memory of this process, all zero, that peers may be granted.
    result<aperture> make_aperture(std::size_t size, bw_rights rights, std::uint32_t tripwires_max = 0) {
        return detail::made<aperture, bw_aperture>(
            [&](auto *out) { return bw_node_export(get(), size, rights, tripwires_max, out); });
    }
    // Replaces what is in `events` by at most `max` events; how many. Waits for the first.
    result<std::size_t> wait(std::vector<event> &events, std::size_t max, nanoseconds timeout = forever) {
        return take(events, max, [&](bw_event *found) {
            return bw_node_wait(get(), found, max, timeout.count());
        });
    }
    // The same, without waiting. After 0, the descriptor becomes readable with the next event.
    result<std::size_t> poll(std::vector<event> &events, std::size_t max) {
        return take(events, max, [&](bw_event *found) { return bw_node_poll(get(), found, max); });
    }
    result<void> set(const char *key, const char *value) { return detail::done(bw_node_set(get(), key, value)); }
    result<std::string> get_setting(const char *key) const {
        return detail::text([&](char *into, std::size_t size) { return bw_node_get(get(), key, into, size); });
    }
    result<void> flush_capture() { return detail::done(bw_node_flush_capture(get())); }

private:
    template <typename F>
    result<std::size_t> take(std::vector<event> &events, std::size_t max, F find) {
        events.clear();
        found_.resize(max);
        std::int64_t count = find(found_.data());
        if (count < 0) return error::last();
        for (std::int64_t nth = 0; nth < count; nth++) events.emplace_back(found_[static_cast<std::size_t>(nth)]);
        return static_cast<std::size_t>(count);
    }
    std::vector<bw_event> found_;
};

}  // namespace barewire

#endif
