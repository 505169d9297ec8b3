// Package scratch manages the temporary directories of sessions. The sandboxes of all tools of a session show the
// directory of the session at [Path], so that a shell and the tools for files see the same files. Most callers want
// [Split] and [OnHost].
//
// A root with a Source is the temporary directory of a session. Its Path is what tools see, and its Source is the
// directory of the host. If a sandbox cannot show a directory at another path, both are the same.
package scratch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

// Path is the path of the temporary directory in a sandbox with a root of its own.
const Path = "/tmp"

const (
	// maxIdle is the time after which an unused directory is removed.
	maxIdle = 7 * 24 * time.Hour
	// cleanEvery is the minimum time between two searches for unused directories.
	cleanEvery = time.Hour
)

// Dir returns the temporary directory of a session, below base. It does not create the directory.
func Dir(base, session string) string {
	sum := sha256.Sum256([]byte(session)) // a session's id can be longer than a file name
	return filepath.Join(base, hex.EncodeToString(sum[:16]), "tmp")
}

// Make creates the temporary directory of a session if it is missing, and records its use. Other users of the machine
// cannot reach the directory. Inside the sandbox, programs of every user can write there, as in any /tmp.
func Make(dir string) error {
	own := filepath.Dir(dir)
	now := time.Now()
	if st, err := os.Lstat(dir); err == nil && st.IsDir() {
		return os.Chtimes(own, now, now)
	}
	if err := os.MkdirAll(own, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o777|os.ModeSticky)
}

// Clean removes the directories below base that were not used for a week. It does nothing if it ran within the last
// hour, also in another process.
func Clean(base string) error {
	mark := filepath.Join(base, ".cleaned")
	if st, err := os.Lstat(mark); err == nil && time.Since(st.ModTime()) < cleanEvery {
		return nil
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	now := time.Now()
	errs := []error{os.Chtimes(mark, now, now)}
	all, err := os.ReadDir(base)
	for _, e := range all {
		if st, err := e.Info(); err == nil && st.IsDir() && now.Sub(st.ModTime()) > maxIdle {
			errs = append(errs, remove(filepath.Join(base, e.Name())))
		}
	}
	return errors.Join(append(errs, err)...)
}

// remove removes a directory tree, also if programs made directories in it read-only.
func remove(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(path, 0o700) // ignore the error: RemoveAll reports what it cannot remove
		}
		return nil
	})
	return errors.Join(root.Close(), os.RemoveAll(dir))
}

// Exceeds reports whether the files below dir use more than limit bytes on disk.
func Exceeds(dir string, limit uint64) bool {
	var used uint64
	return errors.Is(filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the file was removed, or a program made it unreadable
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				used += uint64(st.Blocks) * 512
			}
		}
		if used > limit {
			return errExceeded
		}
		return nil
	}), errExceeded)
}

var errExceeded = errors.New("scratch: too much data")

// Empty reports whether the temporary directory of a session is missing or has no entries.
func Empty(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer d.Close() //nolint:errcheck // nothing was written
	_, err = d.Readdirnames(1)
	return err != nil
}

// Split separates the temporary directory of a session from the other roots. If the roots contain no such directory,
// the result "temporary" is zero.
func Split(roots []tool.Root) (rest []tool.Root, temporary tool.Root) {
	i := slices.IndexFunc(roots, func(r tool.Root) bool { return r.Source != "" })
	if i < 0 {
		return roots, tool.Root{}
	}
	return slices.Concat(roots[:i], roots[i+1:]), roots[i]
}

// OnHost returns the host's path of a file for the path that a tool uses. The two paths differ only in the temporary
// directory of a session and in a branch. The path must not contain links, because the host would follow an absolute
// link out of the branch.
func OnHost(roots []tool.Root, path string) string {
	if view, ok := inBranch(roots, path); ok {
		return view
	}
	for _, tmp := range roots {
		if tmp.Source == "" || tmp.Source == tmp.Path {
			continue
		}
		rel, in := tmp.Rel(path)
		if !in || slices.ContainsFunc(roots,
			func(r tool.Root) bool { return r.Source == "" && tmp.Contains(r.Path) && r.Contains(path) }) {
			return path
		}
		return filepath.Join(tmp.Source, rel)
	}
	return path
}

// inBranch returns the host's path of a file for a path in a branch. It returns false if the innermost root that
// contains the path is in no branch.
func inBranch(roots []tool.Root, path string) (view string, ok bool) {
	var best tool.Root
	for _, r := range roots {
		if len(r.Path) >= len(best.Path) && r.Contains(path) {
			best = r
		}
	}
	if best.View == "" {
		return "", false
	}
	rel, _ := best.Rel(path)
	return best.View + "/" + rel, true // not cleaned: a view is a link, which the system follows only before a slash
}

// Original returns the path in the original for a path in a root that is a copy. It returns other paths unchanged.
func Original(roots []tool.Root, path string) string {
	for _, r := range roots {
		if rel, in := r.Rel(path); in && r.CopyOf != "" {
			return filepath.Join(r.CopyOf, rel)
		}
	}
	return path
}

// Copied returns the path in a copy for a path in its original. The second result is false if no root is a copy of the
// original.
func Copied(roots []tool.Root, path string) (string, bool) {
	for _, r := range roots {
		if rel, in := (tool.Root{Path: r.CopyOf}).Rel(path); in {
			return filepath.Join(r.Path, rel), true
		}
	}
	return "", false
}

// Foreign reports whether a path such as /tmp/x means a file of the host and not one of the session's own /tmp. Two
// kinds of paths mean a file of the host: a path beside a root that is itself in /tmp, and a path whose first directory
// exists only on the host. A new file directly in /tmp always belongs to the session. The path must not contain links.
func Foreign(roots []tool.Root, path string, write bool) bool {
	rest, tmp := Split(roots)
	rel, in := tmp.Rel(path)
	if !in || tmp.Path == tmp.Source || rel == "." {
		return false
	}
	name, _, deeper := strings.Cut(rel, "/")
	first := tool.Root{Path: filepath.Join(tmp.Path, name)}
	if slices.ContainsFunc(rest, func(r tool.Root) bool { return first.Contains(r.Path) }) {
		return true
	}
	if _, err := os.Lstat(OnHost(roots, first.Path)); err == nil {
		return false
	}
	st, err := os.Stat(first.Path)
	return err == nil && (deeper || !write || st.IsDir())
}
