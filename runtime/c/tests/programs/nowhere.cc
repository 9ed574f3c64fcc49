// What a program asks of its own values that is not there. What ends the program ends a child of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xla/client/xla_builder.h"
#include "xla/literal_util.h"
#include "xla_ffi/embedded.h"

static int wrong = 0;

static void Expect(bool good, const char* what) {
  if (good) return;
  std::printf("not so: %s\n", what);
  ++wrong;
}

// What is said on stderr by the end of the program.
static std::string End(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char text[256];
  for (ssize_t n; (n = read(ends[0], text, sizeof(text))) > 0;) said.append(text, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? said : "it did not end: " + said;
}

static void ExpectEnd(const char* words, const std::function<void()>& body) {
  const std::string said = End(body);
  if (said.find(words) != std::string::npos) return;
  std::printf("expected the end with \"%s\", got: %s\n", words, said.c_str());
  ++wrong;
}

// Whether no literal is made of a shape.
static bool IsRefused(const xla::Shape& shape) {
  try {
    xla::Literal literal(shape);
    return false;
  } catch (const std::length_error&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

int main() {
  using xla::ShapeUtil;
  xla::Literal x = xla::LiteralUtil::CreateR1<float>({1, 2, 3});
  Expect(x.data<double>().size() == 0 && x.data<float>()[2] == 3, "the elements of one type");
  ExpectEnd("is not there", [&] { x.data<double>()[0] = 1; });
  ExpectEnd("is not there", [&] { x.data<float>()[3] = 1; });
  ExpectEnd("different lengths", [] { xla::LiteralUtil::CreateR2<float>({{1, 2}, {3}}); });
  ExpectEnd("different lengths", [] { xla::LiteralUtil::CreateR2<float>({{}, {1, 2}}); });
  Expect(xla::LiteralUtil::CreateR2<float>({{}, {}}).element_count() == 0, "rows without elements");
  xla::Literal scalar = xla::LiteralUtil::CreateR0<float>(1);
  const xla::Literal moved = std::move(scalar);
  Expect(scalar.data<float>().size() == 0 && moved.data<float>().size() == 1, "one that was moved from");  // NOLINT

  // Shapes that no memory has.
  const int64_t most = INT64_MAX, half = int64_t{1} << 61;
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
           {half}, {-1}, {-1, -1}, {half, 8}, {half, 8, -1}, {most, most, most}, {0, -1}, {half / 8, 4}}) {
    Expect(IsRefused(ShapeUtil::MakeShape(xla::F32, dims)), "a literal without memory");
    Expect(ShapeUtil::ByteSizeOf(ShapeUtil::MakeShape(xla::F32, dims)) == most, "bytes that no memory has");
  }
  const xla::Shape big = ShapeUtil::MakeShape(xla::F32, {half / 4});
  Expect(ShapeUtil::ByteSizeOf(ShapeUtil::MakeTupleShape({big, big, big, big, big})) == most, "bytes of a tuple");
  Expect(ShapeUtil::ElementsIn(ShapeUtil::MakeShape(xla::F32, {most, 0, most})) == 0, "no elements");
  Expect(ShapeUtil::ByteSizeOf(ShapeUtil::MakeShape(xla::U4, {3})) == 2, "elements that share bytes");
  Expect(ShapeUtil::ByteSizeOf(ShapeUtil::MakeTokenShape()) == 0, "a token");

  // A reason that is none.
  const xla::StatusOr<int> none = xla::OkStatus();
  Expect(!none.ok() && !none.status().ok(), "an OK status in the place of a value");

  // What was moved from.
  xla::XlaBuilder b("identity");
  xla::Parameter(&b, 0, x.shape(), "x");
  xla::XlaComputation program = b.Build().value();
  auto executable = xla_ffi::Executable::Compile(program);
  Expect(executable.ok() && executable->Run({x})->data<float>()[1] == 2, "it runs");
  const xla_ffi::Executable taken = *std::move(executable);
  Expect(!executable->Run({x}).ok() && taken.Run({x}).ok(), "an executable that was moved from");  // NOLINT
  const xla::XlaComputation own = std::move(program);
  Expect(!xla_ffi::Executable::Compile(program).ok() && xla_ffi::Executable::Compile(own).ok(),  // NOLINT
         "a program that was moved from");

  // A tuple whose elements are not those that its shape says.
  xla::XlaBuilder tuples("tuples");
  const xla::Shape pair = ShapeUtil::MakeTupleShape({ShapeUtil::MakeShape(xla::F32, {1000}), x.shape()});
  xla::Parameter(&tuples, 0, pair, "x");
  const auto passes = xla_ffi::Executable::Compile(tuples.Build().value());
  Expect(passes.ok() && passes->Run({xla::Literal(pair)}).ok(), "a tuple");
  xla::Literal shorter(pair), fewer(pair), flat(pair);
  shorter.elements()[0] = x;
  fewer.elements().pop_back();
  flat.elements()[1] = xla::Literal(pair);
  for (const xla::Literal& bad : {shorter, fewer, flat}) {
    const auto outcome = passes->Run({bad});
    Expect(!outcome.ok() && std::string(outcome.status().message()).find("other shapes") != std::string::npos,
           "a tuple of other elements");
  }

  // Builders end in any order, and on any thread.
  auto first = std::make_unique<xla::XlaBuilder>("first"), second = std::make_unique<xla::XlaBuilder>("second");
  Expect(xla::XlaBuilder::Newest() == second.get(), "the newest builder");
  std::thread([&] { Expect(xla::XlaBuilder::Newest() == nullptr, "none of this thread's"); }).join();
  first.reset();
  Expect(xla::XlaBuilder::Newest() == second.get(), "an older one has ended");
  std::thread([&] { second.reset(); }).join();
  Expect(xla::XlaBuilder::Newest() == &tuples, "the one before");

  xla::Literal gone = x;
  const xla::Literal there = std::move(gone);
  Expect(!taken.Run({gone}).ok(), "a literal that was moved from");  // NOLINT
  if (wrong == 0) std::printf("nothing is there\n");
  return wrong;
}
