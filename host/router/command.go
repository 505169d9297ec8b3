// Package router parses command strings. [Parse] determines which tool or shell must run a command, and binds its
// arguments. The package runs nothing and reads only the names and schemas of tools.
//
// The rules, in order:
//
//  1. A simple command whose first word is an unquoted name from the registry goes to that tool. It can have
//     heredocs, herestrings and silencing redirects (2>&1, 2>/dev/null, </dev/null).
//  2. Every other command is native and goes to the shell unchanged. A quoted first word or a path forces the
//     shell, and "tool:NAME" forces the tool. A text that only bash can read goes to the shell in braces, so that nothing
//     runs after a syntax error.
//  3. If a tool's name is also a system command (read, grep), the name means the tool in two cases: the system
//     command would certainly refuse the arguments, or all arguments can be bound to the tool.
//  4. Arguments of a tool are literal. Quotes are removed as in bash, but nothing is expanded.
//  5. A heredoc is the value of the flag directly before it, otherwise of the tool's stdin parameter.
//  6. Flags and positional arguments are bound by the tool's schema. All problems are reported together.
//  7. A likely mistake that bash would silently ignore is refused.
package router

import (
	"encoding/json"

	"toolhost.dev/sdk/tool"
)

// Layer is the part of the host that runs a command.
type Layer string

// These are the layers: agent tools, tools in a field namespace, and the shell.
const (
	Agent  Layer = "agent"
	Field  Layer = "field"
	Native Layer = "native"
)

// Rule is the rule that determined the route of a command.
type Rule string

// These are the rules for routes. The numbers refer to the list in the package comment.
const (
	RuleTool     Rule = "tool"     // rule 1: the first word of a simple command is a tool
	RuleForced   Rule = "forced"   // rule 2: the command begins with "tool:NAME", a quoted word or a path
	RuleNative   Rule = "native"   // rule 2: any other command
	RuleClash    Rule = "clash"    // rule 3: the name of the tool is also a system command
	RuleHelp     Rule = "help"     // the command requests help: "help", "-h" or "--help"
	RuleRefused  Rule = "refused"  // nothing runs; the field Error contains the reason
	RuleFunction Rule = "function" // a function call with a name and arguments, without a command string
)

// Command is the result of parsing a command string.
type Command struct {
	Layer     Layer  `json:"layer"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Alias is the alias in the command, or empty if the command contains the tool's own name.
	Alias string `json:"alias,omitempty"`
	// Args contains the positional arguments of a tool, without quotes. For a native or refused command, it contains
	// all words after the name.
	Args []string `json:"args"`
	// Kwargs contains the bound arguments in the types that the schema requires.
	Kwargs      map[string]json.RawMessage `json:"kwargs"`
	Raw         string                     `json:"raw"`
	IsHelp      bool                       `json:"is_help"`
	HelpVerbose bool                       `json:"help_verbose"`
	// Search is a search for tools. It is nil for all other commands.
	Search *Search     `json:"search,omitempty"`
	Error  *tool.Error `json:"error"`
	// Arguments contains Kwargs, and default values for the missing parameters. It is set only if all arguments are
	// valid.
	Arguments map[string]json.RawMessage `json:"-"`
	// Simple reports whether the string consists of one simple command.
	Simple bool `json:"-"`
	// Rule is the rule that determined the route. Reason explains the route.
	Rule   Rule   `json:"rule"`
	Reason string `json:"reason"`
}

// Tools is the interface of the tool registry that the router needs.
type Tools interface {
	// Agent returns the signature of an agent tool.
	Agent(name string) (tool.Signature, bool)
	// RoleName returns the full name of the tool with a role. It returns "" if no tool has the role.
	RoleName(role tool.Role) string
	// AgentNames lists the agent tools, for suggestions.
	AgentNames() []string
	// Absent returns advice on enabling a tool that the configuration does not use. It returns "" for other names.
	Absent(name string) (advice string)
	// Alias returns the tool to which an alias refers. The result "params" maps parameter names of the alias to
	// parameter names of the tool; see [tool.Signature].
	Alias(name string) (namespace, target string, params map[string]string, ok bool)
	// Habit handles the name of a function that models know from another agent program. The result "target" is the
	// corresponding agent tool, or "" if the name is unknown. The result "params" contains additional parameter names.
	// The result "convert" converts the arguments. A nil convert means that the arguments need no conversion.
	Habit(name string) (target string, params map[string]string, convert Converter)
	// FullName returns the full name of the tool whose definition has the given function name, or "" for other names.
	FullName(function string) string
	// Field returns the signature of a tool in a namespace.
	Field(namespace, name string) (tool.Signature, bool)
	// Namespaces lists the field namespaces.
	Namespaces() []string
	// FieldNames lists the tools of a namespace.
	FieldNames(namespace string) []string
}

// Converter converts the arguments of a habit (see [Tools]) to arguments of an agent tool. The result can be a call of
// another agent tool, depending on the arguments. A Converter does not change args. The error describes arguments that
// cannot be converted.
type Converter = func(args map[string]json.RawMessage) (tool string, out map[string]json.RawMessage, err error)

// MaxCommand limits the length of a command string, in bytes.
const MaxCommand = 32 << 20

// Options contains the options of [Parse]. The zero value is ready to use.
type Options struct {
	// Exists reports whether a path exists. Relative paths are relative to the directory of the command. The router
	// uses Exists only to decide whether "bash NAME" runs a script. A nil Exists means that no path exists.
	Exists func(path string) bool
	// alone reports whether the command is the only one in its script and has no input.
	alone bool
	// script reports whether the command is a script for bash. A tool then runs only where bash refuses the
	// arguments.
	script bool
	// Commands reports whether commands in a script can call a tool as the program "tool:NAME".
	Commands bool
}

// FirstWord returns the name of the command. If the command has no name, FirstWord returns the whole command string.
func (c *Command) FirstWord() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Raw
}
