package bash

import (
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

const (
	defaultTimeout = 120_000 * time.Millisecond
	maxTimeout     = 600_000 * time.Millisecond
)

type args struct {
	Command string  `json:"command" jsonschema:"the commands to run, as a bash script of any length: pipelines, lists, functions, heredocs"`
	Timeout int     `json:"timeout,omitempty" default:"120000" min:"1" max:"600000" jsonschema:"the timeout of the command in milliseconds; after it the command is killed with everything it started. It does not apply to jobs"`
	Cwd     string  `json:"cwd,omitempty" path:"read" jsonschema:"the directory to run this command in, absolute or relative to the session's working directory; the session's working directory changes only if the command itself changes directory"`
	Stdin   *string `json:"stdin,omitempty" jsonschema:"text for the command's standard input; without it standard input is empty"`

	Description string `json:"description,omitempty" jsonschema:"what the command does, in a few words, for the user to read"`

	Background bool `json:"run_in_background,omitempty" jsonschema:"start the command as a job and return at once with its job_id; see the tool job"`
	Yield      int  `json:"yield_ms,omitempty" min:"1" max:"86400000" jsonschema:"if the command is not done after this number of milliseconds, return the output so far and a job_id; the command continues as a job"`
	YieldIdle  int  `json:"yield_idle_ms,omitempty" min:"1" max:"86400000" jsonschema:"the same if the command has printed nothing for this number of milliseconds"`
	JobTimeout int  `json:"job_timeout_ms,omitempty" min:"1" max:"86400000" jsonschema:"the timeout in milliseconds of a command that has become a job, from its start; the default is a day"`
	KeepStdin  bool `json:"keep_stdin_open,omitempty" jsonschema:"keep standard input open after the text in stdin, to answer with 'job write': when the command waits for input, the call returns with a job_id"`
}

// data is the structured result of the tool bash. Its output is shortened in the same manner as the text.
type data struct {
	Stdout   string `json:"stdout" jsonschema:"standard output, cut in the middle when it is long"`
	Stderr   string `json:"stderr" jsonschema:"standard error, cut in the middle when it is long"`
	ExitCode int    `json:"exit_code" jsonschema:"the exit status; 128 + N when signal N ended the command; -1 while it runs"`
	// Signal is also set if a signal did not end the shell itself, for example if the signal ended a child and only
	// the exit status shows the signal.
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

const description = `Run commands in bash. Use it where no other tool fits: builds, tests, version control, package managers, pipelines. To read, search and change files, prefer the tools for that purpose.
Each command runs in a fresh bash that continues the session: the working directory, variables (exported or not), functions, aliases, shopt options and the umask are as the last command left them. "set -e", "set -u", "set -x", pipefail, traps and open files are not carried over. A command that is killed, replaces its shell with exec, or calls exit under an EXIT trap of its own leaves the session as it was (but may have changed the working directory's content).
There is no terminal: nothing can prompt, and editors and pagers do not start. Give input with stdin or a heredoc.
A status other than 0 is a failure that reports the status and the output. Output over 50 000 characters is cut in the middle; the result names a file with the whole output.
At its timeout a command is killed with everything it started. For a command that takes long or does not end, such as a server, set yield_ms or run_in_background: the command becomes a job, which the tool job manages. A job does not change the session's directory and variables. Processes that a finished command left in the background (server &) become a job too. Jobs end with the host.`

func definition() sdk.Definition {
	output, err := sdk.SchemaFor[data]()
	if err != nil {
		panic(err) // fails only if the type above is invalid
	}
	return sdk.Definition{
		Name: "bash", Description: description, Output: output,
		StdinParameter: "stdin",
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{}, // no trait holds, because a command can do anything
		DefaultTimeout: -1,           // the tool implements its own timeout parameter
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
