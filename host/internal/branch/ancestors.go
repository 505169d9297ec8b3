package branch

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ancestorsFile has the state of each changed file at the time when the branch began. It is read only if the base changed the
// same file later.
const ancestorsFile = "ancestors"

// maxAncestor is the maximum size of a file whose text is kept, and maxAncestors that of all texts of a branch, in bytes.
const (
	maxAncestor  = maxDiff
	maxAncestors = 64 << 20
)

// ancestor is the state of a file of the base at the time Since, when the branch did not change it yet.
type ancestor struct {
	Path  []byte `json:"path"`
	Since int64  `json:"since"`
	Mode  uint32 `json:"mode"`
	// Index is the sum of the entries if the file is an index of git. Its text is not kept.
	Index string `json:"index,omitempty"`
	// Size is the size of the text, which follows the description in the file.
	Size int64 `json:"size"`

	at int64 // the position of the text
}

// ancestry records the ancestors of what a mounted branch changes. A file of the base that changed after the branch began is
// not recorded: what it was before is not known any more.
type ancestry struct {
	mu   sync.Mutex
	b    *Branch
	seen map[string]bool // nil until the file is read
	file *os.File
	size int64
	full bool // nothing more is recorded
}

// begin locks the records for one walk of the layer, and returns the function that the walk calls for each path.
func (a *ancestry) begin(b *Branch) (visit func(rel string, d fs.DirEntry), end func()) {
	a.mu.Lock()
	if a.seen == nil {
		a.b, a.seen = b, make(map[string]bool)
		a.full = a.open() != nil
	}
	skip := "" // a directory that only the layer has
	return func(rel string, d fs.DirEntry) {
		switch {
		case a.full, skip != "" && strings.HasPrefix(rel, skip):
		case d.IsDir():
			if !isDirectory(filepath.Join(b.Base, rel)) || filepath.Base(rel) == "objects" && filepath.Base(filepath.Dir(rel)) == ".git" {
				skip = rel + "/"
			}
		case !a.seen[rel]:
			a.seen[rel] = true
			if err := a.record(rel); err != nil {
				a.full = true // the branch can still be applied, but without merges
			}
		}
	}, a.mu.Unlock
}

func isDirectory(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// open reads which ancestors are recorded, and removes an incomplete last one.
func (a *ancestry) open() error {
	path := filepath.Join(a.b.dir, ancestorsFile)
	known, end, err := readAncestors(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for rel, k := range known {
		a.seen[rel] = k.Since == a.b.since(rel)
	}
	if a.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	a.size = end
	return a.file.Truncate(end)
}

// regular returns the state of a regular file.
func regular(path string) (st unix.Stat_t, ok bool) {
	ok = unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
	return st, ok
}

// record appends the state of a file of the base.
func (a *ancestry) record(rel string) error {
	path, since := filepath.Join(a.b.Base, rel), a.b.since(rel)
	st, ok := regular(path)
	if !ok || st.Ctim.Nano() >= since {
		return nil
	}
	k := ancestor{Path: []byte(rel), Since: since, Mode: uint32(st.Mode)} //nolint:unconvert // not all systems have 32 bits here
	var text []byte
	if isIndex(rel) {
		k.Index = indexSum(path)
		ok = k.Index != ""
	} else {
		var err error
		text, err = readSmall(path, maxAncestor)
		k.Size = int64(len(text))
		ok = err == nil && isText(string(text)) && a.size+k.Size <= maxAncestors
	}
	if now, there := regular(path); !ok || !there || now.Ctim != st.Ctim || now.Ino != st.Ino {
		return nil // it is not merged, or it changed while it was read
	}
	return a.write(&k, text)
}

// write appends a description and its text.
func (a *ancestry) write(k *ancestor, text []byte) error {
	head, err := json.Marshal(k)
	if err != nil {
		return err
	}
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(text)), uint32(len(head)))
	buf = append(append(buf, head...), text...)
	n, err := a.file.WriteAt(buf, a.size)
	if err != nil {
		_ = a.file.Truncate(a.size) // a reader stops at an incomplete record
		return err
	}
	a.size += int64(n)
	return nil
}

func (a *ancestry) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_ = a.file.Close()
	}
	a.full = true
}

// readAncestors reads the descriptions of the recorded files, without their texts. The second result is the position after
// the last complete one.
func readAncestors(path string) (out map[string]*ancestor, end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	out = make(map[string]*ancestor)
	in := bufio.NewReader(f)
	for {
		var length [4]byte
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return out, end, nil // the end, or an incomplete record
		}
		head := make([]byte, min(binary.BigEndian.Uint32(length[:]), 1<<20))
		k := &ancestor{}
		if _, err := io.ReadFull(in, head); err != nil || json.Unmarshal(head, k) != nil || k.Size < 0 {
			return out, end, nil // as above
		}
		k.at = end + 4 + int64(len(head))
		if k.at+k.Size > info.Size() {
			return out, end, nil
		}
		if _, err := in.Discard(int(k.Size)); err != nil {
			return out, end, err
		}
		end = k.at + k.Size
		out[string(k.Path)] = k
	}
}

// ancestorOf returns the state of a file of the base when the branch began, or nil if it is not known.
func (w *walker) ancestorOf(rel string) *ancestor {
	if w.ancestors == nil {
		w.ancestors, _, _ = readAncestors(filepath.Join(w.b.dir, ancestorsFile)) // ignore the error: then nothing is known
		if w.ancestors == nil {
			w.ancestors = map[string]*ancestor{}
		}
	}
	if k := w.ancestors[rel]; k != nil && k.Since == w.b.since(rel) {
		return k
	}
	return nil
}

// text returns the recorded text of a file.
func (k *ancestor) text(b *Branch) (string, error) {
	f, err := os.Open(filepath.Join(b.dir, ancestorsFile))
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	text := make([]byte, k.Size)
	_, err = f.ReadAt(text, k.at)
	return string(text), err
}

func isText(text string) bool { return !strings.ContainsRune(text, 0) }
