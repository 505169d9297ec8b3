package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Plugin is a set of tools under one name and version. Implementations are safe
// for concurrent use.
type Plugin interface {
	// Describe is pure: the same binary answers the same. One with [CapabilityDiscovery] may
	// answer otherwise once it is configured: with its tools, as they are then.
	Describe(ctx context.Context) (*Description, error)
	// Configure is called once, before the first Call. Diagnostics with
	// SeverityError mean that the plugin must not be used.
	Configure(ctx context.Context, c Configuration) ([]Diagnostic, error)
	// Call runs one tool once. It never returns nil; a failure of any kind is in
	// Result.Error. It returns soon after ctx ends.
	Call(ctx context.Context, call *Call, peer Peer) *Result
	// Health reports on one tool, or on the whole plugin when name is empty.
	Health(ctx context.Context, name string) (Health, error)
	// Drain refuses new calls and returns when the running ones have ended. Calls
	// still running after grace (0: no limit) are canceled and counted.
	Drain(ctx context.Context, grace time.Duration) (canceled int, err error)
}

// Description is what a plugin says of itself.
type Description struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// MinHostVersion is the lowest host version the plugin works with; empty: any.
	MinHostVersion string `json:"min_host_version,omitempty"`
	// ConfigSchema is the JSON Schema of the plugin's configuration; nil: it takes none.
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
	Tools        []Definition    `json:"tools"`
	Capabilities []string        `json:"capabilities,omitempty"`
	// Needs is what the plugin has to be granted; nil: it does not say.
	Needs *Needs `json:"needs,omitempty"`
}

// Configuration is what a plugin is given at its start.
type Configuration struct {
	// Config is a JSON object that satisfies Description.ConfigSchema.
	Config json.RawMessage
	// Roots is what the plugin may touch at all; the roots of a call are within these.
	Roots []Root
	// StateDir is a directory of the plugin's own, kept across restarts; empty: none.
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

// Diagnostic is what a plugin has to say about its configuration.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	// Path leads to the value at fault: attribute names and decimal indices. The
	// host maps it to the operator's file and line.
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
