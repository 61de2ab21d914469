// SPDX-License-Identifier: Apache-2.0
#include "emulator/device_memory.hpp"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "emulator/engine.hpp"

namespace espalier::emulator {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20, kAlignment = 256;
constexpr size_t kGuard = size_t{1} << 20;   // behind an allocation
constexpr size_t kRange = size_t{16} << 40;  // addresses only; none is used twice
constexpr unsigned char kPoison = 0xff, kRed = 0xe5;

struct Allocation {
  unsigned char *pages = nullptr, *end = nullptr;  // of its pages
  unsigned char* data = nullptr;
  size_t bytes = 0;
  int device = 0;
  bool is_live = true, is_open = false;
  std::string name;
};

struct Memory {
  unsigned char *begin = nullptr, *end = nullptr, *next = nullptr;
  size_t total = 0;
  bool stays_open = false;  // the host may touch it, as an MPI that is GPU-aware does
  std::map<int, size_t> used;
  std::deque<Allocation> all;  // by address; a deque keeps them in place
  int depth = 0;               // of DeviceAccess
  pthread_t owner{};
  std::deque<Allocation*> open;
  struct sigaction before[2] = {};
};

Memory& memory();

const char* text(char* buffer, size_t size, const Allocation& a, const unsigned char* at) {
  const auto offset = static_cast<long>(at - a.data);
  snprintf(buffer, size, "byte %ld of the %zu bytes of %s%s%s%s", offset, a.bytes,
           a.is_live ? "device memory" : "freed device memory", a.name.empty() ? "" : " '",
           a.name.c_str(), a.name.empty() ? "" : "'");
  return buffer;
}

/// The allocation whose pages, or the guard behind them, hold the address.
Allocation* owner_of(const void* address) {
  auto& all = memory().all;
  const auto* const p = static_cast<const unsigned char*>(address);
  auto after =
      std::upper_bound(all.begin(), all.end(), p,
                       [](const unsigned char* x, const Allocation& a) { return x < a.pages; });
  return after == all.begin() ? nullptr : &*std::prev(after);
}

void close_all() {
  Memory& m = memory();
  if (m.stays_open) return;
  for (Allocation* a : m.open) {
    if (a->is_live) mprotect(a->pages, static_cast<size_t>(a->end - a->pages), PROT_NONE);
    a->is_open = false;
  }
  m.open.clear();
}

void open(Allocation& a) {
  mprotect(a.pages, static_cast<size_t>(a.end - a.pages), PROT_READ | PROT_WRITE);
  a.is_open = true;
  memory().open.push_back(&a);
}

bool works_here() {
  return memory().depth > 0 && pthread_equal(memory().owner, pthread_self()) != 0;
}

void report(const unsigned char* address) {
  const bool is_device = address >= memory().begin && address < memory().end;
  char where[256], line[1024];
  const Allocation* const a = is_device ? owner_of(address) : nullptr;
  if (a != nullptr)
    text(where, sizeof where, *a, address);
  else
    snprintf(where, sizeof where, "no allocation of the device");
  const std::string kernel = works_here() ? position() : "";
  if (!works_here())
    snprintf(line, sizeof line,
             "emulated device: the host touched device memory at %p: %s. Copy it, or wait for the "
             "work and use pinned memory.\n",
             static_cast<const void*>(address), where);
  else
    snprintf(line, sizeof line, "emulated device: %s touched %p: %s\n",
             kernel.empty() ? "work on a stream" : kernel.c_str(),
             static_cast<const void*>(address), where);
  (void)!write(STDERR_FILENO, line, strlen(line));
  void* frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
}

void on_fault(int signal, siginfo_t* info, void* machine) {
  Memory& m = memory();
  const auto* const address = static_cast<const unsigned char*>(info->si_addr);
  if (address >= m.begin && address < m.end) {
    Allocation* const a = owner_of(address);
    if (works_here() && a != nullptr && a->is_live && !a->is_open && address < a->end) {
      open(*a);
      return;
    }
    report(address);
  } else {
    if (works_here()) report(address);  // beyond shared memory, a null pointer, a stack too small
    const struct sigaction& before = m.before[signal == SIGBUS];
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
      before.sa_sigaction(signal, info, machine);
      return;
    }
  }
  ::signal(signal, SIG_DFL);  // the same fault again ends the process
}

/// A fiber whose stack has run out has none for the handler.
void have_signal_stack() {
  thread_local bool is_done = false;
  if (is_done) return;
  is_done = true;
  stack_t now;
  sigaltstack(nullptr, &now);
  if ((now.ss_flags & SS_DISABLE) == 0) return;
  constexpr size_t kBytes = 64 * 1024;
  stack_t ours = {};
  ours.ss_sp = new char[kBytes];  // until the process ends: a signal may come at any time
  ours.ss_size = kBytes;
  sigaltstack(&ours, nullptr);
}

/// Libraries set handlers of their own, so ours is looked after before each piece of work.
void handle_faults() {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction now;
    sigaction(signal, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_fault) continue;
    memory().before[signal == SIGBUS] = now;
    struct sigaction ours = {};
    ours.sa_sigaction = &on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &ours, nullptr);
    sigaction(signal, nullptr, &now);
    if (now.sa_sigaction != &on_fault)
      die("another library keeps its own handler of SIGSEGV (with UCX: set "
          "UCX_HANDLE_ERRORS=none)");
  }
}

Memory* make_memory() {
  auto* const m = new Memory;  // for the life of the process
  const char* const mib = getenv("ESPALIER_EMULATED_MEMORY_MIB");
  m->total = (mib == nullptr ? size_t{16384} : strtoull(mib, nullptr, 10)) << 20;
  const char* const open = getenv("ESPALIER_EMULATOR_OPEN_MEMORY");
  m->stays_open = open != nullptr && strcmp(open, "1") == 0;
  void* const range =
      mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    fprintf(stderr,
            "emulated device: the system gives no %zu TiB of addresses; is ulimit -v set?\n",
            kRange >> 40);
    abort();
  }
  m->begin = static_cast<unsigned char*>(range);
  m->end = m->begin + kRange;
  m->next = m->begin;
  return m;
}
Memory& memory() {
  static Memory* const one = make_memory();
  return *one;
}

void check_slack(const Allocation& a) {
  for (const unsigned char* p = a.pages; p < a.end; ++p) {
    if (p == a.data) p += a.bytes;
    if (p == a.end || *p == kRed) continue;
    char where[256];
    die(std::string("something was written at ") + text(where, sizeof where, a, p) +
        ", found when it was freed");
  }
}

}  // namespace

void* allocate_device(size_t bytes, int device) {
  Memory& m = memory();
  if (m.all.empty()) {
    handle_faults();
    void* frame[1];
    backtrace(frame, 1);  // loads what backtrace() needs, which a handler must not
  }
  size_t& used = m.used[device];
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  if (used + rounded > m.total) return nullptr;
  const bool is_large = rounded >= kHugePage;
  const size_t unit = is_large ? kHugePage : kPage;
  Allocation a;
  a.pages = m.begin + (static_cast<size_t>(m.next - m.begin) + unit - 1) / unit * unit;
  a.end = a.pages + (rounded + kPage - 1) / kPage * kPage;
  if (a.end + kGuard > m.end) die("all addresses of the emulated device are used up");
  m.next = a.end + kGuard;
  a.data = a.end - rounded;
  a.bytes = bytes;
  a.device = device;
  const auto size = static_cast<size_t>(a.end - a.pages);
  if (mprotect(a.pages, size, PROT_READ | PROT_WRITE) != 0) return nullptr;
  // Opening and closing costs a page at a time.
  if (is_large) madvise(a.pages, size, MADV_HUGEPAGE);
  memset(a.pages, kRed, size);
  memset(a.data, kPoison, bytes);
  if (!m.stays_open) mprotect(a.pages, size, PROT_NONE);
  used += rounded;
  m.all.push_back(a);
  return a.data;
}

bool free_device(void* data) {
  Memory& m = memory();
  Allocation* const a = owner_of(data);
  if (a == nullptr || a->data != data || !a->is_live) return false;
  const auto size = static_cast<size_t>(a->end - a->pages);
  mprotect(a->pages, size, PROT_READ);
  check_slack(*a);
  mmap(a->pages, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  a->is_live = false;
  m.used[a->device] -= static_cast<size_t>(a->end - a->data);
  return true;
}

void name_device_memory(const void* data, const std::string& name) {
  Allocation* const a = owner_of(data);
  if (a != nullptr && a->data == data) a->name = name;
}

DeviceMemoryUse device_memory_use(int device) {
  Memory& m = memory();
  return {m.total - m.used[device], m.total};
}

bool is_device_address(const void* data) {
  const auto* const p = static_cast<const unsigned char*>(data);
  return p >= memory().begin && p < memory().end;
}

int device_of(const void* data, size_t bytes) {
  if (!is_device_address(data)) return -1;
  const Allocation* const a = owner_of(data);
  const auto* const p = static_cast<const unsigned char*>(data);
  const bool inside = a != nullptr && a->is_live && p >= a->data && p + bytes <= a->data + a->bytes;
  return inside ? a->device : -1;
}

DeviceAccess::DeviceAccess() {
  Memory& m = memory();
  if (m.depth++ == 0) {
    m.owner = pthread_self();
    have_signal_stack();
    handle_faults();
  }
}
DeviceAccess::~DeviceAccess() {
  if (--memory().depth == 0) close_all();
}
HostAccess::HostAccess() : depth_(memory().depth) {
  close_all();
  memory().depth = 0;
}
HostAccess::~HostAccess() {
  memory().depth = depth_;
}

}  // namespace espalier::emulator
