package editor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tooltest"

	"toolhost.dev/plugins/edit/editor"
)

// BenchmarkEdit1MB is a whole call without the wire: reading, matching, writing, diff.
func BenchmarkEdit1MB(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	h := tooltest.New(b, editor.Plugin(), dir)
	var text strings.Builder
	for i := range 18_000 {
		fmt.Fprintf(&text, "\tif value%d := compute(%d, 0, \"name\"); value%d > limit {\n", i, i*7, i)
	}
	if res := h.Call("write", args{"file_path": "f.go", "content": text.String()}); !res.Success() {
		b.Fatal(res.Error)
	}
	i := 0
	for b.Loop() {
		res := h.Call("edit", args{"file_path": "f.go", "old_string": fmt.Sprintf("compute(63000, %d", i), "new_string": fmt.Sprintf("compute(63000, %d", i+1)})
		if !res.Success() {
			b.Fatal(res.Error)
		}
		i++
	}
}
