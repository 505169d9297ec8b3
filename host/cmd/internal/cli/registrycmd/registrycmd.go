// Package registrycmd implements the subcommands of "toolhost plugin" that install plugins from registries and publish
// them. See [New]. No other commands access the network for a plugin.
package registrycmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin/registries"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// New returns the commands.
func New(s *globals.Settings) []*cobra.Command {
	all := []*cobra.Command{newInstall(s), newUpgrade(s), newRollback(s), newOutdated(s), newCollect(s), newKey(s),
		newPublish(s), newYank(s), newMirror(s), newSearch(s)}
	for _, c := range all {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error { return failed(s, run(c, args)) }
	}
	return all
}

// open returns the manager of the configuration's plugins. It shows progress at a terminal.
func open(s *globals.Settings) (*registries.Manager, error) {
	m, err := registries.Manage(s.Options())
	if err != nil {
		return nil, err
	}
	m.Warn = func(text string) { warn(s.Err, text) }
	if screen.IsTerminal(s.Err) {
		m.Progress = (&progress{to: s.Err}).show
	}
	return m, nil
}

func warn(w io.Writer, text string) { fmt.Fprintln(w, "toolhost:", screen.Clean(text)) }

// progress shows the state of downloads in one line.
type progress struct {
	to   io.Writer
	mu   sync.Mutex
	last time.Time
}

func (p *progress) show(plugin string, have, of int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have < of && time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.to, "\r\x1b[K%s  %s of %s", plugin, screen.Size(have), screen.Size(of))
	if have == of {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// addConsent adds the flags with which a user consents to exceptions.
func addConsent(c *cobra.Command, o *registries.Consent) {
	c.Flags().BoolVar(&o.Unsigned, "allow-unsigned", false, "accept versions without a signature; the lock file records it")
	c.Flags().StringVar(&o.Key, "accept-key", "", "accept the key with this `FINGERPRINT` in place of the known one")
	c.Flags().BoolVar(&o.Downgrade, "allow-downgrade", false, "accept a lower version than the locked one")
}

func newInstall(s *globals.Settings) *cobra.Command {
	var opts registries.InstallOptions
	c := &cobra.Command{
		Use:   "install [PLUGIN]...",
		Short: "Install the plugins that the lock file names",
		Long: `Install the plugins of the configuration that have a source, exactly as the lock file names
them. A version is selected only for a plugin that is not in the lock file: the newest version
that satisfies its constraint. Its signature is checked, it is started once in a sandbox, and it
is added to the lock file. Keep the lock file in version control.
A host never installs anything. Running hosts apply what was installed.`,
		RunE: func(c *cobra.Command, names []string) error {
			m, err := open(s)
			if err != nil {
				return err
			}
			opts.Names = names
			results, err := m.Install(c.Context(), opts)
			if err == nil && len(results) == 0 && !s.JSON {
				fmt.Fprintln(s.Out, "The configuration has no plugin with a source.")
			}
			return printResults(s, results, err)
		},
	}
	c.Flags().BoolVar(&opts.Locked, "locked", false, "fail if the lock file would change, such as in CI")
	c.Flags().BoolVar(&opts.Reinstall, "reinstall", false, "download again what is installed")
	c.Flags().BoolVar(&opts.Source, "accept-source", false, "accept a new source whose name resembles a known one")
	addConsent(c, &opts.Consent)
	return c
}

func newUpgrade(s *globals.Settings) *cobra.Command {
	var consent registries.Consent
	c := &cobra.Command{
		Use:   "upgrade [PLUGIN]...",
		Short: "Upgrade plugins to the newest versions that fit",
		Long: `Replace plugins by the newest versions that satisfy the configuration and that their publishers
did not withdraw. Running hosts start each new version beside the old one and swap; running calls
end on the old version. If a host refuses, the old version stays, and the exit status is 1.`,
		RunE: func(c *cobra.Command, names []string) error {
			m, err := open(s)
			if err != nil {
				return err
			}
			results, err := m.Upgrade(c.Context(), names, consent)
			return printResults(s, results, err)
		},
	}
	c.Flags().BoolVar(&consent.Changes, "accept-changes", false, "accept versions that break callers of their tools, or that need more")
	addConsent(c, &consent)
	return c
}

func newRollback(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "rollback PLUGIN",
		Short: "Return a plugin to its previous version",
		Long:  "Return a plugin to the version before its last upgrade. This version is still in the store, so no network is needed.",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			m, err := open(s)
			if err != nil {
				return err
			}
			r, err := m.Rollback(c.Context(), args[0])
			if err != nil {
				return err
			}
			return printResults(s, []registries.Result{*r}, nil)
		},
	}
}

// printResults prints the outcome for each plugin. The results also contain the errors of single plugins.
func printResults(s *globals.Settings, results []registries.Result, err error) error {
	if s.JSON {
		if results == nil {
			results = []registries.Result{}
		}
		return errors.Join(screen.PrintJSON(s.Out, results), failed(s, err))
	}
	w := screen.New(s.Out)
	for i := range results {
		if r := &results[i]; r.Error == "" {
			resultText(w, r)
		}
	}
	return errors.Join(w.Flush(), err)
}

// failed prints an error and returns the exit status 1. Status 2 is reserved for wrong usage and for a result of
// "plugin outdated".
func failed(s *globals.Settings, err error) error {
	var status process.ExitError
	if err == nil || errors.As(err, &status) {
		return err
	}
	warn(s.Err, err.Error())
	return process.ExitError(process.ExitFailure)
}

func resultText(w io.Writer, r *registries.Result) {
	line := fmt.Sprintf("%s %s", r.Name, r.Version)
	switch {
	case r.State == "current":
		line += "  is installed"
	case r.From != "":
		line = fmt.Sprintf("%s %s → %s", r.Name, r.From, r.Version)
	default:
		line += "  installed"
	}
	if r.Bytes > 0 {
		line += "  " + screen.Size(r.Bytes)
	}
	switch {
	case r.Unsigned:
		line += "  NOT SIGNED"
	case r.Publisher != "":
		line += fmt.Sprintf("  signed by %s (%s)", r.Publisher, r.Key)
	case r.NewKey:
		line += fmt.Sprintf("  signed by %s, which is new and now in the lock file", r.Key)
	case r.Key != "":
		line += "  signed by " + r.Key
	}
	fmt.Fprintln(w, screen.Printable(line))
	if r.From == "" && len(r.Tools) > 0 {
		fmt.Fprintln(w, "  tools:", screen.Printable(strings.Join(r.Tools, ", ")))
	}
	if len(r.Needs) > 0 {
		fmt.Fprintln(w, "  needs:", screen.Printable(strings.Join(r.Needs, "; ")))
	}
	for _, c := range r.Changes {
		fmt.Fprintln(w, "  changed:", screen.Printable(c))
	}
	if r.Note != "" {
		fmt.Fprintln(w, "  note:", screen.Printable(r.Note))
	}
}
