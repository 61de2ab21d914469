set(ESPALIER_SOURCES parameter_table.cpp activation_plan.cpp blueprint.cpp memory_bill.cpp)
