package reload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/sdk/durable"
)

// maxKept is the maximum total size of a configuration's files in the history, in bytes. A larger configuration is not
// kept.
const maxKept = 4 << 20

// Served is a configuration that a host used.
type Served = records.Served

// Digest returns the SHA-256 of the files of a configuration, in the form "sha256:…".
func Digest(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// place returns the key of a configuration in the history. It is empty for the built-in configuration.
func place(path string) string {
	if path == "" {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	return abs
}

// sources returns the files of a configuration with absolute paths.
func sources(cfg *config.Config) map[string][]byte {
	out := make(map[string][]byte)
	for name, text := range cfg.Sources() {
		if abs, err := filepath.Abs(name); err == nil {
			out[abs] = text
		}
	}
	return out
}

// ConfigDigest returns the digest of the files of a configuration. It is empty for the built-in configuration.
func ConfigDigest(cfg *config.Config) string {
	files := sources(cfg)
	if len(files) == 0 || cfg.Path == "" {
		return ""
	}
	return Digest(files)
}

// keepServed saves the files of a configuration that the host uses now, so that a person can go back to it. A failure
// is only logged, because calls do not need the history.
func (r *Reloader) keepServed(g *generation.Generation, by string) {
	key := place(r.Source.Path)
	if !r.Live || key == "" || len(g.Config.Restricted) > 0 || g.Config.Untrusted != "" ||
		g.Config.Path != r.Source.Path {
		return
	}
	files, size := sources(g.Config), 0
	for _, text := range files {
		size += len(text)
	}
	if size > maxKept {
		r.Log.Warn("the configuration is too large for the history, so toolhost config rollback cannot go back to it", "bytes", size, "limit", maxKept)
		return
	}
	if err := r.Builder.State.SaveServed(key,
		&Served{At: time.Now(), Digest: Digest(files), By: by, Files: files}); err != nil {
		r.Log.Warn("the configuration cannot be kept in the history, so toolhost config rollback cannot go back to it", "error", err)
	}
}

// History is the history of a configuration.
type History struct {
	// Config is the path of the configuration.
	Config string `json:"config"`
	// Digest is the digest of the files on disk.
	Digest string `json:"digest"`
	// Served lists the configurations that hosts used, newest first.
	Served []Served `json:"served"`
}

// HistoryOf returns the history of the configuration at a path.
func HistoryOf(db *state.DB, path string) (*History, error) {
	key := place(path)
	if key == "" {
		return nil, errors.New("the built-in configuration has no history; name a file with --config")
	}
	all, err := db.ServedConfigs(key)
	if err != nil {
		return nil, err
	}
	out := &History{Config: key, Served: all}
	if len(all) > 0 {
		last, err := db.ServedConfig(key, all[0].ID)
		if err != nil {
			return nil, err
		}
		out.Digest = Digest(onDisk(key, last.Files))
	}
	return out, nil
}

// ServedConfig returns an entry of the history of the configuration at a path, with its files.
func ServedConfig(db *state.DB, path string, id int64) (*Served, error) {
	return db.ServedConfig(place(path), id)
}

// onDisk reads the files of the configuration at a path. It also reads the files whose names are keys of the map
// "names".
func onDisk(path string, names map[string][]byte) map[string][]byte {
	list, _ := config.List(path) // error ignored: a missing file also counts as different from the file that was used
	for name := range names {
		list = append(list, name)
	}
	out := make(map[string][]byte)
	for _, name := range list {
		if text, err := os.ReadFile(name); err == nil {
			out[name] = text
		}
	}
	return out
}

// Target returns the entry that a rollback restores. This is the entry with the given id. If id is 0, it is the newest
// entry that differs from the files on disk.
func (h *History) Target(id int64) (*Served, error) {
	for i := range h.Served {
		if s := &h.Served[i]; s.ID == id || id == 0 && s.Digest != h.Digest {
			return s, nil
		}
	}
	if id == 0 {
		return nil, fmt.Errorf("there is no earlier configuration of %s: hosts used only the one on disk", h.Config)
	}
	return nil, fmt.Errorf("no host used a configuration with the id %d; toolhost config history lists the ids", id)
}

// Restore writes the files of an earlier configuration and returns the changed paths. If the configuration is a
// directory, it can contain newer files that the earlier configuration lacks. Restore adds the suffix ".rolled-back" to
// the names of these files, so that they do not apply.
func Restore(db *state.DB, path string, id int64) (to *Served, changed []string, err error) {
	h, err := HistoryOf(db, path)
	if err != nil {
		return nil, nil, err
	}
	if to, err = h.Target(id); err != nil {
		return nil, nil, err
	}
	if to, err = db.ServedConfig(h.Config, to.ID); err != nil {
		return nil, nil, err
	}
	now := onDisk(h.Config, to.Files)
	for _, name := range slices.Sorted(maps.Keys(to.Files)) {
		text := to.Files[name]
		if was, ok := now[name]; ok && bytes.Equal(was, text) {
			continue
		}
		if err := durable.Update(name, text); err != nil {
			return to, changed, fmt.Errorf("%s cannot be restored: %w", name, err)
		}
		changed = append(changed, name)
	}
	for name := range now {
		if _, then := to.Files[name]; !then && strings.HasPrefix(name, h.Config+string(filepath.Separator)) {
			if err := os.Rename(name, name+".rolled-back"); err != nil {
				return to, changed, fmt.Errorf("%s cannot be renamed: %w", name, err)
			}
			changed = append(changed, name)
		}
	}
	return to, changed, nil
}

// RolledBack describes the outcome of a rollback.
type RolledBack struct {
	// To is the configuration that was restored, without its files.
	To Served `json:"to"`
	// Changed lists the files that were written or renamed.
	Changed []string `json:"changed"`
	// Reload is the outcome of the reload that followed. It is nil if no host runs.
	Reload *Report `json:"reload,omitempty"`
}

// Rollback restores an earlier configuration and applies it. If id is zero, it restores the newest configuration that
// differs from the files on disk. A host already used the restored configuration, so the privileges in it need no
// approval.
func (r *Reloader) Rollback(ctx context.Context, id int64, by string) (*RolledBack, error) {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	to, changed, err := Restore(r.Builder.State, r.Source.Path, id)
	if err != nil {
		return nil, err
	}
	if err := r.Source.Renew(changed...); err != nil { // a person already trusted these files before a host used them
		return nil, err
	}
	out := &RolledBack{To: *to, Changed: append([]string{}, changed...)}
	out.To.Files = nil
	out.Reload, err = r.reload(ctx, Options{ApprovePrivileges: true, By: by})
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	r.Audit(by, "(rollback)", map[string]any{"to": to.ID, "digest": to.Digest, "files": out.Changed}, refused)
	return out, err
}
