package plugincmd

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/admin/registries"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/registrycmd"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newPluginPin(s *globals.Settings) *cobra.Command {
	var accept bool
	c := &cobra.Command{
		Use:   "pin [PLUGIN]...",
		Short: "Pin plugins to their binaries and tool definitions",
		Long: `Write the current state of the plugins to the lock file next to the configuration: the SHA-256 of
each binary, and hashes of the definitions of its tools. A pinned plugin is loaded only if it
matches its pin, and runs from a copy with exactly these bytes. Without names, all plugins are
pinned. A plugin whose tools differ from its pin is pinned again only with --accept-changes:
review the tools first, with toolhost plugin info. Running hosts apply the pins at once.`,
		RunE: func(c *cobra.Command, names []string) error {
			t, err := admin.PinPlugins(c.Context(), s.Inspection(), names, accept)
			if err != nil {
				return err
			}
			told := renew(c, s)
			if s.JSON {
				return errors.Join(screen.PrintJSON(s.Out, t), told)
			}
			if err := trustText(screen.New(s.Out), t); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "\nWritten to %s.\n", t.Lock)
			return told
		},
	}
	c.Flags().BoolVar(&accept, "accept-changes", false, "also pin plugins whose tools differ from their pins")
	return c
}

func newPluginVerify(s *globals.Settings) *cobra.Command {
	var remote bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Compare the plugins with their pins",
		Long: `Compare the binaries of the plugins and the definitions of their tools with the lock file. For plugins
from registries, all files are compared. With --remote, the command also checks their signatures, and
whether a version was withdrawn or republished. The exit status is 1 if a plugin does not match its pin.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := admin.InspectTrust(c.Context(), s.Inspection())
			if err != nil {
				return err
			}
			installed, err := registrycmd.Verify(c, s, remote)
			if err != nil {
				return err
			}
			if s.JSON {
				err = screen.PrintJSON(s.Out, struct {
					*admin.Trust
					Installed []registries.Verified `json:"installed,omitempty"`
				}{t, installed})
			} else {
				err = verifyText(screen.New(s.Out), t, installed)
			}
			if slices.ContainsFunc(t.Plugins, func(p admin.PluginTrust) bool { return !p.OK() }) ||
				slices.ContainsFunc(installed, func(v registries.Verified) bool { return v.Problem != "" }) {
				err = errors.Join(err, process.ExitError(process.ExitFailure))
			}
			return err
		},
	}
	c.Flags().BoolVar(&remote, "remote", false, "also query the registries")
	return c
}

func verifyText(w io.Writer, t *admin.Trust, installed []registries.Verified) error {
	var errs []error
	say := func(format string, a ...any) {
		_, err := fmt.Fprintf(w, format+"\n", a...)
		errs = append(errs, err)
	}
	for _, v := range installed {
		if v.Problem == "" {
			say("%s: version %s is installed as locked", v.Name, v.Version)
		} else {
			say("%s: %s", v.Name, screen.Printable(v.Problem))
		}
	}
	for _, p := range t.Plugins {
		switch {
		case slices.ContainsFunc(installed,
			func(v registries.Verified) bool { return v.Name == p.Name && v.Problem != "" }):
			continue
		case p.Error != "":
			say("%s: cannot be loaded: %s", p.Name, screen.Printable(p.Error))
		case !p.Pinned:
			say("%s: not pinned", p.Name)
		case p.SHA256 != p.PinnedSHA256:
			say("%s: %s is not the pinned binary\n  is      %s\n  pinned  %s", p.Name, screen.Printable(p.Path), p.SHA256, p.PinnedSHA256)
		case len(p.Changes) == 0:
			say("%s: as pinned", p.Name)
		}
		for _, c := range p.Changes {
			say("%s: %s", p.Name, screen.Printable(c))
		}
	}
	return errors.Join(errs...)
}

func newPluginApprove(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "approve PLUGIN...",
		Short: "Approve changed tool definitions of unpinned plugins",
		Long: `The host stores the first definitions of the tools of a plugin that is not pinned. When the
definitions change, the host reports that. With trust { definitions = "approve" }, the changed
tools cannot be called until they are approved. Review them first, with toolhost plugin info
PLUGIN. Running hosts apply the approval.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			t, err := admin.ApprovePlugins(c.Context(), s.Options(), names)
			if err != nil {
				return err
			}
			for _, p := range t.Plugins {
				if !slices.Contains(names, p.Name) {
					continue
				}
				for _, change := range p.Unapproved {
					fmt.Fprintf(s.Out, "%s: approved: %s\n", p.Name, screen.Printable(change.String()))
				}
				if len(p.Unapproved) == 0 {
					fmt.Fprintf(s.Out, "%s: there is nothing to approve\n", p.Name)
				}
			}
			return renew(c, s)
		},
	}
}

// renew makes the running hosts apply changed pins and approvals.
func renew(c *cobra.Command, s *globals.Settings) error {
	hosts, err := admin.Running(s.Options())
	for _, h := range hosts {
		if _, failed := h.Renew(c.Context()); failed != nil {
			err = errors.Join(err, fmt.Errorf("host %d did not apply it: %w. Run toolhost plugin reload", h.PID, failed))
		}
	}
	return err
}
