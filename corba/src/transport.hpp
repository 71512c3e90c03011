// The transport giop:barewire as omniORB sees it.

#ifndef BAREWIRE_CORBA_TRANSPORT_HPP
#define BAREWIRE_CORBA_TRANSPORT_HPP

#include <omniORB4/CORBA.h>
#include <omniORB4/giopEndpoint.h>

#include <string>

namespace barewire_corba {

constexpr const char *TYPE = "giop:barewire";
constexpr const char *PREFIX = "giop:barewire:";

// Whether this is a name that an endpoint can have.
bool is_name(const char *name);

// Has references that are made from now on carry the name. `only_for`: those of one policy of omniORB; null: all.
void publish_name(const std::string &name, omni::IORPublish *only_for);
// The same, no more.
void forget_names();
// Registers what puts names into references and takes them out again.
void add_interceptors();
void remove_interceptors();

} // namespace barewire_corba

#endif
