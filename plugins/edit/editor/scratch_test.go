package editor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestCallsDoNotMix edits files concurrently while calls reuse memory. Each call must have its own text, diff and
// history.
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
		before := text
		h, dir := session(t, map[string]string{"f": text})
		wg.Go(func() {
			path := filepath.Join(dir, "f")
			for i := range edits {
				var changes []args
				var want string
				for j := range 2 {
					old, now := fmt.Sprintf("%s %d\n", line, i*50+j), fmt.Sprintf("%d.%d %s\n", i, j, line)
					changes = append(changes, args{"old_string": old, "new_string": now})
					text = strings.Replace(text, old, now, 1)
					want += now
				}
				res := h.Call("edit", args{"file_path": "f", "edits": changes})
				if !res.Success() || !strings.Contains(res.Output, "+"+strings.Replace(want, "\n", "\n+", 1)) {
					t.Errorf("%d: %v %s", w, res.Error, res.Output)
					return
				}
				has(t, path, text)
			}
			if res := h.Call("undo", args{"steps": edits}); !res.Success() {
				t.Errorf("%d: %v", w, res.Error)
			}
			has(t, path, before)
		})
	}
	wg.Wait()
}
