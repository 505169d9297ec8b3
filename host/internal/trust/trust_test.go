package trust_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/trust"
	"toolhost.dev/sdk/tool"
)

func TestChanges(t *testing.T) {
	base := []tool.Definition{
		{Name: "a", Description: "d", Input: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"},"y":{}}}`)},
		{Name: "b", Description: "d", Input: json.RawMessage(`{}`)},
	}
	pin := trust.Pin{Tools: trust.Definitions(base)}
	change := func(f func(d *tool.Definition)) []tool.Definition {
		out := slices.Clone(base)
		f(&out[0])
		return out
	}
	for want, now := range map[string][]tool.Definition{
		"": base, "tool c is new": append(slices.Clone(base), tool.Definition{Name: "c"}), "tool b is gone": base[:1],
		"tool a changed: description":         change(func(d *tool.Definition) { d.Description += "." }),
		"tool a changed: description, traits": change(func(d *tool.Definition) { d.Examples, d.Traits.ReadOnly = []string{"x"}, true }),
		"tool a changed: traits":              change(func(d *tool.Definition) { d.Role = tool.RoleShell }),
		"tool a changed: parameters": change(func(d *tool.Definition) {
			d.Input = json.RawMessage(`{"type":"object","properties":{"y":{},"x":{"type":"string"}}}`)
		}),
		"tool a changed: result": change(func(d *tool.Definition) { d.Output = json.RawMessage(`{}`) }),
		" ": change(func(d *tool.Definition) {
			d.Input = json.RawMessage("{\"type\": \"object\",\n \"properties\":{\"x\":{\"type\":\"string\"},\"y\":{}}}")
		}),
	} {
		if got := strings.Join(pin.Changes(now), "; "); got != strings.TrimSpace(want) {
			t.Errorf("%q, wanted %q", got, want)
		}
	}
	replacing := change(func(d *tool.Definition) { d.Program = new(tool.Program) })
	if got := (&trust.Pin{Tools: trust.Definitions(base)}).Changes(replacing); !slices.Equal(got, []string{"tool a changed: traits"}) {
		t.Errorf("a changed program: %q", got)
	}
	// A tool that declares the role that its name gave it before is unchanged.
	old := trust.Pin{Tools: trust.Definitions([]tool.Definition{{Name: "bash"}})}
	if got := old.Changes([]tool.Definition{{Name: "bash", Role: tool.RoleShell}}); got != nil {
		t.Errorf("%q", got)
	}
}

func TestLockFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	for config, want := range map[string]string{"": dir + "/toolhost/built-in.lock.json", dir: dir + "/toolhost.lock.json", dir + "/x.hcl": dir + "/x.lock.json", dir + "/x.hcl.json": dir + "/x.lock.json", "x": "x.lock.json"} {
		if got, err := trust.PathFor(config); got != want || err != nil {
			t.Errorf("%s: %s %v", config, got, err)
		}
	}
	path := filepath.Join(dir, "new", "toolhost.lock.json")
	l, err := trust.Read(path)
	if err != nil || len(l.Plugins) != 0 {
		t.Fatal(l, err)
	}
	l.Plugins["a"] = trust.Pin{SHA256: strings.Repeat("0", 64), Tools: trust.Definitions([]tool.Definition{{Name: "x"}})}
	if err := l.Write(path); err != nil {
		t.Fatal(err)
	}
	again, err := trust.Read(path)
	if err != nil || again.Plugins["a"].Tools["x"] != l.Plugins["a"].Tools["x"] {
		t.Errorf("%+v %v", again, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
	// A failed write must keep the old file and leave no other files behind.
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(filepath.Join(dir, "file", "lock.json")); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Error(err)
	}
	for text, want := range map[string]string{`{`: "Restore it", `{"version":1,"odd":1}`: "Restore it", `{"version":3,"odd":1}`: "layout 3", `{"version":1,"plugins":{"a":{"sha256":"zz"}}}`: "not a SHA-256",
		"{\n<<<<<<< HEAD\n\"version\":2}": "conflict markers in line 2", "{\n\"version\": x}": "(line 2)",
		`{"version":2,"plugins":{"a":{"source":"weather","version":"1.0.0"}}}`:                                                                                                          "not a registry",
		`{"version":2,"plugins":{"a":{"source":"r.example/a/w","version":"1.0","index":"x"}}}`:                                                                                          "not a version",
		`{"version":2,"plugins":{"a":{"source":"r.example/a/w","version":"1.0.0","index":"/etc/passwd"}}}`:                                                                              "not the digest",
		`{"version":2,"plugins":{"a":{"source":"r.example/a/w","version":"1.0.0","index":"sha256:` + strings.Repeat("0", 64) + `","platforms":{"linux/amd64":{"content":"../../x"}}}}}`: "hashes of linux/amd64 that are not valid",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := trust.Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestOldLockFile checks that a lock file of layout 1 is read and rewritten, and that paths in the project become
// relative.
func TestOldLockFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "toolhost.lock.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"plugins":{"a":{"path":"`+dir+`/bin/a","sha256":"`+strings.Repeat("0", 64)+`","version":"1","tools":{}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := trust.Read(path)
	if err != nil || l.Version != 2 {
		t.Fatal(l, err)
	}
	pin := l.Plugins["a"]
	if got := pin.Binary(path); got != dir+"/bin/a" {
		t.Error(got)
	}
	pin.Path = trust.Relative(path, pin.Path)
	if pin.Path != "bin/a" || pin.Binary(path) != dir+"/bin/a" || trust.Relative(path, "/usr/bin/a") != "/usr/bin/a" {
		t.Errorf("%q %q", pin.Path, pin.Binary(path))
	}
}

func TestOnlyPinnedBytesAreRun(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plugin")
	write := func(path, text string) {
		t.Helper()
		_ = os.Remove(path)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(text string) string {
		s := sha256.Sum256([]byte(text))
		return hex.EncodeToString(s[:])
	}
	s := &trust.Store{Dir: filepath.Join(dir, "store"), Hash: func(path string) ([32]byte, error) {
		b, err := os.ReadFile(path)
		return sha256.Sum256(b), err
	}}
	content := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	write(path, "good")
	copied, err := s.Executable(path, sum("good"))
	if err != nil || content(copied) != "good" || copied == path || filepath.Base(copied) != "plugin" {
		t.Fatal(copied, err)
	}
	if st, err := os.Stat(copied); err != nil || st.Mode().Perm() != 0o500 {
		t.Error(st.Mode(), err)
	}
	write(path, "evil")
	if again, err := s.Executable(path, sum("good")); err != nil || content(again) != "good" {
		t.Error("a file that was changed after it was pinned is run", err)
	}
	write(copied, "evil")
	var m *trust.MismatchError
	if _, err := s.Executable(path, sum("good")); !errors.As(err, &m) || m.Is != sum("evil") || m.Pinned != sum("good") {
		t.Errorf("a changed copy is run: %v", err)
	}
	write(path, "good")
	if again, err := s.Executable(path, sum("good")); err != nil || content(again) != "good" {
		t.Error(err)
	}
	if err := s.Forget(sum("good")); err != nil {
		t.Error(err)
	}
	if err := s.Forget(""); err != nil { // an empty hash matches no copy
		t.Error(err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
	if _, err := s.Executable(filepath.Join(dir, "nothing"), sum("good")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
