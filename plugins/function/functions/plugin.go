// Package functions converts definitions for function calling to tools. The definitions have the form that the APIs of
// OpenAI and Anthropic use. A command or an HTTP endpoint carries out the calls.
package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin.
const Version = "0.1.0"

// Config is the configuration of the plugin. It contains the operator's function blocks.
type Config struct {
	Function []Block `json:"function"`
}

// Block is one function block. It contains definitions of functions and the backend that runs them.
type Block struct {
	Definitions any               `json:"definitions,omitempty" jsonschema:"One definition or a list of them, as JSON text or as an object: {type, function: {name, description, parameters}}, {name, description, parameters} or {name, description, input_schema}."`
	Command     []string          `json:"command,omitempty" jsonschema:"The program to run, with its arguments. The program reads the arguments of the call as JSON from standard input."`
	Env         map[string]string `json:"env,omitempty" jsonschema:"Variables to add to the program's environment."`
	Cwd         string            `json:"cwd,omitempty" jsonschema:"The program's working directory. The default is that of the session."`
	URL         string            `json:"url,omitempty" jsonschema:"The HTTP endpoint. {name} in its path or query is replaced by the argument of that name."`
	Method      string            `json:"method,omitempty" enum:"GET,POST,PUT,PATCH,DELETE" jsonschema:"The method of the request. The default is POST."`
	Headers     map[string]string `json:"headers,omitempty" jsonschema:"Headers to send with the request."`
	ReadOnly    bool              `json:"read_only,omitempty" jsonschema:"The functions change nothing, so that a call may be repeated."`
	Concurrent  bool              `json:"concurrent,omitempty" jsonschema:"Calls may run at the same time."`
	Dangerous   bool              `json:"dangerous,omitempty" jsonschema:"Each call needs the user's consent."`
}

// backend runs the functions of a block.
type backend interface {
	// fits returns an error if the backend cannot run functions with the given definition.
	fits(d *definition) error
	call(ctx context.Context, call *sdk.Call, d *definition) (*sdk.Result, error)
}

type plugin struct {
	limit time.Duration
	tools []sdk.Tool
}

// Plugin returns the plugin. The argument "limit" is the timeout of a call.
func Plugin(limit time.Duration, needs *sdk.Needs) sdk.Plugin {
	p := &plugin{limit: limit}
	return sdk.Plugin{
		Name: "function", Version: Version, Needs: needs,
		Config:   sdk.NewConfig(p.configure),
		Discover: func(context.Context) ([]sdk.Tool, error) { return p.tools, nil },
	}
}

func (p *plugin) configure(_ context.Context, c Config, _ sdk.Setup) error {
	taken := make(map[string]string)
	for i, b := range c.Function {
		at := []string{"function", strconv.Itoa(i)}
		fail := func(what, summary, detail string) error {
			path := at
			if what != "" {
				path = append(path, what)
			}
			return &sdk.ConfigError{Path: path, Summary: summary, Detail: detail}
		}
		behind, err := b.backend(fail)
		if err != nil {
			return err
		}
		if b.Definitions == nil {
			return fail("", "The functions are not defined", "Write definitions = \"…\" with their JSON, or file = \"tools.json\".")
		}
		defs, err := parse(b.Definitions)
		if err != nil {
			return fail("definitions", "The definitions cannot be used", err.Error())
		}
		for _, d := range defs {
			if first, ok := taken[d.Name]; ok {
				return fail("definitions", fmt.Sprintf("The functions %q and %q have the same name", d.original, first), "Names are compared in lower case. Rename one of the functions, or put them into two fields.")
			}
			taken[d.Name] = d.original
			if err := behind.fits(d); err != nil {
				return fail("url", fmt.Sprintf("The endpoint does not fit the function %q", d.original), err.Error())
			}
			d.Category, d.DefaultTimeout = tool.CategoryCustom, p.limit
			d.Traits = sdk.Traits{
				ReadOnly: b.ReadOnly, Idempotent: b.ReadOnly, ConcurrencySafe: b.Concurrent, Dangerous: b.Dangerous,
			}
			p.tools = append(p.tools, sdk.NewTool(d.Definition,
				func(ctx context.Context, call *sdk.Call, _ json.RawMessage) (*sdk.Result, error) {
					return behind.call(ctx, call, d)
				}))
		}
	}
	return nil
}

// backend returns the backend of a block, which is a command or an endpoint.
func (b *Block) backend(fail func(what, summary, detail string) error) (backend, error) {
	switch {
	case b.URL != "" && len(b.Command) > 0:
		return nil, fail("url", "Both command and url are set", "Give either command or url.")
	case b.URL != "":
		if len(b.Env) > 0 || b.Cwd != "" {
			return nil, fail("url", "A function with a url cannot have env or cwd", "Remove env and cwd. To send values with each request, set headers.")
		}
		return newEndpoint(b, fail)
	case b.Method != "" || len(b.Headers) > 0:
		return nil, fail("command", "A function with a command cannot have method or headers", "Remove method and headers. To pass values to the program, set env.")
	case len(b.Command) == 0 || b.Command[0] == "":
		return nil, fail("", "Neither command nor url is set", "Write command = [\"program\", \"argument\"] or url = \"https://…\".")
	}
	return newProgram(b, fail)
}
