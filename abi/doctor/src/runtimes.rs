//! The runtime libraries of GPUs, such as CUDA's. JAX's own packages provide these libraries, so they are expected on
//! the user's machine. Wheels must not contain them, because two copies in one process disagree about devices.

/// The providers of runtime libraries, with prefixes of the libraries' names in lower case and without `lib`.
const RUNTIMES: [(&str, &str); 3] = [
    ("the driver of the GPU", "cuda.so nvcuda.dll nvidia-ml"),
    (
        "the CUDA runtime or an nvidia-* wheel",
        "cublas cudart cudnn cudss cufft cufile cupti curand cusolver cusparse cutensor nccl npp nvfatbin \
         nvjitlink nvjpeg nvrtc nvshmem nvtoolsext nvtx nvvm",
    ),
    (
        "ROCm or a jax-rocm* wheel",
        "amd_comgr amd_smi amdhip64 hipblas hipfft hiprand hiprtc hipsolver hipsparse hsa- miopen rccl \
         rocblas rocfft rocm_ rocprofiler rocrand rocsolver rocsparse roctracer roctx",
    ),
];

/// Returns the package that provides a library if it belongs to a GPU's runtime.
#[must_use]
pub(crate) fn gpu_runtime(library: &str) -> Option<&'static str> {
    let file = library
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let name = file.strip_prefix("lib").unwrap_or(&file);
    let of = |starts: &str| starts.split(' ').any(|start| name.starts_with(start));
    RUNTIMES
        .iter()
        .find(|(_, starts)| of(starts))
        .map(|(from, _)| *from)
}
