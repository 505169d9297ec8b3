package definition

import (
	"fmt"
	"testing"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/symbol"
)

func oneSymbol(i int) *symbol.Table {
	return symbol.NewTable(symbol.GoParser, []symbol.Symbol{{Name: fmt.Sprint("name", i), Line: 1, Column: 1, EndLine: 1}})
}

// TestCache checks the size limit and the budget of a cache. It also checks that used entries stay longer and that
// dropped tables are not returned.
func TestCache(t *testing.T) {
	size := oneSymbol(1000).Size()
	b := content.NewBudget(1 << 20)
	c := NewCache(b, 40*size)
	used := c.put(key{sum: 1}, oneSymbol(1))
	first := c.put(key{sum: 2}, oneSymbol(2))
	for i := 3; i < 500; i++ {
		if c.put(key{sum: uint64(i)}, oneSymbol(i)) == nil { // #nosec G115 -- a small number
			t.Fatalf("number %d is not kept", i)
		}
		if used.get() == nil {
			t.Fatalf("what was used is dropped at %d", i)
		}
		bytes, _ := c.Size()
		if bytes > 40*size || bytes != b.Used() {
			t.Fatalf("%d bytes, and %d of the budget", bytes, b.Used())
		}
	}
	if first.get() != nil || c.find(key{sum: 2}) != nil {
		t.Error("what was not used is still there")
	}
	if e := c.find(key{sum: 499}); e.get() == nil {
		t.Error("the last one is not there")
	}
	if c.find(key{sum: 499, way: "c"}) != nil {
		t.Error("another language has the same table")
	}
	small := NewCache(content.NewBudget(size/2), 40*size)
	if small.put(key{sum: 1}, oneSymbol(1)) != nil {
		t.Error("more is kept than the budget has")
	}
}
