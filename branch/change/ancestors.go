package change

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

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
)

// ancestorsFile contains the state of each changed file at the beginning of the branch. It is read only if the base
// later changed the same file.
const ancestorsFile = "ancestors"

// maxAncestor is the maximum size of a file whose text is kept. maxAncestors is the maximum size of all kept texts of a
// branch. Both are in bytes.
const (
	maxAncestor  = maxDiff
	maxAncestors = 64 << 20
)

// ancestor is the state of a file of the base at the time Since, before the branch changed the file.
type ancestor struct {
	Path  []byte `json:"path"`
	Since int64  `json:"since"`
	Mode  uint32 `json:"mode"`
	// Index is the checksum of the entries if the file is an index of git. The text of an index is not kept.
	Index string `json:"index,omitempty"`
	// Size is the size of the text, which follows the description in the file.
	Size int64 `json:"size"`

	at int64 // the position of the text
}

// Ancestry records the original states of the files that sessions change in a mounted branch. It does not record a file
// that the base changed after the branch began, because the original state of such a file is no longer known.
type Ancestry struct {
	mu   sync.Mutex
	l    *Layer
	seen map[string]bool // nil until the file is read
	file *os.File
	size int64
	full bool // true if nothing more can be recorded
}

// Begin locks the records for one walk of the layer. The walk must call the function "visit" for each path, and the
// function "end" after the last path.
func (a *Ancestry) Begin(l *Layer) (visit func(rel string, dir bool), end func()) {
	a.mu.Lock()
	a.l = l
	if a.seen == nil {
		a.seen = make(map[string]bool)
		a.full = a.open() != nil
	}
	skip := "" // a directory that exists only in the layer
	return func(rel string, dir bool) {
		switch {
		case a.full, skip != "" && strings.HasPrefix(rel, skip):
		case dir:
			if !filetree.IsDirectory(filepath.Join(l.Base, rel)) ||
				filepath.Base(rel) == "objects" && filepath.Base(filepath.Dir(rel)) == ".git" {
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

// Record records the states of the given files of the base. At these paths, the base must be as it was when the layer
// began.
func (l *Layer) Record(paths []string) error {
	a := Ancestry{l: l, seen: make(map[string]bool)}
	defer a.Close()
	err := a.open()
	for _, path := range paths {
		if err == nil && !a.seen[path] {
			err = a.record(path)
		}
	}
	return err
}

// open reads which ancestors are already recorded. It removes an incomplete last record.
func (a *Ancestry) open() error {
	path := filepath.Join(a.l.State, ancestorsFile)
	known, end, err := readAncestors(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for of := range known {
		a.seen[of.path] = a.seen[of.path] || of.since == a.l.since(of.path)
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
func (a *Ancestry) record(rel string) error {
	path, since := filepath.Join(a.l.Base, rel), a.l.since(rel)
	st, ok := regular(path)
	if !ok || a.l.touched(rel, &st, since) {
		return nil
	}
	k := ancestor{Path: []byte(rel), Since: since, Mode: uint32(st.Mode)} //nolint:unconvert // not all systems have 32 bits here
	var text []byte
	if gitstate.IsIndex(rel) {
		k.Index = gitstate.IndexSum(path)
		ok = k.Index != ""
	} else {
		var err error
		text, err = filetree.ReadSmall(path, maxAncestor)
		k.Size = int64(len(text))
		ok = err == nil && isText(string(text)) && a.size+k.Size <= maxAncestors
	}
	if now, there := regular(path); !ok || !there || now.Ctim != st.Ctim || now.Ino != st.Ino {
		return nil // the file cannot be merged, or it changed while it was read
	}
	return a.write(&k, text)
}

// write appends an ancestor's description and text.
func (a *Ancestry) write(k *ancestor, text []byte) error {
	head, err := json.Marshal(k)
	if err != nil {
		return err
	}
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(text)), uint32(len(head)))
	buf = append(append(buf, head...), text...)
	n, err := a.file.WriteAt(buf, a.size)
	if err != nil {
		_ = a.file.Truncate(a.size) // ignore the error: readers stop at an incomplete record
		return err
	}
	a.size += int64(n)
	return nil
}

// Close ends the recording.
func (a *Ancestry) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_ = a.file.Close()
	}
	a.full = true
}

// state identifies the state of a file of the base.
type state struct {
	path  string
	since int64
}

// readAncestors reads the descriptions of the recorded files, without their texts. The result "end" is the position
// after the last complete record.
func readAncestors(path string) (out map[state]*ancestor, end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	out = make(map[state]*ancestor)
	in := bufio.NewReader(f)
	for {
		var length [4]byte
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return out, end, nil // this is the end, or an incomplete record
		}
		head := make([]byte, min(binary.BigEndian.Uint32(length[:]), 1<<20))
		k := &ancestor{}
		if _, err := io.ReadFull(in, head); err != nil || json.Unmarshal(head, k) != nil || k.Size < 0 {
			return out, end, nil // this is an incomplete record
		}
		k.at = end + 4 + int64(len(head))
		if k.at+k.Size > info.Size() {
			return out, end, nil
		}
		if _, err := in.Discard(int(k.Size)); err != nil {
			return out, end, err
		}
		end = k.at + k.Size
		out[state{string(k.Path), k.Since}] = k
	}
}

// ancestorOf returns the state that a file of the base had when the branch began, or nil if this state is not known.
func (w *walker) ancestorOf(rel string) *ancestor {
	if w.ancestors == nil {
		w.ancestors, _, _ = readAncestors(filepath.Join(w.l.State, ancestorsFile)) // ignore the error: then nothing is known
		if w.ancestors == nil {
			w.ancestors = map[state]*ancestor{}
		}
	}
	return w.ancestors[state{rel, w.l.since(rel)}]
}

// text returns the recorded text of a file.
func (k *ancestor) text(l *Layer) (string, error) {
	f, err := os.Open(filepath.Join(l.State, ancestorsFile))
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	text := make([]byte, k.Size)
	_, err = f.ReadAt(text, k.at)
	return string(text), err
}

func isText(text string) bool { return !strings.ContainsRune(text, 0) }
