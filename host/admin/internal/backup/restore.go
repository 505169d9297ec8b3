package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/flock"
	"toolhost.dev/sdk/statedb"
)

// Restored describes a restored directory.
type Restored struct {
	Head
	// To is the directory that was restored. Before is the directory that now contains the earlier content of To. It is
	// empty if To did not exist.
	To     string `json:"to"`
	Before string `json:"before,omitempty"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// maxName limits the length of a name in an archive, and maxText the size of its first and last entry.
const (
	maxName = 4096
	maxText = 256 << 20
)

// Restore replaces a state directory by the content of an archive. The caller must make sure that no process uses the
// directory. Everything in the archive is checked first. Then both directories exchange their names in one step where
// the system can do that, so a killed Restore leaves either the old or the new content. The old content stays beside
// the directory, with the suffix ".before-" and the time.
func Restore(ctx context.Context, path, dir string) (*Restored, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %w; give a file that \"toolhost state backup\" wrote", err)
	}
	defer f.Close() //nolint:errcheck // only read
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	sweep(parent)
	tmp, err := os.MkdirTemp(parent, partial+"restore-*")
	if err != nil {
		return nil, err
	}
	unlock, err := hold(tmp)
	if err != nil {
		return nil, err
	}
	defer unlock()
	out, err := extract(ctx, f, tmp)
	if err == nil {
		out.To = dir
		out.Before, err = swap(tmp, dir, time.Now())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s was not restored, and nothing was replaced: %w", path, err), os.RemoveAll(tmp))
	}
	return out, nil
}

// extract unpacks an archive and checks it.
func extract(ctx context.Context, f io.Reader, dir string) (*Restored, error) {
	zip, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("it is no backup of toolhost: %w", err)
	}
	r := &reader{dir: dir, sums: make(map[string]string), out: &Restored{}}
	for t := tar.NewReader(zip); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.entry(h, t)
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is damaged, or it is no backup of toolhost: %w", err)
		}
	}
	if !r.complete {
		return nil, errors.New("the archive ends before its list of files; it was cut")
	}
	for _, db := range r.databases {
		if err := statedb.Check(ctx, db); err != nil {
			return nil, fmt.Errorf("the database %s in the archive is damaged: %w", filepath.Base(db), err)
		}
	}
	return r.out, nil
}

type reader struct {
	dir       string
	sums      map[string]string
	databases []string
	began     bool
	complete  bool
	out       *Restored
}

func (r *reader) entry(h *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch {
	case r.complete:
		return fmt.Errorf("%.80q comes after the list of files", name)
	case !r.began:
		return r.head(name, content)
	case name == sumsName:
		return r.check(content)
	case !filepath.IsLocal(filepath.FromSlash(name)) || len(name) > maxName:
		return fmt.Errorf("the name %.80q leads out of the directory", name)
	}
	path := filepath.Join(r.dir, filepath.FromSlash(name))
	if err := r.checkLinks(path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		return os.Chmod(path, fs.FileMode(h.Mode)&fs.ModePerm|0o700)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, path)
	case tar.TypeReg:
		return r.file(name, path, h, content)
	}
	return fmt.Errorf("%.80q is no file, directory or link", name)
}

// checkLinks returns an error if a directory in the path is a link. Through a link, the archive could write elsewhere.
func (r *reader) checkLinks(path string) error {
	for dir := filepath.Dir(path); len(dir) > len(r.dir); dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%.80q leads through a link", path[len(r.dir)+1:])
		}
	}
	return nil
}

func (r *reader) head(name string, content io.Reader) error {
	if name != headName {
		return fmt.Errorf("it begins with %.80q", name)
	}
	r.began = true
	if err := json.NewDecoder(io.LimitReader(content, maxText)).Decode(&r.out.Head); err != nil {
		return err
	}
	if r.out.Format != format {
		return fmt.Errorf("it has the format %d, and this version of toolhost reads the format %d; restore it with version %s", r.out.Format, format, r.out.Version)
	}
	return nil
}

func (r *reader) file(name, path string, h *tar.Header, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode)&fs.ModePerm&^0o077|0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(path, fs.FileMode(h.Mode)&fs.ModePerm),
		os.Chtimes(path, h.ModTime, h.ModTime)); err != nil {
		return err
	}
	r.sums[name] = hex.EncodeToString(sum.Sum(nil))
	r.out.Files++
	r.out.Bytes += n
	if strings.HasSuffix(name, ".db") {
		r.databases = append(r.databases, path)
	}
	return nil
}

// check compares the files with the list at the end of the archive.
func (r *reader) check(content io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(content, maxText))
	if err != nil {
		return err
	}
	listed := 0
	for line := range strings.Lines(string(b)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if r.sums[name] != sum {
			return fmt.Errorf("the content of %.80q was changed", name)
		}
		listed++
	}
	if listed != len(r.sums) {
		return fmt.Errorf("it has %d files, and its list has %d", len(r.sums), listed)
	}
	r.complete = true
	return nil
}

// hold locks a file or directory that is not complete, until the process ends or unlock is called.
func hold(path string) (unlock func(), err error) {
	f, err := flock.Open(path, os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%s is in use", path)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// sweep removes the incomplete files and directories that a killed backup or restore left in a directory.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir) // error ignored: the caller's next access to the directory reports it
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), partial) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if unlock, err := hold(path); err == nil {
			_ = os.RemoveAll(path) // error ignored: the next sweep tries again
			unlock()
		}
	}
}

// swap replaces the directory "to" by the directory "from". It keeps the earlier directory "to" under a new name, the
// result "before".
func swap(from, to string, now time.Time) (before string, err error) {
	if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(os.Rename(from, to), durable.SyncDir(filepath.Dir(to)))
	}
	before = fmt.Sprintf("%s.before-%s", to, now.UTC().Format("20060102-150405.000"))
	if err := exchange(from, to, before); err != nil {
		return "", fmt.Errorf("%s cannot be replaced, for example because it is a mount point: %w. Restore into another directory with --state, and use that one", to, err)
	}
	return before, durable.SyncDir(filepath.Dir(to))
}
