package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/host/internal/trust"
)

// Held explains why a plugin does not run the binary on the disk. The reason is a rollout of the binary on the disk,
// which was aborted or has not ended.
type Held struct {
	// Tried is the SHA-256 that the binary on the disk had when its rollout began.
	Tried string
	// Aborted is the reason why that rollout was aborted. It is empty if the host ended before the rollout ended.
	Aborted string
}

// copyTime is the age below which an unrecorded copy is not removed. Another host can have made such a copy and not
// recorded it yet.
const copyTime = time.Hour

// VersionStore returns the store with copies of the binaries of plugins with a rollout block.
func VersionStore(home state.Home, db *state.DB) (*trust.Store, error) {
	dir, err := home.Versions()
	return &trust.Store{Dir: dir, Hash: db.BinaryHash}, err
}

// Identify sets the binary of a plugin. If the binary on the disk has not passed its rollout, the plugin is held. A
// held plugin runs the copy of the version that served before.
func (b *Builder) Identify(cfg *config.Config, launcher *confinement.Launcher, p *Plugin) {
	p.Binary = BinaryOf(b.State, &p.Plugin, p.Path)
	if p.Rollout == nil || p.Binary.Sum == nil || !copyable(p.Path) {
		return
	}
	sum := p.Binary.sum()
	r, err := b.State.Rollout(cfg.Path, p.Name)
	if err != nil {
		b.Log.Warn("the record of a rollout cannot be read", "plugin", p.Name, "why", err)
	}
	switch {
	case r == nil || r.Tried == "" || r.Path != p.Path:
		return
	case r.Serving == sum:
		b.Unhold(cfg, p)
		return
	}
	copied, ok := b.copied(p, r.Serving)
	if !ok || launcher.Verify(&p.Plugin, copied) != nil {
		b.Log.Warn("the copy of the version that served before is missing or belongs to another release, so the binary on the disk serves", "plugin", p.Name, "sha256", r.Serving)
		return
	}
	held := &Held{Tried: sum}
	if r.Tried == sum {
		held.Aborted = r.Why
	}
	p.held.Store(held)
	p.Binary = BinaryOf(b.State, &p.Plugin, copied)
}

// Unhold records that the version that serves is on the disk again.
func (b *Builder) Unhold(cfg *config.Config, p *Plugin) {
	p.held.Store(nil)
	if p.Rollout == nil || p.Binary.Sum == nil {
		return
	}
	r, err := b.State.Rollout(cfg.Path, p.Name)
	if err == nil && r != nil && r.Tried != "" {
		r.Tried, r.Why = "", ""
		err = b.State.SaveRollout(r)
	}
	b.unrecorded(p, err)
}

func (b *Builder) unrecorded(p *Plugin, err error) {
	if err != nil {
		b.Log.Warn("the version of a plugin cannot be recorded; a host that starts during a rollout uses the binary on the disk", "plugin", p.Name, "why", err)
	}
}

// copyable reports whether the host must copy a program and is able to do so. A script can need other files in its
// directory. An installed plugin needs no copy, because the store of installed plugins keeps each version.
func copyable(path string) bool { return !trust.IsScript(path) && !trust.InStore(path) }

// copied returns the path of the copy of a plugin's version. The result "ok" is false if no usable copy exists.
func (b *Builder) copied(p *Plugin, sum string) (path string, ok bool) {
	copies, err := VersionStore(b.Home, b.State)
	if err != nil {
		return "", false
	}
	return copies.Copy(p.Path, sum)
}

// Keep copies the binary of a plugin, so that this version can be started even after another version replaced it on the
// disk. It reports whether the copy exists.
func (b *Builder) Keep(p *Plugin) bool {
	if p.Rollout == nil || p.Binary.Sum == nil || !copyable(p.Path) {
		return false
	}
	copies, err := VersionStore(b.Home, b.State)
	if err == nil {
		_, err = copies.Executable(p.Path, p.Binary.sum())
	}
	if err != nil {
		b.Log.Warn("the binary of a plugin cannot be copied; if it is replaced, this version cannot start again", "plugin", p.Name, "why", err)
	}
	return err == nil
}

// executable returns the file that a process of a plugin runs. If the binary on the disk is not the plugin's version,
// executable returns the copy of the plugin's version.
func (b *Builder) executable(cfg *config.Config, p *Plugin) (string, error) {
	if p.Rollout == nil || p.Binary.Sum == nil || !copyable(p.Path) {
		return b.Pins(cfg).Executable(p.Name, p.Path)
	}
	if now, err := b.State.BinaryHash(p.Path); err == nil && now == *p.Binary.Sum {
		return b.Pins(cfg).Executable(p.Name, p.Path)
	}
	copied, ok := b.copied(p, p.Binary.sum())
	if !ok {
		return "", fmt.Errorf("the binary %s is another version, and the copy of the version in use is missing; restore the binary, or run toolhost config reload", p.Path)
	}
	return copied, b.Pins(cfg).CheckStarts(p.Name)
}

// problem describes a held plugin for the status.
func (h *Held) problem(p *Plugin) string {
	serves := fmt.Sprintf("Plugin %s runs a copy of its earlier version %s. The rollout of %s (version %s)", p.Name, short(p.Binary.sum()), p.Path, short(h.Tried))
	if h.Aborted == "" {
		return serves + " has not ended. It starts with the next host that keeps running. To use the binary without a rollout, remove the plugin's rollout block."
	}
	return serves + " was aborted: " + h.Aborted + ". Replace the binary. To try it again, run toolhost config reload while a host runs; to use it without a rollout, remove the plugin's rollout block."
}

// short returns the beginning of a SHA-256, which is enough for people.
func short(sum string) string { return sum[:min(len(sum), 12)] }

// KeepVersions records and copies the versions that serve, and removes copies and records that are no longer needed.
func (b *Builder) KeepVersions(cfg *config.Config, plugins []*Plugin) {
	rolls := false
	for _, p := range plugins {
		if p.Rollout == nil {
			continue
		}
		rolls = true
		if p.Err != nil || p.Held() != nil || !b.Keep(p) {
			continue
		}
		r, err := b.State.Rollout(cfg.Path, p.Name)
		if err == nil && (r == nil || r.Serving != p.Binary.sum() || r.Path != p.Path) {
			err = b.State.SaveRollout(&records.Rollout{
				Config: cfg.Path, Plugin: p.Name, Path: p.Path, Serving: p.Binary.sum(),
			})
		}
		b.unrecorded(p, err)
	}
	if !rolls {
		return
	}
	if _, _, err := CollectVersions(b.Home, b.State, cfg, false); err != nil {
		b.Log.Warn("copies of old versions cannot be removed", "why", err)
	}
}

// TryVersion records that the rollout of a version began while another version serves.
func (b *Builder) TryVersion(cfg *config.Config, serving, tried *Plugin) {
	if !b.Keep(tried) {
		return
	}
	b.unrecorded(tried, b.State.SaveRollout(&records.Rollout{
		Config: cfg.Path, Plugin: tried.Name, Path: tried.Path, Serving: serving.Binary.sum(),
		Tried: tried.Binary.sum(),
	}))
}

// RefuseVersion records that the rollout of a version was aborted. It reports whether hosts that start later will run
// the version that serves now.
func (b *Builder) RefuseVersion(cfg *config.Config, tried *Plugin, why string) bool {
	r, err := b.State.Rollout(cfg.Path, tried.Name)
	if err != nil || r == nil || r.Tried != tried.Binary.sum() {
		return false
	}
	r.Why = why
	err = b.State.SaveRollout(r)
	b.unrecorded(tried, err)
	_, ok := b.copied(tried, r.Serving)
	return ok && err == nil
}

// CollectVersions removes the copies of binaries that no rollout needs, and returns their number and size. It also
// removes the records of plugins that have no rollout block in cfg. If dry is true, it removes nothing and only counts.
func CollectVersions(home state.Home, db *state.DB, cfg *config.Config, dry bool) (copies, size int64, err error) {
	store, err := VersionStore(home, db)
	if err != nil {
		return 0, 0, err
	}
	entries, err := os.ReadDir(store.Dir)
	if err != nil {
		if os.IsNotExist(err) {
			err = nil
		}
		return 0, 0, err
	}
	records, err := db.Rollouts()
	if err != nil {
		return 0, 0, err
	}
	used := make(map[string]bool)
	for _, r := range records {
		if p := cfg.Plugin(r.Plugin); r.Config == cfg.Path && (p == nil || p.Rollout == nil) {
			if !dry {
				err = errors.Join(err, db.RemoveRollout(r.Config, r.Plugin))
			}
			continue
		}
		used[r.Serving], used[r.Tried] = true, true
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || used[e.Name()] || time.Since(info.ModTime()) < copyTime {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(store.Dir, e.Name())) // ignore the error: it only lowers the reported size
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				size += info.Size()
			}
		}
		copies++
		if !dry {
			if err := store.Forget(e.Name()); err != nil {
				return copies, size, err
			}
		}
	}
	return copies, size, err
}
