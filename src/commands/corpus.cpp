// SPDX-License-Identifier: Apache-2.0
// espalier corpus: token files from text, and what is in them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/bigram_baseline.hpp"
#include "corpus/corpus_builder.hpp"
#include "corpus/token_file.hpp"
#include "corpus/tokenizer.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kTableRows = 50;  // input files that are listed; the rest is summed

int64_t sum_of(const std::vector<InputReport>& inputs, int64_t InputReport::*field) {
  int64_t sum = 0;
  for (const InputReport& input : inputs) sum += input.*field;
  return sum;
}

void print_row(const InputReport& r, const std::string& name) {
  info("{:>10} {:>10} {:>14} {:>14}  {}", r.documents, r.held_out_documents, r.bytes, r.tokens,
       name);
}

void print_inputs(const std::vector<InputReport>& inputs) {
  info("{:>10} {:>10} {:>14} {:>14}  {}", "documents", "held out", "text bytes", "tokens", "file");
  const size_t listed = std::min(inputs.size(), kTableRows);
  for (size_t i = 0; i < listed; ++i) {
    print_row(inputs[i], inputs[i].path + (inputs[i].gzip ? " (gzip)" : ""));
  }
  if (inputs.size() > listed) info("{:>53}and {} more files", "", inputs.size() - listed);
  InputReport all;
  for (auto field : {&InputReport::documents, &InputReport::held_out_documents, &InputReport::bytes,
                     &InputReport::tokens}) {
    all.*field = sum_of(inputs, field);
  }
  print_row(all, fmt::format("all {} files", inputs.size()));
}

// What is odd in the inputs and was kept or skipped: counted, with the first file.
void print_oddities(const std::vector<InputReport>& inputs) {
  const auto is_empty = [](const InputReport& r) { return r.bytes == 0; };
  const auto is_broken = [](const InputReport& r) { return r.broken_utf8 > 0; };
  const auto empty = std::find_if(inputs.begin(), inputs.end(), is_empty);
  if (empty != inputs.end()) {
    warn("{} of {} files are empty and give no document; the first is {}",
         std::count_if(inputs.begin(), inputs.end(), is_empty), inputs.size(), empty->path);
  }
  const auto broken = std::find_if(inputs.begin(), inputs.end(), is_broken);
  if (broken != inputs.end()) {
    warn("{} broken UTF-8 sequences in {} files, kept as bytes; the first file is {} with {}",
         sum_of(inputs, &InputReport::broken_utf8),
         std::count_if(inputs.begin(), inputs.end(), is_broken), broken->path, broken->broken_utf8);
  }
}

int build(const BuildRequest& request) {
  const ByteTokenizer tokenizer;
  for (size_t i = 0; i < request.files.size(); ++i) {
    const auto end = request.files.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(request.files.begin(), end, *end) != end) {
      warn("{} is named twice, so its text counts twice", *end);
    }
  }
  const BuildReport report = build_corpus(request, tokenizer);
  print_inputs(report.inputs);
  print_oddities(report.inputs);
  for (const OutputReport& out : report.outputs) {
    info("{}: {} documents, {} tokens from {} of text, {:.1f} MB/s", out.path, out.documents,
         out.tokens, format_bytes(static_cast<double>(out.text_bytes)),
         static_cast<double>(out.text_bytes) / 1e6 / report.seconds);
  }
  if (report.outputs.size() == 1 && std::ifstream(validation_path(request.prefix)).good()) {
    warn("{} is of an earlier build and was left as it is: nothing was held out this time",
         validation_path(request.prefix));
  }
  return static_cast<int>(ExitCode::success);
}

int inspect(const std::vector<std::string>& paths) {
  ExitCode code = ExitCode::success;
  for (const std::string& path : paths) {
    try {
      const TokenFile file(path, VerifyData::header);
      const TokenHeader& h = file.header();
      info(
          "{}: format {}, tokenizer {}, vocab_size {}, {} tokens of {} bytes, {} documents, end of "
          "document {}, checksum {:016x}",
          path, kTokenFormatVersion, h.tokenizer, h.vocab_size, h.tokens, h.token_bytes(),
          h.documents, h.end_of_document, h.checksum);
      const auto begin = std::chrono::steady_clock::now();
      file.verify_payload();
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      info("{}: checksum is right ({})", path, format_duration(spent.count()));
    } catch (const DataError& error) {  // the other files are examined all the same
      print_error(error.what());
      code = error.code();
    }
  }
  return static_cast<int>(code);
}

enum class ShowForm { printable, raw };

int show(const std::string& path, int64_t document, ShowForm form) {
  const TokenFile file(path, VerifyData::header);
  const auto tokenizer = make_tokenizer(file.header().tokenizer);
  const DocumentRange range = find_document(file, document);
  std::vector<int32_t> tokens(static_cast<size_t>(range.end - range.begin));
  file.read(range.begin, range.end - range.begin, tokens.data());
  std::string text = tokenizer->decode(tokens);
  if (form == ShowForm::printable) {
    text = printable_text(text);
    if (text.empty() || text.back() != '\n') text += '\n';
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw DataError(
        fmt::format("document {} of {} cannot be written to the output", document, path));
  }
  return static_cast<int>(ExitCode::success);
}

nlohmann::json to_json(const BaselineScore& score) {
  return {{"nats_per_token", score.nats_per_token},
          {"bits_per_byte", score.bits_per_byte},
          {"concentration", score.concentration}};
}

void write_json(const BaselineRequest& request, const BaselineReport& report,
                const std::string& path) {
  const nlohmann::json json = {{"train", request.train},
                               {"validation", request.validation},
                               {"seq_length", request.seq_length},
                               {"windows", request.windows},
                               {"tokenizer", report.tokenizer},
                               {"vocab_size", report.vocab_size},
                               {"train_predictions", report.train_predictions},
                               {"scored_predictions", report.scored_predictions},
                               {"scored_bytes", report.scored_bytes},
                               {"unigram", to_json(report.unigram)},
                               {"bigram", to_json(report.bigram)}};
  std::ofstream out(path);
  // Paths may hold any bytes; JSON may not.
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) throw DataError(fmt::format("{}: cannot be written; check the folder and disk", path));
}

int baseline(const BaselineRequest& request, const std::string& json_path) {
  const BaselineReport report = score_baseline(request);
  info("{} predictions counted in training text, {} scored in held-out text",
       report.train_predictions, report.scored_predictions);
  info("unigram: {:.6f} nats/token, {:.4f} bits/byte", report.unigram.nats_per_token,
       report.unigram.bits_per_byte);
  info("bigram:  {:.6f} nats/token, {:.4f} bits/byte", report.bigram.nats_per_token,
       report.bigram.bits_per_byte);
  if (!json_path.empty()) write_json(request, report, json_path);
  return static_cast<int>(ExitCode::success);
}

void add_build(CLI::App& corpus, Action& action) {
  auto* verb = corpus.add_subcommand("build", "Make token files from text, plain or gzip");
  auto request = std::make_shared<BuildRequest>();
  verb->add_option("--out", request->prefix,
                   "Beginning of the outputs' names: PREFIX.train.tok and PREFIX.validation.tok")
      ->required()
      ->type_name("PREFIX");
  verb->add_option(
          "--held-out", request->held_out,
          "Share of the documents kept for validation, chosen by the hash of their content")
      ->type_name("FRACTION");
  verb->add_option("--document-bytes", request->document_bytes,
                   "Cut files into documents of at most N bytes; default: a file is a document")
      ->type_name("N");
  verb->add_option("--seed", request->seed, "Of the held-out choice")->capture_default_str();
  verb->add_option("files", request->files, "Text files")->required()->type_name("FILE");
  verb->callback([request, &action] { action = [request] { return build(*request); }; });
}

void add_inspect(CLI::App& corpus, Action& action) {
  auto* verb = corpus.add_subcommand("inspect", "Print headers and verify checksums");
  auto paths = std::make_shared<std::vector<std::string>>();
  verb->add_option("files", *paths, "Token files")->required()->type_name("FILE");
  verb->callback([paths, &action] { action = [paths] { return inspect(*paths); }; });
}

void add_show(CLI::App& corpus, Action& action) {
  struct Arguments {
    std::string path;
    int64_t document = 0;
    bool raw = false;
  };
  auto* verb = corpus.add_subcommand("show", "Print a document as text");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("file", arguments->path, "Token file")->required()->type_name("FILE");
  verb->add_option("document", arguments->document, "Its number, from 0")
      ->required()
      ->type_name("N");
  verb->add_flag("--raw", arguments->raw, "The bytes as they are, broken UTF-8 too");
  verb->callback([arguments, &action] {
    action = [arguments] {
      return show(arguments->path, arguments->document,
                  arguments->raw ? ShowForm::raw : ShowForm::printable);
    };
  });
}

void add_baseline(CLI::App& corpus, Action& action) {
  struct Arguments {
    BaselineRequest request;
    std::string json;
  };
  auto* verb = corpus.add_subcommand(
      "baseline", "Held-out cross-entropy of unigram and bigram models: what a model must beat");
  auto arguments = std::make_shared<Arguments>();
  BaselineRequest& request = arguments->request;
  verb->add_option("--train", request.train, "Token files to count")->required();
  verb->add_option("--validation", request.validation, "Token files to score")->required();
  verb->add_option("--seq-length", request.seq_length,
                   "Score whole windows of this length only, as the trainer does");
  verb->add_option("--windows", request.windows,
                   "Score N windows only, spread evenly over the files")
      ->type_name("N");
  verb->add_option("--json", arguments->json, "Write the numbers there too")->type_name("FILE");
  verb->callback([arguments, &action] {
    action = [arguments] { return baseline(arguments->request, arguments->json); };
  });
}

}  // namespace

void add_corpus(CLI::App& app, Action& action) {
  auto* corpus = app.add_subcommand("corpus", "Build and examine token files");
  corpus->require_subcommand(1);
  add_build(*corpus, action);
  add_inspect(*corpus, action);
  add_show(*corpus, action);
  add_baseline(*corpus, action);
}

}  // namespace espalier
