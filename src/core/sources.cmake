set(ESPALIER_SOURCES log.cpp units.cpp)
