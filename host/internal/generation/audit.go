package generation

import (
	"math"
	"slices"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
)

// Audit configures the audit log and the retention of the database. Audit also enables the masking of secrets in all
// other saved data and in the logs of the plugins. This masking does not depend on whether the audit log is enabled.
func Audit(cfg *config.Config, db *state.DB, logs *telemetry.PluginLog) {
	a := cfg.Audit
	db.Retain(state.Retention{Sessions: cfg.Retention.Sessions, History: cfg.Retention.History})
	m := audit.New(secrets(cfg))
	logs.Mask(m.Whole)
	db.Mask(state.Masking{Command: m.Command, Arguments: m.Arguments, JSON: m.JSON, Text: m.Whole})
	if a.Off {
		db.Audit(nil)
		return
	}
	db.Audit(&state.Auditing{
		Entry: m.Entry, Command: m.Command, MaxBytes: int64(min(a.MaxBytes, math.MaxInt64)), MaxAge: a.MaxAge,
		Continue: a.Continue,
	})
}

// secrets returns the secret values in a configuration: the values in the operator's list, the values of
// sensitive variables, and the plugins' environment variables with secret names.
func secrets(cfg *config.Config) []string {
	out := slices.Concat(cfg.Audit.Secrets, cfg.Hidden())
	for _, p := range cfg.Plugins {
		for name, v := range p.Env {
			if audit.SecretName(name) {
				out = append(out, v)
			}
		}
	}
	return out
}
