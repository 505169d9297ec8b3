package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Plugin is a set of tools under one name and version. Implementations are safe for concurrent use.
//
// The host uses a plugin in this order:
//
//  1. Describe, to learn the tools.
//  2. Configure, once. Plugins with [CapabilityDiscovery] are described again after that.
//  3. Call and Health, any number of times and concurrently.
//  4. Drain, when a newer version has replaced the plugin.
type Plugin interface {
	// Describe returns the plugin's description. The same binary always returns the same, except
	// that a plugin with [CapabilityDiscovery] adds its current tools once it is configured.
	Describe(ctx context.Context) (*Description, error)
	// Configure is called once, before the first Call. If it returns a diagnostic with
	// SeverityError, the plugin must not be used.
	Configure(ctx context.Context, c Configuration) ([]Diagnostic, error)
	// Call runs one tool once. It never returns nil, and reports every failure in Result.Error. It
	// returns soon after ctx ends.
	Call(ctx context.Context, call *Call, peer Peer) *Result
	// Health checks one tool, or the whole plugin if name is empty.
	Health(ctx context.Context, name string) (Health, error)
	// Drain refuses new calls and returns when the running ones have ended. It cancels the calls
	// that still run after grace, and returns their number. A grace of 0 means no limit.
	Drain(ctx context.Context, grace time.Duration) (canceled int, err error)
}

// Description is a plugin's own description.
type Description struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// MinHostVersion is the lowest host version that the plugin works with. Empty means any.
	MinHostVersion string `json:"min_host_version,omitempty"`
	// ConfigSchema is the JSON Schema of the plugin's configuration. Nil means that the plugin has
	// no configuration.
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
	Tools        []Definition    `json:"tools"`
	Capabilities []string        `json:"capabilities,omitempty"`
	// Needs are the grants that the plugin needs. Nil means that it declares none.
	Needs *Needs `json:"needs,omitempty"`
}

// Configuration is what the host passes to a plugin at its start.
type Configuration struct {
	// Config is a JSON object that satisfies [Description.ConfigSchema].
	Config json.RawMessage
	// Roots are all trees that the plugin may access. The roots of a call lie within these.
	Roots []Root
	// StateDir is the plugin's own directory, which outlives restarts. It is empty if there is none.
	StateDir    string
	HostVersion string
}

// Severity of a [Diagnostic].
type Severity int

// The severities.
const (
	SeverityError Severity = iota + 1
	SeverityWarning
)

// Diagnostic is a problem that a plugin finds in its configuration.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	// Path leads to the value at fault, by attribute names and decimal indices. The host maps it
	// to the operator's file and line.
	Path []string
}

// HealthStatus is the outcome of a health check.
type HealthStatus string

// The health states.
const (
	Healthy        HealthStatus = "healthy"
	Unhealthy      HealthStatus = "unhealthy"
	HealthNotFound HealthStatus = "not_found"
	HealthError    HealthStatus = "error"
)

// Health is the answer to a health check.
type Health struct {
	Status  HealthStatus    `json:"status"`
	Message string          `json:"message,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}
