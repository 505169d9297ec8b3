package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
	"toolhost.dev/sdk/tool"
)

// maxFile is the size in bytes at which a file is replaced.
const maxFile = 4 << 20

// PluginLogEntry is one line that a plugin printed or logged.
type PluginLogEntry struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Plugin  string    `json:"plugin"`
	PID     int       `json:"pid,omitempty"` // of the plugin's process
	Message string    `json:"message"`
	// Fields are the additional fields of the line, which the plugin chose.
	Fields map[string]string `json:"fields,omitempty"`
}

// PluginLog writes the files. It is safe for concurrent use. A nil PluginLog discards all entries.
type PluginLog struct {
	dir  func() string
	log  *slog.Logger
	mask atomic.Pointer[func(string) string]

	mu       sync.Mutex
	files    map[string]*os.File
	reported bool
}

// NewPluginLog returns a log. The function "dir" returns the directory of the files, or "" if the host keeps no state.
// Only the first problem is reported to the logger "log".
func NewPluginLog(dir func() string, log *slog.Logger) *PluginLog {
	return &PluginLog{dir: dir, log: log, files: make(map[string]*os.File)}
}

// Mask sets the function that removes secrets from messages and fields.
func (l *PluginLog) Mask(mask func(string) string) {
	if l != nil {
		l.mask.Store(&mask)
	}
}

// PluginLogPath returns the file of a plugin in a directory.
func PluginLogPath(dir, plugin string) string { return filepath.Join(dir, plugin+".jsonl") }

// old returns the path of the previous file.
func old(path string) string { return path + ".1" }

// Write appends an entry to the file of its plugin.
func (l *PluginLog) Write(e PluginLogEntry) {
	if l == nil || !tool.ValidName(e.Plugin) {
		return
	}
	if mask := l.mask.Load(); mask != nil {
		e.Message = (*mask)(e.Message)
		for k, v := range e.Fields {
			e.Fields[k] = (*mask)(v)
		}
	}
	e.Time = time.Now().UTC()
	b, err := json.Marshal(e)
	if err != nil { // cannot happen, because all fields are text
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(e.Plugin, append(b, '\n')); err != nil && !l.reported {
		l.reported = true // a full disk must not fill the host's log
		l.log.Warn("the log of a plugin cannot be written", "plugin", e.Plugin, "error", err)
	}
}

func (l *PluginLog) append(plugin string, line []byte) error {
	dir := l.dir()
	if dir == "" {
		return nil
	}
	path := PluginLogPath(dir, plugin)
	for {
		f := l.files[plugin]
		if f == nil {
			var err error
			if f, err = open(path); err != nil {
				return err
			}
			l.files[plugin] = f
		}
		written, err := write(f, path, line)
		if written || err != nil {
			return err
		}
		_ = f.Close() // the file was replaced
		delete(l.files, plugin)
	}
}

// write appends a line to a file. If the file has been replaced or is full, written is false, and the caller must open
// the path again. The lock prevents that another host replaces the file during the write, because readers would miss
// the line.
func write(f *os.File, path string, line []byte) (written bool, err error) {
	if err := flock.Apply(f, unix.LOCK_SH); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, flock.Apply(f, unix.LOCK_UN)) }()
	size, same := sizeOf(f, path)
	if !same {
		return false, nil
	}
	if size > 0 && size+int64(len(line)) > maxFile {
		return false, replace(f, path)
	}
	_, err = f.Write(line)
	return err == nil, err
}

// replace renames a full file, so that it becomes the previous file. It does nothing if another host has already done
// so.
func replace(f *os.File, path string) error {
	if err := flock.Apply(f, unix.LOCK_EX); err != nil {
		return err
	}
	if _, same := sizeOf(f, path); !same {
		return nil
	}
	return os.Rename(path, old(path))
}

// sizeOf returns the size of a file, and whether the path still leads to it.
func sizeOf(f *os.File, path string) (size int64, same bool) {
	at, err := os.Stat(path)
	st, openErr := f.Stat()
	if err != nil || openErr != nil {
		return 0, false
	}
	return st.Size(), os.SameFile(at, st)
}

func open(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// Close closes the files.
func (l *PluginLog) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, f := range l.files {
		_ = f.Close()
		delete(l.files, name)
	}
}

// PluginLogReader reads the entries of a plugin, the oldest first.
type PluginLogReader struct {
	path string
	f    *os.File
	rest []byte // the beginning of a line whose end is not written yet
}

// NewPluginLogReader returns a reader for a plugin's entries in a directory.
func NewPluginLogReader(dir, plugin string) *PluginLogReader {
	return &PluginLogReader{path: PluginLogPath(dir, plugin)}
}

// Read returns the entries since the last Read. The first Read also returns the entries of the previous file.
func (r *PluginLogReader) Read() ([]PluginLogEntry, error) {
	var out []PluginLogEntry
	if r.f == nil {
		previous, err := os.Open(old(r.path))
		if err == nil {
			out, err = r.entries(out, previous)
			r.rest = nil
			err = errors.Join(err, previous.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for {
		if r.f == nil {
			f, err := os.Open(r.path)
			if errors.Is(err, fs.ErrNotExist) {
				return out, nil
			}
			if err != nil {
				return nil, err
			}
			r.f = f
		}
		var err error
		if out, err = r.entries(out, r.f); err != nil {
			return out, err
		}
		at, err := os.Stat(r.path)
		st, openErr := r.f.Stat()
		if err != nil || openErr != nil || os.SameFile(at, st) {
			return out, openErr
		}
		out, err = r.entries(out, r.f) // the lines that were appended before the file was replaced
		r.Close()
		if err != nil {
			return out, err
		}
	}
}

// entries appends the entries of the rest of a file.
func (r *PluginLogReader) entries(out []PluginLogEntry, f *os.File) ([]PluginLogEntry, error) {
	b, err := io.ReadAll(io.LimitReader(f, 2*maxFile))
	r.rest = append(r.rest, b...)
	for {
		i := bytes.IndexByte(r.rest, '\n')
		if i < 0 {
			return out, err
		}
		var e PluginLogEntry
		if json.Unmarshal(r.rest[:i], &e) == nil { // skip a line that was cut off because the disk was full
			out = append(out, e)
		}
		r.rest = r.rest[i+1:]
	}
}

// Close closes the reader.
func (r *PluginLogReader) Close() {
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
	r.rest = nil
}
