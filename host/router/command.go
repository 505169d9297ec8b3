// Package router parses command strings. [Parse] returns the layer that a command goes to, and its arguments. The
// package runs nothing, and reads only names and schemas.
//
// The rules, in order:
//
//  1. One simple command whose first word is an unquoted name from the registry
//     goes to that tool. It may have heredocs, herestrings and
//     silencing redirects (2>&1, 2>/dev/null, </dev/null).
//  2. Everything else is native: it goes to the shell unchanged. A quoted first word
//     or a path forces native; "tool:NAME" forces the tool.
//  3. A name that the system has too (read, grep) means the tool if the native
//     program would certainly refuse the arguments, or if they bind fully.
//  4. Arguments of a tool are literal: quotes are removed as bash does, and nothing is
//     expanded.
//  5. A heredoc fills the flag directly before it, or else the tool's stdin parameter.
//  6. The tool's schema binds flags and positionals, and all problems are reported at once.
//  7. A likely mistake that bash would ignore silently is refused.
package router

import (
	"encoding/json"

	"toolhost.dev/sdk/tool"
)

// Layer is the destination of a command.
type Layer string

// The layers.
const (
	Agent  Layer = "agent"
	Field  Layer = "field"
	Native Layer = "native"
)

// Rule names the rule that decided a route.
type Rule string

// The rules.
const (
	RuleTool     Rule = "tool"     // 1: a simple command that names a tool
	RuleForced   Rule = "forced"   // 2: tool:NAME, or a quoted or pathed first word
	RuleNative   Rule = "native"   // 2: anything else
	RuleClash    Rule = "clash"    // 3: a name that the system has too
	RuleHelp     Rule = "help"     // the help command, -h or --help
	RuleRefused  Rule = "refused"  // nothing runs; see Error
	RuleFunction Rule = "function" // a name with arguments, not a command string
)

// Command is what a command string means.
type Command struct {
	Layer     Layer  `json:"layer"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Alias is the alias by which the tool was called, or empty.
	Alias string `json:"alias,omitempty"`
	// Args are the words after the name, without quotes.
	Args []string `json:"args"`
	// Kwargs are the bound arguments, in the types of the schema.
	Kwargs      map[string]json.RawMessage `json:"kwargs"`
	Raw         string                     `json:"raw"`
	IsHelp      bool                       `json:"is_help"`
	HelpVerbose bool                       `json:"help_verbose"`
	Error       *tool.Error                `json:"error"`
	// Arguments are Kwargs with the defaults added. They are set only if they are valid.
	Arguments map[string]json.RawMessage `json:"-"`
	// Simple reports whether the command is one simple command.
	Simple bool `json:"-"`
	// Rule and Reason explain the route.
	Rule   Rule   `json:"rule"`
	Reason string `json:"reason"`
}

// Tools is the registry as the router sees it.
type Tools interface {
	// Agent returns the signature of an agent tool.
	Agent(name string) (tool.Signature, bool)
	// AgentNames lists the agent tools, for suggestions.
	AgentNames() []string
	// Alias returns the tool of an alias, and the alias's names of its parameters; see [tool.Signature].
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

// Options of [Parse]. The zero value works.
type Options struct {
	// Exists reports whether a path exists, relative to the directory of the command. It decides only whether
	// "read NAME" means the tool. A nil Exists means that no path exists.
	Exists func(path string) bool
	// Commands reports whether the commands of a script can call tools, as "tool:NAME".
	Commands bool
}
