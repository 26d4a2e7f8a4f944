// weft: the command line. Each verb is a file; exit codes are those of docs/cli.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <sstream>
#include <system_error>

#include "base/text.h"
#include "base/version.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "codegen/llvm/emit.h"
#include "fallback/execute.h"

namespace weft::cli {
namespace {

struct Entry {
  const char* name;
  const char* help;
  const char* example;
  Verb add;
};

constexpr Entry kVerbs[] = {
    {"check", "list every node that cannot be built", "weft check model.onnx", AddCheck},
    {"build", "optimize a model for the target and write a plan",
     "weft build model.onnx -o model.plan", AddBuild},
    {"run", "run a model or a plan once", "weft run model.onnx --inputs x.npz -o y.npz", AddRun},
    {"bench", "measure latency, and each kernel", "weft bench model.onnx --threads 1", AddBench},
    {"compare", "measure against other ways to run it, and check accuracy",
     "weft compare model.onnx --against vendor,unfused", AddCompare},
    {"inspect", "print a plan without running it", "weft inspect model.plan", AddInspect},
    {"verify", "check the hashes and the structure of a plan", "weft verify model.plan", AddVerify},
    {"explain", "say why each node is where it is", "weft explain model.onnx conv1", AddExplain},
    {"tune", "search the fastest schedule of each kernel by measuring, for later builds",
     "weft tune model.onnx --budget 10m", AddTune},
    {"cache", "look after the compilation cache and the tuning database",
     "weft cache why model.onnx --shape x=1x3x224x224", AddCache},
    {"devices", "list what can be targeted here", "weft devices", AddDevices},
    {"tc", "compile and run one comprehension on given tensors",
     "weft tc mm.tc --entry matmul --inputs ab.npz -o c.npz", AddTc},
    {"opt", "enter and leave the pipeline at any text form",
     "weft opt --from graph --to loops model.onnx -o model.loops", AddOpt},
    {kTrialsVerb, "", "", AddTrials},
};

std::string VersionText() {
  const std::string onednn = fallback::LibraryVersion(fallback::Library::kOnednn);
  return fmt::format("weft {}\n{}\n{}", Version(), codegen::CodegenIdentity(),
                     onednn.empty() ? "onednn: not found" : onednn);
}

int Report(const Status& status, const Flags& flags) {
  if (status.ok()) return 0;
  if (flags.json && status.code() != Code::kNo) {
    PrintJson({{"schema", 1},
               {"error",
                {{"code", static_cast<int>(status.code())},
                 {"what", status.what()},
                 {"where", status.where()},
                 {"why", status.why()},
                 {"try", status.hint()}}}});
  }
  // Line by line: diagnostics of comprehensions have several.
  std::istringstream text("weft: " + status.ToString());
  for (std::string line; std::getline(text, line);) fmt::print(stderr, "{}\n", Printable(line));
  return static_cast<int>(status.code());
}

// What the arguments are not. Whether JSON was asked for is not parsed yet.
int ReportUsage(const CLI::App& app, const CLI::ParseError& error, std::span<char*> arguments) {
  Flags flags;
  for (const std::string_view argument : arguments) flags.json |= argument == "--json";
  const std::string verb = arguments.empty() ? "" : arguments[0];
  const bool is_verb =
      verb.empty() || verb[0] == '-' || std::ranges::count(kVerbs, verb, &Entry::name) > 0;
  return Report(Usage(is_verb ? error.what() : fmt::format("no verb is called \"{}\"", verb))
                    .Try(is_verb && app.get_subcommands().size() == 1
                             ? fmt::format("weft {} --help", app.get_subcommands()[0]->get_name())
                             : "weft --help"),
                flags);
}

int Main(int argc, char** argv) {
  CLI::App app{"weft: optimizes whole networks"};
  app.set_version_flag("--version", VersionText);
  app.require_subcommand(1);
  Flags flags;
  std::function<Status()> chosen;
  for (const Entry& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    if (*verb.help == 0) sub->group("");  // for processes of our own
    sub->footer(std::string("Example: ") + verb.example);
    AddGeneralFlags(*sub, flags);
    auto run = std::make_shared<std::function<Status()>>();
    verb.add(*sub, flags, *run);
    sub->callback([&chosen, run] { chosen = *run; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return ReportUsage(app, error, {argv + 1, argv + argc});
  }
  InstallInterrupt(flags.json);
  Status status = chosen();
  // Whatever an interrupted verb failed of (a cancelled run, a peer that is gone), this is why.
  if (!status.ok() && Interrupted()) status = Status(Code::kInterrupted, "interrupted");
  return Report(status, flags);
}

// A file opened while a standard stream is closed would take its number, and what is printed.
void OpenStandardStreams() {
  int fd = 0;
  while (fd >= 0 && fd <= 2) fd = open("/dev/null", O_RDWR);
  if (fd > 2) close(fd);
}

int CannotPrint(const char* why) {
  std::fprintf(stderr, "weft: standard output: can't write: %s\n", why);
  return static_cast<int>(Code::kLimit);
}

// The exit code of a verb whose output may still lie in a buffer.
int Finish(int code) {
  const bool lost = std::fflush(stdout) != 0;
  return lost && code == 0 ? CannotPrint(std::strerror(errno)) : code;
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  weft::cli::OpenStandardStreams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return weft::cli::Finish(weft::cli::Main(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fputs("weft: out of memory\n", stderr);
    return static_cast<int>(weft::Code::kLimit);
  } catch (const std::system_error& error) {
    // Of what is left only fmt::print throws one.
    return weft::cli::CannotPrint(error.code().message().c_str());
  } catch (const std::exception& error) {
    // Nothing of ours throws and third parties are caught at their doors, so this is a defect.
    std::fprintf(stderr, "weft: a defect of weft: %s\n", error.what());
    return static_cast<int>(weft::Code::kInternal);
  }
}
