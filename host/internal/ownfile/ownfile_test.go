package ownfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

type counter struct {
	N int `json:"n"`
}

// TestChange checks that concurrent changes are not lost, and that a failed change does not change the file.
func TestChange(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "state", "count.json"), Name: "the count"}
	increase := func() error {
		return f.Change(func() (any, error) {
			var c counter
			err := f.Read(&c)
			c.N++
			return c, err
		})
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := increase(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	refused := errors.New("refused")
	if err := f.Change(func() (any, error) { return counter{}, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	var c counter
	if err := f.Read(&c); err != nil || c.N != 80 {
		t.Errorf("%d %v", c.N, err)
	}
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil || len(entries) != 2 {
		t.Errorf("not only the file and its lock are there: %v %v", entries, err)
	}
}

// TestOwn checks that a file is rejected if another user could have written it.
func TestOwn(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) File { return File{Path: filepath.Join(dir, name), Name: name} }
	for name, mode := range map[string]os.FileMode{"private": 0o600, "readable": 0o644, "group": 0o620, "all": 0o602} {
		if err := os.WriteFile(at(name).Path, []byte(`{"n":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(name).Path, mode); err != nil {
			t.Fatal(err)
		}
		var c counter
		if err := at(name).Read(&c); (err == nil) != (mode&0o022 == 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Symlink(at("private").Path, at("link").Path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("more").Path, []byte(`{"n":1,"m":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "symbolic", "more": "unknown field", ".": "regular file"} {
		if err := at(name).Read(new(counter)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := counter{N: 7}
	if err := at("none").Read(&c); err != nil || c.N != 7 {
		t.Errorf("%+v %v", c, err)
	}
}
