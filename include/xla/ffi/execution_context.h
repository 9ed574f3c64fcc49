// User data of a program that is linked with the embedded runtime: objects that handlers look up by their C++ types.
// Part of <xla/ffi/ffi.h>.
#ifndef XLA_FFI_EXECUTION_CONTEXT_H_
#define XLA_FFI_EXECUTION_CONTEXT_H_

#include "xla/ffi/ffi.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// User data for the calls of one runtime: at most one object per type. Add the objects before the calls run:
//
//   ffi::ExecutionContext context(runtime);
//   context.Emplace<Factor>(3.0f);
//   xffi_rt_call_set_user_data(call, context.data());
//
// Handlers bind an object as Ctx<UserData<T>>. The type needs no id and no registration.
class XLA_FFI_SDK_TYPE ExecutionContext {
 public:
  // Creates an empty context. Its objects live as long as the context or any call that uses the context.
  XLA_FFI_SDK_FN explicit ExecutionContext(const xffi_rt* runtime) {
    xffi_rt_user_data* data = nullptr;
    status_ = TakeStatus(xffi_rt_user_data_create(runtime, &data));
    data_.reset(data, xffi_rt_user_data_destroy);
  }

  // Add an object to the context: a new object, an object that the context then owns, or an object of the caller that
  // outlives all calls.
  template <typename T, typename... Args>
  XLA_FFI_SDK_FN Status Emplace(Args&&... args) {
    return Insert(std::make_unique<T>(std::forward<Args>(args)...));
  }
  template <typename T>
  XLA_FFI_SDK_FN Status Insert(std::unique_ptr<T> object) {
    Status status = Add(object.get(), &internal::DeleteObject<T>);
    if (status.ok()) static_cast<void>(object.release());
    return status;
  }
  template <typename T>
  XLA_FFI_SDK_FN Status Insert(T* object) {
    return Add(object, nullptr);
  }

  // Returns the object of type T; NOT_FOUND if the context has none.
  template <typename T>
  XLA_FFI_SDK_FN StatusOr<T*> Lookup() const {
    const auto found = objects_.find(&internal::type_tag<T>);
    if (found == objects_.end()) return NotFoundError("the execution context has no such object");
    return static_cast<T*>(found->second);
  }

  // Returns the user data for xffi_rt_call_set_user_data. This object still owns the data. Returns null if the
  // constructor's runtime was null.
  XLA_FFI_SDK_FN const xffi_rt_user_data* data() const { return data_.get(); }

 private:
  template <typename T>
  XLA_FFI_SDK_FN Status Add(T* object, void (*deleter)(void*)) {
    if (!status_.ok()) return status_;
    Status status =
        TakeStatus(xffi_rt_user_data_add(data_.get(), internal::UserDataName<T>().c_str(),
                                         sizeof(T), object, deleter));
    if (status.ok()) objects_[&internal::type_tag<T>] = object;
    return status;
  }

  Status status_;
  std::shared_ptr<xffi_rt_user_data> data_;
  std::map<const void*, void*> objects_;
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_EXECUTION_CONTEXT_H_
