// Package router says what a command string means: which of the three layers it
// goes to, and with which arguments. It runs nothing and looks nothing up but
// names and schemas.
//
// The rules, in order:
//
//  1. One simple command whose first word is an unquoted name that the registry
//     knows goes to that tool. Of redirects it may have heredocs, herestrings and
//     those that only silence (2>&1, 2>/dev/null, </dev/null).
//  2. Everything else is native: it goes to the shell as it stands. A quoted or
//     pathed first word forces native; "tool:NAME" forces the tool.
//  3. A name that the system has too (read, grep) is the tool's when the native
//     program would certainly refuse the arguments, or when they bind fully.
//  4. Arguments of a tool are literal: quotes are removed as bash does, nothing is
//     ever expanded.
//  5. A heredoc fills the flag directly before it, else the tool's stdin parameter.
//  6. Flags and positionals are bound by the tool's schema, and every problem is reported at once.
//  7. What looks like a slip that bash would swallow silently is refused.
package router

import (
	"encoding/json"

	"toolhost.dev/sdk/tool"
)

// Layer is where a command goes.
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
	// Alias is the name by which the tool was called, when that is not its own.
	Alias string `json:"alias,omitempty"`
	// Args are the words after the name, quotes removed.
	Args []string `json:"args"`
	// Kwargs are the bound arguments, of the types the schema wants.
	Kwargs      map[string]json.RawMessage `json:"kwargs"`
	Raw         string                     `json:"raw"`
	IsHelp      bool                       `json:"is_help"`
	HelpVerbose bool                       `json:"help_verbose"`
	Error       *tool.Error                `json:"error"`
	// Arguments are Kwargs with the defaults filled in; set only when they are valid.
	Arguments map[string]json.RawMessage `json:"-"`
	// Simple: it is one simple command.
	Simple bool `json:"-"`
	// Rule and Reason say why.
	Rule   Rule   `json:"rule"`
	Reason string `json:"reason"`
}

// Tools is the registry as the router sees it.
type Tools interface {
	// Agent gives an agent tool's signature.
	Agent(name string) (tool.Signature, bool)
	// AgentNames lists the agent tools, for suggestions.
	AgentNames() []string
	// Alias gives the tool that another name stands for, and its parameters' further names;
	// see [tool.Signature].
	Alias(name string) (namespace, target string, params map[string]string, ok bool)
	// Field gives the signature of a tool in a namespace.
	Field(namespace, name string) (tool.Signature, bool)
	// Namespaces lists the field namespaces.
	Namespaces() []string
	// FieldNames lists the tools of a namespace.
	FieldNames(namespace string) []string
}

// MaxCommand bounds a command string, in bytes.
const MaxCommand = 32 << 20

// Options of a parse; the zero value works.
type Options struct {
	// Exists reports whether a path names an existing file, seen from where the
	// command would run. It decides only whether "read NAME" means the tool. nil: never.
	Exists func(path string) bool
	// Commands: the commands of a script can call tools, as "tool:NAME".
	Commands bool
}
