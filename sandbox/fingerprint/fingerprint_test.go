package fingerprint_test

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sandbox/fingerprint"
)

func of(text []byte) string {
	return fingerprint.Of(bytes.NewReader(text), text[:min(len(text), fingerprint.Head)], int64(len(text)))
}

// TestOf compares the fingerprint of the test program with the fingerprints of its copies.
func TestOf(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(program[:4]) != elf.ELFMAG {
		if of(program) != "" {
			t.Error("a file of another system has a fingerprint")
		}
		return
	}
	id := of(program)
	if id == "" || of(append(slices.Clone(program), "more"...)) != id {
		t.Errorf("the fingerprint is %q, and another one with data behind the program", id)
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Sections {
		if s.Name != ".note.go.buildid" && s.Name != ".note.gnu.build-id" {
			continue
		}
		b, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(id, " ")
		if (name == "Go") != (s.Name == ".note.go.buildid") {
			continue // a program can contain both types
		}
		if !strings.Contains(hex.EncodeToString(b), value) {
			t.Errorf("the fingerprint %q is not in %s", id, s.Name)
		}
		other := slices.Clone(program)
		other[s.Offset+20] ^= 1 // change a byte of the ID
		if of(other) == id {
			t.Error("another build has the same fingerprint")
		}
	}
	for i := range 200 { // damage single bytes of the headers
		other := slices.Clone(program[:8192])
		for k := range 8 {
			other[(i*37+k*91)%600+4] ^= byte(i*7 + k + 1)
		}
		of(other)
	}
	for n := range 200 {
		of(program[:n])
	}
}

func TestOfOtherFiles(t *testing.T) {
	script := []byte("#!/bin/sh\nexit\n")
	if a, b := of(script), of(append(slices.Clone(script), '\n')); a == "" || a == b {
		t.Errorf("scripts: %q %q", a, b)
	}
	for _, text := range []string{"", "text", "\x7fEL"} {
		if id := of([]byte(text)); id != "" {
			t.Errorf("%q has the fingerprint %q", text, id)
		}
	}
	if of([]byte("\x7fELF of another kind")) == "" {
		t.Error("a program without a build ID has no fingerprint")
	}
}
