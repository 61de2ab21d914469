# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES automatic.cpp corpus_deck.cpp corpus_reference.cpp deck.cpp draft.cpp
    effects.cpp guess.cpp key_table.cpp keys_checkpoint.cpp keys_corpus.cpp keys_grid.cpp
    keys_model.cpp keys_training.cpp mixture_text.cpp presets.cpp reader.cpp reference.cpp
    rules_checkpoint.cpp rules_corpus.cpp rules_data.cpp rules_device.cpp rules_grid.cpp rules_model.cpp
    rules_parallel.cpp rules_pipeline.cpp rules_training.cpp toml_scan.cpp toml_text.cpp
    value_check.cpp writer.cpp)
