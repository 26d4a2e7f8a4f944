#include "cli/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/npz.h"
#include "cli/peer_scripts.h"

namespace weft::cli {
namespace {

// Runs the interpreter with `socket` as its standard input and output; < 0 if it can't be started.
pid_t Start(const std::vector<std::string>& arguments, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace

Result<std::unique_ptr<Peer>> Peer::Open(const std::string& library, const std::string& model,
                                         const std::vector<Named>& inputs, uint32_t threads,
                                         bool on_cuda) {
  for (const auto& [name, tensor] : inputs)
    if (tensor.dtype() == Dtype::kBF16 || SharesBytes(tensor.dtype()))
      return Unsupported(fmt::format(
          "{} is given its inputs as arrays of numpy, which has no type for {}, found \"{}\"",
          library, DtypeName(tensor.dtype()), name));
  std::unique_ptr<Peer> peer(new Peer);
  peer->library_ = library;
  std::error_code error;
  peer->folder_ = std::filesystem::temp_directory_path(error) / "weft-peer-XXXXXX";
  if (error || mkdtemp(peer->folder_.data()) == nullptr) {
    peer->folder_.clear();
    return Limit("no folder for the inputs of a peer can be made").At(library);
  }
  for (const PeerScript& script : kPeerScripts)
    if (!(std::ofstream(peer->folder_ + "/" + script.name) << script.text << std::flush))
      return Limit("the scripts of a peer can't be written").At(peer->folder_);
  const std::string file = peer->folder_ + "/inputs.npz";
  WEFT_TRY(WriteNpz(file, inputs));
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return Limit("no socket for a peer can be made");
  const char* python = std::getenv("WEFT_PEER_PYTHON");
  peer->pid_ = Start({python ? python : "python3", peer->folder_ + "/peer.py", library, model, file,
                      fmt::format("{}", threads), on_cuda ? "cuda" : "cpu"},
                     sockets[1]);
  close(sockets[1]);
  peer->in_ = sockets[0];
  peer->out_ = fdopen(sockets[0], "r");
  if (peer->pid_ < 0 || !peer->out_)
    return Missing(fmt::format("{} can't be started", python ? python : "python3"))
        .At(library)
        .Try("set WEFT_PEER_PYTHON to an interpreter that has the library");
  WEFT_TRY(const std::string ready, peer->Answer());
  peer->version_ = ready.substr(ready.find(' ') + 1);
  return peer;
}

Peer::~Peer() {
  if (in_ >= 0) shutdown(in_, SHUT_RDWR);  // the script's loop ends with its input
  if (out_) fclose(out_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Result<std::string> Peer::Answer() {
  std::string line;
  for (int c = 0; (c = std::getc(out_)) != EOF && c != '\n';) line.push_back(static_cast<char>(c));
  if (line.starts_with("error ModuleNotFoundError") || line.starts_with("error ImportError"))
    return Missing(fmt::format("the arm \"{}\" needs a library that is not installed: {}", library_,
                               line.substr(6)))
        .Try("pip install it, or set WEFT_PEER_PYTHON to an interpreter that has it");
  if (line.starts_with("error "))
    return Unsupported(fmt::format("{} says: {}", library_, line.substr(6)));
  if (line.empty()) return Missing(fmt::format("{} ended without an answer", library_));
  return line;
}

Result<std::string> Peer::Ask(const std::string& line) {
  const std::string text = line + "\n";
  if (send(in_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    return Missing(fmt::format("{} has ended", library_));
  return Answer();
}

Result<double> Peer::Run() {
  WEFT_TRY(const std::string answer, Ask("run"));
  double us = 0;
  if (std::from_chars(answer.data(), answer.data() + answer.size(), us).ec != std::errc())
    return Internal(fmt::format("{} answered \"{}\", expected microseconds", library_, answer));
  return us;
}

Result<std::vector<Tensor>> Peer::Outputs(const std::vector<std::string>& names) {
  const std::string file = folder_ + "/outputs.npz";
  WEFT_TRY(const std::string answer, Ask("outputs " + file));
  WEFT_TRY(auto arrays, ReadNpz(file, [](const std::string&) { return Status(); }));
  std::vector<Tensor> outputs;
  for (const std::string& name : names) {
    const auto it = arrays.find(name);
    if (it == arrays.end())
      return Unsupported(fmt::format("{} gives no output called {}", library_, name));
    outputs.push_back(std::move(it->second));
  }
  return outputs;
}

}  // namespace weft::cli
