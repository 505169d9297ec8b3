// What the host calls: a text is put into the memory that text_new gives, parsed by parse,
// and read back as an array of nodes in the order of the text. All of it is iterative, so
// that deep nesting takes memory and no stack.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tree_sitter/api.h>

#define EXPORT(name) __attribute__((export_name(name)))

// The module has no clock and no files: these stand for the system's, which only messages
// about running out of memory and time limits of the parser's own would use.
#define WASI(name) __imported_wasi_snapshot_preview1_##name
int32_t WASI(fd_write)(int32_t fd, int32_t v, int32_t n, int32_t done) { return 8; }
int32_t WASI(fd_close)(int32_t fd) { return 8; }
int32_t WASI(fd_seek)(int32_t fd, int64_t at, int32_t whence, int32_t now) { return 8; }
int32_t WASI(fd_fdstat_get)(int32_t fd, int32_t stat) { return 8; }
int32_t WASI(clock_time_get)(int32_t id, int64_t precision, int32_t time) {
  *(uint64_t *)(uintptr_t)time = 0;
  return 0;
}

const TSLanguage *LANGUAGE(void);

// stop asks the host whether the time is over.
__attribute__((import_module("host"), import_name("stop"))) int32_t host_stop(void);

typedef struct {
  uint32_t start, end; // bytes
  uint32_t next;       // index of the first node behind this one's children
  uint16_t symbol, field;
  uint32_t flags; // 1: named, 2: error, 4: missing
} Node;

static TSParser *parser;
static char *text;
static uint32_t text_size;
static Node *nodes;
static uint32_t count, capacity;

static bool progress(TSParseState *state) { return host_stop() != 0; }

static const char *read_text(void *payload, uint32_t at, TSPoint point, uint32_t *size) {
  if (at >= text_size) {
    *size = 0;
    return "";
  }
  *size = text_size - at;
  return text + at;
}

static bool add(TSNode n, TSFieldId field, bool named) {
  if (count == capacity) {
    uint32_t more = capacity ? capacity * 2 : 4096;
    Node *grown = realloc(nodes, more * sizeof(Node));
    if (!grown) return false;
    nodes = grown, capacity = more;
  }
  nodes[count++] = (Node){
    .start = ts_node_start_byte(n), .end = ts_node_end_byte(n), .symbol = ts_node_symbol(n), .field = field,
    .flags = (named ? 1 : 0) | (ts_node_is_error(n) ? 2 : 0) | (ts_node_is_missing(n) ? 4 : 0),
  };
  return true;
}

EXPORT("text_new") char *text_new(uint32_t size) {
  free(text);
  text = malloc(size ? size : 1);
  text_size = size;
  return text;
}

// It gives the number of nodes, -1 when it was stopped, -2 when memory ran out.
EXPORT("parse") int32_t parse_text(void) {
  count = 0;
  if (!parser) {
    parser = ts_parser_new();
    if (!parser || !ts_parser_set_language(parser, LANGUAGE())) return -2;
  }
  TSInput input = {.read = read_text, .encoding = TSInputEncodingUTF8};
  TSParseOptions options = {.progress_callback = progress};
  TSTree *tree = ts_parser_parse_with_options(parser, NULL, input, options);
  if (!tree) {
    ts_parser_reset(parser);
    return -1;
  }
  int32_t result = -2;
  uint32_t steps = 0, depth = 0, room = 256;
  uint32_t *open = malloc(room * sizeof *open); // nodes whose children are being visited; UINT32_MAX: not recorded
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
  if (!open) goto done;
  for (bool more = true; more;) {
    TSNode n = ts_tree_cursor_current_node(&cursor);
    TSFieldId field = ts_tree_cursor_current_field_id(&cursor);
    bool named = ts_node_is_named(n);
    uint32_t at = UINT32_MAX;
    if (named || field) {
      at = count;
      if (!add(n, field, named)) goto done;
      nodes[at].next = count;
    }
    if ((++steps & 4095) == 0 && host_stop()) {
      result = -1;
      goto done;
    }
    if (ts_tree_cursor_goto_first_child(&cursor)) {
      if (depth == room) {
        uint32_t *grown = realloc(open, room * 2 * sizeof *open);
        if (!grown) goto done;
        open = grown, room *= 2;
      }
      open[depth++] = at;
      continue;
    }
    while (!ts_tree_cursor_goto_next_sibling(&cursor)) {
      if (!ts_tree_cursor_goto_parent(&cursor)) {
        more = false;
        break;
      }
      uint32_t parent = open[--depth];
      if (parent != UINT32_MAX) nodes[parent].next = count;
    }
  }
  result = count;
done:
  free(open);
  ts_tree_cursor_delete(&cursor);
  ts_tree_delete(tree);
  return result;
}

EXPORT("nodes_at") Node *nodes_at(void) { return nodes; }

// Names of symbols and fields, as C strings; NULL behind the last one.
EXPORT("symbol_name") const char *symbol_name(uint32_t i) {
  return i < ts_language_symbol_count(LANGUAGE()) ? ts_language_symbol_name(LANGUAGE(), i) : NULL;
}

EXPORT("field_name") const char *field_name(uint32_t i) {
  return i <= ts_language_field_count(LANGUAGE()) ? (i ? ts_language_field_name_for_id(LANGUAGE(), i) : "") : NULL;
}
