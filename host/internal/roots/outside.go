package roots

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/watch"
)

// Places are the files of a host that tools must not change. The zero value has only the directory of recordings, which
// the configuration names.
type Places struct {
	// State is the state directory, which contains the audit log, the remembered answers and the trust store. Target is
	// its path without symbolic links. They are empty if the host keeps no state.
	State, Target string
	// Secrets are files that tools must not read either, such as tokens, by the flags that name them.
	Secrets map[string]string
	// Workspaces are further workspaces from which tools must not reach the secrets. A name that ends in "/*" means
	// each directory in it.
	Workspaces []string
}

// Check returns an error if tools in a workspace can write to the state directory or to the directory of recordings, or
// if tools in it or in another known workspace can reach a secret.
func (p *Places) Check(cfg *config.Config, workspace string) error {
	all := slices.Concat([]string{workspace}, p.Workspaces)
	for i := range cfg.Access.Principals {
		all = append(all, cfg.Access.Principals[i].Workspaces...)
	}
	for _, dir := range all {
		if len(p.Secrets) == 0 {
			break
		}
		dir = strings.TrimSuffix(dir, "/*")
		if target, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(target) {
			dir = target
		}
		if err := p.secretsOutside(cfg, dir); err != nil {
			return err
		}
	}
	if err := p.StateOutside(cfg, workspace); err != nil {
		return err
	}
	return RecordingsOutside(cfg, workspace)
}

// RecordingsOutside returns an error if tools in a workspace can write to the directory of recordings.
func RecordingsOutside(cfg *config.Config, workspace string) error {
	tapes := cfg.Record.Dir
	if tapes == "" {
		return nil
	}
	if dir := through(accessible(cfg, workspace, false), watch.Places(tapes)); dir != "" {
		return fmt.Errorf("the directory of recordings %s is in %s, where tools can write. In record { dir }, name a directory outside of it, such as /var/lib/toolhost/tapes", tapes, dir)
	}
	return nil
}

// StateOutside returns an error if tools in a workspace can write to the state directory.
func (p *Places) StateOutside(cfg *config.Config, workspace string) error {
	if p.Target == "" {
		return nil
	}
	writable := accessible(cfg, workspace, false)
	if dir := through(writable, append(watch.Places(p.State), p.Target)); dir != "" {
		return fmt.Errorf("the state directory %s is in %s, where tools can write. With --state, name a directory outside of it, such as %s", p.Target, dir, otherState(tool.Root{Path: dir}))
	}
	for _, r := range writable {
		if (tool.Root{Path: p.Target}).Contains(r.Path) {
			return fmt.Errorf("tools could write in %s, which is in the state directory %s. Use another workspace: --workspace DIR", r.Path, p.Target)
		}
	}
	return nil
}

// secretsOutside returns an error if tools in a workspace can read or replace a secret.
func (p *Places) secretsOutside(cfg *config.Config, workspace string) error {
	for _, name := range slices.Sorted(maps.Keys(p.Secrets)) {
		path := p.Secrets[name]
		if dir := through(accessible(cfg, workspace, true), watch.Places(path)); dir != "" {
			return fmt.Errorf("%s: %s is in %s, where tools could read or replace it. Name a file in a directory that no tool can access, and use another secret if tools could access this one", name, path, dir)
		}
	}
	return nil
}

// accessible returns the directories in which tools of a workspace can write, or also those in which they can only
// read. If the workspace is too broad, it is not among them, because no call can run there.
func accessible(cfg *config.Config, workspace string, read bool) (out []tool.Root) {
	for i, r := range Configured(cfg, workspace) {
		if refused := i == 0 && Refused(cfg, workspace) != nil; !refused && (read || r.Writable) {
			out = append(out, r)
		}
	}
	for i := range cfg.Plugins {
		dirs := cfg.Plugins[i].Confinement.Write
		if read {
			dirs = slices.Concat(dirs, cfg.Plugins[i].Confinement.Read)
		}
		for _, path := range dirs {
			out = append(out, tool.Root{Path: path})
		}
	}
	return out
}

// through returns the first directory that contains one of the places, or "". The places of a path are the path and the
// links that lead to it, because tools could change the target of a link.
func through(dirs []tool.Root, places []string) string {
	for _, r := range dirs {
		if slices.ContainsFunc(places, r.Contains) {
			return r.Path
		}
	}
	return ""
}

// otherState returns a path for a state directory outside a root. The host suggests this path to the user.
func otherState(root tool.Root) string {
	if dir, err := state.FindDir(); err == nil && !root.Contains(dir) {
		return dir
	}
	return filepath.Join("/var/tmp", fmt.Sprintf("toolhost-%d", os.Getuid()))
}
