// SPDX-License-Identifier: Apache-2.0
// Guesses and nearest legal values.
#include "deck/guess.hpp"

#include <gtest/gtest.h>

namespace espalier {
namespace {

TEST(Guess, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("steps", "step"), 1);
  EXPECT_EQ(edit_distance("steps", "setps"), 1);  // a swap is one edit
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("Steps", "sTEPS"), 0);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment, not Damerau's 2
  EXPECT_EQ(edit_distance(std::string(100, 'a'), "a"), 100);
}

TEST(Guess, NearestWordIsNearOrNone) {
  const std::vector<std::string> words = {"layernorm", "rmsnorm", "fp32", "fp64"};
  EXPECT_EQ(nearest_word("layer_norm", words), "layernorm");
  EXPECT_EQ(nearest_word("rms_norm", words), "rmsnorm");
  EXPECT_EQ(nearest_word("fp16", words), "");
  EXPECT_EQ(nearest_word("fp23", words), "fp32");
  EXPECT_EQ(nearest_word("", words), "");
  EXPECT_EQ(nearest_word("batchnormalisation", words), "");
}

TEST(Guess, Keys) {
  EXPECT_EQ(guess_key("optimizer", "learning_rat"), "optimizer.learning_rate");
  EXPECT_EQ(guess_key("model", "seq_length"), "batch.seq_length");
  EXPECT_EQ(guess_key("model", "n_head"), "model.num_heads");
  EXPECT_EQ(guess_key("optimizer", "lr"), "optimizer.learning_rate");
  EXPECT_EQ(guess_key("", "lr"), "optimizer.learning_rate");
  EXPECT_EQ(guess_key("model", "zzzzzzzzzz"), "");
}

TEST(Guess, Sections) {
  EXPECT_EQ(guess_section("optimiser"), "optimizer");
  EXPECT_EQ(guess_section("models"), "model");
  EXPECT_EQ(guess_section("recovery"), "");
}

TEST(Guess, NearestLegalValues) {
  const auto divides_12 = [](int64_t v) { return 12 % v == 0; };
  EXPECT_EQ(try_nearest(5, 1, 100, divides_12), "try 4 or 6");
  EXPECT_EQ(try_nearest(20, 1, 100, divides_12), "try 12");
  EXPECT_EQ(try_nearest(5, 5, 5, divides_12), "");
  EXPECT_EQ(try_nearest(1 << 20, 1, 12, divides_12), "try 12");
  EXPECT_EQ(try_nearest(0, 3, 100, divides_12), "try 3");
}

TEST(Guess, Multiples) {
  EXPECT_EQ(try_multiples(10, 1, 100, 4), "try 8 or 12");
  EXPECT_EQ(try_multiples(3, 1, 100, 4), "try 4");
  EXPECT_EQ(try_multiples(99, 1, 100, 8), "try 96");
  EXPECT_EQ(try_multiples(3, 1, 100, 200), "");
}

}  // namespace
}  // namespace espalier
