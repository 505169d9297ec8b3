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
	// Definition is the definition of a tool. [NewTool] infers a nil Input.
	Definition = tool.Definition
	// Traits are promises about a tool, by which the host decides how to treat it.
	Traits = tool.Traits
	// Result is the result of a call.
	Result = tool.Result
	// Attachment is a file or image that belongs to a result.
	Attachment = tool.Attachment
	// Health is the answer to a health check.
	Health = tool.Health
	// Needs are the grants that a plugin needs.
	Needs = tool.Needs
	// Secret is an environment variable that a plugin needs.
	Secret = tool.Secret
)

// The values of the fields of [Needs].
const (
	Optional = tool.Optional
	Required = tool.Required
)

// Errorf returns the error of a failed call. The message should name the problem, then the remedy.
// If the format has a %w, the error wraps its operand.
func Errorf(kind tool.Kind, format string, a ...any) *tool.Error {
	return tool.Errorf(kind, format, a...)
}

// Text returns a result with a text for the model.
func Text(output string) *Result { return &Result{Output: output} }

// Plugin describes one plugin binary. Name, Version, and Tools or Discover are required.
type Plugin struct {
	// Name is the name of the plugin; see [tool.ValidName] for its form.
	Name string
	// Version has the form major.minor.patch.
	Version string
	// MinHostVersion is the lowest host version that the plugin works with. Empty means any.
	MinHostVersion string
	// Tools are the tools of the plugin. It is empty if Discover is set.
	Tools []Tool
	// Needs are the grants that the plugin needs from the operator. The host does not load a
	// plugin that lacks a required grant, and points out grants that it does not need. If Needs is
	// nil, the host loads the plugin whatever it is granted. Needs must not depend on the
	// configuration.
	Needs *Needs
	// Discover returns the tools of a plugin that learns them from elsewhere, in place of Tools.
	// It is called after Config, within the start timeout of the plugin, and again after calls, so
	// it should remember what it found. If the first call fails, the plugin does not start. A tool
	// that a later call does not return can no longer be called.
	Discover func(ctx context.Context) ([]Tool, error)
	// Config handles the operator's config block; see [NewConfig]. The zero Config means that the
	// plugin has no configuration.
	Config Config
	// Health checks a tool, or the plugin if name is empty. A nil Health means always healthy.
	Health func(ctx context.Context, name string) Health
	// Commands is set if the tools start commands. Those may then call the host's tools: see
	// [tool.Call.Commands].
	Commands bool
	// Hook handles events about tools and calls of all plugins, if the operator's configuration
	// lets the plugin serve a hook; see [tool.Hook]. A nil Hook means that it serves none.
	Hook func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)
	// Close is called once before the process ends: when no call is running, or when the host is
	// gone. It may be nil.
	Close func()
	// OneProcessor limits the plugin's Go code to one processor at a time. It suits a plugin whose
	// calls are short and mostly wait for the system: the Go scheduler then need not wake another
	// thread at each step of a call, which saves a sixth of the time of a short call. Calls that
	// wait in the system still wait concurrently.
	OneProcessor bool
}

// Tool is a definition with its handler; see [NewTool].
type Tool struct {
	def tool.Definition
	err error
	run func(ctx context.Context, call *Call) (*Result, error)
}

// NewTool returns a tool with a typed handler. In is a struct whose fields are the parameters.
// Unless def.Input is set, NewTool infers it from In; see [SchemaFor].
//
// Each call of the handler runs in its own goroutine, and several may run at the same time. Its
// context ends when the call is canceled or exceeds its time limit, and the handler should return
// soon after that. An error that it returns becomes the error of the call: see [tool.AsError]. A
// panic fails that call only.
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
			return nil, Errorf(tool.InvalidArguments, "The arguments do not fit the parameters: %w. Correct the arguments.", err)
		}
		return handler(ctx, call, in)
	}}
}

// Setup is what the host passes to the plugin at its start, besides the configuration.
type Setup struct {
	// Roots are all trees that the plugin may access.
	Roots []tool.Root
	// StateDir is the plugin's own directory, which outlives restarts. It is empty if there is none.
	StateDir    string
	HostVersion string
}

// Config handles the plugin's configuration. [NewConfig] makes one.
type Config struct {
	schema json.RawMessage
	err    error
	apply  func(ctx context.Context, raw json.RawMessage, s Setup) error
}

// NewConfig returns a configuration handler. C is a struct, whose schema the host uses to check the
// operator's config block. Then apply is called, once, before the first call. If apply returns a
// [*ConfigError], the host shows it at the operator's line.
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

// ConfigError is an error at one place of the configuration.
type ConfigError struct {
	// Path leads to the value at fault, by attribute names and decimal indices.
	Path []string
	// Summary is one line, and Detail a longer text that may be empty.
	Summary string
	Detail  string
}

// Error returns the summary.
func (e *ConfigError) Error() string { return e.Summary }

// description returns the description of the plugin. It leaves an invalid tool to the host to
// refuse, so that the other tools work; toolErr holds what the host will not notice. The host and
// [New] validate the rest, because at the start of a process that takes longer than most calls.
func (p *Plugin) description() (d *tool.Description, toolErr, err error) {
	var errs []error
	if !tool.ValidName(p.Name) {
		errs = append(errs, fmt.Errorf("invalid plugin name %q; use lower-case letters, digits, '_', '-' and '.', beginning with a letter", p.Name))
	}
	if p.Version == "" {
		errs = append(errs, errors.New("the plugin's version is empty"))
	}
	if p.Config.err != nil {
		errs = append(errs, fmt.Errorf("cannot infer the configuration schema: %w", p.Config.err))
	}
	d = &tool.Description{Name: p.Name, Version: p.Version, MinHostVersion: p.MinHostVersion, ConfigSchema: p.Config.schema, Needs: p.Needs}
	d.Capabilities = append(d.Capabilities, tool.CapabilityCalls) // package toolrpc implements it
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

// definitions returns the definitions of tools, and an error for what the host will not notice.
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
