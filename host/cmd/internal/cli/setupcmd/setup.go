// Package setupcmd implements the command "toolhost setup", which configures agents to use toolhost.
package setupcmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/admin/agents"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/review"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// flags contains the flags of the command.
type flags struct {
	review.Options
	project, undo, stdio, oauth                 bool
	name, policy, endpoint, url, variable, file string

	settings *globals.Settings
	// grant contains the rights of the token that is created for the agent. It is nil if no token is created.
	grant *admin.TokenGrant
}

// New returns the command "toolhost setup".
func New(s *globals.Settings) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "setup AGENT",
		Short: "Configure an agent to use toolhost",
		Long: `Write the settings with which an agent uses toolhost as its MCP server, in place of its own tools
for files and the shell. The agents are claude, codex, gemini, opencode, vscode and cursor.

The changes are shown as a diff before anything is written. Comments and other settings stay. The
earlier files are kept; --undo restores them. Then the server is started as the agent starts it, and
its tools are listed.

With --url the agent uses a running "toolhost serve" over HTTP. If this server is on this machine, a
token is created, which --undo revokes. The token is in the settings of the user. The settings of a
project only name the environment variable that contains the token. --token-env and --token-file use
a token that you have, and with --oauth the agent logs in at the provider of the server. The server
is asked for its tools before anything is written.

Unless you have a configuration of toolhost, one with the policy "careful" is added. docs/agents.md
lists what each agent needs by hand.`,
		Example: `  toolhost setup claude
  toolhost setup codex --project --yes
  toolhost setup gemini --dry-run
  toolhost setup claude --endpoint review
  toolhost setup cursor --url http://127.0.0.1:7070
  toolhost setup codex --url https://tools.example.com --token-env TOOLS_TOKEN
  toolhost setup claude --undo`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: agent.Names(),
		RunE: func(c *cobra.Command, args []string) error {
			f.settings = s
			return f.run(c.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&f.project, "project", false, "write the settings of the current directory, not those of the user")
	f.AddTo(c)
	c.Flags().BoolVar(&f.undo, "undo", false, "undo what an earlier setup wrote")
	c.Flags().BoolVar(&f.undo, "remove", false, "the same as --undo")
	c.Flags().BoolVar(&f.stdio, "stdio", false, "let the agent start the server (default)")
	c.Flags().StringVar(&f.url, "url", "", "use the running server at this `address`")
	c.Flags().StringVar(&f.endpoint, "endpoint", "", "use the endpoint with this `name`")
	c.Flags().StringVar(&f.variable, "token-env", "", "environment `variable` from which the agent takes its token")
	c.Flags().StringVar(&f.file, "token-file", "", "`file` with the token, which is copied to the settings")
	c.Flags().BoolVar(&f.oauth, "oauth", false, "write no token: the agent logs in at the provider of the server")
	c.MarkFlagsMutuallyExclusive("stdio", "url")
	c.MarkFlagsMutuallyExclusive("token-env", "token-file", "oauth")
	c.Flags().StringVar(&f.name, "name", "toolhost", "`name` of the server in the settings")
	c.Flags().StringVar(&f.policy, "policy", "careful", "`policy` of a new configuration of toolhost: careful, listed or open")
	return c
}

func (f *flags) run(ctx context.Context, name string) error {
	a, err := agent.Find(name)
	if err != nil {
		return err
	}
	place, err := f.place()
	if err != nil {
		return err
	}
	store, err := admin.AgentStore(f.settings.Options())
	if err != nil {
		return err
	}
	earlier, err := store.Earlier(a, place)
	if err != nil {
		return err
	}
	if f.undo {
		return f.takeBack(store, a, place, earlier.Tokens)
	}
	if f.url == "" && !f.stdio { // keep a setup over HTTP
		kept := &agent.Plan{Agent: a, Place: place}
		if l, err := kept.Launch(nil); err == nil && l.URL != "" && slices.Contains(earlier.URLs, l.URL) {
			if f.endpoint != "" {
				return fmt.Errorf("%s uses the server at %s; to use an endpoint, add --url, or add --stdio to let the agent start the server", a.Title, l.URL)
			}
			fmt.Fprintf(f.settings.Out, "%s is set up already, with the server at %s. Nothing was changed. To let the agent start the server, add --stdio.\n", a.Title, l.URL)
			return prove(ctx, f.settings.Stdio, kept)
		}
	}
	plan, err := f.plan(a, place, earlier.URLs)
	if err != nil {
		return err
	}
	if len(plan.Changes) == 0 {
		fmt.Fprintf(f.settings.Out, "%s is set up already. Nothing was changed.\n", a.Title)
	} else if written, err := review.Apply(f.settings.Stdio, plan.Changes, f.Options,
		func() error { return f.write(ctx, store, plan, earlier.Tokens) }); err != nil || !written {
		return err
	} else {
		fmt.Fprintf(f.settings.Out, "The earlier files are kept in %s. To take this back: toolhost setup %s --undo%s\n", screen.Printable(store.Backup(plan)), name, f.more())
	}
	for _, n := range plan.Notes {
		fmt.Fprintln(f.settings.Out, "note:", screen.Printable(n))
	}
	return prove(ctx, f.settings.Stdio, plan)
}

// more returns the flags with which another command selects the same settings.
func (f *flags) more() string {
	out := ""
	if f.project {
		out += " --project"
	}
	if f.name != "toolhost" {
		out += " --name " + f.name
	}
	return out
}

func (f *flags) place() (*agent.Place, error) {
	if f.name == "" || strings.ContainsFunc(f.name,
		func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) {
		return nil, fmt.Errorf("%q cannot name a server; use lower-case letters, digits and '-'", f.name)
	}
	dir, err := f.settings.WorkDir()
	if err != nil {
		return nil, err
	}
	home, _ := f.settings.HomeDir() // ignore the error: only settings of the user need a home directory
	return &agent.Place{Project: f.project, Dir: dir, Home: home, Server: f.name, Getenv: f.settings.Getenv}, nil
}

func (f *flags) plan(a *agent.Agent, place *agent.Place, replaces []string) (*agent.Plan, error) {
	target, err := f.target(place)
	if err != nil {
		return nil, err
	}
	target.Replaces = replaces
	plan, err := a.Plan(place, target)
	if err != nil {
		return nil, err
	}
	if target.URL != "" {
		return plan, nil // the policy belongs to the configuration of the server
	}
	if place.Project && filepath.IsAbs(target.Program) {
		plan.Notes = append(plan.Notes, fmt.Sprintf("toolhost is not on the PATH, so the settings of the project contain %s, which other machines do not have.", target.Program))
	}
	switch f.policy {
	case "open":
		return plan, nil
	case "careful", "listed":
		return plan, agents.ProposePolicy(plan, f.policy)
	}
	return nil, fmt.Errorf("unknown policy %q; use careful, listed or open", f.policy)
}

// program returns the command that starts this program. For the settings of a project, this is only the program's name
// if the program is in PATH, because its path differs between machines. For the settings of a user, it is the path,
// because graphical programs often have a different PATH.
func program(project bool) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	found, _ := exec.LookPath("toolhost") // ignore the error: an empty path is not a file
	a, errA := os.Stat(found)
	b, errB := os.Stat(self)
	if onPath := errA == nil && errB == nil && os.SameFile(a, b); onPath && project {
		return "toolhost", nil
	} else if onPath {
		return filepath.Abs(found)
	}
	return self, nil
}

func (f *flags) takeBack(store agent.Store, a *agent.Agent, place *agent.Place, tokens []string) error {
	plan, err := store.Undo(a, place)
	if err != nil {
		return err
	}
	if len(plan.Changes) == 0 {
		fmt.Fprintf(f.settings.Out, "No set-up of %s is left to take back.\n", a.Title)
	} else if written, err := review.Apply(f.settings.Stdio, plan.Changes, f.Options,
		func() error { return store.Restore(plan) }); err != nil || !written {
		return err
	} else {
		fmt.Fprintf(f.settings.Out, "%s no longer uses toolhost.\n", a.Title)
		if err := f.revoke(tokens); err != nil {
			return err
		}
	}
	for _, n := range plan.Notes {
		fmt.Fprintln(f.settings.Out, "note:", screen.Printable(n))
	}
	return nil
}
