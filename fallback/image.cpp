#include "fallback/image.h"

#include "fallback/images/module.h"
#include "fallback/modules.h"

namespace weft::fallback {
namespace {

Result<const images::Module*> Load() {
  auto entry = FindInModule(images::kModuleFile, images::kModuleEntry);
  if (!entry.ok())
    return Missing("images can't be decoded: " + entry.status().what()).Try("./dev build");
  const images::Module* module = reinterpret_cast<images::ModuleEntry>(*entry)();
  if (module->version != images::kModuleVersion)
    return Missing(std::string(images::kModuleFile) + " is of another build").Try("./dev build");
  return module;
}

}  // namespace

Result<Image> DecodeImage(std::span<const uint8_t> bytes) {
  static const Result<const images::Module*> module = Load();
  if (!module.ok()) return module.status();
  return (*module)->decode(bytes);
}

}  // namespace weft::fallback
