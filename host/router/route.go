package router

import (
	"slices"
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// target is the tool that the first word of a command names.
type target struct {
	layer           Layer
	namespace, name string
	alias           string            // alias in the command; empty if the command contains the tool's own name
	params          map[string]string // tool parameter for each parameter name of the alias
	convert         Converter         // converter of the alias; nil if the arguments need no conversion
	sig             *tool.Signature   // signature of the tool; nil if resolve did not look it up
}

// resolve returns the tool that the first word names. If the first word is a field namespace, resolve also reads the
// tool name from the next word.
func resolve(first string, rest []word, tools Tools) (t target, known bool) {
	if ns, ok := strings.CutPrefix(first, "field:"); ok {
		return target{layer: Field, namespace: ns}, true
	}
	name, forced := strings.CutPrefix(first, "tool:")
	if server, name, ok := strings.Cut(name, ":"); ok && slices.Contains(tools.Namespaces(), server) &&
		!strings.Contains(name, "/") {
		return target{layer: Field, namespace: server, name: name}, true
	}
	if name == "help" && len(rest) == 0 {
		return target{layer: Agent, name: "help"}, true
	}
	t = target{layer: Agent, name: name}
	if sig, known := tools.Agent(name); known {
		t.sig = &sig
		return t, true
	}
	if ns, to, params, ok := tools.Alias(name); ok {
		t = target{layer: Agent, namespace: ns, name: to, alias: name, params: params}
		_, _, t.convert = tools.Habit(name)
		if ns != "" {
			t.layer = Field
		}
		return t, true
	}
	return t, forced || tools.Absent(name) != ""
}

// toTool routes a simple command to a tool. If the first word does not name a tool, it routes the command to the shell.
func (c *Command) toTool(s *simple, tools Tools, opts Options) *Command {
	first, rest := s.words[0], s.words[1:]
	c.Name, c.Simple = first.text, true
	for _, w := range rest {
		c.Args = append(c.Args, w.text)
	}
	if first.quoted || first.dynamic || strings.Contains(first.text, "/") {
		return c.native(RuleForced, "the first word is quoted, expanded or a path")
	}
	if (first.text == "help" || first.text == "tool:help") && isSearch(rest) {
		return c.search(rest)
	}
	if first.text == "tool:help" && len(rest) == 1 {
		if about := c.helpCommand(rest[0], tools); about != nil {
			return about
		}
	}
	t, known := resolve(first.text, rest, tools)
	if !known {
		if first.text == "help" && len(rest) == 1 && !rest[0].quoted {
			if about := c.helpCommand(rest[0], tools); about != nil {
				return about
			}
			if name := rest[0].text; isName(name) && !slices.Contains(shellTopics, name) {
				return c.refuse(unknownTool(name, tools))
			}
		}
		return c.native(RuleNative, "no tool has that name")
	}
	forced := strings.HasPrefix(first.text, "tool:")
	if t.sig == nil && t.layer == Agent && t.alias == "" { // the command is "help"
		if sig, ok := tools.Agent(t.name); ok {
			t.sig = &sig
		}
	}
	if t.sig != nil && tool.ShellWord(t.name) && !forced {
		return c.native(RuleClash, "only the shell itself can do what its builtin "+t.name+" does")
	}
	if t.sig != nil && t.sig.Program != nil && !forced {
		return c.clash(*t.sig, s, rest, opts)
	}
	c.Layer, c.Alias, c.Rule, c.Reason = t.layer, t.alias, RuleTool, "the first word names a tool"
	switch {
	case t.alias != "":
		c.Reason = "the first word is an alias of " + t.fullName()
	case forced:
		c.Rule, c.Reason = RuleForced, "tool: forces the tool"
	}
	if t.layer == Field {
		return c.toField(t, s, rest, tools)
	}
	c.Name = t.name
	if t.name == "help" {
		c.IsHelp, c.HelpVerbose, c.Rule, c.Reason, c.Name = true, false, RuleHelp, "the command asks for help", ""
		return c
	}
	return c.toAgent(&t, s, rest, tools)
}

// toAgent binds the words of a command to the parameters of an agent tool. If the words do not fit, the model may mean
// a tool of the same name in another agent program. toAgent then tries to convert the parameters of that other tool.
func (c *Command) toAgent(t *target, s *simple, rest []word, tools Tools) *Command {
	if t.sig == nil {
		sig, ok := tools.Agent(t.name)
		if !ok {
			return c.refuse(unknownTool(t.name, tools))
		}
		t.sig = &sig
	}
	sig := *t.sig
	sig.Names = t.params
	before := *c
	if c.bind(sig, s, rest); c.Error == nil {
		if t.convert != nil && !c.IsHelp { // the words can be positional arguments of the other program's tool
			return c.convert(t, c.Kwargs, tools)
		}
		return c
	}
	try := before
	if t.alias != "" {
		if t.convert != nil && try.bindConverted(t, s, rest, tools).Error == nil {
			return &try
		}
		return c
	}
	if _, sig.Names, _ = tools.Habit(t.name); sig.Names != nil && try.bind(sig, s, rest).Error == nil {
		return &try
	}
	return c
}

// shellTopics lists the topics of bash's own builtin "help".
var shellTopics = strings.Fields(`help alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs
disown echo enable eval exec exit export false fc fg for function getopts hash history if jobs kill let local logout mapfile popd printf
pushd pwd read readarray readonly return select set shift shopt source suspend test time times trap true type typeset ulimit umask
unalias unset until variables wait while`)

// helpCommand routes the command "help NAME". If NAME is not a tool, it returns nil. The command then runs in the
// shell, which shows its own help.
func (c *Command) helpCommand(name word, tools Tools) *Command {
	t, known := resolve(name.text, nil, tools)
	if !known || t.name == "help" { // "help help" shows the shell's help
		return nil
	}
	_, ok := tools.Agent(t.name)
	if t.layer == Field {
		_, ok = tools.Field(t.namespace, t.name)
		ok = ok || t.name == "" && slices.Contains(tools.Namespaces(), t.namespace)
	}
	if !ok {
		return nil
	}
	c.Layer, c.Namespace, c.Name, c.Alias = t.layer, t.namespace, t.name, t.alias
	c.IsHelp, c.HelpVerbose, c.Rule, c.Reason = true, true, RuleHelp, "the command asks for help on a tool"
	return c
}

func (t *target) fullName() string {
	if t.namespace != "" {
		return t.namespace + ":" + t.name
	}
	return t.name
}

func (c *Command) toField(t target, s *simple, rest []word, tools Tools) *Command {
	namespace, name := t.namespace, t.name
	c.Namespace, c.Name = namespace, name
	if !slices.Contains(tools.Namespaces(), namespace) {
		c.Name = ""
		return c.refuse(unknownName("field namespace", namespace, tools.Namespaces()))
	}
	if name == "" {
		if len(rest) == 0 || len(rest) == 1 && helpFlag(rest[0]) {
			c.IsHelp, c.HelpVerbose, c.Rule, c.Reason = true, len(rest) == 0 || rest[0].text == "--help", RuleHelp, "the command asks for the tools of the namespace"
			return c
		}
		c.Name, rest = rest[0].text, rest[1:]
		c.Args = c.Args[1:]
	}
	sig, ok := c.fieldTool(tools)
	if !ok {
		return c.refuse(unknownName("tool in the namespace "+namespace, c.Name, tools.FieldNames(namespace)))
	}
	sig.Names = t.params
	return c.bind(sig, s, rest)
}

// fieldTool returns the signature of the tool in the command's namespace. If no name matches exactly, it compares again
// without case, dashes and underscores. If exactly one tool matches this way, fieldTool replaces the name in the
// command with the name of this tool.
func (c *Command) fieldTool(tools Tools) (tool.Signature, bool) {
	sig, ok := tools.Field(c.Namespace, c.Name)
	if ok {
		return sig, true
	}
	found, folded := "", suggest.Fold(c.Name)
	for _, name := range tools.FieldNames(c.Namespace) {
		if suggest.Fold(name) != folded {
			continue
		}
		if found != "" {
			return tool.Signature{}, false
		}
		found = name
	}
	if sig, ok = tools.Field(c.Namespace, found); ok {
		c.Name = found
	}
	return sig, ok
}

// clash routes a command whose name is the name of a tool and of a program.
func (c *Command) clash(sig tool.Signature, s *simple, rest []word, opts Options) *Command {
	opts.alone = len(s.heredocs) == 0 && s.stdin == nil
	words, v := judge(rest, sig, opts)
	most := sig.Program.Operands // a command with more operands always runs the program
	switch {
	case v == refuses:
		c.Layer, c.Rule, c.Reason = Agent, RuleClash, "the native "+c.Name+" would reject these arguments"
		return c.bind(sig, s, words)
	case most == 0 || opts.script:
		return c.native(RuleClash, c.Name+" can do this natively")
	case slices.ContainsFunc(rest, func(w word) bool { return w.dynamic }):
		return c.native(RuleClash, "the shell has to expand its arguments")
	case v == native:
		return c.native(RuleClash, "the tool does not have all of these options")
	}
	try := *c
	try.Layer, try.Rule, try.Reason = Agent, RuleClash, "the arguments fit the tool"
	operands := try.bindWords(sig, s, words)
	if try.IsHelp || try.Error == nil && operands <= most {
		return &try
	}
	return c.native(RuleClash, "some arguments do not fit the tool")
}

// see returns a sentence that names the source of help about the tool. For a command, this is the flag --help.
// A function call has no such flag.
func (c *Command) see() string {
	name := c.Name
	switch {
	case c.Rule == RuleFunction:
		return "see the parameters in the tool's definition"
	case c.Alias != "":
		name = c.Alias
	case c.Namespace != "":
		name = "field:" + c.Namespace + " " + c.Name
	}
	return "see " + name + " --help"
}
