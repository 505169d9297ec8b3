package definition

import (
	"sync"
	"sync/atomic"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/symbol"
)

// key tells texts apart whose tables may differ. A file that changes has another key, so
// what is kept is never out of date.
type key struct {
	sum    uint64
	length int
	way    string
}

func keyOf(name string, text []byte) key {
	return key{sum: index.Sum(text), length: len(text), way: outline.Way(name)}
}

// entry is a table in the cache. Who has the entry need not look it up.
type entry struct {
	table atomic.Pointer[symbol.Table] // nil: it was dropped
	used  atomic.Bool                  // since it was last looked whether to drop it
	size  int64
}

// get returns the table, or nil if there is none any more.
func (e *entry) get() *symbol.Table {
	if e == nil {
		return nil
	}
	t := e.table.Load()
	if t != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return t
}

// Cache keeps the tables of texts that were parsed, those used last. It is safe for
// concurrent use.
type Cache struct {
	budget *content.Budget
	limit  int64

	mu sync.Mutex
	// An entry is in one of two generations. When the younger has half of the memory, what
	// was not used of the older is dropped.
	young, old generation
}

type generation struct {
	entries map[key]*entry
	size    int64
}

func (g *generation) add(k key, e *entry) {
	if g.entries == nil {
		g.entries = make(map[key]*entry)
	}
	g.entries[k] = e
	g.size += e.size
}

// NewCache makes a cache that takes at most limit bytes, and those out of a budget.
func NewCache(b *content.Budget, limit int64) *Cache { return &Cache{budget: b, limit: limit} }

// find returns the entry of a text, or nil.
func (c *Cache) find(k key) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.young.entries[k]; e != nil {
		return e
	}
	return c.old.entries[k]
}

// put keeps a table, if there is memory for it.
func (c *Cache) put(k key, t *symbol.Table) *entry {
	e := &entry{size: t.Size()}
	e.table.Store(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young.entries[k] != nil || c.old.entries[k] != nil {
		return nil
	}
	if c.young.size+e.size > c.limit/2 {
		c.age()
	}
	if e.size > c.limit/2 || !c.budget.Take(e.size) {
		return nil
	}
	c.young.add(k, e)
	return e
}

// age drops what was not used of the older generation. What was used gets at most half of the place of
// the new one.
func (c *Cache) age() {
	next := generation{}
	for k, e := range c.old.entries {
		if e.used.Swap(false) && next.size+e.size <= c.limit/4 {
			next.add(k, e)
			continue
		}
		e.table.Store(nil)
		c.budget.Give(e.size)
	}
	c.old, c.young = c.young, next
}

// full reports whether more tables would drive out others.
func (c *Cache) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.old.size > 0 || c.young.size > c.limit/2*9/10
}

// Size returns about what the tables take, in bytes, and how many there are.
func (c *Cache) Size() (bytes int64, tables int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.young.size + c.old.size, len(c.young.entries) + len(c.old.entries)
}
