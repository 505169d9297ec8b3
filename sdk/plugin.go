package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/sdk/store"
	"toolhost.dev/sdk/tool"
)

// These types are aliases of types in package tool. A plugin therefore needs only one import. The documentation of
// their fields is there: go doc toolhost.dev/sdk/tool.Health.
type (
	// Definition is the definition of a tool. If its field Input is nil, [NewTool] infers the input schema. Its fields:
	// [tool.Definition].
	Definition = tool.Definition
	// Traits are promises about a tool. They determine how the host treats the tool. Their fields: [tool.Traits].
	Traits = tool.Traits
	// Result is the result of a call. Its fields: [tool.Result].
	Result = tool.Result
	// Attachment is a file or an image in a result. Its fields: [tool.Attachment].
	Attachment = tool.Attachment
	// Content is one part of a result. Its fields: [tool.Content].
	Content = tool.Content
	// Health is the result of a health check. Its fields: [tool.Health].
	Health = tool.Health
	// Needs are the grants that a plugin needs. Their fields: [tool.Needs].
	Needs = tool.Needs
	// Secret is an environment variable with a secret that a plugin needs. Its fields: [tool.Secret].
	Secret = tool.Secret
)

// The values for the fields of [Needs].
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

// Plugin describes a plugin. The fields Name and Version are required. One of the fields Tools and Discover is also
// required.
type Plugin struct {
	// Name is the name of the plugin; see [tool.ValidName] for its form.
	Name string
	// Version has the form major.minor.patch.
	Version string
	// MinHostVersion is the lowest version of the host with which the plugin works. An empty MinHostVersion means
	// any version.
	MinHostVersion string
	// Tools lists the tools of the plugin. It must be empty if Discover is set.
	Tools []Tool
	// Needs lists the grants that the plugin needs from the operator. If a required grant is missing, the host does not
	// load the plugin. The host also reports grants that the plugin does not need. If Needs is nil, the host loads the
	// plugin with any grants. Needs must not depend on the configuration.
	Needs *Needs
	// Discover returns the tools of a plugin whose tools depend on another system. A plugin sets either Discover or
	// Tools. The host calls Discover after Config, within the start timeout of the plugin, and again after calls.
	// Therefore Discover should cache its results. If the first call of Discover fails, the plugin does not start. A
	// tool that a later call of Discover does not return can no longer be called.
	Discover func(ctx context.Context) ([]Tool, error)
	// Config handles the config block that the operator writes; see [NewConfig]. The zero Config means that the plugin
	// has no configuration.
	Config Config
	// Keeps describes the files that the plugin keeps in its state directory for a time, so that the operator's
	// retention applies to them.
	Keeps []tool.Kept
	// Health checks the tool with the given name. If name is empty, it checks the whole plugin. A nil Health means
	// that the plugin is always healthy.
	Health func(ctx context.Context, name string) Health
	// Commands must be true if the tools start commands. Such commands can call the host's tools; see
	// [tool.Call.Commands].
	Commands bool
	// Hook handles events about tools and calls of all plugins; see [tool.Hook]. The operator's configuration selects
	// the hooks that the plugin serves. A nil Hook means that the plugin cannot serve hooks.
	Hook func(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error)
	// Invalidate receives reports of changed files in roots with [tool.Root.Reported]; see [tool.Invalidator]. A plugin
	// that caches information about files must set Invalidate. A nil Invalidate means that the plugin receives no
	// reports.
	Invalidate func(ctx context.Context, i tool.Invalidation) error
	// Prompts and Resources are offered to MCP clients.
	Prompts   []Prompt
	Resources []Resource
	// Relay replaces Prompts and Resources if the plugin changes its prompts or resources at run time, or if it offers
	// subscriptions or logs. A nil Relay means that the plugin offers only its tools, prompts and resources.
	Relay *Relay
	// Close is called once before the process ends. If the host still exists, no call is running at that time. Close
	// can be nil.
	Close func()
	// OneProcessor limits the plugin's Go code to one processor at a time. It suits plugins whose calls are short
	// and mostly wait for the system. The Go scheduler then does not need to wake another thread at each step of a
	// call, which saves a sixth of the time of a short call. Calls can still wait concurrently.
	OneProcessor bool
}

// Tool is a definition together with its handler; see [NewTool].
type Tool struct {
	def tool.Definition
	err error
	run func(ctx context.Context, call *Call) (*Result, error)
}

// Name returns the name of the tool.
func (t Tool) Name() string { return t.def.Name }

// Named returns the tool under another name. A plugin can thus serve tools of a library under names of its own.
func (t Tool) Named(name string) Tool {
	t.def.Name = name
	return t
}

// NewTool returns a tool with a typed handler. In is a struct whose fields are the parameters. If def.Input is nil,
// NewTool infers the input schema from In; see [SchemaFor].
//
// If Out is *Result, the handler builds the result itself. Any other Out is the structured data of the result. It must
// be a struct, a map, or a [Reply] that holds a struct or a map. If def.Output is nil, NewTool infers the output schema
// from Out. The text of the result is the String method of the data, or its JSON.
//
// Each call of the handler runs in its own goroutine. Several calls can run at the same time. The context of a call
// ends when the call is canceled or exceeds its time limit. The handler should return soon after the end of the
// context. An error returned by the handler becomes the error of the call; see [tool.AsError]. If the handler
// panics, only its call fails.
func NewTool[In, Out any](def Definition, handler func(ctx context.Context, call *Call, in In) (Out, error)) Tool {
	var errs []error
	if def.Input == nil {
		schema, err := SchemaFor[In]()
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot infer the input schema: %w", err))
		}
		def.Input = schema
	}
	if def.Output == nil {
		schema, err := outputSchema[Out]()
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot infer the output schema: %w", err))
		}
		def.Output = schema
	}
	return Tool{def: def, err: errors.Join(errs...), run: func(ctx context.Context, call *Call) (*Result, error) {
		var in In
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return nil, Errorf(tool.InvalidArguments, "The arguments do not fit the parameters: %w. Correct the arguments.", err)
		}
		out, err := handler(ctx, call, in)
		return resultOf(out, err)
	}}
}

// Setup holds the data that the host passes to the plugin at its start, in addition to the configuration.
type Setup struct {
	// Roots lists all directory trees that the plugin is allowed to access.
	Roots []tool.Root
	// StateDir is the plugin's own directory. Files in it survive restarts. An empty StateDir means that the plugin
	// has no directory.
	StateDir string
	// OutputBytes is the maximum total size of the files in the subdirectory "output" of StateDir. Zero means that the
	// plugin chooses the limit.
	OutputBytes int64
	HostVersion string
}

// Store returns the plugin's persistent values; see package [store]. It returns an error if the plugin has no state
// directory.
func (s Setup) Store() (*store.Store, error) { return openStore(s.StateDir) }

// Config handles the plugin's configuration. Use [NewConfig] to create one.
type Config struct {
	schema json.RawMessage
	err    error
	apply  func(ctx context.Context, raw json.RawMessage, s Setup) error
}

// NewConfig returns a configuration handler. C is a struct. The host checks the operator's config block against the
// schema of C and fills in the defaults. Then apply is called once, before the first call. If apply returns a
// [*ConfigError], the host displays the error with the operator's line.
func NewConfig[C any](apply func(ctx context.Context, c C, s Setup) error) Config {
	schema, err := SchemaFor[C]()
	return Config{schema: schema, err: err, apply: func(ctx context.Context, raw json.RawMessage, s Setup) error {
		raw, err := complete(schema, raw)
		if err != nil {
			return err
		}
		var c C
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		return apply(ctx, c, s)
	}}
}

// complete checks a configuration against its schema and fills in the defaults. Current hosts do the same. Old hosts do
// not fill in the defaults.
func complete(schema, raw json.RawMessage) (json.RawMessage, error) {
	values := make(map[string]json.RawMessage)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &values); err != nil {
			return nil, fmt.Errorf("the configuration is not a JSON object: %w", err)
		}
	}
	s, err := tool.ParseSchema(schema)
	if err != nil {
		return nil, err
	}
	filled, bad := s.Check(values)
	if len(bad) > 0 {
		e := &ConfigError{Summary: strings.ReplaceAll(bad[0].Message, "parameter", "attribute")}
		if bad[0].Param != "" {
			e.Path = []string{bad[0].Param}
		}
		return nil, e
	}
	return json.Marshal(filled)
}

// ConfigError is an error in one value of the configuration.
type ConfigError struct {
	// Path is the path of the invalid value. It consists of attribute names and decimal indices.
	Path []string
	// Summary is one line of text. Detail is a longer text and can be empty.
	Summary string
	Detail  string
}

// Error returns the summary.
func (e *ConfigError) Error() string { return e.Summary }

// description returns the description of the plugin. It includes tools with an invalid definition: the host refuses
// these tools and can still use the others. The result "toolErr" joins problems of tools. It contains only problems
// that the host cannot detect. The host and [New] validate everything else, because validation at the start of a
// process takes longer than most calls.
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
	d = &tool.Description{Name: p.Name, Version: p.Version, MinHostVersion: p.MinHostVersion,
		ConfigSchema: p.Config.schema, Needs: p.Needs, Keeps: p.Keeps}
	d.Capabilities = append(d.Capabilities, tool.CapabilityCalls) // package toolrpc implements this capability for every plugin
	if p.Commands {
		d.Capabilities = append(d.Capabilities, tool.CapabilityCommands)
	}
	if p.Hook != nil {
		d.Capabilities = append(d.Capabilities, tool.CapabilityHooks)
	}
	if p.Invalidate != nil {
		d.Capabilities = append(d.Capabilities, tool.CapabilityInvalidate)
	}
	if p.Discover != nil {
		d.Capabilities = append(d.Capabilities, tool.CapabilityDiscovery)
	}
	if p.Relay != nil {
		d.Capabilities = append(d.Capabilities, tool.CapabilityRelay)
		if (p.Discover == nil || p.offers()) && p.Relay.Items != nil { // otherwise the items are known only after Discover has run
			d.Items = p.Relay.Items()
		}
	}
	d.Tools, toolErr = definitions(p.Tools)
	return d, toolErr, errors.Join(errs...)
}

// definitions returns the definitions of tools. The error contains only the problems that the host cannot detect.
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
