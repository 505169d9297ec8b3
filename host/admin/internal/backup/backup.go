// Package backup copies state directories: [Write] writes an archive, also while hosts use the directory, and [Restore]
// replaces a directory by the content of an archive.
//
// An archive is a compressed tar file. Its first entry describes it, and its last entry lists the hashes of all files,
// so that an archive that was cut or changed is refused before anything is replaced.
package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/statedb"
	"toolhost.dev/sdk/tool"
)

const (
	headName = "toolhost-backup.json"
	sumsName = "toolhost-backup.sums"
	format   = 1
)

// Head describes an archive.
type Head struct {
	// Format is the version of the format.
	Format int `json:"format"`
	// Version is the version of toolhost that wrote the archive.
	Version string    `json:"version"`
	At      time.Time `json:"time"`
	// Dir is the path of the state directory.
	Dir string `json:"directory"`
}

// Report describes what an archive contains.
type Report struct {
	Head
	// Path is the path of the archive.
	Path string `json:"path"`
	// Files and Bytes are the number and the size of the files, before compression.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Databases is the number of databases.
	Databases int `json:"databases"`
	// LeftOut lists the parts of the directory that are not in the archive, each with the reason.
	LeftOut []string `json:"left_out"`
}

// transient lists the directories that hosts create again when they need them, or that belong to running processes.
var transient = map[string]bool{"control": true, "locks": true, "commands": true, "masks": true, "scratch": true,
	"recordings": true, "sandbox.probed": true}

// skipped reports whether the archive leaves out a path below the state directory. The reason is empty if the path has
// no lasting content.
func skipped(rel string) (skip bool, reason string) {
	parts := strings.Split(rel, string(filepath.Separator))
	switch {
	case transient[parts[0]], strings.HasSuffix(rel, "-wal"), strings.HasSuffix(rel, "-shm"),
		strings.Contains(parts[len(parts)-1], partial):
		return true, ""
	case parts[0] == "branches" && len(parts) > 1:
		return true, "branches/" + parts[1] + ": branches are mounted file systems; apply or discard them first"
	case parts[0] == "plugins" && len(parts) == 3, parts[0] == "principals" && len(parts) == 4:
		return parts[len(parts)-1] == "cache" || parts[len(parts)-1] == "tmp", ""
	}
	return false, ""
}

// partial is part of the names of files and directories that are not complete.
const partial = ".toolhost-partial-"

// writer writes an archive.
type writer struct {
	tar    *tar.Writer
	dir    string
	sums   []string
	report *Report
}

// Write writes an archive of a state directory to a file, which must not exist. Hosts can use the directory meanwhile:
// each database is copied as it is at one moment, and the archive contains every change that a running host confirmed
// before Write was called. A killed Write leaves no file with the name of the archive.
func Write(ctx context.Context, dir, path, version string) (*Report, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s exists already; name another file, or remove it", path)
	}
	if tool.Within(dir, path) {
		return nil, fmt.Errorf("%s is in the state directory; name a file outside of it", path)
	}
	if info, err := os.Stat(filepath.Join(dir, "state.db")); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s has no state of toolhost; name the state directory with --state", dir)
	}
	sweep(filepath.Dir(path))
	f, err := os.CreateTemp(filepath.Dir(path), partial+"backup-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has been renamed
	unlock, err := hold(f.Name())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer unlock()
	zip := gzip.NewWriter(f)
	w := &writer{
		tar: tar.NewWriter(zip), dir: dir, report: &Report{
			Head: Head{Format: format, Version: version, At: time.Now(), Dir: dir}, Path: path, LeftOut: []string{},
		},
	}
	err = w.all(ctx)
	if err = errors.Join(err, w.tar.Close(), zip.Close(), f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil { // a link, unlike a rename, replaces no file
		return nil, err
	}
	return w.report, durable.SyncDir(filepath.Dir(path))
}

func (w *writer) all(ctx context.Context) error {
	head, err := json.Marshal(w.report.Head)
	if err != nil {
		return err
	}
	if err := w.text(headName, head); err != nil {
		return err
	}
	// Copy the journals before the databases. A record that leaves a journal after the copy is then in the copy of the
	// database. The database knows which records it contains, so no record is applied twice.
	var databases []string
	journal := filepath.Join(w.dir, "journal")
	for _, root := range []string{journal, w.dir} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
				return ctx.Err() // files vanish while hosts work
			}
			if err != nil {
				return err
			}
			if path == journal && root == w.dir {
				return fs.SkipDir
			}
			return w.entry(path, d, &databases)
		})
		if err != nil {
			return err
		}
	}
	for _, path := range databases {
		if err := w.database(ctx, path); err != nil {
			return fmt.Errorf("%s cannot be copied: %w", path, err)
		}
	}
	slices.Sort(w.report.LeftOut)
	return w.text(sumsName, []byte(strings.Join(w.sums, "")))
}

// entry adds a file or directory. It collects the paths of databases.
func (w *writer) entry(path string, d fs.DirEntry, databases *[]string) error {
	rel, err := filepath.Rel(w.dir, path)
	if err != nil || rel == "." {
		return err
	}
	if skip, reason := skipped(rel); skip {
		if reason != "" {
			w.report.LeftOut = append(w.report.LeftOut, reason)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case strings.HasSuffix(rel, ".db") && info.Mode().IsRegular():
		*databases = append(*databases, path)
	case info.IsDir():
		return w.tar.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: filepath.ToSlash(rel) + "/", Mode: int64(info.Mode().Perm()),
			ModTime: info.ModTime(),
		})
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return w.tar.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink, Name: filepath.ToSlash(rel), Linkname: to, ModTime: info.ModTime(),
		})
	case info.Mode().IsRegular():
		return w.file(rel, path, info)
	default:
		w.report.LeftOut = append(w.report.LeftOut, rel+": it is no file, directory or link")
	}
	return nil
}

// database adds a copy of a database as it is at one moment.
func (w *writer) database(ctx context.Context, path string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(w.report.Path), partial+"database-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // swept later
	unlock, err := hold(tmp)
	if err != nil {
		return err
	}
	defer unlock()
	snapshot := filepath.Join(tmp, "copy.db")
	if err := statedb.Copy(ctx, path, snapshot); err != nil {
		return err
	}
	info, err := os.Stat(snapshot)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.dir, path)
	if err != nil {
		return err
	}
	w.report.Databases++
	return w.file(rel, snapshot, info)
}

// file adds the content of a file. If the file grows meanwhile, the archive contains only the bytes up to the size in
// info.
func (w *writer) file(rel, path string, info fs.FileInfo) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	content, err := io.ReadAll(io.LimitReader(f, min(info.Size(), smallFile)))
	if err != nil {
		return err
	}
	size := info.Size()
	if size <= smallFile { // it can have become shorter
		size = int64(len(content))
	}
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(rel),
		Mode: int64(info.Mode().Perm()), Size: size, ModTime: info.ModTime()}); err != nil {
		return err
	}
	if _, err := io.CopyN(io.MultiWriter(w.tar, sum), io.MultiReader(bytes.NewReader(content), f), size); err != nil {
		return fmt.Errorf("%s cannot be copied to the archive: %w. If the file became shorter meanwhile, make the backup again", path, err)
	}
	w.add(rel, size, sum)
	return nil
}

// smallFile is the size up to which a file is read at once.
const smallFile = 1 << 20

func (w *writer) add(rel string, size int64, sum hash.Hash) {
	w.sums = append(w.sums, hex.EncodeToString(sum.Sum(nil))+" "+filepath.ToSlash(rel)+"\n")
	w.report.Files++
	w.report.Bytes += size
}

func (w *writer) text(name string, content []byte) error {
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)),
		ModTime: w.report.At}); err != nil {
		return err
	}
	_, err := w.tar.Write(content)
	return err
}
