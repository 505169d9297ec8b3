package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Plugin is a set of tools with a common name and version. Implementations must be safe for concurrent use.
//
// The host calls the methods in this order:
//
//  1. Describe, to get the definitions of the tools.
//  2. Configure, once. If the plugin has [CapabilityDiscovery], the host calls Describe again afterwards.
//  3. Call and Health, any number of times and concurrently.
//  4. Drain, after a newer version has replaced the plugin.
type Plugin interface {
	// Describe returns the plugin's description. The description of a binary never changes, with one exception: after
	// configuration, a plugin with [CapabilityDiscovery] adds its current tools.
	Describe(ctx context.Context) (*Description, error)
	// Configure is called once, before the first Call. If it returns a diagnostic with
	// SeverityError, the plugin must not be used.
	Configure(ctx context.Context, c Configuration) ([]Diagnostic, error)
	// Call runs a tool once. It never returns nil. It reports every failure in Result.Error. After ctx ends, it
	// returns soon.
	Call(ctx context.Context, call *Call, peer Peer) *Result
	// Health checks the tool with the given name. If name is empty, it checks the whole plugin.
	Health(ctx context.Context, name string) (Health, error)
	// Drain makes the plugin refuse new calls. It returns when all running calls have ended. It cancels calls that
	// still run after the duration grace, and returns the number of canceled calls. A grace of 0 means no limit.
	Drain(ctx context.Context, grace time.Duration) (canceled int, err error)
}

// Description describes a plugin and its tools.
type Description struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// MinHostVersion is the lowest version of the host with which the plugin works. An empty MinHostVersion means
	// any version.
	MinHostVersion string `json:"min_host_version,omitempty"`
	// ConfigSchema is the JSON Schema of the plugin's configuration. Nil means that the plugin has
	// no configuration.
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
	Tools        []Definition    `json:"tools"`
	Capabilities []string        `json:"capabilities,omitempty"`
	// Needs lists the grants that the plugin needs. Nil means that the plugin does not declare its needs.
	Needs *Needs `json:"needs,omitempty"`
	// Keeps describes the files that the plugin keeps in its state directory for a time.
	Keeps []Kept `json:"keeps,omitempty"`
	// Items lists what a plugin with [CapabilityRelay] offers besides tools.
	Items []Item `json:"items,omitempty"`
}

// Configuration contains the data that the host passes to a plugin at its start.
type Configuration struct {
	// Config is a JSON object that satisfies [Description.ConfigSchema].
	Config json.RawMessage
	// Roots lists all directory trees that the plugin is allowed to access. The roots of every call are inside these
	// trees.
	Roots []Root
	// StateDir is the plugin's own directory. Its files survive restarts. An empty StateDir means that the plugin has
	// no such directory.
	StateDir string
	// OutputBytes is the maximum total size of the files in the subdirectory "output" of StateDir. Zero means that the
	// plugin chooses the limit.
	OutputBytes int64
	HostVersion string
}

// Severity is the severity of a [Diagnostic].
type Severity int

// The values of [Severity].
const (
	SeverityError Severity = iota + 1
	SeverityWarning
)

// Diagnostic describes a problem in the configuration of a plugin.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	// Path is the path of the invalid value. It consists of attribute names and decimal indices. The host converts it
	// to the operator's file and line.
	Path []string
}

// HealthStatus is the result of a health check.
type HealthStatus string

// The values of [HealthStatus].
const (
	Healthy        HealthStatus = "healthy"
	Unhealthy      HealthStatus = "unhealthy"
	HealthNotFound HealthStatus = "not_found"
	HealthError    HealthStatus = "error"
)

// Health is the result of a health check, with details.
type Health struct {
	Status  HealthStatus    `json:"status"`
	Message string          `json:"message,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}
