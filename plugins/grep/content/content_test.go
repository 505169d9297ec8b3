package content

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// lines returns random text that contains words, short and long lines, and special characters.
func lines(r *rand.Rand, n int) []byte {
	words := strings.Fields("alpha Beta gamma deltaEpsilon zeta eta theta iota kappa lambda mu nu xi omicron sigma tau upsilon phi chi psi omega é ſ K")
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		fmt.Fprint(&b, r.IntN(500))
		switch r.IntN(9) {
		case 0:
			b.WriteByte('\n')
		case 1:
			b.WriteByte(' ')
		}
		if r.IntN(2000) == 0 {
			b.WriteString(strings.Repeat("long", r.IntN(3*blockSize/4)))
		}
	}
	return b.Bytes()[:n]
}

var specialLetters = strings.NewReplacer("ſ", "s", "K", "k")

// has returns the start of the first line that contains a literal of each set. It ignores lines before the
// given offset. If no line matches, it returns -1.
func has(text []byte, n Need, from int) (at int) {
	for from < len(text) {
		end := len(text)
		if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
			end = from + i + 1
		}
		line := strings.ToLower(string(text[from:end]))
		if n.Special {
			line = specialLetters.Replace(line)
		}
		all := true
		for _, set := range n.Sets {
			one := false
			for _, l := range set {
				one = one || strings.Contains(line, l)
			}
			all = all && one
		}
		if all {
			return from
		}
		from = end
	}
	return -1
}

// TestSelectMissesNothing checks that a selection contains every text with the needed literals. Random texts are added
// and removed between the lookups.
func TestSelectMissesNothing(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := NewBudget(64 << 20)
		s := NewStore(b, 2)
		texts := make(map[uint32][]byte)
		known := make(map[uint32]*Text)
		add := func(id uint32) {
			text := lines(r, []int{0, 1, 5, 300, 5000, blockSize, 3 * blockSize, 20 * blockSize}[r.IntN(8)]*(1+r.IntN(2))*9/10)
			texts[id], known[id] = text, s.Appender(int(id%2)).Add(id, text)
		}
		for id := range uint32(24) {
			add(id)
		}
		for round := range 8 {
			for range 5 {
				id := uint32(r.IntN(24))
				s.Remove(known[id])
				add(id)
			}
			s.Compact(func(old, now *Text) { known[old.Owner] = now })
			n := Need{Special: r.IntN(2) == 0}
			for range 1 + r.IntN(3) {
				var set []string
				for range 1 + r.IntN(3) {
					// Choose a random part of a line as the literal.
					text := texts[uint32(r.IntN(24))]
					if len(text) < 20 {
						continue
					}
					at := r.IntN(len(text) - 19)
					piece, _, _ := strings.Cut(string(text[at:at+3+r.IntN(14)]), "\n")
					if piece = strings.ToLower(piece); strings.ToValidUTF8(piece, "") == piece {
						set = append(set, piece)
					}
				}
				if len(set) > 0 {
					n.Sets = append(n.Sets, set)
				}
			}
			sel := s.Select(n)
			if sel.All() {
				continue
			}
			selected := make(map[uint32]*Text)
			sel.Each(func(x *Text) { selected[x.Owner] = x })
			for id, text := range texts {
				got, ok := known[id].Bytes()
				if !ok || !bytes.Equal(got, text) {
					t.Fatalf("seed %d round %d: text %d is not what was added", seed, round, id)
				}
				for at := has(text, n, 0); at >= 0; at = has(text, n, at+1) {
					if at > 0 && text[at-1] != '\n' {
						continue
					}
					x := selected[id]
					if x == nil {
						t.Fatalf("seed %d round %d: %q is in text %d, which is not selected", seed, round, n.Sets, id)
					}
					inside := x.first == x.last
					for _, p := range sel.Parts(x) {
						inside = inside || p.From <= at && at < p.To
					}
					if !inside {
						t.Fatalf("seed %d round %d: %q is in text %d at %d, outside of %v", seed, round, n.Sets, id, at, sel.Parts(x))
					}
					if at += bytes.IndexByte(append(text[at:len(text):len(text)], '\n'), '\n'); at >= len(text) {
						break
					}
				}
			}
		}
		s.Close()
		if b.Used() != 0 {
			t.Errorf("seed %d: %d bytes are not given back", seed, b.Used())
		}
	}
}

// TestPartsAreWholeLines checks that every part begins at the start of a line and ends at the end of a line.
func TestPartsAreWholeLines(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	s := NewStore(NewBudget(64<<20), 1)
	for id := range uint32(40) {
		s.Appender(0).Add(id, lines(r, 40<<10))
	}
	parts := 0
	for i := range 500 {
		sel := s.Select(Need{Sets: [][]string{{fmt.Sprintf("a%d", i)}}})
		sel.Each(func(x *Text) {
			text, _ := x.Bytes()
			for _, p := range sel.Parts(x) {
				parts++
				if p.From > 0 && text[p.From-1] != '\n' || p.To < len(text) && text[p.To-1] != '\n' || p.From >= p.To {
					t.Fatalf("the part %v of a text of %d bytes", p, len(text))
				}
			}
		})
	}
	if parts < 100 {
		t.Errorf("only %d parts", parts)
	}
}

// TestSelectsFew checks that a selection excludes most texts.
func TestSelectsFew(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := NewStore(NewBudget(64<<20), 1)
	for id := range uint32(500) {
		s.Appender(0).Add(id, lines(r, 4000))
	}
	s.Appender(0).Add(500, append(lines(r, 4000), "\nthe unicorn\n"...))
	n := 0
	sel := s.Select(Need{Sets: [][]string{{"unicorn"}}})
	sel.Each(func(*Text) { n++ })
	if n == 0 || n > 20 {
		t.Errorf("%d of 501 texts", n)
	}
	if !s.Select(Need{Sets: [][]string{{"ab"}}}).All() || !s.Select(Need{}).All() {
		t.Error("without a literal of three bytes nothing is known")
	}
}

// TestAcrossTheCut checks that a literal is found even if it spans two blocks of a long line.
func TestAcrossTheCut(t *testing.T) {
	for at := blockSize - 12; at <= blockSize+1; at++ {
		text := bytes.Repeat([]byte("."), 3*blockSize)
		copy(text[at:], "unicornhorn")
		copy(text[2*blockSize+100:], "elsewhere")
		s := NewStore(NewBudget(64<<20), 1)
		s.Appender(0).Add(7, text)
		n := 0
		s.Select(Need{Sets: [][]string{{"unicornhorn"}, {"elsewhere"}}}).Each(func(*Text) { n++ })
		if n != 1 {
			t.Errorf("at %d of blocks of %d: %d texts", at, blockSize, n)
		}
	}
}
