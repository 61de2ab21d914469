// SPDX-License-Identifier: Apache-2.0
// The slabs that ranks write: over the ranks of a grid every element of the model once, from the
// place where its value stands, whatever is cut, sharded, repeated or copied.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "../../global_index.hpp"
#include "blueprint/blueprint.hpp"
#include "checkpoint/model_file.hpp"
#include "core/error.hpp"
#include "scratch_folder.hpp"

namespace espalier {
namespace {

struct Layout {
  int64_t tp, dp, pp, zero, zero_shards, shards;
  std::string text() const {
    return fmt::format("tp {} dp {} pp {} zero {} over {} shards {}", tp, dp, pp, zero, zero_shards,
                       shards);
  }
};
const std::vector<Layout> kLayouts = {
    {1, 1, 1, 0, 0, 0}, {2, 2, 2, 0, 0, 0}, {4, 1, 2, 0, 0, 4}, {8, 1, 1, 0, 0, 8},
    {2, 4, 1, 1, 0, 0}, {2, 4, 2, 2, 2, 4}, {4, 2, 1, 3, 0, 0}, {1, 4, 2, 3, 0, 1},
    {1, 4, 1, 1, 2, 4}, {1, 3, 2, 1, 0, 0}, {2, 2, 4, 3, 0, 8}, {4, 3, 2, 2, 0, 0},
};

Config config_of(const Layout& l, int64_t kv_heads, bool tied) {
  Config c;
  c.model.vocab_size = 37;
  c.model.hidden_size = 12;
  c.model.intermediate_size = 20;
  c.model.num_layers = 4;
  c.model.num_heads = 8;
  c.model.num_kv_heads = kv_heads;
  c.model.head_dim = 3;
  c.model.qk_norm = true;
  c.model.tie_embeddings = tied;
  if (!tied) c.model.activation = Activation::swiglu;
  c.batch.seq_length = 9;
  c.batch.global_batch_size = 48;
  c.grid.tensor_parallel = l.tp;
  c.grid.data_parallel = l.dp;
  c.grid.pipeline_parallel = l.pp;
  c.grid.zero_stage = l.zero;
  c.grid.zero_shards = l.zero_shards;
  c.grid.bucket_mib = 0.001;
  c.numerics.reproducible = l.shards > 0;
  c.numerics.virtual_tensor_parallel = std::max<int64_t>(1, l.shards);
  return c;
}

template <class F>
void for_each_case(const F& f) {
  for (const Layout& l : kLayouts)
    for (const int64_t kv_heads : {8, 2, 1})
      for (const bool tied : {true, false}) {
        SCOPED_TRACE(fmt::format("{}, {} kv heads, tied {}", l.text(), kv_heads, tied));
        f(config_of(l, kv_heads, tied));
      }
}

/// The ranks that write: of replicas the first.
std::vector<Blueprint> writers(const Config& c) {
  std::vector<Blueprint> all;
  const GridConfig& g = c.grid;
  const int64_t ranks = g.tensor_parallel * g.data_parallel * g.pipeline_parallel;
  for (int64_t p = 0; p < g.pipeline_parallel; ++p)
    for (int64_t d = 0; d < g.data_parallel; ++d)
      for (int64_t t = 0; t < g.tensor_parallel; ++t) {
        const Blueprint b = make_blueprint(c, ranks, {p, d, t});
        if (d < b.zero_shards && (b.config.grid.zero_stage > 0 || d == 0)) all.push_back(b);
      }
  return all;
}

/// A rank's buffer, in which every element is its own index in the whole tensor, and padding is
/// not a number.
std::vector<float> indices(const Blueprint& b, Indexing indexing) {
  const int64_t compact = b.partition.compact_size(b.rank.data % b.zero_shards);
  std::vector<float> buffer(static_cast<size_t>(std::max(b.parameters.flat_size, compact)),
                            std::numeric_limits<float>::quiet_NaN());
  const check::GlobalIndex index(b.config.model, b.place.split);
  for (const ParameterSpec& p : b.parameters.parameters)
    for (const OwnedRange& r : b.owned)
      for (int64_t i = std::max(p.offset, r.flat);
           i < std::min(p.offset + p.size(), r.flat + r.size); ++i) {
        const int64_t e = i - p.offset;
        const int64_t at = indexing == Indexing::flat ? i : r.compact + i - r.flat;
        buffer[static_cast<size_t>(at)] =
            static_cast<float>(index(p, e / p.columns(), e % p.columns()));
      }
  return buffer;
}

/// Elements of a slab as indices in the whole tensor.
std::vector<int64_t> elements(const TensorSlab& slab, const Shape& shape) {
  const int64_t columns = shape.size() > 1 ? shape[1] : 1;
  const int64_t first = slab.offset.size() > 1 ? slab.offset[1] : 0;
  const int64_t count = slab.extent.size() > 1 ? slab.extent[1] : 1;
  std::vector<int64_t> found;
  for (int64_t row = slab.offset[0]; row < slab.offset[0] + slab.extent[0]; ++row)
    for (int64_t c = first; c < first + count; ++c) found.push_back(row * columns + c);
  return found;
}

TEST(OwnedSlabs, HoldEveryElementOnce) {
  for_each_case([](const Config& c) {
    for (const Indexing indexing : {Indexing::flat, Indexing::compact}) {
      if (indexing == Indexing::compact && c.grid.zero_stage == 0) continue;
      const ParameterTable whole = make_parameter_table(c);
      std::map<std::string, std::vector<int>> times;
      for (const ParameterSpec& p : whole.parameters) times[p.name].assign(p.global_size(), 0);
      int64_t wrong = 0;
      for (const Blueprint& b : writers(c)) {
        const std::vector<float> buffer = indices(b, indexing);
        for (const TensorSlab& slab : owned_slabs(b.parameters, b.owned, indexing, buffer.data())) {
          const auto* data = static_cast<const float*>(slab.data);
          for (const int64_t e : elements(slab, whole.find(slab.name).shape)) {
            ++times.at(slab.name).at(static_cast<size_t>(e));
            wrong += *data++ != static_cast<float>(e);
          }
        }
      }
      EXPECT_EQ(wrong, 0) << "values from other places";
      for (const auto& [name, counts] : times)
        EXPECT_EQ(std::count(counts.begin(), counts.end(), 1),
                  static_cast<std::ptrdiff_t>(counts.size()))
            << name;
    }
  });
}

// A range that ends inside a row cannot be a hyperslab.
TEST(OwnedSlabs, RefuseARangeInsideARow) {
  const ParameterTable t = make_parameter_table(config_of(kLayouts[0], 8, true));
  const std::vector<float> buffer(static_cast<size_t>(t.flat_size));
  const auto slabs = [&](int64_t size) {
    return owned_slabs(t, {{0, size, 0}}, Indexing::flat, buffer.data());
  };
  EXPECT_EQ(slabs(24).size(), 1u);
  EXPECT_THROW(slabs(25), InternalError);
}

// What all ranks of a grid write one after the other is the file that one rank writes.
TEST(OwnedSlabs, MakeTheFileOfOneRank) {
  const ScratchFolder folder;
  const Config alone = config_of(kLayouts[0], 2, true);
  const ParameterTable whole = make_parameter_table(alone);
  const std::vector<TensorRow> rows = tensor_rows(whole);
  const Blueprint one = make_blueprint(alone, 1);
  const std::vector<float> expected = indices(one, Indexing::flat);
  for (const Layout& l : kLayouts) {
    const Config c = config_of(l, 2, true);
    const Indexing indexing = l.zero == 3 ? Indexing::compact : Indexing::flat;
    std::vector<std::vector<float>> buffers;
    TensorSlabs slabs;
    for (const Blueprint& b : writers(c)) {
      buffers.push_back(indices(b, indexing));
      const TensorSlabs own = owned_slabs(b.parameters, b.owned, indexing, buffers.back().data());
      slabs.insert(slabs.end(), own.begin(), own.end());
    }
    write_model(folder.file("model.h5"), nullptr, rows, StoredType::fp32, slabs, {});
    std::vector<float> read(expected.size());
    read_model(folder.file("model.h5"), nullptr, rows, read.data());
    for (const ParameterSpec& p : whole.parameters)
      EXPECT_TRUE(std::equal(read.begin() + p.offset, read.begin() + p.offset + p.size(),
                             expected.begin() + p.offset))
          << p.name << ", " << l.text();
  }
}

}  // namespace
}  // namespace espalier
