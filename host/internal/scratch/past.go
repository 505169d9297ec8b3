package scratch

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/tool"
)

// Past knows which paths existed before a session. A path that existed stays one, whatever replaces its file: an edit,
// a rename or a checkout.
type Past struct{ dir string }

// PastOf returns the record of the session with a temporary directory; see [Dir].
func PastOf(dir string) *Past { return &Past{filepath.Join(filepath.Dir(dir), "past")} }

const (
	// maxAge is the maximum age of a record. A session can last for weeks, and a person creates files meanwhile.
	maxAge = 24 * time.Hour
	// maxPaths limits the paths in the record of a root. Above the limit, every path counts as one that existed.
	maxPaths = 200_000
)

// Record records the paths below the writable roots, before the first call that can change them. It omits the paths for
// which skip returns true, and what is below them.
func (p *Past) Record(roots []tool.Root, skip func(rel string) bool) error {
	var errs []error
	for _, r := range roots {
		if isRecorded(r) && !p.isFresh(r) {
			errs = append(errs, p.write(r, list(OnHost(roots, r.Path), skip)))
		}
	}
	return errors.Join(errs...)
}

// Existed returns a function that reports whether a path existed before the session. It returns true for each path in a
// writable root without a record. The path must not contain links. If p is nil, it returns false.
func (p *Past) Existed(roots []tool.Root) func(path string) bool {
	moves, recorded := p.moves()
	records := make(map[tool.Root]map[uint64]bool)
	for _, r := range roots {
		if p == nil || !isRecorded(r) {
			continue
		}
		records[r] = nil
		all, err := os.ReadFile(p.file(r))
		if err != nil || !recorded || len(all)%size != 0 || !p.isFresh(r) {
			continue
		}
		records[r] = make(map[uint64]bool, len(all)/size)
		for ; len(all) > 0; all = all[size:] {
			records[r][binary.LittleEndian.Uint64(all)] = true
		}
	}
	var existed func(path string, moves []string) bool
	existed = func(path string, moves []string) bool {
		for r, known := range records {
			if rel, in := r.Rel(path); in && (known == nil || known[hash(rel)]) {
				return true
			}
		}
		for ; len(moves) > 1; moves = moves[:len(moves)-2] { // the last move first: what it moved had its name from those before it
			from, to := moves[len(moves)-2], tool.Root{Path: moves[len(moves)-1]}
			if rel, in := to.Rel(path); in && existed(filepath.Join(from, rel), moves[:len(moves)-2]) {
				return true
			}
		}
		return false
	}
	return func(path string) bool { return existed(path, moves) }
}

// Move records that a path of before the session gets another name.
func (p *Past) Move(roots []tool.Root, from, to string) error {
	if known := p.Existed(roots); p == nil || !known(from) || known(to) {
		return nil
	}
	f, err := os.OpenFile(p.moved(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(from + "\x00" + to + "\x00")
	return errors.Join(err, f.Close())
}

// maxMoves limits the size of the record of moves. Above the limit, every path counts as one that existed.
const maxMoves = 1 << 20

func (p *Past) moved() string { return filepath.Join(p.dir, "moves") }

// moves returns the old and the new path of each move, and whether all moves are recorded.
func (p *Past) moves() (all []string, recorded bool) {
	if p == nil {
		return nil, true
	}
	text, err := os.ReadFile(p.moved())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), err == nil && len(text) < maxMoves
}

func isRecorded(r tool.Root) bool { return r.Writable && r.Source == "" }

func (p *Past) file(r tool.Root) string {
	return filepath.Join(p.dir, filepath.Base(filepath.Dir(Dir("", r.Path)))) // a path can be longer than a file name
}

// isFresh reports whether a root has a record that is not too old.
func (p *Past) isFresh(r tool.Root) bool {
	st, err := os.Stat(p.file(r))
	return err == nil && time.Since(st.ModTime()) <= maxAge
}

// write replaces the record of a root at once, because several hosts can serve the session.
func (p *Past) write(r tool.Root, all []byte) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	return durable.ReplaceUnsynced(p.file(r), all)
}

// size is the size of a hash in a record.
const size = 8

// list returns the hashes of all paths below a directory. If there are too many, it returns an invalid record.
func list(top string, skip func(rel string) bool) (out []byte) {
	err := fs.WalkDir(os.DirFS(top), ".", func(rel string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // tools cannot read the directory either, or it was removed
		case skip(rel) && d.IsDir():
			return fs.SkipDir
		case len(out) == size*maxPaths:
			return fs.ErrInvalid
		}
		out = binary.LittleEndian.AppendUint64(out, hash(rel))
		return nil
	})
	if err != nil {
		return []byte{0}
	}
	return out
}

func hash(rel string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(rel))
	return h.Sum64()
}
