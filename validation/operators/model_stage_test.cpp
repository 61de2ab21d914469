// SPDX-License-Identifier: Apache-2.0
// What the stage promises besides the derivative: gradients are added to, documents are isolated,
// nothing is left over from the batch before, chunks of the vocabulary change nothing, and the
// low-precision models follow the double one.
#include <gtest/gtest.h>

#include <cmath>

#include "derivative.hpp"
#include "model_cases.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

/// A model of a case in element type T; the same seed gives the same parameters and tokens.
template <class T>
struct Scene {
  Blueprint blueprint;
  Draw draw{11};
  std::vector<double> parameters;
  Tokens tokens;
  explicit Scene(const ModelCase& c) {
    Config config = c.config;
    config.numerics.compute_type = ElementTraits<T>::kType;
    blueprint = make_blueprint(config, 1);
    parameters = draw_parameters(blueprint.parameters, draw);
    tokens = draw_tokens(config, c.mean_document, draw);
    tokens.targets[0] = 1;
  }
  ModelProblem<T> problem() const { return ModelProblem<T>(blueprint, parameters); }
};

TEST(StageTest, LossIsTheSumOfPlainLosses) {
  // A model whose blocks do nothing and whose embeddings are known has losses to be had by hand.
  ModelCase c{"plain", small_config(), 0};
  c.config.model.position = PositionKind::none;
  c.config.model.tie_embeddings = false;
  Scene<double> s(c);
  const ParameterTable& table = s.blueprint.parameters;
  for (const auto& p : table.parameters)
    if (p.name.find("attention.output") != std::string::npos ||
        p.name.find("mlp.down") != std::string::npos)
      std::fill_n(s.parameters.begin() + p.offset, p.size(), 0.0);
  const auto at = [&](const std::string& name) { return &s.parameters[table.find(name).offset]; };
  const int64_t n = c.config.model.hidden_size, vocab = c.config.model.vocab_size;
  double expected = 0.0;
  for (size_t t = 0; t < s.tokens.inputs.size(); ++t) {
    if (s.tokens.targets[t] < 0) continue;
    const double* x = at("embedding.token.weight") + s.tokens.inputs[t] * n;
    double mean = 0.0, variance = 0.0, sum = 0.0, chosen = 0.0;
    for (int64_t j = 0; j < n; ++j) mean += x[j] / n;
    for (int64_t j = 0; j < n; ++j) variance += (x[j] - mean) * (x[j] - mean) / n;
    for (int64_t v = 0; v < vocab; ++v) {
      double z = 0.0;
      for (int64_t j = 0; j < n; ++j)
        z += at("output.weight")[v * n + j] *
             ((x[j] - mean) / std::sqrt(variance + 1e-5) * at("final_norm.weight")[j] +
              at("final_norm.bias")[j]);
      sum += std::exp(z);
      if (v == s.tokens.targets[t]) chosen = z;
    }
    expected += std::log(sum) - chosen;
  }
  EXPECT_NEAR(s.problem().loss(s.tokens), expected, 1e-11);
}

TEST(StageTest, TrainAndEvaluateGiveTheSameLoss) {
  for (const auto& c : named_cases()) {
    Scene<double> s(c);
    auto problem = s.problem();
    const double before = problem.loss(s.tokens);
    problem.gradient(s.tokens, 1.0);
    EXPECT_EQ(problem.last_loss(), problem.train_loss(s.tokens)) << c.name;
    EXPECT_EQ(problem.loss(s.tokens), before) << c.name;
    EXPECT_EQ(problem.last_loss() == before, !has_dropout(c.config.model)) << c.name;
    Scene<double> plain(c);
    set_dropout(plain.blueprint.config.model, 0.0);
    EXPECT_EQ(plain.problem().loss(s.tokens), before) << c.name;
  }
}

TEST(StageTest, GradientsAreAddedAndPaddingIsLeftAlone) {
  for (const auto& c : named_cases()) {
    SCOPED_TRACE(c.name);
    Scene<double> s(c);
    auto problem = s.problem();
    const auto plain = problem.gradient(s.tokens, 0.5);
    const auto before = s.draw.normals(static_cast<int64_t>(plain.size()));
    const auto added = problem.gradient(s.tokens, 0.5, before);
    std::vector<bool> is_parameter(plain.size(), false);
    for (const auto& p : problem.table().parameters)
      for (int64_t i = 0; i < p.size(); ++i) is_parameter[p.offset + i] = true;
    std::vector<double> sum = plain;
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += before[i];
      if (!is_parameter[i]) {
        ASSERT_EQ(added[i], before[i]) << "padding at " << i;
      }
    }
    EXPECT_LT(relative_distance(added, sum), 1e-14);
    EXPECT_GT(relative_distance(added, plain), 1e-3);  // overwritten would be this
  }
}

/// Gradients whose matrices hold NaN until the first product overwrites them.
class NewBlocks : public ResidentBlocks<double> {
 public:
  NewBlocks(const ParameterStore<double>& store, const DeviceList<double>& flat)
      : ResidentBlocks<double>(store), is_new_(store.table().blocks.size(), true) {
    std::vector<double> values(static_cast<size_t>(flat.size()), 0.0);
    for (const auto& p : store.table().parameters)
      if (p.shape.size() == 2) std::fill_n(values.begin() + p.offset, p.size(), std::nan(""));
    flat.write(values);
    set_gradients(flat.data());
  }
  bool is_new(int64_t block) const override { return is_new_[static_cast<size_t>(block)]; }
  GradientView<double> gradients(int64_t block) override {
    auto view = ResidentBlocks<double>::gradients(block);
    if (is_new(block)) view.write = Write::overwrite;
    is_new_[static_cast<size_t>(block)] = false;
    return view;
  }

 private:
  std::vector<bool> is_new_;
};

// Also with a table that both the output's product and the embedding add to, and with products in
// chunks of the vocabulary.
TEST(StageTest, TheFirstProductsOverwriteWhatIsNew) {
  for (const auto& c : all_cases()) {
    SCOPED_TRACE(c.name);
    Scene<double> s(c);
    s.blueprint.activations.classifier_rows =
        std::min<int64_t>(s.blueprint.activations.classifier_rows, 5);
    auto problem = s.problem();
    const auto expected = problem.gradient(s.tokens, 1.0, problem.gradient(s.tokens, 1.0));
    ParameterStore<double> store(s.blueprint.parameters);
    write_to(store.master(), s.parameters);
    const DeviceList<double> flat(s.blueprint.parameters.flat_size);
    NewBlocks blocks(store, flat);
    Stage<double> stage(s.blueprint, blocks, nullptr);
    stage.reserve_losses(1);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(stage.begins_sum(0), i == 0);
      stage.forward(0, 0, s.tokens.batch(), nullptr, Mode::train);
      stage.backward(0, 0, nullptr, nullptr, 1.0, BackwardPart::together, 0);
    }
    EXPECT_LT(relative_distance(flat.host(), expected), 1e-14);
  }
}

TEST(StageTest, NothingIsLeftOverFromTheBatchBefore) {
  for (const auto& c : named_cases()) {
    Scene<double> s(c);
    auto problem = s.problem();
    const auto first = problem.gradient(s.tokens, 1.0);
    const Tokens others = draw_tokens(c.config, 2, s.draw);
    EXPECT_NE(problem.gradient(others, 3.0), first) << c.name;
    EXPECT_EQ(problem.gradient(s.tokens, 1.0), first) << c.name;
  }
}

/// Resident blocks that remember what the stage asked of them.
class WatchedBlocks : public ResidentBlocks<double> {
 public:
  WatchedBlocks(const ParameterStore<double>& store, const DeviceList<double>& flat)
      : ResidentBlocks<double>(store), table_(store.table()), flat_(flat), when_done(flat.host()) {
    set_gradients(flat.data());
    uses.resize(table_.blocks.size(), 0);
  }
  void prefetch(int64_t block) override {
    EXPECT_EQ(uses[static_cast<size_t>(block)], 0) << "prefetched in use: " << block;
    prefetched.push_back(block);
  }
  BlockView<const double> values(int64_t block) override {
    ++uses[static_cast<size_t>(block)];
    most = std::max(most, std::count_if(uses.begin(), uses.end(), [](int n) { return n > 0; }));
    return ResidentBlocks<double>::values(block);
  }
  void release(int64_t block) override { --uses[static_cast<size_t>(block)]; }
  void gradients_done(int64_t block) override {
    order.push_back(block);
    const BlockSpan& span = table_.blocks[static_cast<size_t>(block)];
    const auto values = host_copy(flat_.data() + span.offset, span.size);
    std::copy(values.begin(), values.end(), when_done.begin() + span.offset);
  }
  void progress() override { ++progressed; }

 private:
  const ParameterTable& table_;
  const DeviceList<double>& flat_;

 public:
  std::vector<double> when_done;
  std::vector<int64_t> order, prefetched;
  std::vector<int> uses;
  std::ptrdiff_t most = 0;
  int progressed = 0;
};

TEST(StageTest, BlocksAreCompleteFromTheLastToTheFirst) {
  // tied: token, position, two layers, final norm; untied: the output as well
  for (const size_t which : {0, 1}) {
    const ModelCase c = named_cases()[which];
    Scene<double> s(c);
    ParameterStore<double> store(s.blueprint.parameters);
    write_to(store.master(), s.parameters);
    const DeviceList<double> flat(s.blueprint.parameters.flat_size);
    WatchedBlocks blocks(store, flat);
    Stage<double> stage(s.blueprint, blocks, nullptr);
    stage.reserve_losses(1);
    stage.forward(0, 0, s.tokens.batch(), nullptr, Mode::train);
    EXPECT_EQ(blocks.prefetched, (std::vector<int64_t>{3}));
    EXPECT_TRUE(blocks.order.empty());
    stage.backward(0, 0, nullptr, nullptr, 1.0, BackwardPart::together, 0);
    std::vector<int64_t> expected = {4, 3, 2, 1, 0};
    if (!c.config.model.tie_embeddings) expected.insert(expected.begin(), 5);
    EXPECT_EQ(blocks.order, expected) << c.name;
    EXPECT_EQ(blocks.prefetched, (std::vector<int64_t>{3, 2}));
    EXPECT_EQ(blocks.when_done, flat.host());
    EXPECT_EQ(blocks.uses, std::vector<int>(blocks.uses.size(), 0)) << "not all were released";
    EXPECT_LE(blocks.most, 2);  // a block, and the one before it, whose bias is still to be added
    EXPECT_GE(blocks.progressed, 4);
  }
}

TEST(StageTest, ChunksOfTheVocabularyChangeNothing) {
  for (const auto& c : named_cases()) {
    Scene<double> s(c);
    auto whole = s.problem();
    const auto expected = whole.gradient(s.tokens, 1.0);
    for (const int64_t rows : {1, 5, 16}) {
      if (rows >= s.blueprint.activations.classifier_rows) continue;
      Blueprint chunked = s.blueprint;
      chunked.activations.classifier_rows = rows;
      for (auto& t : chunked.activations.workspace)
        if (t.name == "logits") t.rows = rows;
      ModelProblem<double> problem(chunked, s.parameters);
      EXPECT_LT(relative_distance(problem.gradient(s.tokens, 1.0), expected), 1e-14) << c.name;
      EXPECT_LT(relative_difference(problem.last_loss(), whole.last_loss()), 1e-14) << c.name;
    }
  }
}

/// Three documents of 5, 7 and 6 tokens in each sequence, every token of its own document only.
Tokens three_documents() {
  Tokens tokens;
  tokens.sequences = 1;
  tokens.length = 18;
  tokens.first_token = {36};
  for (int32_t t = 0; t < 18; ++t) {
    const int32_t start = t < 5 ? 0 : t < 12 ? 5 : 12;
    tokens.inputs.push_back(t);
    tokens.targets.push_back((t * 7) % 23);
    tokens.positions.push_back(t - start);
    tokens.document_start.push_back(start);
  }
  return tokens;
}

/// Largest gradient of one document's loss on the embeddings of its own and of the others' tokens.
template <class T>
std::pair<double, double> own_and_others(Scene<T>& s, Tokens tokens, int32_t document) {
  std::vector<bool> is_own;
  for (int32_t t = 0; t < 18; ++t) {
    const int32_t start = t < 5 ? 0 : t < 12 ? 5 : 12;
    is_own.push_back(start == document);
    if (!is_own.back()) tokens.targets[t] = -1;
  }
  auto problem = s.problem();
  const auto gradient = problem.gradient(tokens, 1.0);
  const auto& table = problem.table().find("embedding.token.weight");
  double own = 0.0, others = 0.0;
  for (int64_t i = 0; i < 18 * table.shape[1]; ++i) {
    double& part = is_own[i / table.shape[1]] ? own : others;
    part = std::max(part, std::abs(gradient[table.offset + i]));
  }
  return {own, others};
}

template <class T>
void check_isolation() {
  for (auto c : named_cases()) {
    if (c.config.batch.seq_length != 17) continue;
    SCOPED_TRACE(c.name);
    c.config.batch.seq_length = 18;
    c.config.batch.micro_batch_size = c.config.batch.global_batch_size = 1;
    c.config.model.tie_embeddings = false;  // the classifier's gradient touches every row
    Scene<T> s(c);
    const Tokens masked = three_documents();
    Tokens open = masked;
    std::fill(open.document_start.begin(), open.document_start.end(), 0);
    for (const int32_t document : {0, 5, 12}) {
      const auto [own, others] = own_and_others(s, masked, document);
      EXPECT_GT(own, 1e-4);
      EXPECT_EQ(others, 0.0);
      // Without the mask a later document sees the earlier ones.
      if (document > 0) {
        EXPECT_GT(own_and_others(s, open, document).second, 1e-5);
      }
    }
  }
}
TEST(StageTest, DocumentsAreExactlyIsolated) {
  check_isolation<double>();
  check_isolation<float>();
  check_isolation<bf16>();
  check_isolation<fp16>();
}

/// Relative error of T's gradient, and of its loss, against the double model with the same weights.
template <class T>
std::pair<double, double> errors_of_type(const ModelCase& c) {
  Scene<T> low(c);
  for (auto& p : low.parameters) p = static_cast<double>(static_cast<Acc<T>>(T(Acc<T>(p))));
  Scene<double> exact(c);
  exact.parameters = low.parameters;
  auto a = low.problem();
  auto b = exact.problem();
  // Scaled so that fp16's small gradients keep their digits, as its loss scaling does.
  const double scale = 64.0;
  const double gradient =
      relative_distance(a.gradient(low.tokens, scale), b.gradient(exact.tokens, scale));
  return {gradient, relative_difference(a.last_loss(), b.last_loss())};
}

// Each of the about 12 tensors of a block is rounded to the type, forward and backward; the errors
// are independent, so the gradient of three blocks carries about sqrt(2 * 12 * 3) = 8
// half-epsilons, some of them amplified by the norms (weights of 1, rows of small variance) and by
// softmax. Hence 16 epsilons. fp32 adds the rounding of sums and of elementary functions: 64. The
// loss is a sum of many tokens' losses, whose errors partly cancel: a quarter of that.
template <class T>
void compare_models(double epsilons) {
  const double allowed = epsilons * (std::is_same_v<T, float>  ? 0x1.0p-23
                                     : std::is_same_v<T, bf16> ? 0x1.0p-7
                                                               : 0x1.0p-10);
  for (const auto& c : all_cases()) {
    const auto [gradient, loss] = errors_of_type<T>(c);
    EXPECT_LT(gradient, allowed) << c.name;
    EXPECT_LT(loss, allowed / 4) << c.name;
  }
}
TEST(StageTest, LowPrecisionFollowsDouble) {
  compare_models<float>(64);
  compare_models<bf16>(16);
  compare_models<fp16>(16);
}

// The tolerance tells the types apart: bf16 is far outside what fp16 is allowed.
TEST(StageTest, LowPrecisionToleranceIsTight) {
  double worst = 0.0;
  for (const auto& c : named_cases()) worst = std::max(worst, errors_of_type<bf16>(c).first);
  EXPECT_GT(worst, 16 * 0x1.0p-10);
}

}  // namespace
}  // namespace espalier::check
