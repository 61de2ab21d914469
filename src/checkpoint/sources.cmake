# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES hdf5_handle.cpp stored_type.cpp ranks.cpp slab.cpp durable.cpp
    tensor_file_writer.cpp tensor_file_reader.cpp tensor_file_index.cpp model_file.cpp
    model_attributes.cpp gradient_dump.cpp)
