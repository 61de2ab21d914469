// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <gtest/gtest.h>

#include "core/element_type.hpp"
#include "core/log.hpp"

namespace espalier {
namespace {

template <class E>
ExitCode code_of(const char* text) {
  try {
    throw E(text);
  } catch (const Error& e) {  // main catches the base
    EXPECT_STREQ(e.what(), text);
    return e.code();
  }
}

TEST(Error, EveryClassHasItsExitCode) {
  EXPECT_EQ(static_cast<int>(code_of<InternalError>("a")), 1);
  EXPECT_EQ(static_cast<int>(code_of<DeckError>("b")), 2);
  EXPECT_EQ(static_cast<int>(code_of<LaunchError>("c")), 3);
  EXPECT_EQ(static_cast<int>(code_of<DataError>("d")), 4);
  EXPECT_EQ(static_cast<int>(code_of<NumericalError>("e")), 5);
}

TEST(Error, RequireSaysWhatAndWhere) {
  const int wanted = 3;
  EXPECT_NO_THROW(ESPALIER_REQUIRE(wanted == 3, "never seen"));
  try {
    ESPALIER_REQUIRE(wanted == 4, "{} shards of {}", wanted, "heads");
    FAIL() << "not thrown";
  } catch (const InternalError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("error_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("3 shards of heads"), std::string::npos) << text;
    EXPECT_NE(text.find("wanted == 4"), std::string::npos) << text;
  }
}

TEST(ElementTypes, NamesAndSizes) {
  EXPECT_EQ(element_bytes(ElementType::fp64), 8);
  EXPECT_EQ(element_bytes(ElementType::fp32), 4);
  EXPECT_EQ(element_bytes(ElementType::bf16), 2);
  EXPECT_EQ(element_bytes(ElementType::fp16), 2);
  EXPECT_STREQ(element_name(ElementType::fp64), "fp64");
  EXPECT_STREQ(element_name(ElementType::fp32), "fp32");
  EXPECT_STREQ(element_name(ElementType::bf16), "bf16");
  EXPECT_STREQ(element_name(ElementType::fp16), "fp16");
}

std::string stdout_of(void (*speak)()) {
  testing::internal::CaptureStdout();
  speak();
  return testing::internal::GetCapturedStdout();
}
std::string stderr_of(void (*speak)()) {
  testing::internal::CaptureStderr();
  speak();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, OnlySpeakingProcessesPrintButErrorsAlwaysDo) {
  ASSERT_TRUE(is_speaking());
  EXPECT_EQ(stdout_of([] { info("{} tokens", 3); }), "3 tokens\n");
  EXPECT_EQ(stderr_of([] { warn("{}", "slow"); }), "warning: slow\n");
  set_speaking(false);
  EXPECT_FALSE(is_speaking());
  EXPECT_EQ(stdout_of([] { info("{} tokens", 3); }), "");
  EXPECT_EQ(stderr_of([] { warn("{}", "slow"); }), "");
  EXPECT_EQ(stderr_of([] { print_error("broken"); }), "error: broken\n");
  set_speaking(true);
}

}  // namespace
}  // namespace espalier
