package tool

import (
	"slices"
	"strings"
)

// Program describes the program of the shell that has the same name as the tool. A command with that name runs the tool
// if the program would refuse the command, or if the tool does the same as the program. Otherwise it runs the program.
type Program struct {
	// Operands is the maximum number of operands. With more, the program runs. The first operand is the value of the
	// parameter First, unless an option sets it.
	Operands int    `json:"operands,omitempty"`
	First    string `json:"first,omitempty"`
	// Options maps the names of options, without dashes, to arguments. With any other option of the program, the
	// program runs.
	Options map[string]ProgramOption `json:"options,omitempty"`
	// Others lists the options that only the program has. If it is not empty, the program refuses all options that
	// neither it nor Options contains, and the tool runs. If it is empty, only an option with the name of a parameter
	// runs the tool.
	Others []string `json:"others,omitempty"`
	// Operand is the form of the program's operands. The program refuses others, and the tool runs.
	Operand Operand `json:"operand,omitempty"`
	// Number is the name of the option for which an option such as -3 stands.
	Number string `json:"number,omitempty"`
	// Otherwise is an argument such as "dialect=bre" that the tool gets if the command has an option of the program, or
	// if the value of First contains one of the characters in Special, and no option sets the parameter.
	Otherwise string `json:"otherwise,omitempty"`
	Special   string `json:"special,omitempty"`
}

// Operand is the form of the operands of a [Program]. An unknown form is treated as [OperandAny].
type Operand string

// The values of [Operand].
const (
	OperandAny Operand = ""
	// OperandVariable is the name of a variable that the program sets from its input. Without input, a command with at
	// most one operand runs the tool.
	OperandVariable Operand = "variable"
	// OperandScript is the file of a script. It contains no blanks, or it exists. All that follows it is for the
	// script.
	OperandScript Operand = "script"
)

// historicPrograms has the programs of tools whose plugins describe none, by name. Before tools described programs,
// hosts knew these.
var historicPrograms = map[string]*Program{
	"grep": {Operands: 2}, "read": {Operand: OperandVariable}, "bash": {Operand: OperandScript},
}

// shellWords are the builtins of bash that change the shell itself or run what their arguments name. A tool, which runs
// in a process of its own, cannot do the same.
var shellWords = strings.Fields(`cd pushd popd export unset set alias unalias declare typeset readonly trap umask ulimit shopt enable
	exec eval command builtin source`)

// ShellWord reports whether a name is a builtin of the shell that no tool replaces. A command line with the name runs
// the builtin. Only the prefix "tool:" and function calls reach a tool with the name.
func ShellWord(name string) bool { return slices.Contains(shellWords, name) }

// Shares returns the program of the shell that has the same name as the tool: its Program, or for a tool without one
// the program that hosts knew before tools described programs. It returns nil if there is no such program.
func (d *Definition) Shares() *Program {
	if d.Program == nil {
		return historicPrograms[d.Name]
	}
	return d.Program
}

// ProgramOption is an option of a [Program].
type ProgramOption struct {
	// Argument is an argument of the tool, such as "ignore_case=true". It is empty if the tool always does what the
	// option requests.
	Argument string `json:"argument,omitempty"`
	// Value means that the option has a value, which is appended to Argument, followed by Suffix.
	Value  bool   `json:"value,omitempty"`
	Suffix string `json:"suffix,omitempty"`
	// Optional means that an option without an argument of the tool can have a value after "=".
	Optional bool `json:"optional,omitempty"`
}
