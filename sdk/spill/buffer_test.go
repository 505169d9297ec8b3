package spill

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestBufferKeepsHeadAndTail(t *testing.T) {
	for _, size := range []int{0, 1, Half - 1, Half, Half + 1, 2*Half - 1, 2 * Half, 2*Half + 1, 3 * Half, 7*Half + 123} {
		for _, step := range []int{1, 7, 4096, Half, 10 * Half} {
			if step == 1 && size > 3*Half {
				continue
			}
			data := lines(size)
			b := NewBuffer("stdout", NewStore(t.TempDir()))
			for rest := data; len(rest) > 0; {
				n := min(step, len(rest))
				if k, err := b.Write(rest[:n]); k != n || err != nil {
					t.Fatal(k, err)
				}
				rest = rest[n:]
			}
			got := b.Text(2 * Half)
			if b.Size() != int64(size) || got.Cut != (size > 2*Half) {
				t.Fatalf("size %d, step %d: Size %d, Cut %v", size, step, b.Size(), got.Cut)
			}
			if !got.Cut {
				if got.Shown != string(data) || got.Path != "" {
					t.Fatalf("size %d, step %d: not what was written", size, step)
				}
				continue
			}
			if spilled, err := os.ReadFile(got.Path); err != nil || !bytes.Equal(spilled, data) {
				t.Fatalf("size %d, step %d: the file has %d bytes: %v", size, step, len(spilled), err)
			}
			head, notice, tail := parts(t, got.Shown)
			if !strings.HasPrefix(string(data), head) || !strings.HasSuffix(string(data), tail) || len(got.Shown) > 2*Half {
				t.Fatalf("size %d, step %d: %d shown", size, step, len(got.Shown))
			}
			var left, leftLines int
			if _, err := fmt.Sscanf(notice, "[… %d bytes (%d lines) of stdout", &left, &leftLines); err != nil {
				t.Fatal(notice, err)
			}
			middle := data[len(head) : len(data)-len(tail)]
			if left != len(middle) || leftLines != bytes.Count(middle, []byte("\n")) {
				t.Fatalf("%s: but %d bytes, %d lines", notice, len(middle), bytes.Count(middle, []byte("\n")))
			}
		}
	}
}

func lines(size int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()[:size]
}

func parts(t *testing.T, s string) (head, notice, tail string) {
	t.Helper()
	i, j := strings.Index(s, "[… "), strings.Index(s, " …]\n")
	if i < 0 || j < i {
		t.Fatalf("no notice in %.200q", s)
	}
	return s[:i], s[i:j], s[j+len(" …]\n"):]
}

func TestTextWithLittleRoom(t *testing.T) {
	b := NewBuffer("stderr", NewStore(t.TempDir()))
	data := lines(10_000)
	_, _ = b.Write(data)
	got := b.Text(3000)
	if spilled, _ := os.ReadFile(got.Path); !got.Cut || !bytes.Equal(spilled, data) || utf8.RuneCountInString(got.Shown) > 3000 || len(got.Shown) < 2500 {
		t.Errorf("%d bytes shown, %q", len(got.Shown), got.Path)
	}
	if head, _, tail := parts(t, got.Shown); !strings.HasPrefix(string(data), head) || !strings.HasSuffix(string(data), tail) {
		t.Error("not the head and the tail")
	}
}

func TestSpillEnds(t *testing.T) {
	b := NewBuffer("stdout", NewStore(t.TempDir()))
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	for range 65 {
		_, _ = b.Write(chunk)
	}
	_, _ = b.Write([]byte("end\n"))
	got := b.Text(2 * Half)
	if info, err := os.Stat(got.Path); err != nil || info.Size() != MaxSpill {
		t.Fatal(info, err)
	}
	if want := fmt.Sprintf("the first %d bytes of %d (the maximum) are in %s", MaxSpill, 65<<20+4, got.Path); !strings.Contains(got.Shown, want) {
		t.Errorf("no %q", want)
	}
	if !strings.HasSuffix(got.Shown, "end\n") {
		t.Error("the end is not there")
	}
}

func TestSpillFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := NewBuffer("stdout", NewStore(file))
	_, _ = b.Write(lines(3 * Half))
	if got := b.Text(2 * Half); !got.Cut || got.Path != "" || !strings.Contains(got.Shown, "could not be kept in a file") {
		t.Errorf("%+v", got.Path)
	}

	b = NewBuffer("stdout", NewStore(t.TempDir()))
	_, _ = b.Write(lines(3 * Half))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.spill.file.Close()
	b.spill.file = full
	_, _ = b.Write(lines(Half))
	if got := b.Text(2 * Half); !strings.Contains(got.Shown, "no space left on device") || !strings.Contains(got.Shown, fmt.Sprintf("the first %d bytes are in %s", 3*Half, got.Path)) {
		_, notice, _ := parts(t, got.Shown)
		t.Error(notice)
	}
}

func TestValidText(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "ünïcödé": "ünïcödé", "\xff": "\uFFFD", "a\xffb": "a\uFFFDb", "\xff\xfe": "\uFFFD\uFFFD",
		"\xe2\x82": "\uFFFD\uFFFD", "nul\x00": "nul\x00", "\uFFFD": "\uFFFD",
	} {
		if got := validText([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestCuts shortens random texts and checks the documented properties of the shortened texts.
func TestCuts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "é", "€", "𝄞", "\n", "word ", strings.Repeat("x", 3000)}
	for range 2000 {
		var s strings.Builder
		for range random.IntN(40) {
			s.WriteString(pieces[random.IntN(len(pieces))])
		}
		text := s.String()
		n := random.IntN(len(text) + 2)
		head, tail := string(cutEnd([]byte(text), n)), string(cutStart([]byte(text), n))
		if len(head) > n || len(tail) > n || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Fatalf("%d of %q: %q, %q", n, text, head, tail)
		}
		if !utf8.ValidString(head) || !utf8.ValidString(tail) {
			t.Fatalf("%d of %q: a rune is cut: %q, %q", n, text, head, tail)
		}
		if n < len(text) && n-len(head) > min(lineReach, n/2)+utf8.UTFMax || n-len(tail) > min(lineReach, n/2)+utf8.UTFMax && n < len(text) {
			t.Fatalf("%d of %d bytes: too much was cut: %d, %d", n, len(text), len(head), len(tail))
		}
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i := range maxFiles + 30 {
		name := filepath.Join(dir, fmt.Sprintf("%03d-stdout.txt", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, now, now.Add(-time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "other.dat")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, now, now.Add(-1000*time.Hour)); err != nil {
		t.Fatal(err)
	}
	s := NewStore(dir)
	f, err := s.create("stdout.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	left, _ := filepath.Glob(dir + "/*-stdout.txt")
	if len(left) != maxFiles+1 { // the hundred newest files and the new file
		t.Errorf("%d files are left", len(left))
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("a file that is not of the store was removed")
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	for i := range 5 { // large old files exceed the limit for the total size
		name := filepath.Join(dir, fmt.Sprintf("big%d-stdout.txt", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, DefaultBytes/3); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, now, now.Add(-time.Duration(15+i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	s.sweep(now, 0)
	if left, _ := filepath.Glob(dir + "/big*"); len(left) != 3 {
		t.Errorf("%v are left", left)
	}
	if left, _ := filepath.Glob(dir + "/0*-stdout.txt"); len(left) != 1 { // this file is newer than the large files
		t.Errorf("%v are left", left)
	}
}

func TestStoreInTheTemporaryDirectory(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	f, err := NewStore("").create("stdout.txt")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	own := filepath.Dir(f.Name())
	if want := filepath.Join(tmp, fmt.Sprintf("toolhost-output-%d", os.Getuid())); own != want {
		t.Errorf("%s, want %s", own, want)
	}
	// The store must not use a directory that another user created.
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, own); err != nil {
		t.Fatal(err)
	}
	f, err = NewStore("").create("stdout.txt")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if entries, _ := os.ReadDir(elsewhere); len(entries) > 0 || filepath.Dir(f.Name()) == own {
		t.Errorf("%s was written through a link", f.Name())
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	f, err = NewStore("").create("stdout.txt")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if filepath.Dir(f.Name()) == own {
		t.Error("a directory that all can write to was used")
	}
	if err := os.RemoveAll(tmp); err != nil {
		t.Fatal(err)
	}
	if _, err := NewStore("").create("stdout.txt"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no temporary directory: %v", err)
	}
}

// TestStoreIsFull writes more than the limit of the store within a minute. The total size of the files must never
// exceed the limit, the result must name the limit, and older files must be removed.
func TestStoreIsFull(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	s.MaxBytes = 1 << 20
	size := func() (n int64) {
		files, _ := filepath.Glob(dir + "/*.txt")
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
		return n
	}
	write := func() Text {
		b := NewBuffer("stdout", s)
		_, _ = b.Write(bytes.Repeat([]byte("x"), 400<<10))
		return b.Text(Half)
	}
	first := write()
	if info, err := os.Stat(first.Path); err != nil || info.Size() != 400<<10 {
		t.Fatal(err)
	}
	write()
	if third := write(); third.Path == "" || !strings.Contains(third.Shown, "could not be written: the output files together may have 1048576 bytes") {
		t.Errorf("%q: %s", third.Path, third.Shown[Half/2:])
	}
	if fourth := write(); fourth.Path != "" || !strings.Contains(fourth.Shown, "could not be kept in a file: the output files together may have 1048576 bytes") {
		t.Errorf("%q: %s", fourth.Path, fourth.Shown[Half/2:])
	}
	if n := size(); n != 1<<20 {
		t.Errorf("the files have %d bytes", n)
	}
	old := time.Now().Add(-2 * protectedFull)
	if err := os.Chtimes(first.Path, old, old); err != nil {
		t.Fatal(err)
	}
	if next := write(); next.Path == "" || strings.Contains(next.Shown, "could not") {
		t.Errorf("an old file makes no room: %q", next.Path)
	}
	if _, err := os.Stat(first.Path); err == nil {
		t.Error("the oldest file was not removed")
	}
	if n := size(); n > 1<<20 {
		t.Errorf("the files have %d bytes", n)
	}
}

// TestStoreAge checks that files are removed at the age that the operator sets.
func TestStoreAge(t *testing.T) {
	s := NewStore(t.TempDir())
	s.MaxAge = time.Hour
	f, err := s.create("stdout.txt")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	for _, age := range []time.Duration{50 * time.Minute, 70 * time.Minute} {
		want := age < s.MaxAge
		at := time.Now().Add(-age)
		if err := os.Chtimes(f.Name(), at, at); err != nil {
			t.Fatal(err)
		}
		s.sweep(time.Now(), 0)
		if _, err := os.Stat(f.Name()); (err == nil) != want {
			t.Errorf("after %v: %v", age, err)
		}
	}
}

// TestSave checks that a file is kept whole or not at all, also if it is larger than what a store reserves at once.
func TestSave(t *testing.T) {
	s := NewStore(filepath.Join(t.TempDir(), "output"))
	s.MaxBytes = 2*rescan + 10
	content := bytes.Repeat([]byte("x"), 2*rescan)
	path, err := s.Save("data.json", content)
	if got, readErr := os.ReadFile(path); err != nil || readErr != nil || !bytes.Equal(got, content) || !strings.HasSuffix(path, "-data.json") {
		t.Fatal(path, err, readErr)
	}
	if path, err := s.Save("data.json", content[:11]); err == nil || path != "" {
		t.Errorf("%q, %v", path, err)
	}
	if path, err := s.Save("part.bin", content[:10]); err != nil || path == "" {
		t.Errorf("%q, %v", path, err)
	}
	old := time.Now().Add(-2 * protectedFull)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save("data.json", content); err != nil {
		t.Errorf("an old file makes no room: %v", err)
	}
	if rest, err := os.ReadDir(filepath.Dir(path)); err != nil || len(rest) != 2 {
		t.Errorf("%v, %v", rest, err)
	}
}
