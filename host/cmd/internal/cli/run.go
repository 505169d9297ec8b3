package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/branchcmd"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/host/cmd/internal/cli/terminal"
	"toolhost.dev/host/internal/lazyregexp"
)

func newRun(s *globals.Settings) *cobra.Command {
	var preview bool
	c := &cobra.Command{
		Use:   "run [flags] [--] COMMAND",
		Short: "Run one command",
		Long: `Run one command string. Several words are joined as a shell would quote them.
The output goes to standard output and the error to standard error; with --json one
result object goes to standard output. A native command's output is printed while it runs; to a
file or a pipe, only up to 8000 bytes, and the rest at the end. With --preview, the command runs in a new branch, and its
changes are shown but not made. The exit status is 0 on success, 1 if a tool failed, and 2 if the
command line or the configuration is wrong. For a native command, it is the status of the command.`,
		Example: `  toolhost run 'grep TODO --glob "*.go"'
  toolhost run read main.go --limit 20
  toolhost run --json -- git status`,
		Args: needCommand,
		RunE: func(c *cobra.Command, args []string) error {
			command, err := joinCommand(args)
			if err != nil {
				return err
			}
			h, err := s.OpenOnce(c)
			if err != nil {
				return err
			}
			req := s.Request()
			req.Command = command
			req.Preview = preview
			client := terminal.New(s.Stdio, s.JSON)
			res := client.Run(c.Context(), h, req)
			err = h.Close()
			left := ""
			if s.On == "" { // jobs at a node go on
				left = endJobs(res)
			}
			shown := ""
			if preview {
				shown = branchcmd.Preview(res)
			}
			if s.JSON {
				if err := screen.PrintJSON(s.Out, res); err != nil {
					return err
				}
			} else {
				client.Finish(res)
				screen.PrintText(s.Out, shown)
				screen.PrintText(s.Err, left)
			}
			if err != nil {
				fmt.Fprintln(s.Err, "toolhost:", screen.Clean(err.Error()))
			}
			return process.ExitStatus(res)
		},
	}
	c.Flags().BoolVar(&preview, "preview", false, "run the command in a new branch and show what it changes")
	s.OnFlag(c)
	c.Flags().SetInterspersed(false)
	return c
}

func needCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a command is missing, such as: %s 'read main.go'", c.CommandPath())
	}
	return nil
}

// joinCommand joins words to one command string. It returns a single word unchanged. If there are several words, it
// quotes each word for a shell.
func joinCommand(words []string) (string, error) {
	if len(words) == 1 {
		return words[0], nil
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			return "", fmt.Errorf("the word %q cannot be passed to a command: %w", w, err)
		}
		quoted[i] = q
	}
	return strings.Join(quoted, " "), nil
}

// jobNotes matches the note with which the bundled shell reports that a command became a job.
var jobNotes = lazyregexp.New(`^\[The command .* the job job-[0-9a-f]+`)

// jobsEnd is the note that replaces notes about jobs, because jobs end with a single run.
const jobsEnd = "[The processes that the command left running end now, because toolhost run ends them. For jobs, use toolhost repl, batch, mcp or serve.]"

// endJobs replaces the notes about a job in the result of a single run, because the job ends when the program ends. It
// returns the note that replaces them, or "" if the call started no job.
func endJobs(res *host.Result) string {
	var data map[string]json.RawMessage
	if res.Run.Role != tool.RoleShell || json.Unmarshal(res.Data, &data) != nil {
		return ""
	}
	if id := string(data["job_id"]); id == "" || id == `""` {
		return ""
	}
	data["job_id"] = json.RawMessage(`""`)
	if out, err := json.Marshal(data); err == nil { // cannot fail, because all values are valid JSON
		res.Data = out
	}
	if res.Success() {
		res.Output = withoutJob(res.Output)
	} else {
		e := *res.Error
		e.Message = withoutJob(e.Message)
		res.Error = &e
	}
	return jobsEnd
}

// withoutJob removes the notes about a job from a text and appends the note jobsEnd.
func withoutJob(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !jobNotes.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return strings.TrimPrefix(strings.TrimSuffix(strings.Join(lines, ""), "\n")+"\n"+jobsEnd, "\n")
}
