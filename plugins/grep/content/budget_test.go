//go:build !race

package content

import (
	"math/rand/v2"
	"testing"
)

// TestOracleBudget checks the behaviour when memory runs out: first the store keeps only the index of texts, then it
// refuses texts.
func TestOracleBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := NewBudget(3 << 20)
	s := NewStore(b, 1)
	s.Making(true)
	kept, known, refused := 0, 0, 0
	var texts []*Text
	for id := range uint32(6000) {
		x := s.Appender(0).Add(id, lines(r, 4000))
		if x == nil {
			refused++
		} else {
			texts = append(texts, x)
		}
		if b.Used() > b.Limit() {
			t.Fatalf("%d bytes of %d are used", b.Used(), b.Limit())
		}
	}
	for _, x := range texts {
		if _, ok := x.Bytes(); ok {
			kept++
		} else {
			known++
		}
	}
	if known < 5*kept || known < 2000 || refused == 0 {
		t.Errorf("%d kept, %d known, %d refused", kept, known, refused)
	}
}
