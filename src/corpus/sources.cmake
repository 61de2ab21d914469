# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES batch_source.cpp bigram_baseline.cpp bigram_counts.cpp data_order.cpp
    hash.cpp held_out.cpp prefetcher.cpp token_file.cpp token_file_writer.cpp token_header.cpp
    token_windows.cpp tokenizer.cpp utf8.cpp)
list(APPEND ESPALIER_SOURCES source/decompressor.cpp source/document_cut.cpp
    source/document_stream.cpp source/html_documents.cpp source/html_encoding.cpp
    source/html_text.cpp source/html_writer.cpp source/input_faults.cpp source/input_list.cpp
    source/input_pieces.cpp source/json_repair.cpp source/jsonl_documents.cpp
    source/line_documents.cpp source/line_scanner.cpp source/part_input.cpp
    source/path_pattern.cpp source/text_documents.cpp source/text_reader.cpp)
list(APPEND ESPALIER_SOURCES clean/character_table.cpp clean/cleaner.cpp clean/deduplication.cpp
    clean/key_file.cpp clean/key_writer.cpp clean/language_scripts.cpp clean/min_hash.cpp
    clean/near_group.cpp clean/normalise.cpp)
list(APPEND ESPALIER_SOURCES tokenizer/added_tokens.cpp tokenizer/bpe_model.cpp
    tokenizer/bpe_table.cpp tokenizer/bpe_tokenizer.cpp tokenizer/bpe_tokenizer_setup.cpp
    tokenizer/byte_alphabet.cpp tokenizer/character_classes.cpp tokenizer/gpt2_files.cpp
    tokenizer/huggingface_json.cpp tokenizer/huggingface_steps.cpp tokenizer/json_reader.cpp
    tokenizer/pattern.cpp tokenizer/pattern_words.cpp tokenizer/pre_tokenizer.cpp
    tokenizer/scanners.cpp tokenizer/sentencepiece_model.cpp tokenizer/sentencepiece_setup.cpp
    tokenizer/sentencepiece_tokenizer.cpp tokenizer/text_normalizer.cpp
    tokenizer/tokenizer_files.cpp tokenizer/train_sentencepiece.cpp tokenizer/word_cache.cpp)
list(APPEND ESPALIER_SOURCES store/aside_file.cpp store/foreign_files.cpp store/held_out_check.cpp
    store/manifest_rules.cpp store/mapped_file.cpp store/megatron_file.cpp store/open_tokens.cpp
    store/shard.cpp store/shard_index.cpp store/shard_writer.cpp store/store_manifest.cpp
    store/store_reader.cpp store/stored_ids.cpp)
list(APPEND ESPALIER_SOURCES feed/balance.cpp feed/kept_positions.cpp feed/mixture.cpp
    feed/mixture_state.cpp feed/packed_samples.cpp feed/packing.cpp feed/packing_file.cpp
    feed/sample_set.cpp feed/sample_sources.cpp feed/sample_stream.cpp)
list(APPEND ESPALIER_SOURCES build/build_folder.cpp build/build_plan.cpp build/build_summary.cpp
    build/piece_builder.cpp build/piece_record.cpp build/progress_board.cpp
    build/store_builder.cpp build/text_sample.cpp)
