# The CUDA runtime inside, so that the library loads on machines without CUDA. Code for GPUs since Turing.
set_target_properties(@NAME@ PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set_target_properties(@NAME@ PROPERTIES CUDA_ARCHITECTURES 75)
endif()
