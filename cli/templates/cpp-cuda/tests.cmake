# Tests that need no GPU: the library loads, and a call on a host without a device fails.
enable_testing()
find_program(XLA_FFI xla-ffi)
if(XLA_FFI)
  add_test(NAME inspect COMMAND "${XLA_FFI}" inspect $<TARGET_FILE:@NAME@> --handler scale)
  add_test(NAME rejected COMMAND "${XLA_FFI}" run $<TARGET_FILE:@NAME@> --handler scale
    --arg "f32[3]=1,2,3" --ret "f32[3]" --attrs "{factor = 2.0 : f32}")
  set_tests_properties(rejected PROPERTIES PASS_REGULAR_EXPRESSION "--device cuda")
else()
  message(STATUS "No tests, because the tool xla-ffi is not found: pip install 'xla-ffi[tools]'")
endif()
