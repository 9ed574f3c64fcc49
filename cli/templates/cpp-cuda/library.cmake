# The CUDA runtime is linked statically: the library requires no library of CUDA and loads on machines without a GPU.
# The RPATH finds other libraries of CUDA in NVIDIA's wheels: see "Wheels for GPUs" in the SDK's guide to shipping.
set_target_properties(@NAME@ PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden
  INSTALL_RPATH "$ORIGIN/../nvidia/cu13/lib")
