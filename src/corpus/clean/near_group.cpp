// SPDX-License-Identifier: Apache-2.0
// Comparisons within one band.
#include "corpus/clean/near_group.hpp"

namespace espalier {

void NearGroup::add(DocumentId id, const uint16_t* signature) {
  int64_t cluster = -1;  // of `id`, once it is known
  bool is_new = true;
  for (int64_t i = 0; i < count_; ++i) {
    const Member& member = at(i);
    const Agreement found = compare_signatures(member.signature, signature);
    if (static_cast<double>(found.equal) < similarity_ * static_cast<double>(found.filled))
      continue;
    // A document of the same signature is like the same others: no need to keep both.
    is_new = is_new && found.equal != found.filled;
    if (cluster == member.cluster) continue;
    pairs_.push_back({member.id, id, false});
    if (cluster < 0)
      cluster = member.cluster;
    else
      merge(cluster, member.cluster);
  }
  if (!is_new || count_ == kMostCompared) return;
  at(count_) = {id, signature, cluster < 0 ? count_ : cluster};
  ++count_;
}

void NearGroup::merge(int64_t kept, int64_t other) {
  for (int64_t i = 0; i < count_; ++i) {
    if (at(i).cluster == other) at(i).cluster = kept;
  }
}

}  // namespace espalier
