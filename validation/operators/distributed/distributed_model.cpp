// SPDX-License-Identifier: Apache-2.0
#include "distributed_model.hpp"

#include <fmt/format.h>

#include <limits>

#include "../../global_index.hpp"
#include "../../mpi_main.hpp"
#include "core/error.hpp"

namespace espalier::check {
namespace {

RankPlace place_of(const Grid& grid) {
  const GridShape& p = grid.place();
  return {p.pipeline, p.data, p.tensor};
}

}  // namespace

std::vector<Tokens> draw_batch(const Config& config, int64_t mean_document, Draw& draw) {
  std::vector<Tokens> batch;
  const BatchConfig& b = config.batch;
  for (int64_t m = 0; m < b.global_batch_size / b.micro_batch_size; ++m) {
    batch.push_back(draw_tokens(config, mean_document, draw));
    Tokens& t = batch.back();
    t.first_token.clear();
    if (!has_dropout(config.model)) continue;
    for (int64_t s = 0; s < t.sequences; ++s)
      t.first_token.push_back((m * t.sequences + s) * t.length);
  }
  return batch;
}

DistributedModel::DistributedModel(const Config& config)
    : grid_(Grid::create(test_session(), config.grid)),
      blueprint_(make_blueprint(config, test_session().size(), place_of(grid_))),
      whole_(make_parameter_table(config)),
      store_(blueprint_.parameters, blueprint_.owned, config.grid.zero_stage),
      blocks_(blueprint_, store_, grid_.shard(), grid_.replica()),
      stage_(blueprint_, blocks_, &grid_.tp()),
      pipeline_(blueprint_, stage_, &grid_.pp()) {
  blocks_.also_progress([this] { pipeline_.progress(); });
}

void DistributedModel::for_each(const std::vector<OwnedRange>& owned, Indexing indexing,
                                const std::function<void(int64_t, int64_t)>& f) const {
  const GlobalIndex index(blueprint_.config.model, blueprint_.place.split);
  for (const ParameterSpec& p : blueprint_.parameters.parameters) {
    const int64_t first = whole_.find(p.name).offset, columns = p.columns();
    for (const OwnedRange& range : owned)
      for (int64_t i = std::max(p.offset, range.flat);
           i < std::min(p.offset + p.size(), range.flat + range.size); ++i) {
        const int64_t e = i - p.offset;
        f(indexing == Indexing::flat ? i : range.compact + i - range.flat,
          first + index(p, e / columns, e % columns));
      }
  }
}

void DistributedModel::set_parameters(const Global& values) {
  const Indexing indexing = store_.master_indexing();
  const auto all = own_everything(blueprint_.parameters.flat_size);
  std::vector<double> master;
  const auto put = [&](int64_t at, int64_t global) {
    if (at >= static_cast<int64_t>(master.size())) master.resize(at + 1, 0.0);
    master[at] = values[global];
  };
  for_each(indexing == Indexing::flat ? all : blueprint_.owned, indexing, put);
  write_to(store_.master(), master);
}

std::vector<TokenBatch> DistributedModel::own(const std::vector<Tokens>& batch) const {
  const MicroBatchSet& mine = blueprint_.own_micro_batches;
  std::vector<TokenBatch> tokens;
  for (int64_t i = 0; i < mine.count; ++i) tokens.push_back(batch.at(mine.index(i)).batch());
  return tokens;
}

double DistributedModel::total(const std::vector<double>& losses) const {
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  const bool is_last = blueprint_.chunks.back().is_last;
  ESPALIER_REQUIRE(is_last || sum == 0.0, "a loss of {} on a rank without the last stage", sum);
  // The ranks that share the last stage's products have the same losses.
  const double most = grid_.tp().all_reduce(sum, ReduceOp::max);
  const double least = grid_.tp().all_reduce(sum, ReduceOp::min);
  if (most != least) sum = std::numeric_limits<double>::quiet_NaN();
  if (blueprint_.rank.tensor > 0) sum = 0.0;
  return grid_.world().all_reduce(sum, ReduceOp::sum);
}

double DistributedModel::train(const std::vector<Tokens>& batch, double scale) {
  blocks_.begin_step();
  const std::vector<double> losses = pipeline_.train(own(batch), scale);
  blocks_.finish_step();
  sum_tied_gradients(blueprint_, blocks_.sums(), blocks_.sums_indexing(), &grid_.pp(), tied_room_);
  return total(losses);
}

double DistributedModel::evaluate(const std::vector<Tokens>& batch) {
  return total(pipeline_.evaluate(own(batch)));
}

DistributedModel::Gathered DistributedModel::gradient() {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  Global least(whole_.flat_size, kNone), most(whole_.flat_size, -kNone);
  const Indexing indexing = blocks_.sums_indexing();
  int64_t size = blueprint_.parameters.flat_size;
  if (indexing == Indexing::compact) {
    size = 0;
    for (const OwnedRange& r : blueprint_.owned) size = std::max(size, r.compact + r.size);
  }
  const auto sums = host_copy(blocks_.sums(), size);
  for_each(blueprint_.owned, indexing, [&](int64_t at, int64_t global) {
    least[global] = std::min(least[global], sums[at]);
    most[global] = std::max(most[global], sums[at]);
  });
  grid_.world().all_reduce(least.data(), whole_.flat_size, ReduceOp::min);
  grid_.world().all_reduce(most.data(), whole_.flat_size, ReduceOp::max);
  Gathered g;
  g.values.assign(whole_.flat_size, 0.0);
  for (const ParameterSpec& p : whole_.parameters)
    for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
      g.values[i] = most[i];
      g.missing += most[i] == -kNone;
      g.different += most[i] != least[i];
    }
  return g;
}

std::string Layout::text() const {
  const char* const names[] = {"gpipe", "1f1b", "interleaved", "zero_bubble"};
  return fmt::format("tp {} pp {} dp {} {} x {}{} zero {} shards {} recompute {}", tp, pp, dp,
                     names[static_cast<int>(schedule)], chunks, sequence ? " sequence" : "", zero,
                     shards, static_cast<int>(recompute));
}

Config with_layout(Config c, const Layout& l) {
  c.grid.tensor_parallel = l.tp;
  c.grid.pipeline_parallel = l.pp;
  c.grid.data_parallel = l.dp;
  c.grid.pipeline_schedule = l.schedule;
  c.grid.virtual_stages = l.chunks;
  c.grid.sequence_parallel = l.sequence;
  c.grid.zero_stage = l.zero;
  c.grid.recompute = l.recompute;
  c.numerics.reproducible = l.shards > 0;
  c.numerics.virtual_tensor_parallel = std::max<int64_t>(1, l.shards);
  if (l.chunks > 1) c.model.num_layers = 4;
  return c;
}

std::vector<std::pair<std::string, Config>> families() {
  Config base = small_config();
  base.batch.seq_length = 7;
  base.batch.micro_batch_size = 1;
  base.batch.global_batch_size = 4;
  base.numerics.gradient_reduce_type = ElementType::fp64;
  base.grid.bucket_mib = 0.004;  // several buckets
  Config llama = base, cohere = base;
  llama.model.norm = NormKind::rmsnorm;
  llama.model.position = PositionKind::rope;
  llama.model.activation = Activation::swiglu;
  llama.model.bias = false;
  llama.model.tie_embeddings = false;
  llama.model.num_kv_heads = 2;
  cohere.model.position = PositionKind::rope;
  cohere.model.rope_style = RopeStyle::interleaved;
  cohere.model.activation = Activation::swiglu;
  cohere.model.bias = false;
  cohere.model.residual = Residual::parallel;
  cohere.model.qk_norm = true;
  cohere.model.logit_scale = 0.5;
  cohere.model.num_kv_heads = 2;
  return {{"gpt2", base}, {"llama", llama}, {"cohere", cohere}};
}

Config family(const std::string& name) {
  for (const auto& [known, config] : families())
    if (known == name) return config;
  throw InternalError("there is no family " + name);
}

}  // namespace espalier::check
