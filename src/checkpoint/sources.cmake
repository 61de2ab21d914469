# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES hdf5_handle.cpp stored_type.cpp ranks.cpp slab.cpp checkpoint_saver.cpp
    checkpoint_store.cpp dataset_writer.cpp file_properties.cpp gathered_write.cpp host_pieces.cpp manifest.cpp state_file.cpp
    state_reader.cpp state_verify.cpp state_slabs.cpp tensor_file_writer.cpp tensor_file_reader.cpp
    tensor_file_index.cpp model_file.cpp piece_cut.cpp
    model_attributes.cpp gradient_dump.cpp)
