package bash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/plugins/bash/jobs"
	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"
)

type jobArgs struct {
	Action  string `json:"action" enum:"list,tail,wait,kill,write,background" jsonschema:"tail shows the end of the output; wait waits until the job ends; kill kills it with all that it started; write writes to its standard input; background lets the call of a running command return"`
	ID      string `json:"id,omitempty" jsonschema:"the job, for every action but list"`
	Lines   int    `json:"lines,omitempty" default:"50" min:"1" max:"10000" jsonschema:"lines of each stream that tail and wait show"`
	Timeout int    `json:"timeout,omitempty" default:"30000" min:"1" max:"600000" jsonschema:"how long to wait, in milliseconds; the job runs on after it"`
	Input   string `json:"input,omitempty" jsonschema:"the lines to write; a missing final newline is added"`
	Close   bool   `json:"close_stdin,omitempty" jsonschema:"close standard input after writing"`
}

// jobData is the structured result of the tool job. The action "list" sets only Jobs.
type jobData struct {
	Jobs []jobState `json:"jobs" jsonschema:"the session's jobs, oldest first, or the job named by id"`
	// Stdout and Stderr contain the output. They are set only for the actions "tail" and "wait".
	Stdout  string   `json:"stdout,omitempty" jsonschema:"the last lines of standard output"`
	Stderr  string   `json:"stderr,omitempty" jsonschema:"the last lines of standard error"`
	Files   []string `json:"files,omitempty" jsonschema:"files with the whole output, if it is long"`
	Written int      `json:"written,omitempty" jsonschema:"how many bytes were written to the job's standard input"`
}

type jobState struct {
	ID      string `json:"id"`
	Command string `json:"command" jsonschema:"the command in one line"`
	Running bool   `json:"running"`
	// Foreground means that a call of bash still waits for the command.
	Foreground bool   `json:"foreground,omitempty" jsonschema:"a call of bash still waits for the command"`
	Left       bool   `json:"left_by_command,omitempty" jsonschema:"the command itself has ended; the job consists of the processes that the command left running"`
	Waiting    bool   `json:"waiting_for_input,omitempty"`
	ExitCode   *int   `json:"exit_code,omitempty" jsonschema:"the exit status, when the command has ended"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	PIDs       []int  `json:"pids,omitempty"`
	Age        int64  `json:"age_ms" jsonschema:"the running time so far, or in total"`
}

func jobDefinition() sdk.Definition {
	output, err := sdk.SchemaFor[jobData]()
	if err != nil {
		panic(err) // the type jobData is invalid, which is a programming error
	}
	return sdk.Definition{
		Name: "job", Role: tool.RoleJobs, Output: output,
		Description:    "Manage the background jobs of this session, and commands that a call still waits for. A job ends with its processes, when it is killed, after a day, or with the host.",
		StdinParameter: "input",
		Keywords:       []string{"background", "process", "running", "wait", "stop", "kill", "terminate"},
		Category:       tool.CategoryBuiltin,
		Traits:         sdk.Traits{ConcurrencySafe: true},
		DefaultTimeout: -1,
		Varying:        []string{"/jobs/*/id", "/jobs/*/pids", "/jobs/*/age_ms", "/files"},
		Examples: []string{`job list`, `job tail job-3fa9c1 --lines 20`, `job wait job-3fa9c1 --timeout 60000`,
			`job write job-3fa9c1 --input 'yes'`, `job kill job-3fa9c1`},
	}
}

func tooManyJobs() error {
	return sdk.Errorf(tool.ExecutionFailed, "Too many jobs are running; the limit is %d in a session and %d in total. To list the jobs, run: job list. To end a job, run: job kill ID.", jobs.MaxRunning, jobs.MaxTotal)
}

// job is the handler of the tool job.
func (b *bash) job(ctx context.Context, call *sdk.Call, in jobArgs) (*sdk.Result, error) {
	if in.Action == "list" {
		return b.listJobs(call), nil
	}
	j := b.jobs.Get(call.SessionID, in.ID)
	if j == nil {
		return nil, b.noJob(call, in.ID)
	}
	switch in.Action {
	case "tail":
		return showJob(j, in.Lines), nil
	case "wait":
		ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Timeout)*time.Millisecond)
		defer cancel()
		waitFor(ctx, j)
		return showJob(j, in.Lines), nil
	case "kill":
		if !j.Running() {
			return nil, sdk.Errorf(tool.ExecutionFailed, "The job %s has ended already: %s.", j.ID,
				describe(stateOf(j)))
		}
		j.Kill()
		return showJob(j, in.Lines), nil
	case "write":
		return writeJob(j, &in)
	case "background":
		return b.moveJob(call, j)
	}
	return nil, sdk.Errorf(tool.InvalidArguments, "Unknown action %q. Use list, tail, wait, kill, write or background.", in.Action)
}

func (b *bash) noJob(call *sdk.Call, id string) error {
	var ids []string
	for _, j := range b.jobs.List(call.SessionID) {
		ids = append(ids, j.ID)
	}
	known := "This session has no jobs"
	if len(ids) > 0 {
		known = "The jobs of this session are " + strings.Join(ids, ", ")
	}
	if id == "" {
		return sdk.Errorf(tool.InvalidArguments, "The id of a job is missing. %s. Set id.", known)
	}
	return sdk.Errorf(tool.NotFound, "Unknown job %q. %s. Jobs end with the host and are deleted some time after they end.", id, known)
}

func (b *bash) listJobs(call *sdk.Call) *sdk.Result {
	d := jobData{Jobs: []jobState{}}
	var text strings.Builder
	for _, j := range b.jobs.List(call.SessionID) {
		s := stateOf(j)
		d.Jobs = append(d.Jobs, s)
		fmt.Fprintf(&text, "%s  %s  %s\n", s.ID, describe(s), s.Command)
	}
	if len(d.Jobs) == 0 {
		text.WriteString("There are no jobs.\n")
	}
	return &sdk.Result{Title: "Jobs", Output: text.String(), Data: sdk.Data(d)}
}

// waitFor waits until the job ends, the job waits for input, or ctx ends.
func waitFor(ctx context.Context, j *jobs.Job) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		j.Wait(ctx)
	}()
	look := time.NewTicker(silence)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return
		case <-look.C:
			if stdin, terminal := j.Process.Waiting(); stdin || terminal {
				return
			}
		}
	}
}

// moveJob sends a foreground command to the background.
func (b *bash) moveJob(call *sdk.Call, j *jobs.Job) (*sdk.Result, error) {
	if !b.jobs.Room(call.SessionID) {
		return nil, tooManyJobs()
	}
	if !j.Foreground() {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The job %s is in the background already: %s.", j.ID, describe(stateOf(j)))
	}
	j.Background()
	return &sdk.Result{
		Title: "Send " + j.ID + " to the background", Output: fmt.Sprintf("The call of the command returns now, and the command continues as the job %s. To see its output, run: job tail %[1]s\n", j.ID),
		Data: sdk.Data(jobData{Jobs: []jobState{stateOf(j)}}),
	}, nil
}

func writeJob(j *jobs.Job, in *jobArgs) (*sdk.Result, error) {
	text := in.Input
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if text == "" && !in.Close {
		return nil, sdk.Errorf(tool.InvalidArguments, "There is no text to write. Set input, or close_stdin.")
	}
	n, err := j.Process.Write([]byte(text), in.Close)
	switch {
	case errors.Is(err, shell.ErrStdinFull):
		return nil, sdk.Errorf(tool.ExecutionFailed, "The job %s does not read its standard input: only %d of %d bytes were written. To see its output, run: job tail %s.", j.ID, n, len(text), j.ID)
	case err != nil:
		return nil, sdk.Errorf(tool.ExecutionFailed, "The standard input of the job %s is not open (%s). To write to a command, start it with bash and keep_stdin_open.", j.ID, describe(stateOf(j)))
	}
	s := stateOf(j)
	return &sdk.Result{
		Title: "Write to " + j.ID, Output: fmt.Sprintf("%d bytes were written to %s. To see its output, run: job tail %s\n", n, j.ID, j.ID),
		Data: sdk.Data(jobData{Jobs: []jobState{s}, Written: n}),
	}, nil
}

// showJob returns the state of a job and the end of its output.
func showJob(j *jobs.Job, lines int) *sdk.Result {
	s := stateOf(j)
	d := jobData{Jobs: []jobState{s}}
	var outFiles, errFiles []string
	d.Stdout, outFiles = jobs.Tail(j.Stdout, lines)
	d.Stderr, errFiles = jobs.Tail(j.Stderr, lines)
	d.Files = slices.Concat(outFiles, errFiles)
	text := fmt.Sprintf("[%s %s]\n", s.ID, describe(s)) + streams(d.Stdout, d.Stderr)
	if len(d.Files) > 0 {
		text = joinLines(text, fmt.Sprintf("[The output, up to %d bytes of each stream, is in: %s]\n", spill.MaxSpill, strings.Join(d.Files, ", ")))
	}
	return &sdk.Result{Title: j.Title, Output: text, Data: sdk.Data(d)}
}

func stateOf(j *jobs.Job) jobState {
	s := jobState{ID: j.ID, Command: j.Title, Left: j.Left, Running: j.Running(), Foreground: j.Foreground(),
		Age: j.Age().Milliseconds()}
	if o, err := j.Outcome(); o != nil {
		s.ExitCode, s.Signal, s.TimedOut = &o.Exit, o.Signal, o.Ending == shell.TimedOut
	} else if err != nil {
		none := -1
		s.ExitCode, s.Signal = &none, err.Error()
	}
	if s.Running {
		s.PIDs = j.Process.Alive()
		stdin, terminal := j.Process.Waiting()
		s.Waiting = stdin || terminal
	}
	return s
}

// describe describes the state of a job in a few words.
func describe(s jobState) string {
	age := (time.Duration(s.Age) * time.Millisecond).Round(100 * time.Millisecond)
	end := ""
	if s.ExitCode != nil {
		end = fmt.Sprintf("exit status %d", *s.ExitCode)
		if s.Signal != "" {
			end += " (" + s.Signal + ")"
		}
		if s.TimedOut {
			end += ", after its timeout"
		}
	}
	switch {
	case s.Waiting:
		return fmt.Sprintf("waiting for input, for %s", age)
	case s.Foreground && s.Running:
		return fmt.Sprintf("running in the foreground for %s", age)
	case s.Running && end != "":
		return fmt.Sprintf("ended with %s, but left %s running", end, pids(s.PIDs))
	case s.Running:
		return fmt.Sprintf("running for %s", age)
	case end != "":
		return fmt.Sprintf("ended with %s after %s", end, age)
	}
	return "ended"
}
