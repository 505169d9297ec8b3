package editor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestCallsDoNotMix edits files at the same time in memory that calls use again: each has its
// own text, diff and history.
func TestCallsDoNotMix(t *testing.T) {
	const files, edits = 3, 3
	var wg sync.WaitGroup
	for w := range files {
		line := strings.Repeat(string(rune('a'+w)), 99)
		var b strings.Builder
		for i := range 1000 + 700*w {
			fmt.Fprintf(&b, "%s %d\n", line, i)
		}
		text := b.String()
		h, dir := session(t, map[string]string{"f": text})
		wg.Go(func() {
			path := filepath.Join(dir, "f")
			for i := range edits {
				old, now := fmt.Sprintf("%s %d\n", line, i*50), fmt.Sprintf("%d %s\n", i, line)
				res := h.Call("edit", args{"file_path": "f", "old_string": old, "new_string": now})
				if text = strings.Replace(text, old, now, 1); !res.Success() || !strings.Contains(res.Output, "-"+old+"+"+now) {
					t.Errorf("%d: %v %s", w, res.Error, res.Output)
					return
				}
				has(t, path, text)
			}
			if res := h.Call("undo", args{"steps": edits}); !res.Success() {
				t.Errorf("%d: %v", w, res.Error)
			}
			for i := range edits {
				text = strings.Replace(text, fmt.Sprintf("%d %s\n", i, line), fmt.Sprintf("%s %d\n", line, i*50), 1)
			}
			has(t, path, text)
		})
	}
	wg.Wait()
}
