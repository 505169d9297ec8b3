package generation

import (
	"math"

	"toolhost.dev/host/internal/audit"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
)

// Audit makes the database keep calls as the configuration says. Secrets are masked in all that it keeps, also if nothing
// is audited.
func Audit(cfg *config.Config, db *state.DB) {
	a := cfg.Audit
	m := audit.New(secrets(cfg))
	db.Mask(state.Masking{Command: m.Command, Arguments: m.Arguments})
	if a.Off {
		db.Audit(nil)
		return
	}
	db.Audit(&state.Auditing{Arguments: m.Arguments, Text: m.Text, MaxBytes: int64(min(a.MaxBytes, math.MaxInt64)), MaxAge: a.MaxAge})
}

// secrets returns the secret values that the configuration knows: those that it lists, and the values of a plugin's
// variables whose names say so.
func secrets(cfg *config.Config) []string {
	out := cfg.Audit.Secrets
	for _, p := range cfg.Plugins {
		for name, v := range p.Env {
			if audit.SecretName(name) {
				out = append(out, v)
			}
		}
	}
	return out
}
