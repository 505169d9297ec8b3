package branch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// BenchmarkApply applies a branch with 10 000 changed files, and BenchmarkRevert reverts it.
func BenchmarkApply(b *testing.B) { benchmarkApply(b, true) }

func BenchmarkRevert(b *testing.B) { benchmarkApply(b, false) }

// benchmarkApply measures the applies if applies is true, and the reverts otherwise.
func benchmarkApply(b *testing.B, applies bool) {
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
				if err := unix.Setxattr(path, filetree.OriginMark, nil, 0); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	write(base, "old", false)
	br, err := s.Make("", base, "b", Backend{})
	if err != nil {
		b.Fatal(err)
	}
	write(br.Layer(), "newer", true)
	timed := func(on bool, do func() error) {
		if !on {
			b.StopTimer()
			defer b.StartTimer()
		}
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		timed(applies, func() error { _, err := s.Apply(br, Selection{}); return err })
		timed(!applies, func() error { _, err := s.Revert(br); return err })
	}
}

// BenchmarkCheckpoint measures a checkpoint of a layer with 10 000 files, one of which has changed since the last
// checkpoint.
func BenchmarkCheckpoint(b *testing.B) {
	base, s := b.TempDir(), &Store{Dir: filepath.Join(b.TempDir(), "store")}
	br, err := s.Make("", base, "b", Backend{})
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(base, ".git"), 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		path := filepath.Join(br.Layer(), fmt.Sprintf("d%d/f%d", i%1000, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "text %d", i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	rules := CheckpointRules{Keep: 100, Bytes: 1 << 30, SkipIgnored: true}
	n := 0
	before := func() {
		n++
		if err := os.WriteFile(filepath.Join(br.Layer(), "one"), fmt.Append(nil, n), 0o644); err != nil {
			b.Fatal(err)
		}
		if _, err := br.checkpoint(Checkpoint{Call: fmt.Sprint(n), Session: "s"}, rules); err != nil {
			b.Fatal(err)
		}
	}
	before()
	b.ResetTimer()
	for b.Loop() {
		before()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10_000, "µs/file")
}
