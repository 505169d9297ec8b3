package reload

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
)

// candidate is a new version of a plugin that is taken into service step by step.
type candidate struct {
	plugin  *generation.Plugin
	file    string // identity of the binary
	rollout *rollout.Rollout
	ended   chan struct{} // closed when the version serves all calls or was stopped
}

// divert handles each plugin whose new version begins a rollout. For such a plugin, the next generation contains the
// old version.
func (a *attempt) divert() {
	for _, s := range a.steps {
		if a.rollsOut(s) {
			s.candidate, s.next = s.next, s.old
		}
	}
}

// rollsOut reports whether the new version of a plugin is taken into service step by step.
func (a *attempt) rollsOut(s *step) bool {
	if s.err != nil || !s.tried() || s.old == nil || s.old.Err != nil || s.next.Binary.Sum == nil ||
		s.old.Binary.Sum == nil {
		return false
	}
	cfg := a.cfg.Plugin(s.name)
	return cfg != nil && cfg.Rollout != nil && *s.next.Binary.Sum != *s.old.Binary.Sum &&
		(!s.configured || a.cfg.OtherVersion(a.old.Config, s.name))
}

// concludeRollout begins the rollout of a step's new version, or ends an earlier rollout that the step makes obsolete.
func (a *attempt) concludeRollout(s *step) {
	r := a.reloader
	switch {
	case s.candidate != nil:
		r.endRollout(s.name, "another version came")
		r.startRollout(a, s)
	case s.next != s.old:
		r.endRollout(s.name, "the plugin was replaced or removed")
	}
}

func versionFor(p *generation.Plugin) rollout.Version {
	v := rollout.Version{Version: reportedVersion(p)}
	if p.Binary.Sum != nil {
		v.SHA256 = hex.EncodeToString(p.Binary.Sum[:])
	}
	return v
}

func (r *Reloader) startRollout(a *attempt, s *step) {
	old, next := s.old, s.candidate
	c := &candidate{plugin: next, file: s.file, ended: make(chan struct{})}
	set := supervisor.Set{s.name: next.Process}
	c.rollout = r.Builder.Calls.Rollouts.Start(rollout.Start{
		Plugin: s.name, Old: versionFor(old), New: versionFor(next), Settings: *a.cfg.Plugin(s.name).Rollout,
		Candidate: func(owner string) rollout.Lease {
			if lease := set.Reserve(s.name, owner); lease != nil {
				return lease
			}
			return nil
		},
		Memory: func() (was, now uint64) {
			return telemetry.LargestMemory(old.Process.PIDs()), telemetry.LargestMemory(next.Process.PIDs())
		},
		End: func(_ *rollout.Rollout, promote bool, why string) { go r.rolloutEnded(s.name, c, promote, why) },
	})
	if r.candidates == nil {
		r.candidates = make(map[string]*candidate)
	}
	r.candidates[s.name] = c
	r.progress.forgive(s.name)
	r.Builder.TryVersion(a.cfg, old, next)
	r.Log.Info("a new version of a plugin is rolled out", "plugin", s.name, "from", c.rollout.Old.Version, "to", c.rollout.New.Version)
	r.Audit(a.opts.By, "(rollout start)",
		map[string]any{"plugin": s.name, "from": c.rollout.Old, "to": c.rollout.New}, "")
	a.report.Plugins = append(a.report.Plugins, PluginReport{
		Name: s.name, Outcome: RollingOut, Changes: s.changes, From: reportedVersion(old), To: reportedVersion(next),
	})
}

// endRollout ends the rollout of a plugin because of a later change of the plugin. The caller must hold progress.one.
func (r *Reloader) endRollout(plugin, why string) {
	c := r.candidates[plugin]
	if c == nil {
		return
	}
	c.rollout.Supersede(why)
	delete(r.candidates, plugin)
	close(c.ended)
	c.plugin.Process.Retire()
}

// rolloutEnded makes a promoted version serve all calls, or stops an aborted one.
func (r *Reloader) rolloutEnded(plugin string, c *candidate, promote bool, why string) {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	if r.candidates[plugin] != c {
		return
	}
	defer close(c.ended)
	delete(r.candidates, plugin)
	if r.progress.isClosed() {
		return
	}
	what, refused := "(rollout promote)", ""
	if promote {
		r.swapIn(plugin, c)
		c.rollout.Conclude()
	} else {
		what, refused = "(rollout abort)", why
		until := "The old version serves all calls until the host ends. Restore the binary of the old version before the host ends"
		if r.Builder.RefuseVersion(r.Current().Config, c.plugin, why) {
			until = "The old version serves all calls, also after a restart. To try this binary again, run toolhost config reload"
		}
		r.progress.refuse(plugin, refusal{
			file: c.file, why: fmt.Sprintf("its rollout was aborted: %s. %s", why, until),
		})
		r.Log.Warn("the rollout of a plugin was aborted", "plugin", plugin, "version",
			c.rollout.New.Version, "why", why)
		c.plugin.Process.Retire()
	}
	r.Audit("(rollout)", what,
		map[string]any{"plugin": plugin, "from": c.rollout.Old, "to": c.rollout.New, "why": why}, refused)
}

// swapIn publishes a generation in which the new version serves the plugin.
func (r *Reloader) swapIn(plugin string, c *candidate) {
	a := newAttempt(r, Options{automatic: true, By: "(rollout)"})
	for _, p := range a.old.Plugins {
		s := &step{name: p.Name, old: p, next: p, file: c.file}
		if p.Name == plugin {
			s.next = c.plugin
		}
		a.steps = append(a.steps, s)
	}
	a.publish(context.Background())
}

// Rollout carries out an action of an operator: one of [rollout.Actions]. After a promotion or an abort, new calls use
// the remaining version.
func (r *Reloader) Rollout(plugin, action, by string) error {
	if !slices.Contains(rollout.Actions, action) {
		return fmt.Errorf("unknown action %q; use one of %v.%s", action, rollout.Actions,
			suggest.DidYouMean(action, rollout.Actions))
	}
	ro := r.Builder.Calls.Rollouts.Last(plugin)
	if ro == nil {
		var names []string
		for _, st := range r.Builder.Calls.Rollouts.Status() {
			names = append(names, st.Plugin)
		}
		if r.Current().Plugin(plugin) == nil {
			return fmt.Errorf("unknown plugin %q; for a list run toolhost status", plugin)
		}
		return errors.New("plugin " + plugin + " has no rollout; a changed binary begins one if its block has rollout {}" + suggest.DidYouMean(plugin, names))
	}
	if err := ro.Do(action, by); err != nil {
		return err
	}
	switch action {
	case rollout.ActionPause, rollout.ActionResume:
		r.Audit(by, "(rollout "+action+")", map[string]any{"plugin": plugin}, "")
	default:
		r.awaitEnd(ro)
	}
	return nil
}

// awaitEnd waits until a rollout that was promoted or aborted has ended.
func (r *Reloader) awaitEnd(ro *rollout.Rollout) {
	r.progress.one.Lock()
	c := r.candidates[ro.Plugin]
	r.progress.one.Unlock()
	if c != nil && c.rollout == ro {
		<-c.ended
	}
}

// resumeRollouts handles plugins that are held when the host starts. If the rollout of the binary on the disk was
// aborted, resumeRollouts refuses this binary. Otherwise the first check of the watcher begins the rollout again.
func (r *Reloader) resumeRollouts(g *generation.Generation) {
	for _, p := range g.Plugins {
		switch held := p.Held(); {
		case held == nil:
		case held.Aborted == "":
			r.progress.seen = "" // the first check of the files then finds a change
		default:
			r.progress.refuse(p.Name, refusal{
				file: r.version(p.Path, g.Config), why: "its rollout was aborted: " + held.Aborted,
			})
		}
	}
}

// CheckRollouts applies the rules of all rollouts until ctx ends.
func (r *Reloader) CheckRollouts(ctx context.Context) { r.Builder.Calls.Rollouts.Watch(ctx) }
