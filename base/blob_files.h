// Blobs beside a text form.
#pragma once

#include <string>
#include <string_view>

#include "base/blob.h"

namespace weft {

// Of FILE.blobs only what the text of FILE refers to: the folder may hold anything. What is absent
// is missed by who asks for it.
Result<BlobStore> LoadBlobsOf(std::string_view text, const std::string& directory);

}  // namespace weft
