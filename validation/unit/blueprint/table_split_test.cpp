// SPDX-License-Identifier: Apache-2.0
// What the ranks of a grid hold of the parameters: together the model once, each piece where it
// belongs, repeated key heads and the tied table's copy counted once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "../../global_index.hpp"
#include "blueprint/blueprint.hpp"

namespace espalier {
namespace {

Config base() {
  Config c;
  c.model.vocab_size = 37;  // no power of two divides it
  c.model.hidden_size = 12;
  c.model.intermediate_size = 24;
  c.model.num_layers = 5;
  c.model.num_heads = 8;
  c.model.num_kv_heads = 8;
  c.model.head_dim = 3;
  c.model.qk_norm = true;
  c.batch.seq_length = 9;
  c.batch.global_batch_size = 4;
  c.grid.data_parallel = 1;
  return c;
}

struct Layout {
  int64_t tp, shards, pp, chunks;  // shards 0: the fast mode
};
const std::vector<Layout> kLayouts = {{1, 0, 1, 1}, {2, 0, 1, 1}, {4, 0, 2, 1}, {1, 4, 1, 1},
                                      {2, 4, 2, 1}, {4, 4, 1, 1}, {2, 8, 2, 2}, {1, 1, 5, 1},
                                      {8, 8, 1, 1}, {8, 0, 2, 2}};

Config with_layout(Config c, const Layout& l) {
  c.grid.tensor_parallel = l.tp;
  c.grid.pipeline_parallel = l.pp;
  c.grid.virtual_stages = l.chunks;
  if (l.chunks > 1) c.grid.pipeline_schedule = PipelineSchedule::interleaved;
  c.numerics.reproducible = l.shards > 0;
  c.numerics.virtual_tensor_parallel = l.shards;
  return c;
}

std::vector<Config> models() {
  std::vector<Config> all;
  for (const int64_t kv : {8, 2, 1})
    for (const bool tied : {true, false}) {
      Config c = base();
      c.model.num_kv_heads = kv;
      c.model.tie_embeddings = tied;
      if (kv == 2) c.model.activation = Activation::swiglu;
      all.push_back(c);
    }
  return all;
}

template <class F>
void for_each_rank(const Config& c, const F& f) {
  for (int64_t p = 0; p < c.grid.pipeline_parallel; ++p)
    for (int64_t t = 0; t < c.grid.tensor_parallel; ++t)
      f(make_blueprint(c, c.grid.tensor_parallel * c.grid.pipeline_parallel, {p, 0, t}));
}

template <class F>
void for_each_case(const F& f) {
  for (const Config& model : models())
    for (const Layout& l : kLayouts) {
      SCOPED_TRACE(fmt::format("kv heads {}, tied {}, tp {}, shards {}, pp {} x {}",
                               model.model.num_kv_heads, model.model.tie_embeddings, l.tp, l.shards,
                               l.pp, l.chunks));
      f(with_layout(model, l));
    }
}

/// f(local row or column, piece) for all of a tensor; complains unless the pieces tile it.
template <class F>
void for_each_unit(const ParameterSpec& p, const F& f) {
  const int64_t length = p.shape.size() == 1 || p.split == Split::columns ? p.columns() : p.rows();
  int64_t next = 0;
  for (const ShardPiece& piece : p.pieces) {
    EXPECT_EQ(piece.local_first, next) << p.name;
    next += piece.count;
    for (int64_t i = 0; i < piece.count; ++i)
      f(piece.local_first + i, piece.global_first + i, piece);
  }
  EXPECT_EQ(next, length) << p.name;
}

TEST(TableSplit, PiecesStandWhereTheDefinitionPutsThem) {
  for_each_case([](const Config& c) {
    for_each_rank(c, [](const Blueprint& b) {
      const check::GlobalIndex index(b.config.model, b.place.split);
      for (const ParameterSpec& p : b.parameters.parameters)
        for_each_unit(p, [&](int64_t local, int64_t global, const ShardPiece&) {
          const bool by_columns = p.split == Split::columns && p.shape.size() == 2;
          const int64_t expected = by_columns            ? index(p, 0, local)
                                   : p.shape.size() == 1 ? index(p, 0, local)
                                                         : index(p, local, 0) / p.shape[1];
          ASSERT_EQ(global, expected) << p.name << " on tensor rank " << b.rank.tensor;
        });
    });
  });
}

// Random numbers go by them: no layout may change one, and no two elements share one.
TEST(TableSplit, NumbersOfElementsAreThoseOfTheModel) {
  for (const Config& model : models()) {
    const ParameterTable whole = make_parameter_table(model);
    int64_t end = 0;
    for (const ParameterSpec& p : whole.parameters) {
      EXPECT_GE(p.number, end) << p.name;
      EXPECT_EQ(p.number % kParameterAlignment, 0) << p.name;
      end = p.number + p.global_size();
    }
    for (const Layout& l : kLayouts)
      for_each_rank(with_layout(model, l), [&](const Blueprint& b) {
        for (const ParameterSpec& p : b.parameters.parameters)
          EXPECT_EQ(p.number, whole.find(p.name).number) << p.name;
      });
  }
}

TEST(TableSplit, EveryUnitCountsOnce) {
  for_each_case([](const Config& c) {
    std::map<std::string, std::vector<int>> counts;
    for (const ParameterSpec& p : make_parameter_table(c).parameters)
      counts[p.name].assign(
          p.split == Split::columns && p.shape.size() == 2 ? p.shape[1] : p.shape[0], 0);
    for_each_rank(c, [&](const Blueprint& b) {
      for (const ParameterSpec& p : b.parameters.parameters) {
        ASSERT_EQ(counts.count(p.name), 1u) << p.name;
        for_each_unit(p, [&](int64_t, int64_t global, const ShardPiece& piece) {
          counts[p.name].at(global) += piece.counts;
          EXPECT_FALSE(p.is_copy && piece.counts) << p.name;
        });
      }
    });
    for (const auto& [name, times] : counts)
      EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << name;
  });
}

// What the gradient norm adds up must not depend on the layout: cells of the same elements.
TEST(TableSplit, CellsDoNotDependOnTheRanks) {
  for (const Config& model : models()) {
    const auto cells_of = [&](const Layout& l) {
      std::map<std::pair<std::string, int64_t>, int64_t> cells;
      for_each_rank(with_layout(model, l), [&](const Blueprint& b) {
        for (const ParameterSpec& p : b.parameters.parameters)
          for (const ShardPiece& piece : p.pieces) {
            const bool tiles = piece.count == 0 || p.split == Split::rows ||
                               piece.count % piece.cell == 0 || piece.cell >= piece.count;
            EXPECT_TRUE(tiles) << p.name;
            for (int64_t i = 0; i < piece.count; ++i)
              cells[{p.name, piece.global_first + i}] = piece.cell;
          }
      });
      return cells;
    };
    const auto one = cells_of({1, 8, 1, 1});
    for (const Layout& l : {Layout{2, 8, 1, 1}, Layout{4, 8, 2, 1}, Layout{8, 8, 2, 2}})
      EXPECT_EQ(cells_of(l), one) << l.tp;
  }
}

TEST(TableSplit, BlocksFollowTheStages) {
  for_each_case([](const Config& c) {
    std::vector<int64_t> layers;
    for_each_rank(c, [&](const Blueprint& b) {
      int64_t next = 0;
      for (const BlockSpan& span : b.parameters.blocks) {
        EXPECT_EQ(span.offset, next);
        next += span.size;
        const ChunkPlan& chunk = b.chunks.at(static_cast<size_t>(span.chunk));
        if (span.kind == BlockKind::layer) {
          EXPECT_GE(span.layer, chunk.layers.first);
          EXPECT_LT(span.layer, chunk.layers.last);
          if (b.rank.tensor == 0) layers.push_back(span.layer);
        } else {
          const bool at_start = span.kind == BlockKind::token || span.kind == BlockKind::position;
          EXPECT_TRUE(at_start ? chunk.is_first : chunk.is_last) << span.name;
        }
      }
      EXPECT_EQ(next, b.parameters.flat_size);
      EXPECT_EQ(b.parameters.parameter_count, make_parameter_table(c).parameter_count);
    });
    std::sort(layers.begin(), layers.end());
    EXPECT_EQ(layers, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  });
}

TEST(TableSplit, TheOutputCopiesATiedTableOnOtherStagesAndInTheReproducibleMode) {
  for (const bool tied : {true, false})
    for (const Layout& l : kLayouts) {
      Config c = with_layout(base(), l);
      c.model.tie_embeddings = tied;
      const bool copy = tied && (l.pp > 1 || l.shards > 0);
      EXPECT_EQ(has_tied_copy(c), copy);
      int64_t outputs = 0, tables = 0;
      for_each_rank(c, [&](const Blueprint& b) {
        for (const BlockSpan& span : b.parameters.blocks) {
          tables += span.kind == BlockKind::token;
          if (span.kind != BlockKind::output) continue;
          ++outputs;
          EXPECT_EQ(&span, &b.parameters.blocks.back());
          const ParameterSpec& p = b.parameters.parameters.back();
          EXPECT_EQ(p.offset, span.offset);
          EXPECT_EQ(p.name, copy ? "embedding.token.weight" : "output.weight");
          EXPECT_EQ(p.is_copy, copy);
          // It starts, decays and is cut as the table itself.
          ParameterTable whole = make_parameter_table(c);
          const ParameterSpec& original = whole.find(p.name);
          EXPECT_EQ(p.shape, original.shape);
          EXPECT_EQ(p.init_std, original.init_std);
          EXPECT_EQ(p.decay, original.decay);
        }
        for (const ParameterSpec& p : b.parameters.parameters)
          EXPECT_EQ(p.is_copy, copy && &p == &b.parameters.parameters.back() &&
                                   b.parameters.blocks.back().kind == BlockKind::output);
      });
      EXPECT_EQ(tables, l.tp);
      EXPECT_EQ(outputs, tied && !copy ? 0 : l.tp);
    }
}

}  // namespace
}  // namespace espalier
