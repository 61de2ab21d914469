// SPDX-License-Identifier: Apache-2.0
// espalier corpus inspect, verify, show: what is in token stores and token files.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands/corpus_verbs.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/build/work_share.hpp"
#include "corpus/store/held_out_check.hpp"
#include "corpus/store/store_reader.hpp"
#include "corpus/token_file.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

bool is_folder(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code);
}

bool is_token_file(const std::string& path) {
  return std::filesystem::path(path).extension() == ".tok";
}

void inspect_token_file(const std::string& path) {
  const TokenFile file(path, VerifyData::header);
  const TokenHeader& h = file.header();
  info(
      "{}: format {}, tokenizer {}, vocab_size {}, {} tokens of {} bytes, {} documents, end of "
      "document {}, checksum {:016x}",
      path, kTokenFormatVersion, h.tokenizer, h.vocab_size, h.tokens, h.token_bytes(), h.documents,
      h.end_of_document, h.checksum);
}

// A file of another program, which says neither its vocabulary nor its end of document.
void inspect_foreign_file(const std::string& path) {
  DataConfig data;
  data.document_mask = false;
  data.verify = VerifyData::header;
  constexpr int64_t kAnyVocabulary = int64_t{1} << 31;
  const OpenTokens tokens = open_tokens({path}, Stream::train, data, kAnyVocabulary - 1);
  for (const auto& part : tokens.sources.front().parts)
    info("{}: {} tokens{}; the file does not say its tokenizer", part->path(), part->tokens(),
         part->has_index() ? fmt::format(", {} documents", part->documents()) : "");
}

int inspect(const std::vector<std::string>& paths) {
  ExitCode code = ExitCode::success;
  for (const std::string& path : paths) {
    try {
      if (is_folder(path))
        print_store(read_manifest(path), path);
      else if (is_token_file(path))
        inspect_token_file(path);
      else
        inspect_foreign_file(path);
    } catch (const Error& error) {  // the others are examined all the same
      print_error(error.what());
      code = error.code();
    }
  }
  return static_cast<int>(code);
}

/// What all members found in one store.
struct StoreVerdict {
  std::string faults;  // a line each
  int64_t texts = 0;
};

std::unique_ptr<Tokenizer> lossless_tokenizer(const std::string& store,
                                              const StoreManifest& manifest) {
  auto tokenizer = open_tokenizer(tokenizer_folder(store), manifest.tokenizer);
  if (!tokenizer->is_lossless()) tokenizer.reset();
  return tokenizer;
}

// The shards of this member; a damaged one does not hide the next.
StoreVerdict verify_share(const std::string& store, const StoreManifest& manifest,
                          const Tokenizer* lossless, const Team& team) {
  std::vector<int64_t> tokens;
  for (const ShardRecord& shard : manifest.shards) tokens.push_back(shard.tokens);
  StoreVerdict verdict;
  for (const int64_t i : share_of_work(tokens, team.rank(), team.size())) {
    try {
      verdict.texts +=
          verify_shard(store, manifest, manifest.shards[static_cast<size_t>(i)], lossless).texts;
    } catch (const DataError& error) {
      verdict.faults += std::string(error.what()) + "\n";
    }
  }
  return verdict;
}

// No held-out document is among those of training: by their hashes, whatever the tokenizer keeps.
void verify_held_out(const std::string& store, const StoreManifest& manifest) {
  if (count_shards(manifest, Stream::train).documents == 0 ||
      count_shards(manifest, Stream::validation).documents == 0)
    return;
  DataConfig data;
  data.verify = VerifyData::header;
  require_disjoint(open_tokens({store}, Stream::train, data, manifest.vocab_size),
                   open_tokens({store}, Stream::validation, data, manifest.vocab_size));
}

bool verify_store(const std::string& store, Team& team) {
  const double started = monotonic_seconds();
  StoreManifest manifest;
  std::unique_ptr<Tokenizer> lossless;
  team.together([&] {
    manifest = read_manifest(store);
    verify_manifest(store);
    lossless = lossless_tokenizer(store, manifest);
  });
  const StoreVerdict own = verify_share(store, manifest, lossless.get(), team);
  int64_t texts = 0, damaged = 0;
  for (const std::string& text : team.from_all(fmt::format("{}\n{}", own.texts, own.faults))) {
    texts += std::stoll(text);
    for (size_t line = text.find('\n') + 1, end = 0; line < text.size(); line = end + 1) {
      end = text.find('\n', line);
      if (team.leads()) print_error(text.substr(line, end - line));
      ++damaged;
    }
  }
  if (damaged == 0) {
    team.together([&] {
      if (team.leads()) verify_held_out(store, manifest);
    });
  }
  StoreCounts all;
  for (const ShardRecord& shard : manifest.shards) all += shard;
  if (!team.leads()) return damaged == 0;
  if (damaged > 0) {
    print_error(
        fmt::format("{}: {} of {} shards are damaged; copy them again, or build the store "
                    "again",
                    store, damaged, manifest.shards.size()));
    return false;
  }
  info("{}: {} shards are sound, {} documents, {} tokens ({})", store, manifest.shards.size(),
       all.documents, all.tokens, format_duration(monotonic_seconds() - started));
  info("{}", lossless ? fmt::format("  the text of {} documents was decoded and compared", texts)
                      : fmt::format("  tokenizer {} does not keep every text as it is, so texts "
                                    "were not compared",
                                    manifest.tokenizer));
  return true;
}

void verify_token_file(const std::string& path) {
  const TokenFile file(path, VerifyData::full);
  info("{}: checksum is right, {} documents, {} tokens", path, file.header().documents,
       file.tokens());
}

int verify(const std::vector<std::string>& paths) {
  const auto team = make_team();
  ExitCode code = ExitCode::success;
  for (const std::string& path : paths) {
    try {
      if (is_folder(path)) {
        if (!verify_store(path, *team)) code = ExitCode::data;
      } else {
        team->together([&] {
          if (team->leads()) verify_token_file(path);
        });
      }
    } catch (const DataError& error) {  // the same on all members
      if (team->leads()) print_error(error.what());
      code = error.code();
    }
  }
  return static_cast<int>(code);
}

enum class ShowForm { printable, raw, tokens };

std::string shown_text(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                       ShowForm form) {
  if (form == ShowForm::tokens) return fmt::format("{}\n", fmt::join(tokens, " "));
  std::string text = tokenizer.decode(tokens);
  if (form == ShowForm::raw) return text;
  text = printable_text(text);
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

int show(const std::string& path, int64_t document, ShowForm form) {
  std::string text;
  if (is_folder(path)) {
    const StoreManifest manifest = read_manifest(path);
    const StoreDocument found = read_document(path, manifest, document);
    text =
        shown_text(*open_tokenizer(tokenizer_folder(path), manifest.tokenizer), found.tokens, form);
  } else {
    const TokenFile file(path, VerifyData::header);
    const auto tokenizer = make_tokenizer(file.header().tokenizer);
    const DocumentRange range = find_document(file, document);
    std::vector<int32_t> tokens(static_cast<size_t>(range.end - range.begin));
    file.read(range.begin, range.end - range.begin, tokens.data());
    text = shown_text(*tokenizer, tokens, form);
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw DataError(
        fmt::format("document {} of {} cannot be written to the output", document, path));
  }
  return static_cast<int>(ExitCode::success);
}

void add_show(CLI::App& corpus, Action& action) {
  struct Arguments {
    std::string path;
    int64_t document = 0;
    bool raw = false, tokens = false;
  };
  auto* verb = corpus.add_subcommand("show", "Print a document as text");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("path", arguments->path, "Token store or token file")
      ->required()
      ->type_name("STORE");
  verb->add_option("document", arguments->document,
                   "Its number, from 0; in a store the held-out ones follow the others")
      ->required()
      ->type_name("N");
  auto* raw = verb->add_flag("--raw", arguments->raw, "The bytes as they are, broken UTF-8 too");
  verb->add_flag("--tokens", arguments->tokens, "The ids instead")->excludes(raw);
  verb->callback([arguments, &action] {
    action = [arguments] {
      return show(arguments->path, arguments->document,
                  arguments->raw      ? ShowForm::raw
                  : arguments->tokens ? ShowForm::tokens
                                      : ShowForm::printable);
    };
  });
}

}  // namespace

void add_corpus_inspect(CLI::App& corpus, Action& action) {
  const auto add_paths = [&](const char* name, const char* help,
                             int (*run)(const std::vector<std::string>&)) {
    auto* verb = corpus.add_subcommand(name, help);
    auto paths = std::make_shared<std::vector<std::string>>();
    verb->add_option("paths", *paths, "Token stores and token files")
        ->required()
        ->type_name("STORE");
    verb->callback([paths, run, &action] { action = [paths, run] { return run(*paths); }; });
  };
  add_paths("inspect", "Print what is in token stores and token files", inspect);
  add_paths("verify", "Compare all checksums, counts and texts; mpiexec for several", verify);
  add_show(corpus, action);
}

}  // namespace espalier
