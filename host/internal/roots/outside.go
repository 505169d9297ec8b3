package roots

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/statedir"
	"toolhost.dev/host/internal/watch"
)

// Outside checks that tools cannot write to the state directory of a host, which contains the audit log, the remembered answers
// and the trust store. It caches a nil result, because tools cannot change it: they cannot write to any directory with a link
// to the state directory. The cache is valid for one configuration. The zero value is ready for use.
type Outside struct {
	mu         sync.Mutex
	cfg        *config.Config
	workspaces map[string]bool
}

// maxPlaces limits the number of workspaces in the cache of an [Outside].
const maxPlaces = 1024

// Check is like [StateOutside] and caches a nil result.
func (o *Outside) Check(cfg *config.Config, workspace, dir, target string) error {
	err := StateOutside(cfg, workspace, dir, target)
	if err == nil {
		o.add(cfg, workspace)
	}
	return err
}

// Checked reports whether Check returned nil for a workspace.
func (o *Outside) Checked(cfg *config.Config, workspace string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cfg == cfg && o.workspaces[workspace]
}

func (o *Outside) add(cfg *config.Config, workspace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cfg != cfg || len(o.workspaces) >= maxPlaces {
		o.cfg, o.workspaces = cfg, make(map[string]bool)
	}
	o.workspaces[workspace] = true
}

// CheckPlaces returns an error if tools in a workspace can write to a place that only the host must write to: the state
// directory dir, whose path without symbolic links is target, or the directory of recordings. If the workspace is too broad,
// it returns nil, because no call can run in such a workspace.
func CheckPlaces(cfg *config.Config, workspace, dir, target string) error {
	if Refused(cfg, workspace) != nil {
		return nil //nolint:nilerr // see above
	}
	if target != "" {
		if err := StateOutside(cfg, workspace, dir, target); err != nil {
			return err
		}
	}
	return RecordingsOutside(cfg, workspace)
}

// RecordingsOutside returns an error if tools in a workspace can write to the directory of recordings. If the workspace is too
// broad, it returns nil.
func RecordingsOutside(cfg *config.Config, workspace string) error {
	tapes := cfg.Record.Dir
	if tapes == "" || Refused(cfg, workspace) != nil {
		return nil //nolint:nilerr // see above
	}
	for _, r := range Configured(cfg, workspace) {
		if r.Writable && slices.ContainsFunc(watch.Places(tapes), r.Contains) {
			return fmt.Errorf("the directory of recordings %s is in %s, where tools can write. In record { dir }, name a directory outside of it, such as /var/lib/toolhost/tapes", tapes, r.Path)
		}
	}
	return nil
}

// StateOutside returns an error if tools in a workspace can write to the state directory dir. The path target is dir
// without symbolic links. The function also checks the links that lead to the directory, because tools could change the
// target of a link.
func StateOutside(cfg *config.Config, workspace, dir, target string) error {
	places := append(watch.Places(dir), target)
	var writable []tool.Root
	for _, r := range Configured(cfg, workspace) {
		if r.Writable {
			writable = append(writable, r)
		}
	}
	for i := range cfg.Plugins {
		for _, path := range cfg.Plugins[i].Confinement.Write {
			writable = append(writable, tool.Root{Path: path})
		}
	}
	for _, r := range writable {
		if slices.ContainsFunc(places, r.Contains) {
			return fmt.Errorf("the state directory %s is in %s, where tools can write. With --state, name a directory outside of it, such as %s", target, r.Path, otherState(r))
		}
		if (tool.Root{Path: target}).Contains(r.Path) {
			return fmt.Errorf("tools could write in %s, which is in the state directory %s. Use another workspace: --workspace DIR", r.Path, target)
		}
	}
	return nil
}

// Reaching returns the directory through which tools in a workspace can read or replace a file of the host, such as a
// token. It returns "" if they cannot. Like [StateOutside], it also checks the links that lead to the file.
func Reaching(cfg *config.Config, workspace, file string) string {
	all := Configured(cfg, workspace)
	if Refused(cfg, workspace) != nil { // no call can run there
		all = all[1:]
	}
	for i := range cfg.Plugins {
		for _, path := range slices.Concat(cfg.Plugins[i].Confinement.Read, cfg.Plugins[i].Confinement.Write) {
			all = append(all, tool.Root{Path: path})
		}
	}
	places := watch.Places(file)
	for _, r := range all {
		if slices.ContainsFunc(places, r.Contains) {
			return r.Path
		}
	}
	return ""
}

// otherState returns a path for a state directory outside a root. The host suggests this path to the user.
func otherState(root tool.Root) string {
	if dir, err := statedir.Find(); err == nil && !root.Contains(dir) {
		return dir
	}
	return filepath.Join("/var/tmp", fmt.Sprintf("toolhost-%d", os.Getuid()))
}
