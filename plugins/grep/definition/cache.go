package definition

import (
	"sync"
	"sync/atomic"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/symbol"
)

// key identifies the table of a text by the content of the text and the way to parse it. A changed file has a new key,
// so a cached table is never out of date.
type key struct {
	sum    uint64
	length int
	way    string
}

func keyOf(name string, text []byte) key {
	return key{sum: index.Sum(text), length: len(text), way: outline.Way(name)}
}

// entry is the cache entry of a table. A caller can keep the entry to avoid another lookup in the cache.
type entry struct {
	table atomic.Pointer[symbol.Table] // nil if the cache dropped the table
	used  atomic.Bool                  // true if the table was used after the last call of the method "age"
	size  int64
}

// get returns the table, or nil if the cache dropped the table.
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

// Cache holds the tables of the most recently used texts. It is safe for concurrent use.
type Cache struct {
	budget *content.Budget
	limit  int64

	mu sync.Mutex
	// The cache consists of two generations of entries. If the younger generation exceeds half of the limit, the
	// cache drops the unused entries of the older generation.
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

// NewCache returns a cache that takes at most limit bytes from a memory budget.
func NewCache(b *content.Budget, limit int64) *Cache { return &Cache{budget: b, limit: limit} }

// find returns the entry for a key, or nil if the cache has no such table.
func (c *Cache) find(k key) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.young.entries[k]; e != nil {
		return e
	}
	return c.old.entries[k]
}

// put adds a table if the budget has enough memory for it.
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

// age drops the unused entries of the older generation. It keeps the used entries of that generation, up to a quarter
// of the limit.
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

// full reports whether a new table would evict other tables.
func (c *Cache) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.old.size > 0 || c.young.size > c.limit/2*9/10
}
