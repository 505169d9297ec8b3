package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/sdk/store"
)

const childEnv = "STORE_TEST_DIR"

// TestMain runs the tests. In a process that TestKilled starts, it instead increments a counter in a store until the
// process is killed.
func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		panic(err)
	}
	for {
		if err := add(s); err != nil {
			panic(err)
		}
		fmt.Println("stored")
	}
}

// value is large, so that a kill can hit the middle of a write.
type value struct {
	N    int
	Fill string
}

func add(s *store.Store) error {
	return s.Update("count", func(old json.RawMessage) (any, error) {
		var v value
		if old != nil {
			if err := json.Unmarshal(old, &v); err != nil {
				return nil, err
			}
		}
		return value{v.N + 1, strings.Repeat(fmt.Sprint(v.N%10), 100_000)}, nil
	})
}

func open(t *testing.T, opts store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestValues(t *testing.T) {
	s := open(t, store.Options{})
	if found, err := s.Get("a", new(int)); found || err != nil {
		t.Error(found, err)
	}
	for key, v := range map[string]any{"a": 1, "a/ä\n<": "text <&>", "b": []int{1, 2}} {
		if err := s.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	if found, err := s.Get("a/ä\n<", &text); !found || err != nil || text != "text <&>" {
		t.Error(found, err, text)
	}
	if found, err := s.Get("b", &text); !found || err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Error(found, err)
	}
	if keys, err := s.Keys("a"); err != nil || len(keys) != 2 || keys[0] != "a" {
		t.Error(keys, err)
	}
	if err := errors.Join(s.Delete("a"), s.Delete("a")); err != nil {
		t.Error(err)
	}
	if found, err := s.Get("a", new(int)); found || err != nil {
		t.Error(found, err)
	}
	stop := errors.New("stop")
	if err := s.Update("b", func(json.RawMessage) (any, error) { return 3, stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	var list []int
	if _, err := s.Get("b", &list); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
}

func TestLimits(t *testing.T) {
	s := open(t, store.Options{MaxValue: 100, MaxBytes: 300, MaxKeys: 3})
	if err := s.Set("x", strings.Repeat("x", 100)); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	for i := range 3 {
		if err := s.Set(fmt.Sprint(i), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set("3", 3); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	if err := s.Set("2", strings.Repeat("x", 90)); err != nil { // an existing key can still change
		t.Error(err)
	}
	for _, i := range []string{"0", "1"} {
		if err := s.Set(i, strings.Repeat("x", 90)); i == "1" && !errors.Is(err, store.ErrFull) {
			t.Error(i, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", 2000)} {
		if err := s.Set(key, 1); err == nil {
			t.Errorf("a key of %d bytes is accepted", len(key))
		}
	}
	if _, err := store.Open("relative", store.Options{}); err == nil {
		t.Error("a relative directory is accepted")
	}
}

func TestDamagedFile(t *testing.T) {
	s := open(t, store.Options{})
	if err := s.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, _ = store.Open(dir, store.Options{})
	_ = s.Set("a", 1)
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if err := os.WriteFile(files[0], []byte(`{"key":"a","val`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("a", new(int)); err == nil || !strings.Contains(err.Error(), files[0]) {
		t.Error(err)
	}
}

// TestKilled repeatedly kills a process that increments a counter. Each stored value must survive, and no other files
// may remain.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new-123"), []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	printed := 0
	for round := range 8 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, len("stored\n"))
		for range 1 + round {
			if _, err := out.Read(line); err != nil {
				t.Fatal(err)
			}
			printed++
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	var v value
	if found, err := s.Get("count", &v); !found || err != nil || v.N < printed {
		t.Fatalf("%v %v: %d, at least %d were stored", found, err, v.N, printed)
	}
	if err := s.Set("other", 1); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "new-*")); len(left) > 0 {
		t.Errorf("%q remain", left)
	}
}

// TestTogether checks that no increment is lost if several stores increment one counter concurrently.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := store.Open(dir, store.Options{})
			for range 10 {
				err = errors.Join(err, add(s))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s, _ := store.Open(dir, store.Options{})
	var v value
	if _, err := s.Get("count", &v); err != nil || v.N != 40 {
		t.Error(v.N, err)
	}
}
