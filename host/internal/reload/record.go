package reload

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/state"
)

// LayerAdministration is the layer of those entries in the audit log that record actions of an operator.
const LayerAdministration = "administration"

// tryConfig tries a new configuration before it takes effect. See [generation.Builder.Try].
func (a *attempt) tryConfig(ctx context.Context) error {
	if a.cfg == a.old.Config || a.narrowed || a.culprit() != nil {
		return nil
	}
	var plugins []*generation.Plugin
	for _, s := range a.steps {
		switch {
		case s.err != nil && s.old != nil:
			plugins = append(plugins, s.old)
		case s.next != nil:
			plugins = append(plugins, s.next)
		}
	}
	return a.builder.Try(ctx, a.old.Config, a.cfg, plugins)
}

// record adds a reload to the audit log. It ignores reloads that nobody requested and that changed nothing.
func (r *Reloader) record(a *attempt) {
	changed := a.report.Config.Changed || a.report.Config.Refused != "" || len(a.report.Plugins) > 0
	if a.opts.automatic && !changed {
		return
	}
	did := map[string]any{"config_changed": a.report.Config.Changed}
	if len(a.report.Config.Restricted) > 0 {
		did["restricted"] = a.report.Config.Restricted
	}
	if len(a.increases) > 0 && !a.narrowed && a.report.Config.Changed {
		did["privilege_increases"] = a.increases
	}
	if len(a.opts.Plugins) > 0 {
		did["requested"] = a.opts.Plugins
	}
	plugins := []string{}
	refused := a.report.Config.Refused
	for _, p := range a.report.Plugins {
		plugins = append(plugins, p.Name+" "+p.Outcome)
		refused = cmp.Or(refused, p.Refused)
	}
	if len(plugins) > 0 {
		did["plugins"] = plugins
	}
	r.Audit(a.opts.By, "(reload)", did, refused)
	r.progress.reloaded(refused == "")
}

// Audit adds an action of an operator to the audit log. If the argument "by" is empty, the operator is the user of the
// host. The argument "refused" is the reason why nothing changed, or empty.
func (r *Reloader) Audit(by, what string, arguments map[string]any, refused string) {
	e := Administration(by, what, arguments, refused)
	e.Workspace = r.Builder.Options.Workspace
	r.Builder.State.AddAudit(e)
	// The operator's next look at the log must show the entry. After an error, the entry stays pending, so ignore the
	// error.
	_ = r.Builder.State.Flush()
}

// Administration returns an entry for the audit log about an action of an operator. See [Reloader.Audit].
func Administration(by, what string, arguments map[string]any, refused string) state.AuditEntry {
	args, err := json.Marshal(arguments)
	if err != nil { // impossible for texts and lists of texts
		panic(err)
	}
	e := state.AuditEntry{
		At: time.Now(), Principal: cmp.Or(by, principal.LocalUser().Name), Tool: what, Layer: LayerAdministration,
		Arguments: args,
		Decision:  "allow", Outcome: "success", Error: refused,
	}
	if refused != "" {
		e.Decision, e.Outcome = "deny", "refused"
	}
	return e
}
