// References to objects: how they tell that a server can be reached over Barewire.
//
// A reference (IOR) carries a tagged component for each name. It says on which host, in which network namespace and for
// which user the name holds. A client to which that applies gets the name as one more address; another client, or one
// without this transport, uses the reference's TCP address.
//
// | field of the component, in CDR | is |
// |---|---|
// | octet | byte order, as in every encapsulation |
// | octet | version of this layout: 1 |
// | string | host: the kernel's boot id, and the number of the network namespace |
// | ulong | user id of the server |
// | string | name |

#include "transport.hpp"

#include <omniORB4/omniInterceptors.h>
#include <omniORB4/omniPolicy.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <mutex>
#include <vector>

namespace barewire_corba {

namespace {

// "BW" and a number. No list of the OMG's has it.
constexpr CORBA::ULong TAG = 0x42570001;
constexpr CORBA::Octet LAYOUT = 1;

// Never freed: threads of the ORB may make references until the process ends.
std::mutex names_lock;
auto &names = *new std::map<omni::IORPublish *, std::vector<std::string>>;

// Where names of this process hold. Empty if the system does not tell: then no name is used.
const std::string &this_host() {
    static const std::string &host = *[] {
        std::string boot;
        std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
        struct stat network {};
        if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) {
            return new std::string;
        }
        return new std::string(boot + "/" + std::to_string(network.st_dev) + ":" + std::to_string(network.st_ino));
    }();
    return host;
}

// The policy of omniORB that says which endpoints references of an object adapter carry, if it has one.
omni::IORPublish *policy_of(const omniIORHints &hints) {
    for (CORBA::ULong at = 0; hints.policies != nullptr && at < hints.policies->length(); ++at) {
        auto policy = omniPolicy::EndPointPublishPolicy::_narrow((*hints.policies)[at]);
        if (!CORBA::is_nil(policy)) {
            omni::IORPublish *published = policy->getEPs();
            CORBA::release(policy);
            return published;
        }
    }
    return nullptr;
}

void add_component(IOP::MultipleComponentProfile &components, const std::string &name) {
    cdrEncapsulationStream stream(CORBA::ULong(0), CORBA::Boolean(1));
    stream.marshalOctet(LAYOUT);
    stream.marshalRawString(this_host().c_str());
    CORBA::ULong user = geteuid();
    user >>= stream;
    stream.marshalRawString(name.c_str());
    IOP::TaggedComponent &component = omniIOR::newIIOPtaggedComponent(components);
    component.tag = TAG;
    stream.setOctetSeq(component.component_data);
}

CORBA::Boolean encode(omni::omniInterceptors::encodeIOR_T::info_T &info) {
    // References of GIOP 1.0 have no components.
    if (this_host().empty() || (info.iiop.version.major == 1 && info.iiop.version.minor == 0)) {
        return 1;
    }
    omni::IORPublish *policy = policy_of(info.hints);
    std::lock_guard<std::mutex> lock(names_lock);
    for (const std::string &name : names[policy]) {
        add_component(info.iiop.components, name);
    }
    return 1;
}

// The name in a component; empty if it does not hold here.
std::string name_in(const IOP::TaggedComponent &component) {
    cdrEncapsulationStream stream(component.component_data.get_buffer(), component.component_data.length(), 1);
    if (stream.unmarshalOctet() != LAYOUT) {
        return "";
    }
    CORBA::String_var host = stream.unmarshalRawString();
    CORBA::ULong user;
    user <<= stream;
    CORBA::String_var name = stream.unmarshalRawString();
    bool holds_here = !this_host().empty() && this_host() == host.in() && user == geteuid();
    return holds_here && is_name(name) ? name.in() : "";
}

CORBA::Boolean decode(omni::omniInterceptors::decodeIOR_T::info_T &info) {
    const IOP::MultipleComponentProfile &components = info.iiop.components;
    for (CORBA::ULong at = 0; info.has_iiop_body && at < components.length(); ++at) {
        if (components[at].tag != TAG) {
            continue;
        }
        std::string name;
        try {
            name = name_in(components[at]);
        } catch (const CORBA::Exception &) {
            // Whoever made the reference got it wrong. Its other addresses may serve.
            omniORB::logs(5, "Barewire: a component of a reference is broken; it is passed over.");
        }
        if (!name.empty()) {
            if (auto *address = omni::giopAddress::str2Address((PREFIX + name).c_str())) {
                info.ior.getIORInfo()->addresses().push_back(address);
            }
        }
    }
    return 1;
}

} // namespace

void publish_name(const std::string &name, omni::IORPublish *only_for) {
    std::lock_guard<std::mutex> lock(names_lock);
    names[only_for].push_back(name);
}

void forget_names() {
    std::lock_guard<std::mutex> lock(names_lock);
    names.clear();
}

void add_interceptors() {
    omniORB::getInterceptors()->encodeIOR.add(encode);
    omniORB::getInterceptors()->decodeIOR.add(decode);
}

void remove_interceptors() {
    omniORB::getInterceptors()->encodeIOR.remove(encode);
    omniORB::getInterceptors()->decodeIOR.remove(decode);
}

} // namespace barewire_corba
