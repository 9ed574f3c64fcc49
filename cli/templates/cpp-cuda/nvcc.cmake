
# pip installs nvcc for the build, from NVIDIA's wheels. CUDACXX selects a different nvcc.
if(NOT DEFINED ENV{CUDACXX} AND Python3_EXECUTABLE)
  execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import nvidia.cu13 as cuda; print([*cuda.__path__][0], end='')"
    OUTPUT_VARIABLE cuda ERROR_QUIET)
  if(EXISTS "${cuda}/bin/nvcc")
    set(ENV{CUDACXX} "${cuda}/bin/nvcc")
    set(ENV{CUDAFLAGS} "-L${cuda}/lib $ENV{CUDAFLAGS}")
  endif()
endif()
# Machine code for each generation of GPUs that nvcc supports, and PTX for later generations.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES all-major)
endif()
