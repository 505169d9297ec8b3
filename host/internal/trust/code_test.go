package trust_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/host/internal/trust"
)

// TestScriptAndCodeBeside checks a script in a directory that tools can write. The host must run the original script
// instead of a copy, and only if all code files beside the script are trusted.
func TestScriptAndCodeBeside(t *testing.T) {
	dir := t.TempDir()
	script, module := filepath.Join(dir, "main.py"), filepath.Join(dir, "module.py")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(script, "#!/usr/bin/python3\n")
	write(module, "one\n")
	trusted := make(map[string]string)
	sha256Of := func(path string) ([32]byte, error) {
		b, err := os.ReadFile(path)
		return sha256.Sum256(b), err
	}
	for _, path := range []string{script, module} {
		sum, err := trust.Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		trusted[path] = sum
	}
	pins, err := trust.OpenPins(trust.PinOptions{
		Config: filepath.Join(dir, "toolhost.hcl"), Hash: sha256Of, Dir: func() (string, error) { return t.TempDir(), nil },
		Guard: func(path string) (string, bool) { return trusted[path], path == script || trust.IsCode(path) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if path, err := pins.Executable("p", script); err != nil || path != script {
		t.Errorf("it runs %q, %v; want the script in its place", path, err)
	}
	write(filepath.Join(dir, "json.py"), "shadows\n")
	if _, err := pins.Executable("p", script); err == nil {
		t.Error("it runs with a new module beside it")
	}
	if err := os.Remove(filepath.Join(dir, "json.py")); err != nil {
		t.Fatal(err)
	}
	write(module, "two\n")
	if _, err := pins.Executable("p", script); err == nil {
		t.Error("it runs with a changed module beside it")
	}
}
