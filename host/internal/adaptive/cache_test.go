package adaptive

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

func state(t *testing.T, path, content string) tool.FileState {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return tool.FileState{Path: path, Size: int64(len(content)), Hash: sha256.Sum256([]byte(content))}
}

func TestAResultIsGoodForAsLongAsItsFilesAre(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, old := filepath.Join(dir, "a"), time.Now().Add(-time.Hour)
	anywhere := func(string) bool { return true }
	for name, change := range map[string]func(t *testing.T){
		"another length":              func(t *testing.T) { state(t, path, "longer text") },
		"the same length and times":   func(t *testing.T) { state(t, path, "TEXT"); _ = os.Chtimes(path, old, old) },
		"gone":                        func(*testing.T) { _ = os.Remove(path) },
		"a directory":                 func(*testing.T) { _ = os.Remove(path); _ = os.Mkdir(path, 0o700) },
		"a pipe":                      func(*testing.T) { _ = os.Remove(path); _ = syscall.Mkfifo(path, 0o600) },
		"a link to the same contents": func(t *testing.T) { state(t, path+"2", "text"); _ = os.Remove(path); _ = os.Symlink(path+"2", path) },
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.RemoveAll(path)
			var c Results
			f := state(t, path, "text")
			_ = os.Chtimes(path, old, old)
			c.Put(ResultKey{1, "k"}, &tool.Result{Output: "o", Metadata: map[string]any{"a": 1}, Effects: []tool.Effect{{Operation: tool.OpRead, File: f}}})
			got := c.Get(ResultKey{1, "k"}, anywhere)
			if got == nil || got.Output != "o" {
				t.Fatal("it is not there")
			}
			got.Metadata["b"] = 2
			state(t, path, "text") // writes the same content with a new modification time
			if got = c.Get(ResultKey{1, "k"}, anywhere); got == nil || len(got.Metadata) != 1 {
				t.Fatalf("%+v", got)
			}
			if c.Get(ResultKey{2, "k"}, anywhere) != nil || c.Get(ResultKey{1, "l"}, anywhere) != nil {
				t.Error("it is given for another call")
			}
			change(t)
			if c.Get(ResultKey{1, "k"}, anywhere) != nil {
				t.Error("a stale result is given")
			}
			if n, bytes := c.Size(); n != 0 || bytes != 0 {
				t.Errorf("%d results of %d bytes are kept", n, bytes)
			}
		})
	}
	t.Run("out of reach", func(t *testing.T) {
		_ = os.RemoveAll(path)
		var c Results
		c.Put(ResultKey{1, "k"}, &tool.Result{Effects: []tool.Effect{{Operation: tool.OpRead, File: state(t, path, "text")}}})
		if c.Get(ResultKey{1, "k"}, func(string) bool { return false }) != nil {
			t.Error("it is given")
		}
	})
}

func TestWhatCannotBeKeptIsNot(t *testing.T) {
	for name, r := range map[string]*tool.Result{
		"a failure":      tool.Failed(tool.Errorf(tool.Conflict, "x")),
		"a change":       {Effects: []tool.Effect{{Operation: tool.OpModify}}},
		"too large":      {Output: strings.Repeat("x", maxResult)},
		"a large file":   {Effects: []tool.Effect{{Operation: tool.OpRead, File: tool.FileState{Size: maxRead + 1}}}},
		"many files":     {Effects: make([]tool.Effect, maxFiles+1)},
		"session state":  {SessionState: []byte{}},
		"a working dir.": {Cwd: "/"},
	} {
		var c Results
		c.Put(ResultKey{1, "k"}, r)
		if n, _ := c.Size(); n != 0 {
			t.Errorf("%s is kept", name)
		}
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	var c Results
	always := func(string) bool { return true }
	for i := range 2 * maxKept {
		c.Put(ResultKey{1, strconv.Itoa(i)}, &tool.Result{Output: "o"})
		c.Get(ResultKey{1, "0"}, always) // makes this result the most recently used one
	}
	for i := range 100 {
		c.Put(ResultKey{2, strconv.Itoa(i)}, &tool.Result{Output: strings.Repeat("x", 1<<20)})
		c.Get(ResultKey{1, "0"}, always)
	}
	if n, bytes := c.Size(); n > maxKept || bytes > maxBytes || n == 0 {
		t.Errorf("%d results of %d bytes", n, bytes)
	}
	if c.Get(ResultKey{1, "0"}, always) == nil {
		t.Error("what is in use was forgotten")
	}
	c.Clear()
	if n, bytes := c.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d %d", n, bytes)
	}
}
