// Templates, namespaces and operators, one to a line.
#include <map>
#include <string>

#define SQUARE(x) ((x) * (x))
#define LIMIT 10

namespace shop {

class Item;

enum class State : unsigned char { Open, Closed = 4 };

enum Flags {
  FlagA = 1,
  FlagB = 2,
};

struct Point {
  int x = 0;
  int y = 0;

  Point operator+(const Point &other) const { return {x + other.x, y + other.y}; }
  Point &operator+=(const Point &other);
  bool operator==(const Point &) const = default;
  explicit operator bool() const { return x || y; }
  int operator()(int by) const { return x * by; }
};

template <typename T>
class Stack {
 public:
  Stack() = default;
  Stack(const Stack &) = delete;
  ~Stack() {}

  template <typename... Args>
  void emplace(Args &&...args) {
    items_[count_++] = T(args...);
  }

  void push(const T &item);
  void push(T &&item) { items_[count_++] = item; }
  T &operator[](int i) { return items_[i]; }
  T *operator->() { return items_; }
  static Stack *create() { return new Stack; }

  class Iterator {
   public:
    Iterator &operator++() { return *this; }
    T &operator*() const;

    struct Position {
      int at;
    };
  };

 private:
  T items_[LIMIT];
  int count_ = 0;
};

template <typename T>
void Stack<T>::push(const T &item) {
  items_[count_++] = item;
}

template <typename T>
T &Stack<T>::Iterator::operator*() const {
  static T none;
  return none;
}

template <>
class Stack<bool> {
  unsigned bits;
};

template <typename T, typename U>
auto add(const T &a, const U &b) -> decltype(a + b) {
  return a + b;
}

namespace detail {
inline int twice(int x) { return 2 * x; }
}  // namespace detail

namespace nested::deeper {
struct Hidden {};
void buried() {}
}  // namespace nested::deeper

union Word {
  char bytes[4];
  unsigned number;
};

typedef std::map<std::string, Point> Points;
using Names = std::map<int, std::string>;

template <class T>
concept Small = sizeof(T) < 8;

Point &Point::operator+=(const Point &other) {
  x += other.x;
  return *this;
}

class Base {
 public:
  virtual ~Base() = default;
  virtual void draw() const = 0;
  virtual int cost(int n) { return n; }
};

class Derived final : public Base, private Stack<int> {
 public:
  using Base::Base;
  void draw() const override {}
  int cost(int n) override;
  friend bool operator<(const Derived &a, const Derived &b) { return &a < &b; }
};

int Derived::cost(int n) {
  struct Local {
    int value;
  };
  auto f = [](int x) { return x; };
  return f(n);
}

}  // namespace shop

std::string operator"" _s(const char *text, unsigned long n) { return {text, n}; }

extern "C" {
int exported(int x) { return x; }
}

static int (*chosen(int which))(int) { return nullptr; }

const char *const *names() { return nullptr; }

unsigned long long int many(void) { return 0; }

int main(int argc, char **argv) {
  return 0;
}
