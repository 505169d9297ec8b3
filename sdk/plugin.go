package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"toolhost.dev/sdk/tool"
)

// The vocabulary, so that a plugin needs one import. See package tool.
type (
	// Definition says what a tool is. Input is inferred when it is nil.
	Definition = tool.Definition
	// Traits tell the host how it may treat a tool.
	Traits = tool.Traits
	// Result is what a call gives back.
	Result = tool.Result
	// Attachment is a file or image that goes with a result.
	Attachment = tool.Attachment
	// Health is the answer to a health check.
	Health = tool.Health
	// Needs is what a plugin has to be granted.
	Needs = tool.Needs
	// Secret is an environment variable that a plugin has to be given.
	Secret = tool.Secret
)

// How much a plugin needs what its [Needs] name.
const (
	Optional = tool.Optional
	Required = tool.Required
)

// Errorf makes the error of a failed call. The message says what was wrong and
// what to do next; a %w in the format is kept as its cause.
func Errorf(kind tool.Kind, format string, a ...any) *tool.Error {
	return tool.Errorf(kind, format, a...)
}

// Text makes a result with that text for the model.
func Text(output string) *Result { return &Result{Output: output} }

// Plugin is one plugin binary: what it is called and the tools it serves.
type Plugin struct {
	// Name as in [tool.ValidName].
	Name string
	// Version as major.minor.patch.
	Version string
	// MinHostVersion is the lowest host version the plugin works with; empty: any.
	MinHostVersion string
	Tools          []Tool
	// Needs is what the operator has to grant the plugin, which is not loaded without what it
	// requires; grants that it has no need for are pointed out. nil: it does not say, and is
	// loaded whatever it is granted. It must not depend on the configuration.
	Needs *Needs
	// Discover gives the tools of a plugin that learns them from elsewhere, once it is
	// configured. They take the place of Tools, which is empty then. It is called after
	// Config, within the start timeout of the plugin, and again after calls, so it should keep
	// what it knows; an error keeps the plugin from starting the first time. A tool that is gone from
	// a later answer can no longer be called. nil: the tools are Tools.
	Discover func(ctx context.Context) ([]Tool, error)
	// Config handles the operator's config block; see [NewConfig]. nil: there is none.
	Config Config
	// Health reports on a tool, or on the plugin when name is empty. nil: always healthy.
	Health func(ctx context.Context, name string) Health
	// Commands says that the tools start commands, which may call the host's tools: see
	// [Call.Commands].
	Commands bool
	// Hook is told of tools and calls of all plugins, where the operator's configuration has the
	// plugin serve a hook; see [tool.Hook]. nil: it serves none.
	Hook func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)
	// Close is called once before the process ends, when no call runs any more, or
	// when the host is gone. nil: nothing to do.
	Close func()
	// OneProcessor has the plugin's Go code run on one processor at a time, for a plugin
	// whose calls are short and mostly wait for the system. The Go scheduler wakes another
	// thread at each step of a call, in case there is more to do; that it need not takes a
	// sixth off the time of a short call. Calls that wait in the system still do so beside each other.
	OneProcessor bool
}

// Tool is a definition with its handler; see [NewTool].
type Tool struct {
	def tool.Definition
	err error
	run func(ctx context.Context, call *Call) (*Result, error)
}

// NewTool makes a tool of a typed handler. In is a struct whose fields are the
// parameters; def.Input is inferred from it unless it is set. A handler runs in
// its own goroutine, and may run several times at once. Its context ends when the
// call is canceled or its time is over; it should return soon after.
func NewTool[In any](def Definition, handler func(ctx context.Context, call *Call, in In) (*Result, error)) Tool {
	var err error
	if def.Input == nil {
		if def.Input, err = SchemaFor[In](); err != nil {
			err = fmt.Errorf("cannot infer the input schema: %w", err)
		}
	}
	return Tool{def: def, err: err, run: func(ctx context.Context, call *Call) (*Result, error) {
		var in In
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return nil, Errorf(tool.InvalidArguments, "The arguments do not fit: %w", err)
		}
		return handler(ctx, call, in)
	}}
}

// Setup is what the plugin is given at its start, beside its configuration.
type Setup struct {
	// Roots is what the plugin may touch at all.
	Roots []tool.Root
	// StateDir is a directory of the plugin's own, kept across restarts; empty: none.
	StateDir    string
	HostVersion string
}

// Config handles the plugin's configuration; see [NewConfig].
type Config struct {
	schema json.RawMessage
	err    error
	apply  func(ctx context.Context, raw json.RawMessage, s Setup) error
}

// NewConfig makes a configuration handler. C is a struct; its schema is told to
// the host, which checks the operator's config block against it before apply is
// called, once, before the first call. An error of type [ConfigError] is shown at
// the operator's own line.
func NewConfig[C any](apply func(ctx context.Context, c C, s Setup) error) Config {
	schema, err := SchemaFor[C]()
	return Config{schema: schema, err: err, apply: func(ctx context.Context, raw json.RawMessage, s Setup) error {
		var c C
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
		}
		return apply(ctx, c, s)
	}}
}

// ConfigError is a configuration error at a place: attribute names and decimal
// indices that lead to the value at fault.
type ConfigError struct {
	Path    []string
	Summary string
	Detail  string
}

func (e *ConfigError) Error() string { return e.Summary }

// description says what the plugin is. A tool that is not well defined is left to the
// host to refuse, so that it does not take the others down; toolErr says what is wrong that
// the host will not see. The rest is for the host and for [New] to look at: at the start of
// a process it would take longer than most calls.
func (p *Plugin) description() (d *tool.Description, toolErr, err error) {
	var errs []error
	if !tool.ValidName(p.Name) {
		errs = append(errs, fmt.Errorf("the plugin's name %q is not valid", p.Name))
	}
	if p.Version == "" {
		errs = append(errs, errors.New("the plugin's version is empty"))
	}
	if p.Config.err != nil {
		errs = append(errs, fmt.Errorf("cannot infer the configuration schema: %w", p.Config.err))
	}
	d = &tool.Description{Name: p.Name, Version: p.Version, MinHostVersion: p.MinHostVersion, ConfigSchema: p.Config.schema, Needs: p.Needs}
	d.Capabilities = append(d.Capabilities, tool.CapabilityCalls) // package toolrpc has it
	if p.Commands {
		d.Capabilities = append(d.Capabilities, tool.CapabilityCommands)
	}
	if p.Hook != nil {
		d.Capabilities = append(d.Capabilities, tool.CapabilityHooks)
	}
	if p.Discover != nil {
		d.Capabilities = append(d.Capabilities, tool.CapabilityDiscovery)
	}
	d.Tools, toolErr = definitions(p.Tools)
	return d, toolErr, errors.Join(errs...)
}

// definitions returns what the host hears of tools, and what is wrong that it will not see.
func definitions(tools []Tool) (defs []tool.Definition, err error) {
	var errs []error
	seen := make(map[string]bool)
	for _, t := range tools {
		def := t.def
		if def.Category == "" {
			def.Category = tool.CategoryCustom
		}
		err := t.err
		if err == nil && seen[def.Name] {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", def.Name, err))
		}
		seen[def.Name] = true
		defs = append(defs, def)
	}
	return defs, errors.Join(errs...)
}
