// SPDX-License-Identifier: Apache-2.0
// Rows of the key table of corpus decks.
#include "deck/corpus_keys.hpp"
#include "deck/key_builder.hpp"

namespace espalier {
namespace {

constexpr double kMostMib = 1 << 20;  // a TiB

template <class S>
using CorpusRows = SectionRows<S, CorpusConfig>;

void add_build(std::vector<CorpusKey>& table) {
  CorpusRows<BuildConfig> rows(table, "build", &CorpusConfig::build);
  rows.text("output", &BuildConfig::output)
      .also({"out", "directory", "path"})
      .help("Folder of the token store; it appears when it is whole.");
  rows.real("held_out", &BuildConfig::held_out)
      .at_least(0)
      .below(1)
      .also({"validation", "split"})
      .help("Share of the documents for validation, chosen by the hash of their text.");
  rows.integer("seed", &BuildConfig::seed).at_least(0).help("Of the held-out choice.");
  rows.real("shard_mib", &BuildConfig::shard_mib)
      .unit("MiB")
      .between(1.0 / 1024, kMostMib)
      .help("Input of one shard, about; ranks share the work by shards.");
  rows.real("longest_document_mib", &BuildConfig::longest_document_mib)
      .unit("MiB")
      .between(1.0 / 1024, 1024)
      .help("A longer line or document is a fault (faults.long_document).");
}

void add_source(std::vector<SourceKey>& table) {
  SectionRows<SourceConfig, OneSource> rows(table, kSourceSection, &OneSource::source);
  rows.text("name", &SourceConfig::name)
      .required()
      .help("Its name: letters, digits, - . and _; weights of the mix and files are called so.");
  rows.text_list("paths", &SourceConfig::paths)
      .required()
      .also({"path", "files", "input"})
      .help("Files, folders (searched through) and globs, relative to the working folder.");
  rows.choice<SourceFormat>("format", &SourceConfig::format,
                            {{"automatic", SourceFormat::automatic},
                             {"text", SourceFormat::text},
                             {"jsonl", SourceFormat::jsonl},
                             {"html", SourceFormat::html}})
      .help(
          "What the files are; automatic goes by the name (.jsonl .ndjson .json, .html .htm, else "
          "text). gzip and zstd are known by their first bytes.");
  rows.text("field", &SourceConfig::field)
      .also({"text_field", "json_key"})
      .help("jsonl: the field with the text, or a JSON pointer such as /document/body.");
  rows.text("language", &SourceConfig::language)
      .also({"lang"})
      .help("Language tag (BCP 47), such as en or zh-Hant; empty: not known.");
  rows.real("weight", &SourceConfig::weight)
      .above(0)
      .at_most(1e9)
      .help("Stands in the manifest: the share of the mix when the training deck says nothing.");
  rows.choice<DocumentCut>("documents", &SourceConfig::documents,
                           {{"file", DocumentCut::file},
                            {"line", DocumentCut::line},
                            {"separator", DocumentCut::separator},
                            {"size", DocumentCut::size}})
      .help(
          "text: what a document is: a file, a line, what stands between lines that are the "
          "separator, or a piece of at most document_bytes.");
  rows.text("separator", &SourceConfig::separator)
      .help("documents = separator: the line between two documents.");
  rows.integer("document_bytes", &SourceConfig::document_bytes)
      .unit("bytes")
      .between(0, 1e9)
      .help("documents = size: bytes of one document at most, at least 64.");
  rows.text("encoding", &SourceConfig::encoding)
      .help("html: encoding of pages that do not name theirs; empty: UTF-8.");
}

void add_faults(std::vector<CorpusKey>& table) {
  const std::vector<std::pair<std::string, OnFault>> words = {{"skip", OnFault::skip},
                                                              {"fatal", OnFault::fatal}};
  CorpusRows<FaultConfig> rows(table, "faults", &CorpusConfig::faults);
  rows.choice<OnBrokenText>("broken_utf8", &FaultConfig::broken_utf8,
                            {{"keep", OnBrokenText::keep},
                             {"replace", OnBrokenText::replace},
                             {"skip", OnBrokenText::skip},
                             {"fatal", OnBrokenText::fatal}})
      .help(
          "Documents with bytes that are no character: kept as they are, each broken sequence "
          "replaced by U+FFFD, left out, or the end of the build.");
  rows.choice<OnFault>("bad_line", &FaultConfig::bad_line, words)
      .help("jsonl: a line that is no JSON object, lacks the field, or has no text in it.");
  rows.choice<OnFault>("long_document", &FaultConfig::long_document, words)
      .help("Lines and documents longer than build.longest_document_mib.");
  rows.choice<OnFault>("damaged_file", &FaultConfig::damaged_file, words)
      .help(
          "Truncated or damaged gzip and zstd; skip keeps the documents that are whole before the "
          "damage.");
  rows.integer("examples", &FaultConfig::examples)
      .between(0, 10000)
      .help("Places that are shown of each kind of fault.");
}

void add_clean(std::vector<CorpusKey>& table) {
  CorpusRows<CleanConfig> rows(table, "clean", &CorpusConfig::clean);
  rows.choice<Normalisation>("normalise", &CleanConfig::normalise,
                             {{"none", Normalisation::none},
                              {"nfc", Normalisation::nfc},
                              {"nfkc", Normalisation::nfkc}})
      .also({"normalize", "unicode"})
      .help("Unicode normalisation form.");
  rows.boolean("remove_control", &CleanConfig::remove_control)
      .help("Whether control characters but tab and line feed go, and CR LF becomes LF.");
  rows.integer("min_characters", &CleanConfig::min_characters)
      .unit("characters")
      .between(0, 1e12)
      .also({"min_length"})
      .help("Shorter documents are dropped.");
  rows.integer("max_characters", &CleanConfig::max_characters)
      .unit("characters")
      .between(0, 1e12)
      .also({"max_length"})
      .help("Longer documents are dropped; 0: none.");
  rows.real("max_symbol_ratio", &CleanConfig::max_symbol_ratio)
      .between(0, 1)
      .help(
          "Largest share of characters that are no letter, mark, digit or blank; 1: no limit. "
          "Documents above it are dropped.");
  rows.real("max_repeated_lines", &CleanConfig::max_repeated_lines)
      .between(0, 1)
      .help(
          "Largest share of lines that stood before in the same document; 1: no limit. Documents "
          "above it are dropped.");
  rows.real("min_script_share", &CleanConfig::min_script_share)
      .between(0, 1)
      .help(
          "Least share of letters in the scripts of the source's language; 0: no check. Documents "
          "below it are dropped.");
  rows.choice<Deduplication>("deduplicate", &CleanConfig::deduplicate,
                             {{"none", Deduplication::none},
                              {"exact", Deduplication::exact},
                              {"near", Deduplication::near}})
      .also({"dedup", "deduplication"})
      .help(
          "Of equal documents (exact), and of those that are nearly so (near: MinHash), the first "
          "stays.");
  rows.real("similarity", &CleanConfig::similarity)
      .between(0.3, 1)
      .also({"threshold", "jaccard"})
      .help("near: the estimated Jaccard similarity from which two documents count as one.");
  rows.integer("shingle", &CleanConfig::shingle)
      .unit("characters")
      .between(1, 64)
      .also({"ngram"})
      .help("near: characters of the pieces that are compared.");
}

void add_tokenizer(std::vector<CorpusKey>& table) {
  CorpusRows<TokenizerConfig> rows(table, "tokenizer", &CorpusConfig::tokenizer);
  rows.choice<TokenizerKind>("kind", &TokenizerConfig::kind,
                             {{"bytes", TokenizerKind::bytes},
                              {"sentencepiece", TokenizerKind::sentencepiece},
                              {"gpt2", TokenizerKind::gpt2},
                              {"huggingface", TokenizerKind::huggingface}})
      .also({"type", "name"})
      .help(
          "bytes; a sentencepiece model; GPT-2's vocab.json and merges.txt; a tokenizer.json of "
          "kind BPE.");
  rows.text("path", &TokenizerConfig::path)
      .also({"model", "file"})
      .help("The .model, the folder with vocab.json and merges.txt, or the tokenizer.json.");
  rows.text("end_of_document", &TokenizerConfig::end_of_document)
      .also({"eod_token", "eos_token"})
      .help("Text of the token that ends a document; empty: the tokenizer's own, else a new id.");
  rows.choice<SpecialTokens>(
          "special_tokens", &TokenizerConfig::special_tokens,
          {{"as_text", SpecialTokens::as_text}, {"as_tokens", SpecialTokens::as_tokens}})
      .help(
          "Where a document spells a special token: read as ordinary text, or as the token (never "
          "as the end of a document).");
}

void add_train_tokenizer(std::vector<CorpusKey>& table) {
  CorpusRows<TrainTokenizerConfig> rows(table, "train_tokenizer", &CorpusConfig::train_tokenizer);
  rows.text("output", &TrainTokenizerConfig::output)
      .also({"model_prefix"})
      .help("Path of the sentencepiece model that espalier corpus train-tokenizer writes.");
  rows.choice<SubwordModel>("model", &TrainTokenizerConfig::model,
                            {{"bpe", SubwordModel::bpe}, {"unigram", SubwordModel::unigram}})
      .also({"model_type", "algorithm"})
      .help("Byte-pair encoding or a unigram language model.");
  rows.integer("vocab_size", &TrainTokenizerConfig::vocab_size)
      .between(300, 1e7)
      .help("Pieces, the 256 bytes and the special ones among them.");
  rows.real("sample_mib", &TrainTokenizerConfig::sample_mib)
      .unit("MiB")
      .between(1.0 / 1024, 65536)
      .help("Text that it learns from, taken from all sources by their weight.");
  rows.real("character_coverage", &TrainTokenizerConfig::character_coverage)
      .between(0.9, 1)
      .help("Share of the characters that get pieces of their own; the rest become bytes.");
  rows.integer("threads", &TrainTokenizerConfig::threads)
      .between(1, 1024)
      .also({"num_threads"})
      .help("Threads of the training. One gives the same model every time.");
  rows.integer("seed", &TrainTokenizerConfig::seed)
      .at_least(0)
      .help("Of the choice of the sample.");
}

}  // namespace

const std::vector<CorpusKey>& corpus_keys() {
  static const std::vector<CorpusKey> table = [] {
    std::vector<CorpusKey> rows;
    add_build(rows);
    add_faults(rows);
    add_clean(rows);
    add_tokenizer(rows);
    add_train_tokenizer(rows);
    return rows;
  }();
  return table;
}

const std::vector<SourceKey>& source_keys() {
  static const std::vector<SourceKey> table = [] {
    std::vector<SourceKey> rows;
    add_source(rows);
    return rows;
  }();
  return table;
}

const std::vector<Section>& corpus_sections() {
  static const std::vector<Section> sections = {
      {"build", "The token store and the work."},
      {kSourceSection, "One source of text; there may be many: write [[source]] for each."},
      {"faults", "What happens to what cannot be read as it should."},
      {"clean", "Steps of cleaning, in this order. Each counts what it changes and drops."},
      {"tokenizer", "What turns text into tokens."},
      {"train_tokenizer", "For espalier corpus train-tokenizer."},
  };
  return sections;
}

}  // namespace espalier
