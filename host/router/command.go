// Package router parses command strings. [Parse] determines which tool or shell must run a command, and binds its
// arguments. The package runs nothing and reads only the names and schemas of tools.
//
// The rules, in order:
//
//  1. A simple command whose first word is an unquoted name from the registry goes to that tool. It can have
//     heredocs, herestrings and silencing redirects (2>&1, 2>/dev/null, </dev/null).
//  2. Every other command is native and goes to the shell unchanged. A quoted first word or a path forces the
//     shell, and "tool:NAME" forces the tool.
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

// Layer determines who runs a command.
type Layer string

// The layers: agent tools, tools of a field namespace, and the shell.
const (
	Agent  Layer = "agent"
	Field  Layer = "field"
	Native Layer = "native"
)

// Rule is the rule that determined a route.
type Rule string

// The rules. The numbers refer to the list in the package comment.
const (
	RuleTool     Rule = "tool"     // 1: a simple command whose first word is a tool
	RuleForced   Rule = "forced"   // 2: "tool:NAME", or a quoted first word or path
	RuleNative   Rule = "native"   // 2: anything else
	RuleClash    Rule = "clash"    // 3: a tool's name that is also a system command
	RuleHelp     Rule = "help"     // the help command, -h or --help
	RuleRefused  Rule = "refused"  // nothing runs; see Error
	RuleFunction Rule = "function" // a name with arguments, not a command string
)

// Command is the result of parsing a command string.
type Command struct {
	Layer     Layer  `json:"layer"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Alias is the alias in the command. It is empty if the command uses the tool's own name.
	Alias string `json:"alias,omitempty"`
	// Args contains the words after the name, without quotes.
	Args []string `json:"args"`
	// Kwargs contains the bound arguments in the types of the schema.
	Kwargs      map[string]json.RawMessage `json:"kwargs"`
	Raw         string                     `json:"raw"`
	IsHelp      bool                       `json:"is_help"`
	HelpVerbose bool                       `json:"help_verbose"`
	Error       *tool.Error                `json:"error"`
	// Arguments contains Kwargs and the defaults of missing parameters. It is set only if all arguments are valid.
	Arguments map[string]json.RawMessage `json:"-"`
	// Simple reports whether the string is a single simple command.
	Simple bool `json:"-"`
	// Rule and Reason explain the route.
	Rule   Rule   `json:"rule"`
	Reason string `json:"reason"`
}

// Tools is the interface of the tool registry that the router needs.
type Tools interface {
	// Agent returns the signature of an agent tool.
	Agent(name string) (tool.Signature, bool)
	// AgentNames lists the agent tools, for suggestions.
	AgentNames() []string
	// Alias returns the tool of an alias. params maps the alias's parameter names to the tool's; see [tool.Signature].
	Alias(name string) (namespace, target string, params map[string]string, ok bool)
	// Field returns the signature of a tool in a namespace.
	Field(namespace, name string) (tool.Signature, bool)
	// Namespaces lists the field namespaces.
	Namespaces() []string
	// FieldNames lists the tools of a namespace.
	FieldNames(namespace string) []string
}

// MaxCommand limits the length of a command string, in bytes.
const MaxCommand = 32 << 20

// Options are the options of [Parse]. The zero value is ready to use.
type Options struct {
	// Exists reports whether a path exists, relative to the directory of the command. The router uses it only to decide
	// whether "read NAME" means the tool. A nil Exists means that no path exists.
	Exists func(path string) bool
	// Commands reports whether the commands of a script can call tools by the program "tool:NAME".
	Commands bool
}
