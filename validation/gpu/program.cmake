# SPDX-License-Identifier: Apache-2.0
# The whole program on a device (program.sh): on the emulated one, or in a build for a GPU there.
# ESPALIER_HOST_PROGRAM of the environment of CMake names one built for the host in the latter case.
if(TARGET espalier-spmd-emulated)
  set(program espalier-spmd-emulated)
  set(host $<TARGET_FILE:espalier-spmd>)
elseif(ESPALIER_ENABLE_CUDA_KERNELS)
  set(program espalier-spmd)
  set(host -)
  if(DEFINED ENV{ESPALIER_HOST_PROGRAM})
    set(host $ENV{ESPALIER_HOST_PROGRAM})
  endif()
else()
  return()
endif()

function(espalier_program_test name)
  set(options LABELS layout emulated)
  if(ESPALIER_ENABLE_CUDA_KERNELS)
    set(options LABELS layout GPU ENVIRONMENT ESPALIER_NEEDS_GPU=1)
  endif()
  espalier_test(NAME program.${name} EXE ${CMAKE_CURRENT_SOURCE_DIR}/program.sh
                ARGS $<TARGET_FILE:${program}> ${host} ${MPIEXEC_EXECUTABLE}
                     ${MPIEXEC_NUMPROC_FLAG} ${PROJECT_SOURCE_DIR}/inputs ${ARGN}
                TIMEOUT 240 ${options})
  set_tests_properties(program.${name} PROPERTIES PROCESSORS 2)
endfunction()

foreach(case "gpt2;fp32" "llama;bf16")
  list(JOIN case . name)
  foreach(what host kernels graphs)
    espalier_program_test(${what}.${name} ${what} ${case})
  endforeach()
  list(GET case 0 family)
  espalier_program_test(layouts.${family} layouts ${family})
endforeach()
espalier_program_test(kernels.gpt2.bf16 kernels gpt2 bf16)  # biases in the products
espalier_program_test(graphs.gpt2.bf16 graphs gpt2 bf16)
espalier_program_test(checkpoint checkpoint gpt2)
espalier_program_test(refused refused)
espalier_program_test(without.gradient_reduction without gradient_reduction)
espalier_program_test(without.transfer_event without transfer_event)
if(TARGET espalier-spmd-emulated)  # hooks of the emulator itself
  espalier_program_test(without.device_wait without device_wait)
  espalier_program_test(without.device_order without device_order)
endif()

# espalier bench kernels, every line of it.
set(options LABELS operator emulated)
if(ESPALIER_ENABLE_CUDA_KERNELS)
  set(options LABELS operator GPU ENVIRONMENT ESPALIER_NEEDS_GPU=1)
endif()
espalier_test(NAME kernels.bench EXE ${CMAKE_CURRENT_SOURCE_DIR}/bench_kernels.sh
              ARGS $<TARGET_FILE:${program}> ${host} ${options})
