# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES parameter_table.cpp partition.cpp activation_plan.cpp blueprint.cpp
    communication_buffers.cpp device_room.cpp memory_bill.cpp schedule.cpp schedule_check.cpp schedule_text.cpp schedule_timing.cpp
    stage_layout.cpp)
