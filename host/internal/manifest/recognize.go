package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"toolhost.dev/sdk/tool"
)

// The string "table" lists the programs of the bundled plugins of this host. Its entries have the form NAME:SIZE:SHA256
// and are separated by commas. The linker sets it in releases. Hosts without the table recognize bundled plugins by
// their directory.
var table string

// program identifies the content of a bundled plugin's program.
type program struct {
	size int64
	sum  [sha256.Size]byte
}

// programs returns the entries of the table by plugin name. An invalid entry matches no program.
func programs() map[string]program {
	out := make(map[string]program)
	for entry := range strings.SplitSeq(table, ",") {
		parts := strings.Split(entry, ":")
		if len(parts) != 3 {
			continue
		}
		size, err := strconv.ParseInt(parts[1], 10, 64)
		sum, hexErr := hex.DecodeString(parts[2])
		if err == nil && hexErr == nil && len(sum) == sha256.Size {
			out[parts[0]] = program{size, [sha256.Size]byte(sum)}
		}
	}
	return out
}

// ByContent reports whether this host recognizes bundled plugins by the content of their programs. Otherwise it
// recognizes them by their directory.
func ByContent() bool { return table != "" }

// Recognize returns the bundled plugin whose program is at path. It returns an empty name for any other program. It
// does not read the content of a program in the directory, because [Verify] checks the content.
func (d *Directory) Recognize(path string) (name string, b Bundled, err error) {
	if d.path == "" {
		return "", Bundled{}, nil
	}
	if name = d.contains(path); name == "" && ByContent() {
		name = byContent(path)
	}
	if name == "" {
		return "", Bundled{}, nil
	}
	if _, err := d.manifest(name); errors.Is(err, fs.ErrNotExist) {
		return "", Bundled{}, nil // a program without a manifest is not a bundled plugin
	}
	b, err = d.Bundled(name)
	return name, b, err
}

// Verify reports whether a program with this hash is the named bundled plugin. Without a table, it always returns true.
func Verify(name string, sum [sha256.Size]byte) bool {
	if !ByContent() {
		return true
	}
	p, ok := programs()[name]
	return ok && p.sum == sum
}

// contains returns the last element of a path if the path is in the directory. Otherwise it returns "". It follows
// symbolic links to the directory and to the program. The program need not exist, because a build may be about to
// replace it.
func (d *Directory) contains(path string) (name string) {
	dir, err := d.links()
	if err != nil {
		return ""
	}
	candidates := []string{path}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		candidates = append(candidates, target)
	}
	for _, c := range candidates {
		parent, err := filepath.EvalSymlinks(filepath.Dir(c))
		if name := filepath.Base(c); err == nil && parent == dir && tool.ValidName(name) {
			return name
		}
	}
	return ""
}

// byContent returns the name of the bundled plugin whose program has the same content. It only reads a file that has
// the size of a bundled program.
func byContent(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	var sum []byte
	for name, p := range programs() {
		if p.size != st.Size() {
			continue
		}
		if sum == nil {
			h := sha256.New()
			if _, err := io.Copy(h, f); err != nil {
				return ""
			}
			sum = h.Sum(nil)
		}
		if [sha256.Size]byte(sum) == p.sum {
			return name
		}
	}
	return ""
}
