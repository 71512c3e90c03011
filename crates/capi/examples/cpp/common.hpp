// What all examples do: start themselves again as another process, and end with a text when something fails.
#ifndef EXAMPLES_COMMON_HPP
#define EXAMPLES_COMMON_HPP

#include <barewire.hpp>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

// Ends the program if something is not as it must be.
inline void ensure(bool is_so, const char *what) {
    if (!is_so) throw std::runtime_error(std::string("wrong: ") + what);
}

// To connect with: waits half a minute for a name to appear, which is enough for the slowest machine.
inline barewire::connect_options patient() {
    barewire::connect_options options;
    options.timeout_ns = std::chrono::nanoseconds(30s).count();
    return options;
}

// This program as a child process, ended when it is no longer needed.
class child {
public:
    explicit child(std::vector<std::string> arguments) {
        // By its name: valgrind shows its own program behind /proc/self/exe.
        std::string program(4096, '\0');
        ssize_t len = readlink("/proc/self/exe", program.data(), program.size() - 1);
        ensure(len > 0, "the name of this program");
        program.resize(static_cast<std::size_t>(len));
        std::vector<char *> pointers{program.data()};
        for (std::string &argument : arguments) pointers.push_back(argument.data());
        pointers.push_back(nullptr);
        pid_ = fork();
        ensure(pid_ >= 0, "fork");
        if (pid_ == 0) {
            // It does not go on without us.
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execv(program.c_str(), pointers.data());
            _exit(127);
        }
    }
    child(child &&other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
    child(const child &) = delete;
    child &operator=(const child &) = delete;
    child &operator=(child &&) = delete;
    ~child() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }
    // Waits for it; it must end well.
    void end() {
        int status = 0;
        ensure(waitpid(std::exchange(pid_, 0), &status, 0) > 0, "wait for a child");
        ensure(WIFEXITED(status) && WEXITSTATUS(status) == 0, "how the child ended");
    }

private:
    pid_t pid_ = 0;
};

// Runs a program, and says what an exception says.
template <typename F>
int run(F program) {
    try {
        return program();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}

#endif
