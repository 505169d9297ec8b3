package branch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkApply applies and reverts a branch with 10 000 changed files.
func BenchmarkApply(b *testing.B) {
	dir := b.TempDir()
	base, s := filepath.Join(dir, "base"), &Store{Dir: filepath.Join(dir, "store")}
	write := func(root, text string, mark bool) {
		for i := range 10_000 {
			path := filepath.Join(root, fmt.Sprintf("d%d/f%d", i%100, i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d", text, i), 0o644); err != nil {
				b.Fatal(err)
			}
			if mark {
				if err := unix.Setxattr(path, originMark, nil, 0); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	write(base, "old", false)
	br, err := s.Make("", base, "b")
	if err != nil {
		b.Fatal(err)
	}
	write(br.Layer(), "newer", true)
	for b.Loop() {
		if _, err := s.Apply(br, Selection{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if _, err := s.Revert(br); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
