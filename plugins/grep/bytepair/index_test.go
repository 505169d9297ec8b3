package bytepair

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"
)

func naive(buf []byte, p Pair) int {
	for i := 0; i+p.Distance < len(buf); i++ {
		if buf[i]|p.FirstOr == p.First && buf[i+p.Distance]|p.SecondOr == p.Second {
			return i
		}
	}
	return -1
}

// guarded returns memory that lies between two unreadable pages.
func guarded(t testing.TB, pages int) []byte {
	t.Helper()
	size := syscall.Getpagesize()
	all, err := syscall.Mmap(-1, 0, (pages+2)*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(all) })
	for _, edge := range [][]byte{all[:size], all[len(all)-size:]} {
		if err := syscall.Mprotect(edge, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[size : len(all)-size]
}

// TestEveryPlace checks that a pair is found at every position of texts of every length. The texts lie at the
// beginning and at the end of readable memory.
func TestEveryPlace(t *testing.T) {
	page := guarded(t, 1)
	for _, distance := range []int{0, 1, 2, 7, 31, 32, 33, 63} {
		for n := range 200 {
			for _, buf := range [][]byte{page[:n:n], page[len(page)-n:]} {
				for i := range buf {
					buf[i] = "aab"[i%3]
				}
				if got := (&Pair{Distance: distance, First: 'x', Second: 'y'}).Index(buf); got != -1 {
					t.Fatalf("distance %d, length %d: %d", distance, n, got)
				}
				second := byte('y')
				if distance == 0 {
					second = 'x'
				}
				for i := 0; i+distance < n; i++ {
					was, and := buf[i], buf[i+distance]
					buf[i], buf[i+distance] = 'x', second
					if got := (&Pair{Distance: distance, First: 'x', Second: second}).Index(buf); got != i {
						t.Fatalf("distance %d, length %d: %d, want %d", distance, n, got, i)
					}
					buf[i+distance], buf[i] = and, was
				}
			}
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("abcabc"), 1, byte('c'), byte('a'), byte(0), byte(0))
	f.Add([]byte("abcABC"), 1, byte('c'), byte('a'), byte(0x20), byte(0x20))
	f.Fuzz(func(t *testing.T, buf []byte, distance int, first, second, firstOr, secondOr byte) {
		if distance < 0 || distance > 1<<20 {
			return
		}
		p := Pair{distance, first, second, firstOr, secondOr}
		if got, want := p.Index(buf), naive(buf, p); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	})
}

// TestRandom searches texts with few different letters. In these texts, the first byte often occurs without the
// second.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test
	for range 20_000 {
		buf := make([]byte, r.IntN(300))
		for i := range buf {
			buf[i] = "abcdABcd"[r.IntN(8)]
		}
		p := Pair{r.IntN(40), 'a', 'b', byte(r.IntN(2)) << 5, byte(r.IntN(2)) << 5}
		if got, want := p.Index(buf), naive(buf, p); got != want {
			t.Fatalf("%q, %+v: %d, want %d", buf, p, got, want)
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	buf := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 1<<14)
	p := Pair{Distance: 1, First: 'q', Second: 'z'}
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if p.Index(buf) >= 0 {
			b.Fatal("there is none")
		}
	}
}
