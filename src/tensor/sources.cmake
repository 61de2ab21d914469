set(ESPALIER_SOURCES gemm.cpp profile.cpp)
