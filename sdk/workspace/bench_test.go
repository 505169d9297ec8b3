package workspace_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"
)

func BenchmarkRead10KB(b *testing.B) {
	dir := tree(b, "a/b/c/f", "l -> a/b")
	must(b, os.WriteFile(dir+"/a/b/c/f", bytes.Repeat([]byte("0123456789abcde\n"), 640), 0o666))
	w := space(b, dir)
	for name, path := range map[string]string{"plain": "a/b/c/f", "through a link": "l/c/f"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := w.Resolve(dir, path)
				must(b, err)
				s, err := w.ReadFile(p, 1<<20)
				must(b, err)
				_, err = text.Decode(s.Data)
				must(b, err)
			}
		})
	}
	b.Run("os.ReadFile alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := os.ReadFile(dir + "/a/b/c/f")
			must(b, err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for name, size := range map[string]int{"10KB": 10 << 10, "1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			dir := tree(b, "f")
			w := space(b, dir)
			p := resolve(b, w, dir, "f")
			data := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
			_, err := w.WriteFile(context.Background(), p, data, workspace.WriteOptions{})
			must(b, err)
			for b.Loop() {
				s, err := w.ReadFile(p, 1<<30)
				must(b, err)
				_, err = w.WriteFile(context.Background(), p, data, workspace.WriteOptions{Expect: s})
				must(b, err)
			}
		})
	}
}
