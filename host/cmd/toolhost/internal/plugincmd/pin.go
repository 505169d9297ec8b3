package plugincmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
	"toolhost.dev/host/cmd/toolhost/internal/registrycmd"
)

func newPluginPin(s *cli.Settings) *cobra.Command {
	var accept bool
	c := &cobra.Command{
		Use:   "pin [PLUGIN]...",
		Short: "Pin plugins to their binaries and to what they say of their tools",
		Long: `Write what the plugins are now to the lock file beside the configuration: the SHA-256 of each
binary, and hashes of the definitions of its tools. A plugin that is pinned is loaded only
as it is pinned, and runs from a copy with these very bytes. Without names, all are pinned.

A plugin whose tools are not as they were pinned is not pinned anew without
--accept-changes: look at them first, with toolhost plugin info. Running hosts apply the pins at once.`,
		RunE: func(c *cobra.Command, names []string) error {
			t, err := admin.PinPlugins(c.Context(), s.Inspection(), names, accept)
			if err != nil {
				return err
			}
			told := renew(c, s)
			if s.JSON {
				return errors.Join(cli.PrintJSON(os.Stdout, t), told)
			}
			if err := trustText(cli.Screen(os.Stdout), t); err != nil {
				return err
			}
			fmt.Printf("\nWritten to %s.\n", t.Lock)
			return told
		},
	}
	c.Flags().BoolVar(&accept, "accept-changes", false, "pin also plugins whose tools are not as they were pinned")
	return c
}

func newPluginVerify(s *cli.Settings) *cobra.Command {
	var remote bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Compare the plugins with what they are pinned to",
		Long: `Compare the binaries of the plugins, and what these say of their tools, with the lock file. Of plugins
from registries, all files are compared; with --remote also their signatures, and whether a version
was withdrawn or republished. Exit status 1 when one is not as it is pinned.`,
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
				err = cli.PrintJSON(os.Stdout, struct {
					*admin.Trust
					Installed []admin.Verified `json:"installed,omitempty"`
				}{t, installed})
			} else {
				err = verifyText(cli.Screen(os.Stdout), t, installed)
			}
			if slices.ContainsFunc(t.Plugins, func(p admin.PluginTrust) bool { return !p.OK() }) || slices.ContainsFunc(installed, func(v admin.Verified) bool { return v.Problem != "" }) {
				err = errors.Join(err, cli.ExitError(cli.ExitFailure))
			}
			return err
		},
	}
	c.Flags().BoolVar(&remote, "remote", false, "also ask the registries")
	return c
}

func verifyText(w io.Writer, t *admin.Trust, installed []admin.Verified) error {
	var errs []error
	say := func(format string, a ...any) {
		_, err := fmt.Fprintf(w, format+"\n", a...)
		errs = append(errs, err)
	}
	for _, v := range installed {
		if v.Problem == "" {
			say("%s: version %s is installed as locked", v.Name, v.Version)
		} else {
			say("%s: %s", v.Name, cli.Printable(v.Problem))
		}
	}
	for _, p := range t.Plugins {
		switch {
		case slices.ContainsFunc(installed, func(v admin.Verified) bool { return v.Name == p.Name && v.Problem != "" }):
			continue
		case p.Error != "":
			say("%s: cannot be loaded: %s", p.Name, cli.Printable(p.Error))
		case !p.Pinned:
			say("%s: not pinned", p.Name)
		case p.SHA256 != p.PinnedSHA256:
			say("%s: %s is not the pinned binary\n  is      %s\n  pinned  %s", p.Name, cli.Printable(p.Path), p.SHA256, p.PinnedSHA256)
		case len(p.Changes) == 0:
			say("%s: as pinned", p.Name)
		}
		for _, c := range p.Changes {
			say("%s: %s", p.Name, cli.Printable(c))
		}
	}
	return errors.Join(errs...)
}

func newPluginApprove(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "approve PLUGIN...",
		Short: "Approve of what plugins that are not pinned say of their tools now",
		Long: `What a plugin that is not pinned first said of its tools is remembered. When it says something
else, that is told, or with trust { definitions = "approve" } keeps these tools from being
called, until it is approved of: look at toolhost plugin info PLUGIN first. Running hosts hear
of it.`,
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
					fmt.Printf("%s: approved: %s\n", p.Name, cli.Printable(change.String()))
				}
				if len(p.Unapproved) == 0 {
					fmt.Printf("%s: there is nothing to approve\n", p.Name)
				}
			}
			return renew(c, s)
		},
	}
}

// renew makes running hosts apply changed pins and approvals.
func renew(c *cobra.Command, s *cli.Settings) error {
	hosts, err := admin.Running(s.Options())
	for _, h := range hosts {
		if _, failed := h.Renew(c.Context()); failed != nil {
			err = errors.Join(err, fmt.Errorf("host %d did not apply it: %w. Run toolhost plugin reload", h.PID, failed))
		}
	}
	return err
}
