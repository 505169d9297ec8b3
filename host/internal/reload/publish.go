package reload

import (
	"cmp"
	"context"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
)

// publish builds the next generation from the successful steps and makes it the current generation. New
// calls use the new generation. Replaced plugins stop after their last call.
func (a *attempt) publish(ctx context.Context) {
	r := a.reloader
	g := a.assemble(ctx)
	configured := a.cfg != a.old.Config
	if configured {
		a.report.Config.Changed = true
		if !a.narrowed {
			a.acceptConfig()
		}
		r.warn(a.cfg)
		generation.Audit(a.cfg, a.builder.State, a.builder.Logs)
		a.builder.Calls.Scheduler.SetMaxParallel(a.cfg.Host.MaxParallel)
		if r.OnConfig != nil {
			r.OnConfig(a.cfg.Host.LogLevel)
		}
	}
	if a.cfg.Host.StateDir != a.old.Config.Host.StateDir && !r.FixedStateDir {
		g.Problemf("A running host keeps its state directory: state_dir takes effect at the next start.")
	}
	a.report.Problems = g.Problems
	r.install(g)
	if configured {
		r.Published(a.cfg)
	}
	for _, s := range a.steps {
		a.conclude(s)
		a.concludeRollout(s)
		if s.old != nil && s.next != s.old {
			s.old.Process.Retire()
		}
	}
	if configured || slices.ContainsFunc(a.steps, func(s *step) bool { return s.next != s.old }) {
		r.keepApplied(g)
		r.Builder.KeepVersions(a.cfg, g.Plugins)
	}
	if configured {
		r.keepServed(g, cmp.Or(a.opts.By, principal.LocalUser().Name))
	}
	r.announce(a.old, g)
}

// assemble builds the next generation. If only the binary of a plugin changed, a failure of the plugin
// rejects only the new binary. Any other failure rejects the whole configuration. Only the restrictions in that
// configuration then apply.
func (a *attempt) assemble(ctx context.Context) *generation.Generation {
	for {
		if a.cfg != a.old.Config && !a.narrowed {
			if s := a.culprit(); s != nil {
				a.rollBack(ctx, s.err)
			}
		}
		var plugins []*generation.Plugin
		for _, s := range a.steps {
			switch {
			case s.err == nil:
			case a.narrowed && s.configured && s.tried():
				s.withoutRights()
			default:
				s.discard()
			}
			if s.next != nil {
				plugins = append(plugins, s.next)
			}
		}
		g, refused, err := a.builder.Assemble(a.cfg, a.launcher, plugins)
		if err != nil && a.cfg != a.old.Config && !a.narrowed {
			a.rollBack(ctx, err)
			continue
		}
		if err != nil { // a rule names tools that no longer exist
			g.Problemf("%v", err)
		}
		again := false
		for _, s := range a.steps {
			if err := refused[s.name]; err != nil && s.next != s.old {
				s.err, again = err, true
			}
		}
		if !again {
			return g
		}
	}
}

// culprit returns the first failed step of a plugin with a changed configuration. It returns nil if no such
// step failed.
func (a *attempt) culprit() *step {
	for _, s := range a.steps {
		if s.configured && s.err != nil {
			return s
		}
	}
	return nil
}

// conclude adds the outcome of a step to the report. If the plugin was rejected, it records the rejection.
func (a *attempt) conclude(s *step) {
	r := a.reloader
	p := PluginReport{Name: s.name, Changes: s.changes, From: reportedVersion(s.old), To: reportedVersion(s.next)}
	switch {
	case s.err != nil:
		p.Outcome, p.Refused, p.To = Refused, refusalText(s.err), ""
		r.progress.refuse(s.name, refusal{file: s.file, why: p.Refused})
		r.Log.Warn("a plugin is not replaced", "plugin", s.name, "why", p.Refused)
	case s.next == s.old:
		return
	case s.next == nil:
		p.Outcome = Removed
	case s.old == nil:
		p.Outcome = Added
	default:
		p.Outcome = Swapped
		p.Draining = s.old.Process.Users()
	}
	if s.err == nil {
		r.progress.forgive(s.name)
		r.Log.Info("plugin "+p.Outcome, "plugin", s.name, "from", p.From, "to", p.To,
			"calls on the old one", p.Draining)
	}
	a.report.Plugins = append(a.report.Plugins, p)
}

// reportedVersion returns the version that a plugin reports. It returns "" if the version is unknown.
func reportedVersion(p *generation.Plugin) string {
	if p == nil || p.Description() == nil {
		return ""
	}
	return p.Description().Version
}

func refusalText(err error) string { return tool.AsError(err).Message }
