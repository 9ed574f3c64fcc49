# Runs the library on the embedded runtime, with every revision of the ABI.
enable_testing()
find_program(XLA_FFI xla-ffi)
if(XLA_FFI)
  foreach(revision RANGE 10)
    add_test(NAME scale_r${revision} COMMAND "${XLA_FFI}" run $<TARGET_FILE:@NAME@> --handler scale
      --arg "f32[3]=1,2,3" --ret "f32[3]" --attrs "{factor = 2.0 : f32}" --revision r${revision})
    set_tests_properties(scale_r${revision} PROPERTIES PASS_REGULAR_EXPRESSION "\\[2, 4, 6\\]")
  endforeach()
  add_test(NAME check COMMAND "${XLA_FFI}" check $<TARGET_FILE:@NAME@> --attrs "{factor = 2.0 : f32}")
else()
  message(STATUS "No tests, because the tool xla-ffi is not found: pip install 'xla-ffi[tools]'")
endif()
