// Package setupcmd implements the command "toolhost setup", which configures agents to use toolhost.
package setupcmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
	"toolhost.dev/host/cmd/toolhost/internal/review"
)

// flags contains the flags of the command.
type flags struct {
	review.Options
	project, undo bool
	name, policy  string
}

// New returns the command "toolhost setup".
func New(s *cli.Settings) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "setup AGENT",
		Short: "Configure an agent to use toolhost",
		Long: `Write the settings with which an agent uses toolhost as its MCP server, in place of its own tools
for files and the shell. The agents are claude, codex, gemini, opencode, vscode and cursor.

The changes are shown as a diff before anything is written. Comments and other settings stay. The
earlier files are kept; --undo restores them. Then the server is started as the agent starts it, and
its tools are listed.

Unless you have a configuration of toolhost, one with the policy "careful" is added. docs/agents.md
lists what each agent needs by hand.`,
		Example: `  toolhost setup claude
  toolhost setup codex --project --yes
  toolhost setup gemini --dry-run
  toolhost setup claude --undo`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: agent.Names(),
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), s, args[0])
		},
	}
	c.Flags().BoolVar(&f.project, "project", false, "write the settings of the current directory, not those of the user")
	f.AddTo(c)
	c.Flags().BoolVar(&f.undo, "undo", false, "take back what an earlier set-up wrote")
	c.Flags().StringVar(&f.name, "name", "toolhost", "`name` of the server in the settings")
	c.Flags().StringVar(&f.policy, "policy", "careful", "`policy` of a new configuration of toolhost: careful, listed or open")
	return c
}

func (f *flags) run(ctx context.Context, s *cli.Settings, name string) error {
	a, err := agent.Find(name)
	if err != nil {
		return err
	}
	place, err := f.place()
	if err != nil {
		return err
	}
	store, err := admin.AgentStore(s.Options())
	if err != nil {
		return err
	}
	if f.undo {
		return f.takeBack(store, a, place)
	}
	plan, err := f.plan(a, place)
	if err != nil {
		return err
	}
	if len(plan.Changes) == 0 {
		fmt.Printf("%s is set up already. Nothing was changed.\n", a.Title)
	} else if written, err := review.Apply(plan.Changes, f.Options, func() error { return store.Write(plan) }); err != nil || !written {
		return err
	} else {
		fmt.Printf("The earlier files are kept in %s. To take this back: toolhost setup %s --undo%s\n", cli.Printable(store.Backup(plan)), name, f.more())
	}
	for _, n := range plan.Notes {
		fmt.Println("note:", cli.Printable(n))
	}
	return prove(ctx, plan)
}

// The method "more" returns the flags with which another command selects the same settings.
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
	if f.name == "" || strings.ContainsFunc(f.name, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) {
		return nil, fmt.Errorf("%q cannot name a server; use lower-case letters, digits and '-'", f.name)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // ignore the error: only settings of the user need a home directory
	return &agent.Place{Project: f.project, Dir: dir, Home: home, Server: f.name, Getenv: os.Getenv}, nil
}

func (f *flags) plan(a *agent.Agent, place *agent.Place) (*agent.Plan, error) {
	self, err := program(place.Project)
	if err != nil {
		return nil, err
	}
	plan, err := a.Plan(place, self)
	if err != nil {
		return nil, err
	}
	if place.Project && filepath.IsAbs(self) {
		plan.Notes = append(plan.Notes, fmt.Sprintf("toolhost is not on the PATH, so the settings of the project contain %s, which other machines do not have.", self))
	}
	switch f.policy {
	case "open":
		return plan, nil
	case "careful", "listed":
		return plan, admin.ProposePolicy(plan, f.policy)
	}
	return nil, fmt.Errorf("unknown policy %q; use careful, listed or open", f.policy)
}

// program returns the command that starts this program. If the program is in PATH, the settings of a project contain
// only its name, because the path differs between machines. The settings of a user contain the path, because graphical
// programs often have a different PATH.
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

func (f *flags) takeBack(store agent.Store, a *agent.Agent, place *agent.Place) error {
	plan, err := store.Undo(a, place)
	if err != nil {
		return err
	}
	if len(plan.Changes) == 0 {
		fmt.Printf("No set-up of %s is left to take back.\n", a.Title)
	} else if written, err := review.Apply(plan.Changes, f.Options, func() error { return store.Restore(plan) }); err != nil || !written {
		return err
	} else {
		fmt.Printf("%s no longer uses toolhost.\n", a.Title)
	}
	for _, n := range plan.Notes {
		fmt.Println("note:", cli.Printable(n))
	}
	return nil
}

// proveTimeout limits the time until the server has listed its tools.
const proveTimeout = time.Minute
