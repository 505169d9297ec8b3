/* int commented(void) {} */
#include <stdio.h>
#define LIMIT 10
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MULTI(x) do { \
    int in_macro = x; \
  } while (0)
typedef unsigned long size_type;
typedef struct { int x, *y; } Point;
typedef struct node { struct node *next; union { int i; float f; } value; } Node, *NodePtr;
typedef int (*callback)(void *, int);
typedef enum { RED, GREEN = 2, BLUE } Color;
struct forward;
struct declared { unsigned flag : 1; int (*method)(struct declared *); char name[LIMIT]; };
enum state { IDLE, BUSY };
union bits { int i; float f; };
extern int external;
static const char *const names[] = { "int fake(void) {}", "b" }, *other;
int a, *b, c[3], (*fp)(int), initialised = 1;
int prototype(int x, char *y);
static inline void *pointer_result(void);
int kr(x, y)
  int x;
  char *y;
{
  int local = 1;
  struct inside { int z; } s;
  return x;
}
static unsigned long
split_line(void)
{
  return 0;
}
struct declared *returns_struct(int n) { return 0; }
int (*returns_function(int x))(int) { return 0; }
#if defined(A)
int conditional(void) { return 1; }
#else
int conditional(void) { return 2; }
#endif
struct { int in_anonymous; } instance;
int (parenthesised)(int x) { return x; }
char quote = '"'; char *after = "\"int escaped(void) {}\"";
int main(int argc, char **argv) { for (int i = 0; i < argc; i++) { switch (i) { case 1: break; } } return 0; }
