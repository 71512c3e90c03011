// An ordinary program for omniORB: serves Test::Echo, writes the reference to standard output, or registers it with the
// naming service under the name that is given. It knows nothing of Barewire.
//
//     server [-ORB...] [NAME]

#include "echo.hh"

#include <condition_variable>
#include <iostream>
#include <mutex>

static CORBA::ORB_ptr orb;

class Echo : public POA_Test::Echo {
  public:
    char *text(const char *what) override { return CORBA::string_dup(what); }
    CORBA::ULongLong number(CORBA::ULongLong what) override { return what; }
    Test::Data *bytes(const Test::Data &what) override { return new Test::Data(what); }
    void call_back(Test::Listener_ptr to, CORBA::Long times) override {
        for (CORBA::Long number = 0; number < times; ++number) {
            to->heard(number);
        }
    }
    void meet(CORBA::Long how_many) override {
        std::unique_lock<std::mutex> held(lock_);
        int round = round_;
        if (++here_ == how_many) {
            here_ = 0;
            ++round_;
            changed_.notify_all();
        }
        changed_.wait(held, [&] { return round_ != round; });
    }
    void hang() override {
        std::unique_lock<std::mutex> held(lock_);
        changed_.wait(held, [&] { return is_stopped_; });
    }
    void stop() override {
        {
            std::lock_guard<std::mutex> held(lock_);
            is_stopped_ = true;
            changed_.notify_all();
        }
        orb->shutdown(0);
    }

  private:
    std::mutex lock_;
    std::condition_variable changed_;
    int here_ = 0;
    int round_ = 0;
    bool is_stopped_ = false;
};

static void register_as(const char *name, CORBA::Object_ptr object) {
    CORBA::Object_var service = orb->resolve_initial_references("NameService");
    CosNaming::NamingContext_var root = CosNaming::NamingContext::_narrow(service);
    CosNaming::Name path;
    path.length(1);
    path[0].id = CORBA::string_dup(name);
    root->rebind(path, object);
}

int main(int count, char **arguments) {
    try {
        orb = CORBA::ORB_init(count, arguments);
        CORBA::Object_var found = orb->resolve_initial_references("RootPOA");
        PortableServer::POA_var root = PortableServer::POA::_narrow(found);
        // Calls back over the connection of the caller, if the options allow that.
        CORBA::PolicyList policies;
        policies.length(1);
        CORBA::Any both;
        both <<= BiDirPolicy::BOTH;
        policies[0] = orb->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, both);
        PortableServer::POA_var adapter = root->create_POA("echo", PortableServer::POAManager::_nil(), policies);
        auto *echo = new Echo;
        PortableServer::ObjectId_var id = adapter->activate_object(echo);
        CORBA::Object_var object = adapter->id_to_reference(id);
        adapter->the_POAManager()->activate();
        root->the_POAManager()->activate();
        if (count > 1) {
            register_as(arguments[1], object);
            std::cout << "registered" << std::endl;
        } else {
            CORBA::String_var reference = orb->object_to_string(object);
            std::cout << reference.in() << std::endl;
        }
        orb->run();
        orb->destroy();
        std::cout << "ended" << std::endl;
    } catch (const CORBA::Exception &exception) {
        std::cerr << "server: " << exception._name() << std::endl;
        return 1;
    }
}
