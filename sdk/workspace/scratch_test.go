package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"testing"
	"time"

	"toolhost.dev/sdk/workspace"
)

// TestHashOfAllSizes checks the hash of files of different sizes. The sizes are near the limits at which the hash is
// computed in chunks.
func TestHashOfAllSizes(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	for _, size := range []int{0, 1, 511, 512, 513, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 1<<20 + 7} {
		data := bytes.Repeat([]byte("abcdefg\n"), size/8+1)[:size]
		must(t, os.WriteFile(dir+"/f", data, 0o666))
		snap, err := w.ReadFile(resolve(t, w, dir, "f"), 2<<20)
		must(t, err)
		if !bytes.Equal(snap.Data, data) || snap.Hash() != sha256.Sum256(data) || snap.Hash() != snap.State().Hash {
			t.Errorf("%d bytes: read %d, the hash is %x", size, len(snap.Data), snap.Hash())
		}
		if size > 0 {
			if _, err := w.ReadFile(resolve(t, w, dir, "f"), int64(size-1)); err == nil {
				t.Errorf("%d bytes are read where one less is allowed", size)
			}
		}
	}
}

// TestRelease reads files into reused memory. The content must not contain remains of earlier files.
func TestRelease(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	for i, size := range []int{1 << 20, 900 << 10, 64 << 10, 1 << 20, 3 << 20, 1<<20 + 1} {
		data := bytes.Repeat([]byte{byte('a' + i)}, size)
		must(t, os.WriteFile(dir+"/f", data, 0o666))
		snap, err := w.ReadFile(resolve(t, w, dir, "f"), 4<<20)
		must(t, err)
		if !bytes.Equal(snap.Data, data) {
			t.Fatalf("the %d-th is not what the file has", i)
		}
		if i%2 == 0 { // call Hash before Release in some rounds and after Release in the others
			snap.Hash()
		}
		snap.Release()
		other := workspace.Scratch(size)
		if len(other) != 0 || cap(other) < size {
			t.Fatalf("a buffer for %d has %d of %d", size, len(other), cap(other))
		}
		clear(other[:cap(other)])
		workspace.Reuse(other)
		if snap.Data != nil || snap.Hash() != sha256.Sum256(data) {
			t.Errorf("after the release there are %d bytes, and the hash is %x", len(snap.Data), snap.Hash())
		}
	}
}

// TestChanged checks that readers see the old content when Ready is called, and the new content when Changed is called.
func TestChanged(t *testing.T) {
	for name, prepare := range map[string]func(file string){
		"new":     func(string) {},
		"replace": func(file string) { must(t, os.WriteFile(file, []byte("old"), 0o666)) },
		"in place": func(file string) {
			must(t, os.WriteFile(file, []byte("old"), 0o666))
			must(t, os.Link(file, file+".link"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			w := space(t, dir)
			prepare(dir + "/f")
			var seen []string
			look := func() {
				data, err := os.ReadFile(dir + "/f")
				if err != nil {
					data = []byte("none")
				}
				seen = append(seen, string(data))
			}
			before := "old"
			if name == "new" {
				before = "none"
			}
			_, err := w.WriteFile(t.Context(), resolve(t, w, dir, "f"), []byte("new"), workspace.WriteOptions{
				Ready: func() error { look(); return nil }, Changed: look,
			})
			must(t, err)
			if len(seen) != 2 || seen[0] != before || seen[1] != "new" {
				t.Errorf("seen when it is ready and when it has changed: %q", seen)
			}
		})
	}
}

// TestLargeFilesAreClosed checks that files that are closed in the background do not stay open.
func TestLargeFilesAreClosed(t *testing.T) {
	dir := tree(t)
	w := space(t, dir)
	p := resolve(t, w, dir, "f")
	data := make([]byte, 1<<20)
	write := func() {
		_, err := w.WriteFile(t.Context(), p, data, workspace.WriteOptions{})
		must(t, err)
	}
	write()
	before := openFiles(t)
	for range 20 {
		write()
	}
	for openFiles(t) > before { // wait until the files are closed; the test times out if they stay open
		time.Sleep(time.Millisecond)
	}
}

// TestScratchIsLargeEnough checks that Scratch returns a buffer of the requested size even if Reuse has stored a
// smaller one.
func TestScratchIsLargeEnough(t *testing.T) {
	for range 20 { // repeat, because the pool does not always return the same buffer
		workspace.Reuse(make([]byte, 7, 100<<10))
		if b := workspace.Scratch(1 << 20); len(b) != 0 || cap(b) < 1<<20 {
			t.Fatalf("a buffer for 1 MiB has %d of %d", len(b), cap(b))
		}
	}
}
