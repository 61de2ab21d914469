// SPDX-License-Identifier: Apache-2.0
// What a corpus deck says: which text becomes tokens, and how. Read by deck/corpus_deck.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

enum class SourceFormat { automatic, text, jsonl, html };
enum class DocumentCut { file, line, separator, size };
enum class OnFault { skip, fatal };
enum class OnBrokenText { keep, replace, skip, fatal };
enum class Normalisation { none, nfc, nfkc };
enum class Deduplication { none, exact, near };
enum class TokenizerKind { bytes, sentencepiece, gpt2, huggingface };
enum class SpecialTokens { as_text, as_tokens };
enum class SubwordModel { bpe, unigram };

/// One [[source]]: text that is counted, weighted and named together.
struct SourceConfig {
  std::string name;
  std::vector<std::string> paths;  // files, folders (searched through) and globs
  SourceFormat format = SourceFormat::automatic;
  std::string field = "text";                 // jsonl: name of the text, or a JSON pointer (/a/b)
  std::string language;                       // "en", "zh-Hant": a tag of BCP 47; empty: not known
  double weight = 1.0;                        // in the mix; stands in the manifest
  DocumentCut documents = DocumentCut::file;  // format text only
  std::string separator;                      // documents = separator: the line between them
  int64_t document_bytes = 0;                 // documents = size: bytes of one at most
  std::string encoding;  // html: of pages that do not name theirs; empty: utf-8
};

/// [build]: the store and the work.
struct BuildConfig {
  std::string output;                  // folder of the token store
  double held_out = 0.0;               // share of the documents for validation, in [0, 1)
  int64_t seed = 1;                    // of the held-out choice
  double shard_mib = 256.0;            // of text in one shard, MiB; the unit of work
  double longest_document_mib = 64.0;  // a longer one is a fault
};

/// [faults]: what happens to what cannot be read as it should.
struct FaultConfig {
  OnBrokenText broken_utf8 = OnBrokenText::replace;
  OnFault bad_line = OnFault::skip;       // JSON that is none, a field that is missing or no text
  OnFault long_document = OnFault::skip;  // lines and documents above longest_document_mib
  OnFault damaged_file = OnFault::fatal;  // truncated or damaged gzip and zstd; skip keeps what
                                          // came before the damage
  int64_t examples = 5;                   // places that are shown of each kind of fault
};

/// [clean]: steps in this order. A step is off at its default.
struct CleanConfig {
  Normalisation normalise = Normalisation::none;
  bool remove_control = false;      // control characters but tab and line feed; CR LF -> LF
  int64_t min_characters = 0;       // of a document, after the steps above
  int64_t max_characters = 0;       // 0: no limit
  double max_symbol_ratio = 1.0;    // characters that are no letter, mark, digit or blank
  double max_repeated_lines = 1.0;  // share of lines that stood before in the document
  double min_script_share = 0.0;    // letters in the scripts of the source's language
  Deduplication deduplicate = Deduplication::none;
  double similarity = 0.8;  // near: documents at least so alike (Jaccard) are one
  int64_t shingle = 8;      // near: characters in one shingle
};

/// [tokenizer]
struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::bytes;
  std::string path;             // .model, tokenizer.json, or a folder with vocab.json, merges.txt
  std::string end_of_document;  // the token's text; empty: the tokenizer's own, or a new last id
  SpecialTokens special_tokens = SpecialTokens::as_text;  // where a text spells one
};

/// [train_tokenizer]: for espalier corpus train-tokenizer.
struct TrainTokenizerConfig {
  std::string output;  // path of the .model
  SubwordModel model = SubwordModel::bpe;
  int64_t vocab_size = 8192;
  double sample_mib = 64.0;  // of cleaned text, from all sources by their weight
  double character_coverage = 0.9995;
  int64_t threads = 1;
  int64_t seed = 1;  // of the choice of the sample
};

struct CorpusConfig {
  std::string deck_path;
  BuildConfig build;
  std::vector<SourceConfig> sources;
  FaultConfig faults;
  CleanConfig clean;
  TokenizerConfig tokenizer;
  TrainTokenizerConfig train_tokenizer;
};

}  // namespace espalier
