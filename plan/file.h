// The plan file: versioned, sectioned, hashed; no native code inside.
//
//   "WEFTPLAN" | u32 version | u32 sections | table {name[16], u64 offset, u64 bytes, sha256} … |
//   sha256 of all before | sections | blobs; sections and blobs 64-byte aligned, gaps zero, nothing
//   after the last
//
// Sections: `plan` (the text form) and `blobs` (a table of hash, offset in the file and size of
// each weight, nest and tensor attribute). A blob's bytes have no section: the table names their
// hash, which names the blob too, so the bulk of a file is hashed once. Every byte is covered by a
// hash that is checked on load; all offsets and structure are validated again, since an unkeyed
// hash is no trust boundary. The file is read, not mapped, so that what was checked stays so
// whatever becomes of the file; weights are used in place.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"
#include "plan/plan.h"

namespace weft::plan {

inline constexpr uint32_t kFormatVersion = 1;

Status WritePlan(const Plan& plan, const std::string& path);
Result<std::string> SerializePlan(const Plan& plan);
Result<Plan> ReadPlan(const std::string& path);
Result<Plan> ReadPlan(std::span<const std::byte> bytes, const std::string& name);

}  // namespace weft::plan
