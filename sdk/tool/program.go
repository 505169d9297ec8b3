package tool

// Program describes how a command of the program that has the same name as the tool runs the tool instead. The host only uses it
// for a program that it knows, and only if the tool does the same as the program with these arguments.
type Program struct {
	// Operands is the maximum number of operands. With more, the program runs. The first operand is the value of the parameter
	// First, unless an option sets it.
	Operands int    `json:"operands,omitempty"`
	First    string `json:"first,omitempty"`
	// Options maps the names of options, without dashes, to arguments. With any other option, the program runs.
	Options map[string]ProgramOption `json:"options,omitempty"`
	// Number is the name of the option for which an option such as -3 stands.
	Number string `json:"number,omitempty"`
	// Otherwise is an argument such as "dialect=bre" that the tool gets if the command has an option of the program, or if the
	// value of First contains one of the characters in Special, and no option sets the parameter.
	Otherwise string `json:"otherwise,omitempty"`
	Special   string `json:"special,omitempty"`
}

// ProgramOption is an option of a [Program].
type ProgramOption struct {
	// Argument is an argument of the tool, such as "ignore_case=true". It is empty if the tool always does what the option
	// requests.
	Argument string `json:"argument,omitempty"`
	// Value means that the option has a value, which is appended to Argument, followed by Suffix.
	Value  bool   `json:"value,omitempty"`
	Suffix string `json:"suffix,omitempty"`
	// Optional means that an option without an argument of the tool can have a value after "=".
	Optional bool `json:"optional,omitempty"`
}
