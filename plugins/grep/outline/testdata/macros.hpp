// Macros where only the preprocessor can tell that they are no names.
#define API_EXPORT __attribute__((visibility("default")))
#define NOEXCEPT noexcept

namespace lib VISIBILITY(default)
{
BEGIN_NAMESPACE_VERSION

enum Level {
  LOW,
  HIGHEST
};

class API_EXPORT Widget : public Base {
 public:
  DISABLE_COPY(Widget)
  Widget() NOEXCEPT : x_(0) {}
  int size() const NOEXCEPT { return x_; }
  API_EXPORT void resize(int n);
 private:
  int x_;
};

struct ALIGNED(16) Packed {
  int field;
};

void outside(int x, Level level);

API_EXPORT int exported(void);

template <typename T>
class Box
{
  Box() NOEXCEPT
  : value_()
  { }
  T value_;
};

END_NAMESPACE_VERSION
}
