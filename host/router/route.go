package router

import (
	"encoding/json"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// clash says what a name means natively, where the system has it too.
type clash struct {
	// refuses reports whether the native program would certainly refuse the arguments.
	refuses func(args []word, opts Options) bool
}

var clashes = map[string]clash{
	// The builtin read takes variable names; anything else is an error there.
	"read": {refuses: func(args []word, opts Options) bool {
		for _, a := range args {
			if longFlag(a) || !isFlag(a) && !isIdentifier(a.text) {
				return true
			}
		}
		return len(args) == 1 && !isFlag(args[0]) && opts.Exists != nil && opts.Exists(args[0].text)
	}},
	// grep refuses a long flag that it does not have.
	"grep": {refuses: func(args []word, _ Options) bool {
		for _, a := range args {
			if longFlag(a) && !gnuGrepFlag(a.bare) {
				return true
			}
			if !a.quoted && a.text == "--" {
				break
			}
		}
		return false
	}},
}

// gnuGrepFlag reports whether GNU grep has the long flag, also abbreviated.
func gnuGrepFlag(flag string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
	for _, f := range []string{
		"extended-regexp", "fixed-strings", "basic-regexp", "perl-regexp", "regexp", "file", "ignore-case", "no-ignore-case",
		"word-regexp", "line-regexp", "null-data", "no-messages", "invert-match", "version", "help", "max-count", "byte-offset",
		"line-number", "line-buffered", "with-filename", "no-filename", "label", "only-matching", "quiet", "silent", "binary-files",
		"text", "directories", "devices", "recursive", "dereference-recursive", "include", "exclude", "exclude-from", "exclude-dir",
		"files-without-match", "files-with-matches", "count", "initial-tab", "null", "before-context", "after-context", "context",
		"color", "colour", "binary",
	} {
		if strings.HasPrefix(f, name) {
			return true
		}
	}
	return false
}

// resolve finds the tool that the first word names. rest is what follows the name;
// for a field namespace the first word of it is the tool.
func resolve(first string, rest []word, tools Tools) (layer Layer, namespace, name string, known bool) {
	if ns, ok := strings.CutPrefix(first, "field:"); ok {
		return Field, ns, "", true
	}
	if name, ok := strings.CutPrefix(first, "tool:"); ok {
		return Agent, "", name, true
	}
	if server, name, ok := strings.Cut(first, ":"); ok && slices.Contains(tools.Namespaces(), server) && !strings.Contains(name, "/") {
		return Field, server, name, true
	}
	if first == "help" && len(rest) == 0 {
		return Agent, "", "help", true
	}
	_, known = tools.Agent(first)
	return Agent, "", first, known
}

// toTool routes a simple command: to the tool it names, or to the shell.
func (c *Command) toTool(s *simple, tools Tools, opts Options) *Command {
	first, rest := s.words[0], s.words[1:]
	c.Name, c.Simple = first.text, true
	for _, w := range rest {
		c.Args = append(c.Args, w.text)
	}
	if first.quoted || first.dynamic || strings.Contains(first.text, "/") {
		return c.native(RuleForced, "its first word is quoted, expanded or a path")
	}
	layer, namespace, name, known := resolve(first.text, rest, tools)
	if !known {
		return c.native(RuleNative, "no tool has that name")
	}
	forced := strings.HasPrefix(first.text, "tool:")
	if cl, ok := clashes[name]; ok && layer == Agent && !forced {
		return c.clash(cl, name, s, rest, tools, opts)
	}
	c.Layer, c.Rule, c.Reason = layer, RuleTool, "its first word names a tool"
	if forced {
		c.Rule, c.Reason = RuleForced, "tool: forces the tool"
	}
	if layer == Field {
		return c.toField(namespace, name, s, rest, tools)
	}
	c.Name = name
	if name == "help" {
		c.IsHelp, c.HelpVerbose, c.Rule, c.Reason, c.Name = true, false, RuleHelp, "it asks for help", ""
		return c
	}
	sig, ok := tools.Agent(name)
	if !ok {
		return c.refuse(unknownName("tool", name, tools.AgentNames()))
	}
	return c.bind(sig, s, rest)
}

func (c *Command) toField(namespace, name string, s *simple, rest []word, tools Tools) *Command {
	c.Namespace, c.Name = namespace, name
	if !slices.Contains(tools.Namespaces(), namespace) {
		c.Name = ""
		return c.refuse(unknownName("field namespace", namespace, tools.Namespaces()))
	}
	if name == "" {
		if len(rest) == 0 || len(rest) == 1 && helpFlag(rest[0]) {
			c.IsHelp, c.HelpVerbose, c.Rule, c.Reason = true, len(rest) == 0 || rest[0].text == "--help", RuleHelp, "it asks what the namespace has"
			return c
		}
		c.Name, rest = rest[0].text, rest[1:]
		c.Args = c.Args[1:]
	}
	sig, ok := tools.Field(namespace, c.Name)
	if !ok {
		return c.refuse(unknownName("tool in the namespace "+namespace, c.Name, tools.FieldNames(namespace)))
	}
	return c.bind(sig, s, rest)
}

// clash routes a name that the system has too.
func (c *Command) clash(cl clash, name string, s *simple, rest []word, tools Tools, opts Options) *Command {
	sig, _ := tools.Agent(name)
	if cl.refuses(rest, opts) {
		c.Layer, c.Rule, c.Reason = Agent, RuleClash, "the native "+name+" would refuse these arguments"
		return c.bind(sig, s, rest)
	}
	if name == "read" {
		return c.native(RuleClash, "read takes variable names natively")
	}
	for _, w := range rest {
		if w.dynamic {
			return c.native(RuleClash, "the shell has to expand its arguments")
		}
	}
	try := *c
	try.Layer, try.Rule, try.Reason = Agent, RuleClash, "its arguments fit the tool"
	if try.bind(sig, s, rest); try.Error == nil && !try.IsHelp && len(rest) > 0 {
		return &try
	}
	return c.native(RuleClash, "its arguments do not all fit the tool")
}

func (c *Command) bind(sig tool.Signature, s *simple, args []word) *Command {
	for _, w := range args {
		if w.text == "--" && !w.quoted {
			break
		}
		if helpFlag(w) && sig.Schema.Param("h") == nil {
			c.IsHelp, c.HelpVerbose, c.Rule, c.Reason = true, w.text == "--help", RuleHelp, "it asks for help"
			return c
		}
	}
	b := newBinder(c.Raw, sig, s.heredocs)
	b.words(args)
	c.settle(sig, b)
	return c
}

// settle completes the bound arguments and gathers everything that is wrong.
func (c *Command) settle(sig tool.Signature, b *binder) {
	c.Kwargs = b.out
	complete, bad := sig.Schema.Check(b.out)
	for _, v := range bad {
		if !b.wrong[v.Param] {
			b.problems = append(b.problems, v.Message)
		}
	}
	if len(b.problems) > 0 {
		c.refuse(tool.Errorf(tool.InvalidArguments, "%s: %s. Nothing was run; see %s --help.", c.Name, strings.Join(b.problems, "; "), c.helpName()))
		return
	}
	c.Arguments = complete
}

// helpName is what to type before --help.
func (c *Command) helpName() string {
	if c.Namespace != "" {
		return "field:" + c.Namespace + " " + c.Name
	}
	return c.Name
}

func helpFlag(w word) bool { return !w.quoted && (w.text == "-h" || w.text == "--help") }

// isFlag reports whether an unquoted word begins like a flag. A negative number is none.
func isFlag(w word) bool {
	if len(w.bare) < 2 || w.bare[0] != '-' {
		return false
	}
	return w.bare[1] < '0' || w.bare[1] > '9'
}

func longFlag(w word) bool { return len(w.bare) > 2 && strings.HasPrefix(w.bare, "--") }

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Function is the entry for function calling: a name with named arguments. The name
// is a tool's, "field:NS TOOL", "NS:TOOL", or the shell's.
func Function(name string, arguments json.RawMessage, tools Tools) *Command {
	c := &Command{Layer: Agent, Name: name, Args: []string{}, Kwargs: map[string]json.RawMessage{}, Raw: name, Rule: RuleFunction, Reason: "it was called by name"}
	if rest, ok := strings.CutPrefix(name, "field:"); ok {
		name = strings.Replace(rest, " ", ":", 1)
	}
	name = strings.TrimPrefix(name, "tool:")
	var sig tool.Signature
	var ok bool
	if ns, short, found := strings.Cut(name, ":"); found {
		c.Layer, c.Namespace, c.Name = Field, ns, short
		if sig, ok = tools.Field(ns, short); !ok {
			if !slices.Contains(tools.Namespaces(), ns) {
				return c.refuse(unknownName("field namespace", ns, tools.Namespaces()))
			}
			return c.refuse(unknownName("tool in the namespace "+ns, short, tools.FieldNames(ns)))
		}
	} else if sig, ok = tools.Agent(name); !ok {
		return c.refuse(unknownName("tool", name, tools.AgentNames()))
	}
	b := newBinder("", sig, nil)
	if len(arguments) == 0 || string(arguments) == "null" {
		c.settle(sig, b)
		return c
	}
	if err := json.Unmarshal(arguments, &c.Kwargs); err != nil {
		// Some models send the arguments object as a string of JSON.
		var text string
		if json.Unmarshal(arguments, &text) != nil || json.Unmarshal([]byte(text), &c.Kwargs) != nil {
			return c.refuse(tool.Errorf(tool.InvalidArguments, "The arguments of %s are not a JSON object: %w.", name, err))
		}
	}
	for given, v := range c.Kwargs {
		if p := b.param(given); p != nil {
			// The exact name wins over one that differs in case, dashes or underscores.
			if _, exact := c.Kwargs[p.Name]; !exact {
				given = p.Name
			}
		}
		b.out[given] = v
	}
	c.settle(sig, b)
	return c
}
