// class Commented {};
#include <vector>
namespace outer { namespace inner::deep { void inNamespace(); } inline namespace v1 { int versioned; } }
namespace { int anonymous = 1; void hidden() {} }
namespace alias = outer::inner;
template <typename T, int N = 3> class Container : public Base<T>, private virtual Other {
public:
  using value_type = T;
  typedef T *pointer;
  Container() : size_(0) {}
  explicit Container(int n);
  virtual ~Container() = default;
  Container(const Container &) = delete;
  T &operator[](int i) { return data_[i]; }
  bool operator==(const Container &other) const noexcept;
  operator bool() const { return true; }
  template <typename U> U convert(U &&u) { auto lambda = [&](int x) { int inLambda = x; return x; }; return u; }
  static constexpr int limit = 10;
  friend void friendly(Container &c);
  virtual void pure() const = 0;
  class Nested { int field; enum class Mode : int { Fast, Slow = 2 }; };
protected:
  int size_ = 0, *data_;
  void (*callback_)(int);
};
template <typename T, int N> Container<T, N>::Container(int n) { int local = n; }
template <> void Container<int>::pure() const {}
outer::Type outer::Class::method(int x) const & { return {}; }
Widget::~Widget() { }
std::ostream &operator<<(std::ostream &os, const Widget &w) { return os; }
auto trailing(int x) -> decltype(x) { return x; }
constexpr auto text = R"(class InRaw { void no(); };)";
enum Plain { A, B }; enum class Scoped { C };
struct Aggregate { int x; int y{2}; } instance, *pointer;
template <typename T> concept Number = requires(T t) { t + t; };
template <Number T> T add(T a, T b) { return a + b; }
template class Container<int>;
using Map = std::map<int, std::string>; template <class T> using Vec = std::vector<T>;
extern "C" { int c_function(int); void defined_c() {} }
extern thread_local int tls;
int global = 0; static std::vector<int> vec{1, 2};
union U { int i; float f; };
void with_default(int x = 1, std::function<void()> f = [] {}) noexcept(true) try { } catch (...) { }
[[nodiscard]] int attributed();
class __declspec(dllexport) Exported { void m(); };
class Forward; struct Final final { };
#define MACRO(x) class x
int *Class::pointer_method() { return nullptr; }
Ref &Class::reference_method() { return *this; }
