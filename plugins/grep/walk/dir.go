package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/ignore"
)

// Dir is a directory that a walk visits.
type Dir struct {
	w     *walker
	rel   string // path relative to the start
	path  string // absolute path
	shown string // beginning of the displayed paths of the entries
	rules *ignore.Dir
	file  *os.File
	refs  atomic.Int32 // number of tasks for which the directory must be open
}

// Path returns the absolute path of an entry.
func (d *Dir) Path(name string) string { return join(d.path, name) }

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// Shown returns the path of an entry as displayed in results.
func (d *Dir) Shown(name string) string { return d.shown + name }

// Rel returns the path of an entry relative to the start of the walk, including [Start.Rel].
func (d *Dir) Rel(name string) string {
	return ShownPrefix(d.w.start.Rel) + d.relative(name)
}

// relative returns the path of an entry relative to the start of this walk.
func (d *Dir) relative(name string) string {
	if d.rel == "." {
		return name
	}
	return d.rel + "/" + name
}

func (d *Dir) child(name string) *Dir {
	return &Dir{w: d.w, rel: d.relative(name), path: d.Path(name), shown: d.Shown(name) + "/", rules: d.rules}
}

// open opens the directory for one task. The task must call close afterwards.
func (d *Dir) open() error {
	if d.file == nil {
		f, err := openBeneath(d.w.start.Dir, d.rel, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return &fs.PathError{Op: "open", Path: d.path, Err: err}
		}
		d.file = f
		d.refs.Add(1)
	}
	return nil
}

func (d *Dir) close() {
	if d.refs.Add(-1) == 0 {
		_ = d.file.Close()
	}
}

// batch is the number of directory entries that are requested at once.
const batch = 1024

// entries reads the entries of the directory.
func (d *Dir) entries(ctx context.Context) ([]Entry, error) { return List(ctx, d.file) }

// List reads an open directory and returns its entries, sorted by name. If reading fails, List returns the error and
// the entries that were read before.
func List(ctx context.Context, dir *os.File) ([]Entry, error) {
	var out []Entry
	for {
		list, err := dir.ReadDir(batch)
		for _, e := range list {
			out = append(out, Entry{Name: e.Name(), Type: e.Type()})
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				err = nil
			}
			return out, err
		}
	}
}
