package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
)

// inspection is what plugins are looked at with.
func (s *settings) inspection() host.Options {
	opts := s.options()
	opts.RetryFailed = true
	return opts
}

func newPluginList(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the plugins, their versions and whether they are as they are pinned",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := admin.InspectTrust(c.Context(), s.inspection())
			if err != nil {
				return err
			}
			if s.json {
				return printJSON(os.Stdout, t.Plugins)
			}
			return trustText(os.Stdout, t)
		},
	}
}

func trustText(w io.Writer, t *admin.Trust) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PLUGIN\tVERSION\tSHA-256\tPINNED\tBINARY")
	for _, p := range t.Plugins {
		version, sum := p.Version, p.SHA256
		if version == "" {
			version = "-"
		}
		if sum == "" {
			sum = "-"
		}
		fmt.Fprintf(out, "%s\t%s\t%.12s\t%s\t%s\n", p.Name, printable(version), sum, pinState(&p), printable(p.Path))
	}
	return out.Flush()
}

// pinState says in a few words how a plugin stands to its pin.
func pinState(p *admin.PluginTrust) string {
	switch {
	case p.Error != "":
		return "cannot be loaded"
	case !p.Pinned:
		return "no"
	case p.SHA256 != p.PinnedSHA256:
		return "ANOTHER BINARY"
	case len(p.Changes) > 0:
		return "OTHER TOOLS"
	}
	return "yes"
}

func newPluginInfo(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "info PLUGIN",
		Short: "Show a plugin: its binary, what it is pinned to, and what it says of its tools",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := admin.InspectTrust(c.Context(), s.inspection())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(t.Plugins, func(p admin.PluginTrust) bool { return p.Name == args[0] })
			if i < 0 {
				var known []string
				for _, p := range t.Plugins {
					known = append(known, p.Name)
				}
				return fmt.Errorf("there is no plugin %q in the configuration.%s", args[0], suggest.DidYouMean(args[0], known))
			}
			p := &t.Plugins[i]
			if s.json {
				return printJSON(os.Stdout, p)
			}
			return pluginText(os.Stdout, t, p)
		},
	}
}

func pluginText(w io.Writer, t *admin.Trust, p *admin.PluginTrust) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, printable(value))
		}
	}
	row("plugin", p.Name)
	row("version", p.Version)
	row("binary", p.Path)
	row("sha256", p.SHA256)
	row("pinned", pinState(p))
	row("lock file", t.Lock)
	switch {
	case p.Needs != nil && len(p.Needed) == 0:
		row("needs", "nothing")
	case p.Needs == nil && p.Version != "":
		row("needs", "not declared")
	}
	for _, n := range p.Needed {
		row("needs", n)
	}
	for _, g := range p.Granted {
		row("granted", g)
	}
	for _, u := range p.Unneeded {
		row("not needed", u.What+" ("+u.How+")")
	}
	if p.PinnedSHA256 != p.SHA256 {
		row("pinned to", p.PinnedSHA256)
	}
	for _, c := range p.Changes {
		row("changed", c)
	}
	for _, c := range p.Unapproved {
		row("not approved", c.String())
	}
	row("error", p.Error)
	if err := out.Flush(); err != nil {
		return err
	}
	for _, d := range p.Tools {
		var traits []string
		if d.Traits.ReadOnly {
			traits = append(traits, "read-only")
		}
		if d.Traits.Dangerous {
			traits = append(traits, "dangerous")
		}
		fmt.Fprintf(w, "\n%s %s\n", d.FullName, strings.Join(traits, ", "))
		for line := range strings.Lines(d.Description) {
			fmt.Fprintf(w, "  %s\n", printable(strings.TrimRight(line, "\n")))
		}
		fmt.Fprintf(w, "  parameters: %s\n", printable(string(d.Input)))
	}
	return nil
}

func newPluginPin(s *settings) *cobra.Command {
	var accept bool
	c := &cobra.Command{
		Use:   "pin [PLUGIN]...",
		Short: "Pin plugins to their binaries and to what they say of their tools",
		Long: `Write what the plugins are now to the lock file beside the configuration: the SHA-256 of each
binary, and hashes of the definitions of its tools. A plugin that is pinned is loaded only
as it is pinned, and runs from a copy with these very bytes. Without names, all are pinned.

A plugin whose tools are not as they were pinned is not pinned anew without
--accept-changes: look at them first, with toolhost plugin info.`,
		RunE: func(c *cobra.Command, names []string) error {
			t, err := admin.PinPlugins(c.Context(), s.inspection(), names, accept)
			if err != nil {
				return err
			}
			if s.json {
				return printJSON(os.Stdout, t)
			}
			if err := trustText(os.Stdout, t); err != nil {
				return err
			}
			fmt.Printf("\nWritten to %s.\n", t.Lock)
			return nil
		},
	}
	c.Flags().BoolVar(&accept, "accept-changes", false, "pin also plugins whose tools are not as they were pinned")
	return c
}

func newPluginVerify(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compare the plugins with what they are pinned to",
		Long: `Compare the binaries of the plugins, and what these say of their tools, with the lock file.
Exit status 1 when one is not as it is pinned.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := admin.InspectTrust(c.Context(), s.inspection())
			if err != nil {
				return err
			}
			if s.json {
				err = printJSON(os.Stdout, t)
			} else {
				err = verifyText(os.Stdout, t)
			}
			if slices.ContainsFunc(t.Plugins, func(p admin.PluginTrust) bool { return !p.OK() }) {
				err = errors.Join(err, exitError(exitFailure))
			}
			return err
		},
	}
}

func verifyText(w io.Writer, t *admin.Trust) error {
	var errs []error
	say := func(format string, a ...any) {
		_, err := fmt.Fprintf(w, format+"\n", a...)
		errs = append(errs, err)
	}
	for _, p := range t.Plugins {
		switch {
		case p.Error != "":
			say("%s: cannot be loaded: %s", p.Name, printable(p.Error))
		case !p.Pinned:
			say("%s: not pinned", p.Name)
		case p.SHA256 != p.PinnedSHA256:
			say("%s: %s is not the pinned binary\n  is      %s\n  pinned  %s", p.Name, printable(p.Path), p.SHA256, p.PinnedSHA256)
		case len(p.Changes) == 0:
			say("%s: as pinned", p.Name)
		}
		for _, c := range p.Changes {
			say("%s: %s", p.Name, printable(c))
		}
	}
	return errors.Join(errs...)
}

func newPluginApprove(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "approve PLUGIN...",
		Short: "Approve of what plugins that are not pinned say of their tools now",
		Long: `What a plugin that is not pinned first said of its tools is remembered. When it says something
else, that is told, or with trust { definitions = "approve" } keeps these tools from being
called, until it is approved of: look at toolhost plugin info PLUGIN first. Running hosts hear
of it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			t, err := admin.ApprovePlugins(c.Context(), s.options(), names)
			if err != nil {
				return err
			}
			for _, p := range t.Plugins {
				if !slices.Contains(names, p.Name) {
					continue
				}
				for _, change := range p.Unapproved {
					fmt.Printf("%s: approved: %s\n", p.Name, printable(change.String()))
				}
				if len(p.Unapproved) == 0 {
					fmt.Printf("%s: there is nothing to approve\n", p.Name)
				}
			}
			hosts, err := admin.Running(s.options())
			for _, h := range hosts {
				if _, told := h.Renew(c.Context()); told != nil {
					err = errors.Join(err, fmt.Errorf("host %d was not told: %w", h.PID, told))
				}
			}
			return err
		},
	}
}
