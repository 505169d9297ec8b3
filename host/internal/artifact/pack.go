package artifact

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/dirhash"
)

// Packed describes a packed layer.
type Packed struct {
	// Content is the hash of the files. Entry is the digest of the plugin's program.
	Content, Entry string
	// Digest and Size describe the layer.
	Digest string
	Size   int64
}

// Pack writes the files of a plugin to w as a layer. from is the plugin's program, or a directory that contains a
// program with the name of the plugin. The same files always result in the same layer.
func Pack(w io.Writer, from, name string) (*Packed, error) {
	files, err := list(from, name)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(files, func(f file) bool { return f.name == name }); i < 0 {
		return nil, fmt.Errorf("%s has no file %s: the program must have the name of the plugin", from, name)
	} else if files[i].mode&0o111 == 0 {
		return nil, fmt.Errorf("%s is not executable: change that with chmod +x", files[i].path)
	}
	sum := sha256.New()
	size := &counter{w: io.MultiWriter(w, sum)}
	z, err := zstd.NewWriter(size, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	hashes := make(map[string]string)
	for _, f := range files {
		if hashes[f.name], err = f.write(t); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return &Packed{Content: contentOf(hashes), Entry: "sha256:" + hashes[name],
		Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: size.n}, nil
}

// file is a file of a plugin.
type file struct {
	name, path string
	size       int64
	mode       fs.FileMode
}

// list returns the files of a plugin, sorted by name.
func list(from, name string) ([]file, error) {
	st, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() {
		return []file{{name, from, st.Size(), st.Mode()}}, nil
	}
	var out []file
	names := newNames()
	total := int64(0)
	err = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !st.Mode().IsRegular() {
			return fmt.Errorf("%s is a link or a special file; a plugin consists of regular files", p)
		}
		if err := names.add(rel); err != nil {
			return err
		}
		if total += st.Size(); total > MaxUnpacked {
			return fmt.Errorf("%s has more than %d MiB of files", from, MaxUnpacked>>20)
		}
		out = append(out, file{rel, p, st.Size(), st.Mode()})
		return nil
	})
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out, err
}

// write adds the file to an archive and returns its SHA-256.
func (f file) write(t *tar.Writer) (string, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return "", err
	}
	defer in.Close() //nolint:errcheck // only read
	mode := int64(0o444)
	if f.mode&0o111 != 0 {
		mode = 0o555
	}
	if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: mode, Size: f.size, ModTime: time.Unix(0, 0),
		Format: tar.FormatPAX}); err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(t, h), in)
	if err == nil && n != f.size {
		err = fmt.Errorf("%s changed while it was packed", f.path)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// contentOf returns the hash of files from their SHA-256 in hexadecimal.
func contentOf(hashes map[string]string) string {
	var names []string
	for name := range hashes {
		names = append(names, name)
	}
	// This computes dirhash.Hash1 from hashes that are known. Hash1 itself would read and hash every file again.
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s  %s\n", hashes[name], name)
	}
	return "h1:" + base64Std(h.Sum(nil))
}

// HashTree returns the hash of the files in a directory.
func HashTree(dir string) (string, error) { return dirhash.HashDir(dir, "", dirhash.Hash1) }

// HashDir returns the hash of the files in a directory, and the digest of the program with the given name. [Unpack]
// returns the same values.
func HashDir(dir, name string) (content, entry string, err error) {
	if content, err = dirhash.HashDir(dir, "", dirhash.Hash1); err != nil {
		return "", "", err
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return "", "", err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err = io.Copy(h, f); err != nil {
		return "", "", err
	}
	return content, "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// folded returns a text that is equal for all names that differ only in case, such as "s" and "ſ". strings.ToLower
// returns different texts for some of these names.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// names checks the names of files in an archive. Each name must be usable on every system.
type names struct{ folded map[string]string }

func newNames() *names { return &names{make(map[string]string)} }

// add returns an error for a name that leads out of the directory, or that differs from an earlier name only in case.
func (n *names) add(name string) error {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\:") ||
		strings.ContainsFunc(name, unicode.IsControl) || len(name) > 1024:
		return fmt.Errorf("the name %.80q is refused: it must be a relative path without \"..\"", name)
	case len(n.folded) >= MaxFiles:
		return fmt.Errorf("there are more than %d files", MaxFiles)
	}
	for p := name; p != "." && p != "/"; p = path.Dir(p) {
		fold := folded(p)
		was, known := n.folded[fold]
		if known && (was != p || p == name) {
			return fmt.Errorf("the names %.80q and %.80q are alike, so one would replace the other", was, p)
		}
		n.folded[fold] = p
	}
	return nil
}
