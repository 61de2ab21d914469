# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES batch_source.cpp bigram_baseline.cpp bigram_counts.cpp corpus_builder.cpp
    data_order.cpp document_reader.cpp hash.cpp prefetcher.cpp text_reader.cpp token_file.cpp
    token_file_writer.cpp token_header.cpp token_windows.cpp tokenizer.cpp utf8.cpp)
