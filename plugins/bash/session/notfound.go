package session

import "strings"

// notFound is the beginning of the handler function for unknown commands. bash calls the handler in a child process.
// The text has the format in which bash prints functions. It distinguishes the handler of this package from a handler
// of the user.
const notFound = `command_not_found_handle () 
{ 
    { 
        : toolhost;
`

// CommandNotFound returns shell commands that define a handler for unknown commands, unless the session defines its own
// handler. The handler runs the tool that has the name of the command, even after a change of PATH. The argument "dir"
// is the directory with the programs of the tools. The argument "program" is a program that runs any tool. If the tool
// is also unknown, the error message is bash's message.
func CommandNotFound(dir, program string) string {
	handler := notFound + ` \builtin local -; \builtin set +x; } 2>/dev/null
[[ $1 != tool:?* && $1 != field:?* ]] || \builtin exec -a "$1" PROGRAM "${@:2}"
for __toolhost_v in "$1" "tool:$1"; do [[ $1 == */* || ! -f DIR/$__toolhost_v || ! -x DIR/$__toolhost_v ]] || \builtin exec DIR/"$__toolhost_v" "${@:2}"; done
\builtin printf "%s: line %d: %s: command not found\n" "${BASH_SOURCE[1]:-$0}" "${BASH_LINENO[0]}" "$1" 1>&2
\builtin return 127; }`
	handler = strings.NewReplacer("DIR", Quote(dir), "PROGRAM", Quote(program)).Replace(handler)
	return `\builtin declare -F command_not_found_handle || \builtin eval ` + Quote(handler) + "\n"
}

// dropNotFound removes the handler for unknown commands from the dump of a shell, because the handler is valid only
// for one call.
func dropNotFound(functions, flags string) (string, string) {
	start := strings.Index("\n"+functions, "\n"+notFound)
	if start < 0 {
		return functions, flags
	}
	end := strings.Index(functions[start:], "\n}\n")
	if end < 0 {
		return functions, flags
	}
	functions = functions[:start] + functions[start+end+len("\n}\n"):]
	var kept strings.Builder
	for line := range strings.Lines(flags) {
		if !strings.HasSuffix(strings.TrimSuffix(line, "\n"), " command_not_found_handle") {
			kept.WriteString(line)
		}
	}
	return functions, kept.String()
}
