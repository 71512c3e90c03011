// An ordinary program for omniORB: calls a Test::Echo. It knows nothing of Barewire.
//
//     client [-ORB...] WHAT OBJECT [NUMBER]
//
// OBJECT is a reference, or the name of one in the naming service. WHAT is one of the functions below. It ends with 0 and
// "ok" if all was as it should be, and with the exception of CORBA otherwise.

#include "echo.hh"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

static CORBA::ORB_ptr orb;

static void must(bool holds, const char *what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

static Test::Echo_ptr found(const char *object) {
    CORBA::Object_var reference;
    if (std::strchr(object, ':') != nullptr) {
        reference = orb->string_to_object(object);
    } else {
        CORBA::Object_var service = orb->resolve_initial_references("NameService");
        CosNaming::NamingContext_var root = CosNaming::NamingContext::_narrow(service);
        CosNaming::Name path;
        path.length(1);
        path[0].id = CORBA::string_dup(object);
        reference = root->resolve(path);
    }
    return Test::Echo::_narrow(reference);
}

static void call(Test::Echo_ptr echo, long number) {
    for (long at = 0; at < number; ++at) {
        std::string what = "call " + std::to_string(at);
        CORBA::String_var back = echo->text(what.c_str());
        must(what == back.in(), "another text came back");
        must(echo->number(at) == static_cast<CORBA::ULongLong>(at), "another number came back");
    }
}

// Sizes around those of buffers, and at last `number` bytes.
static void large(Test::Echo_ptr echo, long number) {
    for (long size : {0L, 1L, 1000L, 8000L, 8192L, 16384L, 65536L, 70000L, 300000L, number}) {
        Test::Data what;
        what.length(static_cast<CORBA::ULong>(size));
        for (long at = 0; at < size; ++at) {
            what[static_cast<CORBA::ULong>(at)] = static_cast<CORBA::Octet>(at * 7 + at / 256);
        }
        Test::Data_var back = echo->bytes(what);
        must(back->length() == what.length(), "another length came back");
        must(size == 0 || std::memcmp(back->get_buffer(), what.get_buffer(), static_cast<size_t>(size)) == 0,
             "other bytes came back");
    }
}

static void in_threads(long number, const std::function<void(long)> &what) {
    std::vector<std::thread> threads;
    std::vector<std::string> failures(static_cast<size_t>(number));
    for (long at = 0; at < number; ++at) {
        threads.emplace_back([&, at] {
            try {
                what(at);
            } catch (const CORBA::Exception &exception) {
                failures[static_cast<size_t>(at)] = exception._name();
            } catch (const std::exception &exception) {
                failures[static_cast<size_t>(at)] = exception.what();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const std::string &failure : failures) {
        must(failure.empty(), failure.c_str());
    }
}

// Threads that call, each for itself.
static void threads(Test::Echo_ptr echo, long number) {
    in_threads(number, [&](long) { call(echo, 200); });
}

// Calls that return only when all are there: the server must serve them at the same time.
static void meet(Test::Echo_ptr echo, long number) {
    in_threads(number, [&](long) { echo->meet(static_cast<CORBA::Long>(number)); });
}

class Listener : public POA_Test::Listener {
  public:
    void heard(CORBA::Long number) override {
        must(number == heard_, "calls came back in another order");
        ++heard_;
    }
    std::atomic<CORBA::Long> heard_{0};
};

static void call_back(Test::Echo_ptr echo, long number) {
    CORBA::Object_var root = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(root);
    CORBA::PolicyList policies;
    policies.length(1);
    CORBA::Any both;
    both <<= BiDirPolicy::BOTH;
    policies[0] = orb->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, both);
    PortableServer::POA_var adapter = poa->create_POA("back", PortableServer::POAManager::_nil(), policies);
    auto *listener = new Listener;
    PortableServer::ObjectId_var id = adapter->activate_object(listener);
    CORBA::Object_var object = adapter->id_to_reference(id);
    Test::Listener_var reference = Test::Listener::_narrow(object);
    adapter->the_POAManager()->activate();
    echo->call_back(reference, static_cast<CORBA::Long>(number));
    must(listener->heard_ == number, "too few calls came back");
}

// The median time of a call with 8 bytes, of `number` after a tenth of that to warm up, in nanoseconds. A pause before
// each call lets both sides fall asleep.
static void measured(Test::Echo_ptr echo, long number, std::chrono::microseconds pause) {
    std::vector<int64_t> times;
    times.reserve(static_cast<size_t>(number));
    for (long at = -number / 10; at < number; ++at) {
        if (pause.count() > 0) {
            std::this_thread::sleep_for(pause);
        }
        auto began = Clock::now();
        echo->number(static_cast<CORBA::ULongLong>(at));
        if (at >= 0) {
            times.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count());
        }
    }
    std::nth_element(times.begin(), times.begin() + number / 2, times.end());
    std::cout << times[static_cast<size_t>(number / 2)] << std::endl;
}

static void measure(Test::Echo_ptr echo, long number) { measured(echo, number, std::chrono::microseconds(0)); }

static void measure_paused(Test::Echo_ptr echo, long number) { measured(echo, number, std::chrono::milliseconds(1)); }

// Calls with pauses between them, and then does nothing until it is killed.
static void pauses(Test::Echo_ptr echo, long number) {
    call(echo, 10);
    std::cout << "called" << std::endl;
    for (long at = 0; at < number; ++at) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        echo->number(static_cast<CORBA::ULongLong>(at));
    }
    std::cout << "paused" << std::endl;
    for (;;) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
    }
}

// The median time of a call that sends 1 MiB and gets it back, in nanoseconds.
static void measure_large(Test::Echo_ptr echo, long number) {
    Test::Data what;
    what.length(1 << 20);
    std::vector<int64_t> times;
    for (long at = 0; at < number; ++at) {
        auto began = Clock::now();
        Test::Data_var back = echo->bytes(what);
        times.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count());
    }
    std::nth_element(times.begin(), times.begin() + number / 2, times.end());
    std::cout << times[static_cast<size_t>(number / 2)] << std::endl;
}

// Says "called" when the call has begun for sure: after a call that has ended.
static void hang(Test::Echo_ptr echo, long) {
    call(echo, 1);
    std::cout << "called" << std::endl;
    echo->hang();
}

// A call with a limit of time, which must end by it.
static void late(Test::Echo_ptr echo, long number) {
    omniORB::setClientCallTimeout(static_cast<CORBA::ULong>(number));
    auto began = Clock::now();
    try {
        echo->hang();
        must(false, "the call has returned");
    } catch (const CORBA::TIMEOUT &) {
    }
    must(Clock::now() - began >= std::chrono::milliseconds(number), "it ended too early");
    omniORB::setClientCallTimeout(0);
    call(echo, 10);
}

static void stop(Test::Echo_ptr echo, long) { echo->stop(); }

// Calls until that fails.
static void for_ever(Test::Echo_ptr echo, long) {
    call(echo, 1);
    std::cout << "called" << std::endl;
    for (;;) {
        call(echo, 100);
    }
}

int main(int count, char **arguments) {
    const std::map<std::string, void (*)(Test::Echo_ptr, long)> calls = {
        {"call", call},       {"large", large}, {"threads", threads}, {"meet", meet},   {"call_back", call_back},
        {"hang", hang},       {"late", late},   {"stop", stop},       {"for_ever", for_ever},
        {"pauses", pauses},   {"measure", measure},   {"measure_paused", measure_paused},     {"measure_large", measure_large},
    };
    try {
        orb = CORBA::ORB_init(count, arguments);
        must(count >= 3 && calls.count(arguments[1]) == 1, "client [-ORB...] WHAT OBJECT [NUMBER]");
        Test::Echo_var echo = found(arguments[2]);
        calls.at(arguments[1])(echo, count > 3 ? std::atol(arguments[3]) : 100);
        orb->destroy();
    } catch (const CORBA::Exception &exception) {
        std::cerr << exception._name() << std::endl;
        return 1;
    } catch (const std::exception &exception) {
        std::cerr << exception.what() << std::endl;
        return 2;
    }
    std::cout << "ok" << std::endl;
}
