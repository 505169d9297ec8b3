package router

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// Function routes a function call, which consists of a name and named arguments. The name is a tool, an alias,
// "field:NS TOOL", "NS:TOOL", or the shell tool. If the arguments do not fit the agent tool, the model may mean a tool
// of the same name in another agent program. Function then tries to convert the arguments of that other tool.
func Function(name string, arguments json.RawMessage, tools Tools) *Command {
	c := &Command{Layer: Agent, Name: name, Args: []string{}, Kwargs: map[string]json.RawMessage{}, Raw: name,
		Rule: RuleFunction, Reason: "the tool was called by name"}
	if _, ok := tools.Agent(helpName); !ok && name == helpName {
		return c.functionHelp(arguments, tools)
	}
	t := functionTarget(name, tools)
	c.Layer, c.Namespace, c.Name, c.Alias = t.layer, t.namespace, t.name, t.alias
	sig, ok := tools.Agent(t.name)
	if t.layer == Field {
		sig, ok = c.fieldTool(tools)
	}
	switch {
	case ok || t.convert != nil:
		sig.Names = t.params
	case t.layer == Agent:
		return c.refuse(unknownFunction(t.name, arguments, tools))
	case !slices.Contains(tools.Namespaces(), t.namespace):
		return c.refuse(unknownName("field namespace", t.namespace, tools.Namespaces()))
	default:
		return c.refuse(unknownName("tool in the namespace "+t.namespace, t.name, tools.FieldNames(t.namespace)))
	}
	given, err := objectOf(name, arguments)
	if err != nil {
		return c.refuse(err)
	}
	if t.convert != nil {
		return c.convert(&t, maps.Clone(given), tools)
	}
	before := *c
	if c.function(sig, given); c.Error == nil || t.alias != "" || t.layer != Agent {
		return c
	}
	if _, sig.Names, t.convert = tools.Habit(t.name); sig.Names != nil {
		if try := before; try.function(sig, given).Error == nil {
			return &try
		}
	}
	if t.convert != nil {
		if try := before; try.convert(&t, maps.Clone(given), tools).Error == nil {
			return &try
		}
	}
	return c
}

// Line routes the script of a function call of the shell tool if it is a command line that names a tool or asks for
// help. A model that has the tools as functions also writes such lines, and bash would refuse them or call its own
// help. All other commands are returned unchanged.
func (c *Command) Line(tools Tools) *Command {
	if c.Layer != Agent || c.Name != tools.RoleName(tool.RoleShell) || c.Error != nil {
		return c
	}
	for name := range c.Kwargs {
		if name != "command" && name != "description" { // the others are about a process
			return c
		}
	}
	var script string
	if json.Unmarshal(c.Kwargs["command"], &script) != nil {
		return c
	}
	if line := Parse(script, tools, Options{script: true}); line.Layer != Native {
		return line
	}
	return c
}

// helpName is the name of the function that describes the tools. It works even if no tool has this name.
const helpName = "help"

// functionHelp routes a call of the function "help". Without arguments, "help" lists the tools. With one argument, it
// describes the tool that the argument names; the name of the parameter does not matter. With a query, it searches for
// tools.
func (c *Command) functionHelp(arguments json.RawMessage, tools Tools) *Command {
	given, err := objectOf(helpName, arguments)
	if err != nil {
		return c.refuse(err)
	}
	if _, ok := given["query"]; ok {
		return c.searchWith(given)
	}
	c.Name, c.IsHelp, c.HelpVerbose, c.Rule, c.Reason = "", true, len(given) > 0, RuleHelp, "the call asks for help"
	if len(given) == 0 {
		return c
	}
	var name string
	for _, value := range given {
		if json.Unmarshal(value, &name) != nil || len(given) > 1 {
			return c.refuse(tool.Errorf(tool.InvalidArguments, "help takes one argument: name, the name of a tool, as text. Nothing was run."))
		}
	}
	name = strings.TrimSpace(name)
	t := functionTarget(name, tools)
	for _, text := range []string{name, t.command()} {
		if about := c.helpCommand(word{text: text}, tools); about != nil {
			return about
		}
	}
	return c.refuse(unknownName("tool", name, tools.AgentNames()))
}

// command returns the name of the tool in the form for commands.
func (t *target) command() string {
	if t.alias != "" {
		return t.alias
	}
	return t.fullName()
}

// unknownFunction returns an error for a function call of an unknown tool. If a tool has a similar name, the message
// contains the corrected call. The call repeats the given arguments that are parameters of this tool.
func unknownFunction(name string, arguments json.RawMessage, tools Tools) *tool.Error {
	e := unknownTool(name, tools)
	near := suggest.Closest(name, tools.AgentNames(), 1)
	if len(near) == 0 || e.Kind != tool.NotFound {
		return e
	}
	sig, _ := tools.Agent(near[0])
	given, _ := objectOf(name, arguments) // if the arguments are invalid, the corrected call contains placeholders
	args := make(map[string]json.RawMessage)
	for _, p := range sig.Schema.Params() {
		switch v, ok := given[p.Name]; {
		case ok && len(v) <= maxRepeated:
			args[p.Name] = v
		case ok || p.Required:
			args[p.Name] = json.RawMessage(`"…"`)
		}
	}
	call, err := json.Marshal(map[string]any{"name": near[0], "arguments": args})
	if err != nil { // an argument is not valid JSON
		return e
	}
	return tool.Errorf(e.Kind, "%s To call %s: %s", e.Message, near[0], call)
}

// maxRepeated is the maximum length of an argument that a message repeats, in bytes.
const maxRepeated = 100

// objectOf returns the arguments of a function call. Some models send them as a string that contains a JSON object.
func objectOf(name string, arguments json.RawMessage) (map[string]json.RawMessage, *tool.Error) {
	given := make(map[string]json.RawMessage)
	if len(arguments) == 0 || string(arguments) == "null" {
		return given, nil
	}
	if !utf8.Valid(arguments) {
		return nil, tool.Errorf(tool.InvalidArguments, "The arguments of %s are not UTF-8. Send text, or write the bytes with printf.", name)
	}
	err := json.Unmarshal(arguments, &given)
	var text string
	if err != nil && json.Unmarshal(arguments, &text) == nil {
		err = json.Unmarshal([]byte(text), &given)
	}
	if other := new(json.UnmarshalTypeError); errors.As(err, &other) {
		err = fmt.Errorf("they are of the type %s", other.Value)
	}
	if err != nil {
		return nil, tool.Errorf(tool.InvalidArguments, "The arguments of %s are not a JSON object: %w.", name, err)
	}
	return given, nil
}

// function binds the named arguments of a function call.
func (c *Command) function(sig tool.Signature, given map[string]json.RawMessage) *Command {
	b := newBinder("", sig, nil)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if b.dropped(name) {
			continue
		}
		key := name
		if p := b.param(name); p != nil {
			// An exact parameter name takes precedence over a name with different case, dashes or underscores.
			if _, exact := given[p.Name]; !exact {
				key = p.Name
			}
		}
		if _, again := b.out[key]; again {
			b.problems = append(b.problems, fmt.Sprintf("parameter %q is given twice", key))
			continue
		}
		b.out[key] = given[name]
	}
	c.complete(sig, b)
	return c
}

func functionTarget(name string, tools Tools) target {
	if rest, ok := strings.CutPrefix(name, "field:"); ok {
		name = strings.Replace(rest, " ", ":", 1)
	}
	name = strings.TrimPrefix(name, "tool:")
	if ns, short, found := strings.Cut(name, ":"); found {
		return target{layer: Field, namespace: ns, name: short}
	}
	if _, ok := tools.Agent(name); !ok {
		if t, known := resolve(name, nil, tools); known && t.name != "help" {
			return t
		}
		if full := tools.FullName(name); full != "" && full != name {
			return functionTarget("tool:"+full, tools)
		}
		if to, params, convert := tools.Habit(name); to != "" {
			return target{layer: Agent, name: to, alias: name, params: params, convert: convert}
		}
	}
	return target{layer: Agent, name: name}
}

// convert converts the arguments of another program's tool to arguments of the agent tool. It validates the result.
func (c *Command) convert(t *target, given map[string]json.RawMessage, tools Tools) *Command {
	b := newBinder("", tool.Signature{}, nil)
	c.Kwargs = given
	name, args, err := t.convert(given)
	if err != nil {
		b.problems = append(b.problems, err.Error())
		return c.refuse(b.error(cmp.Or(c.Alias, c.Name), c.see()))
	}
	sig, ok := tools.Agent(name)
	if !ok {
		return c.refuse(unknownTool(name, tools))
	}
	c.Name, b.sig, b.out = name, sig, args
	c.complete(sig, b)
	return c
}

// bindConverted handles a command in the form of another program. It binds the words to parameters with arbitrary
// names, and then converts these to arguments of a tool.
func (c *Command) bindConverted(t *target, s *simple, args []word, tools Tools) *Command {
	b := newBinder(c.Raw, tool.Signature{Schema: anything()}, s.heredocs)
	b.words(args)
	b.bindStdin(s.stdin)
	if len(b.problems) > 0 {
		c.Kwargs = b.out
		return c.refuse(b.error(c.Alias, c.see()))
	}
	c.Args = b.positionals()
	return c.convert(t, b.out, tools)
}

// anything returns a schema that accepts all parameters.
var anything = sync.OnceValue(func() *tool.Schema {
	s, err := tool.ParseSchema(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		panic(err) // cannot happen, because the schema is constant
	}
	return s
})
