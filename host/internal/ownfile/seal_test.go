package ownfile

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSeal(t *testing.T) {
	f := Key{Path: filepath.Join(t.TempDir(), "state", "key")}
	if _, err := f.Open("AAAA", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a key: %v", err)
	}
	value, purpose := []byte("the state of a server"), []byte("alice")
	text, err := f.Seal(value, purpose)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Open(text, purpose); err != nil || string(got) != string(value) {
		t.Errorf("%q %v", got, err)
	}
	if other, err := f.Seal(value, purpose); err != nil || other == text {
		t.Errorf("the same value has the same text: %v", err)
	}
	if st, err := os.Stat(f.Path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", st, err)
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed { // change each byte of the nonce, the value and the tag
		changed := append([]byte(nil), sealed...)
		changed[i] ^= 1
		if _, err := f.Open(base64.RawURLEncoding.EncodeToString(changed), purpose); !errors.Is(err, ErrInvalid) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for name, bad := range map[string]string{"empty": "", "cut": text[:len(text)-4], "long": text + "AAAA", "no base64": "!" + text[1:]} {
		if _, err := f.Open(bad, purpose); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Open(text, []byte("bob")); !errors.Is(err, ErrInvalid) {
		t.Errorf("another purpose: %v", err)
	}
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seal(value, purpose); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(text, purpose); !errors.Is(err, ErrInvalid) {
		t.Errorf("another key: %v", err)
	}
}

// TestConcurrentKeys checks that users who create a key file at the same time all get the same key.
func TestConcurrentKeys(t *testing.T) {
	for range 20 {
		f := Key{Path: filepath.Join(t.TempDir(), "key")}
		texts := make([]string, 16)
		var all sync.WaitGroup
		for i := range texts {
			all.Go(func() {
				var err error
				if texts[i], err = f.Seal([]byte("x"), nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, text := range texts {
			if _, err := f.Open(text, nil); err != nil {
				t.Fatal(err)
			}
		}
		if left, _ := os.ReadDir(filepath.Dir(f.Path)); len(left) != 1 {
			t.Fatalf("%d files remain", len(left))
		}
	}
}

func TestForeignKeys(t *testing.T) {
	dir := t.TempDir()
	for name, create := range map[string]func(path string) error{
		"mode 0644":     func(p string) error { return os.WriteFile(p, make([]byte, keySize), 0o644) },
		"32 bytes":      func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"symbolic link": func(p string) error { return os.Symlink("/dev/zero", p) },
		"regular file":  func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		f := Key{Path: filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))}
		if err := create(f.Path); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seal(nil, nil); err == nil {
			t.Errorf("%s: a foreign key is used", name)
		}
		if _, err := f.Open("AAAA", nil); err == nil || errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
