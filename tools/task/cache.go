package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// unused is the time after which an unused entry of the cache is removed.
const unused = 30 * 24 * time.Hour

// The newest entries with the same name, spareEntries of them, stay for the time unused. Older ones stay for the time
// idle, which is longer than a run of the tests. Each commit adds an entry with programs, and such an entry can have
// 400 MB.
const (
	spareEntries = 8
	idle         = 3 * time.Hour
)

// cacheRoot returns the directory in the user's cache that all clones of the repository share.
func (t *task) cacheRoot() (string, error) {
	if dir := t.getenv("TOOLHOST_BUILD_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "toolhost-build"), err
}

// cacheEntry returns the directory of the cache for an installation. Its name contains a hash of the files that define
// the installation. Their paths are relative to the root.
func (t *task) cacheEntry(name string, sources ...string) (string, error) {
	root, err := t.cacheRoot()
	if err != nil {
		return "", err
	}
	hash, err := t.hash(sources)
	return filepath.Join(root, name+"-"+hash[:min(len(hash), 16)]), err
}

// once fills an entry of the cache unless it is complete. The function fill installs into the directory dir, which
// becomes the entry when fill has succeeded. If two processes need the same entry, the second one waits for the first.
func (t *task) once(entry string, fill func(dir string) error) error {
	root := filepath.Dir(entry)
	if err := os.MkdirAll(root, 0o755); err != nil { //nolint:gosec // the build's output
		return err
	}
	unlock, err := lockFile(entry + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(entry); err == nil {
		return os.Chtimes(entry, time.Now(), time.Now())
	}
	dir, err := os.MkdirTemp(root, filepath.Base(entry)+".tmp")
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(dir, 0o755), fill(dir)); err != nil { //nolint:gosec // the build's output
		return errors.Join(err, os.RemoveAll(dir))
	}
	return errors.Join(os.Rename(dir, entry), removeUnused(root, time.Now()))
}

// lockFile waits for the exclusive lock of a file. The lock ends with the process, or when unlock is called.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) //nolint:gosec // the build's output
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// removeUnused removes the entries of a cache that no process has used for a long time. If it has many entries with the
// same name, those that were used last stay longer than the others.
func removeUnused(root string, now time.Time) error {
	entries, err := os.ReadDir(root)
	found := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, statErr := e.Info(); statErr == nil { // another process can remove entries at the same time
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	newer := make(map[string]int)
	for _, info := range found {
		age, life := now.Sub(info.ModTime()), unused
		if end := strings.LastIndexByte(info.Name(), '-'); end >= 0 && info.IsDir() {
			name := info.Name()[:end]
			if newer[name]++; newer[name] > spareEntries {
				life = idle
			}
		}
		if age > life {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, info.Name())))
		}
	}
	return err
}

// link makes path, which is relative to the root, a symbolic link to target.
func (t *task) link(path, target string) error {
	at := t.Path(path)
	if now, err := os.Readlink(at); err == nil && now == target {
		return nil
	}
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.RemoveAll(at), os.Symlink(target, at)) //nolint:gosec // the build's output
}

// passed runs a check unless it has passed with the same files and the same Go version. Only the files at the paths and
// below them count. Without paths, all files count. The user's cache has an empty file for each check that passed.
// Outside of a git repository, the check always runs.
func (t *task) passed(name string, paths []string, check func(*task) error) error {
	start := time.Now()
	sources, err := t.sources(paths...)
	if err != nil {
		return check(t)
	}
	root, err := t.cacheRoot()
	if err != nil {
		return err
	}
	h := sha256.Sum256([]byte(name + "\n" + sources))
	stamp := filepath.Join(root, "passed", name+"-"+hex.EncodeToString(h[:8]))
	if _, err := os.Stat(stamp); err == nil {
		fmt.Fprintf(t.out, "%s: passed before with these files (%s)\n", name, stamp)
		return os.Chtimes(stamp, time.Now(), time.Now())
	}
	if err := check(t); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s: passed in %.1f s\n", name, time.Since(start).Seconds())
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil { //nolint:gosec // the build's output
		return err
	}
	return errors.Join(os.WriteFile(stamp, nil, 0o644), removeUnused(filepath.Dir(stamp), time.Now())) //nolint:gosec // the build's output
}

// sources returns a hash of the Go version and of the files below some paths that git does not ignore. Without paths,
// it covers all of these files.
func (t *task) sources(paths ...string) (string, error) {
	files, err := t.files(paths...)
	if err != nil {
		return "", err
	}
	return t.hash(files)
}

// hash returns a hash of the Go version and of files. Their paths are relative to the root.
func (t *task) hash(files []string) (string, error) {
	h := sha256.New()
	version, err := exec.Command("go", "env", "GOVERSION", "GOOS", "GOARCH").Output()
	if err != nil {
		return "", err
	}
	h.Write(version)
	for _, path := range files {
		if err := hashFile(h, path, t.Path(path)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashFile adds the name, the mode and the content of a file or symbolic link to a hash.
func hashFile(h io.Writer, name, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	var content []byte
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		content = []byte(target)
	} else if content, err = os.ReadFile(path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(h, "%s\n%s\n%d\n%s", name, info.Mode(), len(content), content)
	return err
}

// isCheck reports whether a target only checks the sources, so that it needs to pass once.
func isCheck(target string) bool {
	return strings.HasPrefix(target, "check-") && target != "check-dist"
}
