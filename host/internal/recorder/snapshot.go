package recorder

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tape"
)

// Snapshot describes which files of a workspace a tape contains.
type Snapshot struct {
	// Root is the workspace.
	Root string
	// Denied reports whether tools must not read a file. The argument is an absolute path. The tape does not contain
	// such files.
	Denied func(path string) bool
	// Exclude contains globs for paths relative to the workspace. The tape does not contain the matching files.
	Exclude []string
	// MaxBytes and MaxFiles limit the files. A larger workspace causes an error, because a tape that contains only a
	// part of the workspace cannot be replayed.
	MaxBytes int64
	MaxFiles int
}

// file is a file to record.
type file struct {
	entry tape.File
	path  string
}

// add writes the file to a tape. It omits a file that was removed in the meantime.
func (f file) add(w *tape.Writer) error {
	if f.entry.Link != "" || f.entry.Directory {
		return w.AddFile(f.entry, nil)
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("%s cannot be read, so it cannot be recorded: %w. Leave it out with --exclude %s", f.path, err, f.entry.Path)
	}
	return w.AddFile(f.entry, content)
}

// list returns the files of the workspace, sorted by path, and descriptions of the files that it omits. A nil Snapshot
// has no files.
func (s *Snapshot) list() (files []file, left []string, err error) {
	if s == nil {
		return nil, nil, nil
	}
	var bytes int64
	denied, special := 0, 0
	err = filepath.WalkDir(s.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.Root, path)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); rel == "." {
			entry, _, _, err := describe(path, rel, d)
			files = append(files, file{entry, path})
			return err
		}
		skip := func() error {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if pattern := s.excludes(rel); pattern != "" {
			if note := "excluded: " + pattern; !slices.Contains(left, note) {
				left = append(left, note)
			}
			return skip()
		}
		if s.Denied != nil && s.Denied(path) {
			denied++
			return skip()
		}
		entry, size, ok, err := describe(path, rel, d)
		if err != nil {
			return err
		}
		if !ok {
			special++
			return nil
		}
		files, bytes = append(files, file{entry, path}), bytes+size
		switch {
		case bytes > s.MaxBytes:
			return fmt.Errorf("the workspace has more than %d MiB of files. Exclude what the calls do not need, for example with --exclude node_modules, or raise the limit with --max-size", s.MaxBytes>>20)
		case len(files) > s.MaxFiles:
			return fmt.Errorf("the workspace has more than %d files. Exclude what the calls do not need, for example with --exclude node_modules", s.MaxFiles)
		}
		return nil
	})
	if denied > 0 {
		left = append(left, fmt.Sprintf("%d denied paths", denied))
	}
	if special > 0 {
		left = append(left, fmt.Sprintf("%d pipes, sockets and devices", special))
	}
	return files, left, err
}

// excludes returns the glob that excludes a path, or "". A glob without a slash matches a name at every depth.
func (s *Snapshot) excludes(rel string) string {
	for _, glob := range s.Exclude {
		for _, form := range []string{glob, "**/" + glob} {
			if ok, err := doublestar.Match(form, rel); ok && err == nil {
				return glob
			}
		}
	}
	return ""
}

// describe returns the entry of a file. The result "ok" is true only for regular files, directories and links.
func describe(path, rel string, d fs.DirEntry) (entry tape.File, size int64, ok bool, err error) {
	info, err := d.Info()
	if err != nil {
		if os.IsNotExist(err) {
			return entry, 0, false, nil
		}
		return entry, 0, false, err
	}
	entry = tape.File{Path: rel, Mode: fmt.Sprintf("%o", info.Mode().Perm()), ModTime: info.ModTime().UTC()}
	switch {
	case info.Mode().IsRegular():
		return entry, info.Size(), true, nil
	case info.IsDir():
		entry.Directory = true
		return entry, 0, true, nil
	case info.Mode()&fs.ModeSymlink != 0:
		entry.Link, err = os.Readlink(path)
		return entry, 0, err == nil, err
	}
	return entry, 0, false, nil
}
