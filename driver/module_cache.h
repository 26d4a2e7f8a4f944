// A network's way through the pipeline, remembered: the module's own text form at Form::kCall,
// filed under everything that it was made from.
#pragma once

#include <optional>
#include <string>

#include "driver/module.h"
#include "driver/options.h"

namespace weft::driver {

// Of a module that was just opened: its graph, what is asked for, and the compilers and libraries
// that would answer.
std::string ModuleKey(const Module& module, const BuildOptions& options);
// None on a miss, and on an entry that no longer reads (then the pipeline makes it anew).
std::optional<Module> FindModule(const Module& opened, const std::string& key,
                                 const BuildOptions& options);  // with a cache
void StoreModule(const Module& module, const std::string& key, const FileCache& cache);
// From the form that a module was opened at to Form::kPlan, by a cached module if there is one.
Status AdvanceThroughCache(Module& module, const BuildOptions& options);

}  // namespace weft::driver
