package bash

import (
	"strings"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

const (
	defaultTimeout = 120_000 * time.Millisecond
	maxTimeout     = 600_000 * time.Millisecond
)

type args struct {
	Command string  `json:"command" jsonschema:"the bash script to run"`
	Timeout int     `json:"timeout,omitempty" default:"120000" min:"1" max:"600000" jsonschema:"in milliseconds; the command is then killed with all that it started. Jobs have no timeout"`
	Cwd     string  `json:"cwd,omitempty" path:"read" jsonschema:"the directory to run this command in; the session stays where it is"`
	Stdin   *string `json:"stdin,omitempty" jsonschema:"text for standard input"`

	Description string `json:"description,omitempty" jsonschema:"what the command does, in a few words, for the user"`

	Background bool `json:"run_in_background,omitempty" jsonschema:"start as a job and return its job_id at once"`
	Yield      int  `json:"yield_ms,omitempty" min:"1" max:"86400000" jsonschema:"after this number of milliseconds, return the output so far and continue as a job"`
	YieldIdle  int  `json:"yield_idle_ms,omitempty" min:"1" max:"86400000" jsonschema:"the same after this number of milliseconds without output"`
	JobTimeout int  `json:"job_timeout_ms,omitempty" min:"1" max:"86400000" jsonschema:"a job's timeout in milliseconds, by default a day"`
	KeepStdin  bool `json:"keep_stdin_open,omitempty" jsonschema:"keep standard input open: when the command waits for input, the call returns a job_id for 'job write'"`
}

// data is the structured result of the tool bash. The output in it is shortened in the same manner as the output in the
// text of the result.
type data struct {
	Stdout   string `json:"stdout" jsonschema:"standard output, cut in the middle when it is long"`
	Stderr   string `json:"stderr" jsonschema:"standard error, cut in the middle when it is long"`
	ExitCode int    `json:"exit_code" jsonschema:"the exit status; 128 + N when signal N ended the command; -1 while it runs"`
	// Signal is the signal that ended the shell. If a signal ended only a child of the shell, Signal is set according
	// to the exit status.
	Signal    string `json:"signal" jsonschema:"the signal that ended the command, such as SIGTERM, or empty"`
	TimedOut  bool   `json:"timed_out"`
	Truncated bool   `json:"truncated" jsonschema:"stdout or stderr was cut; spill_path and stderr_spill_path name the files with the whole output"`
	Cwd       string `json:"cwd" jsonschema:"the session's working directory after the command"`
	Duration  int64  `json:"duration_ms"`
	JobID     string `json:"job_id" jsonschema:"the job that keeps running: the command itself, or the processes it left running; empty if nothing runs"`
	Waiting   bool   `json:"waiting_for_input,omitempty" jsonschema:"the command waits for input"`
	// SpillPath is the file with the complete standard output. If only standard error is shortened, SpillPath is the
	// file with standard error.
	SpillPath       string `json:"spill_path" jsonschema:"the file with the whole stream that was cut; empty if nothing was cut"`
	StderrSpillPath string `json:"stderr_spill_path,omitempty" jsonschema:"the file with the whole stderr, if both streams were cut"`
}

const description = `Run commands in bash: builds, tests, version control. To read, search and change files, prefer the other tools.
Directory, variables, functions and umask stay for the next command. There is no terminal: nothing can prompt.
Output over 50 000 characters is cut in the middle; the result names a file with all of it. For a command that takes long or does not end, set yield_ms or run_in_background: it becomes a job for the tool job, as do processes that a command leaves behind.`

// program describes the program bash. The tool never replaces what the program accepts.
var program = &tool.Program{Operand: tool.OperandScript, Others: strings.Fields(`a b c e f i k l m n o p r s t u v x B C D E H O P T
	debug debugger dump-po-strings dump-strings init-file login noediting noprofile norc posix pretty-print rcfile restricted verbose version wordexp`)}

func definition() sdk.Definition {
	output, err := sdk.SchemaFor[data]()
	if err != nil {
		panic(err) // the result type is invalid, which is a programming error
	}
	return sdk.Definition{
		Name: "bash", Role: tool.RoleShell, Program: program, Description: description, Output: output,
		StdinParameter: "stdin",
		Keywords: []string{"shell", "terminal", "command", "execute", "script", "program", "build", "compile",
			"test", "install", "package", "move", "rename", "delete", "remove", "git"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{Dangerous: true}, // a command can do anything
		DefaultTimeout: -1,                          // the tool implements its own timeout parameter
		Varying:        []string{"/duration_ms", "/job_id", "/spill_path"},
		Examples: []string{
			`bash --command 'go build ./... && go test ./...' --timeout 300000`,
			`bash --command 'git status --short' --cwd sub/module`,
			`bash --command 'npm run dev' --run_in_background`,
			`bash --command 'sort | uniq -c' --stdin 'b
a
b'`,
		},
	}
}
